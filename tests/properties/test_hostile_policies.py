"""No policy object, whatever it holds, stops the scheduler: it is refused, and its status says so.

Each object begins as a whole one and is spoilt at random, its status included: the right to write
the status of a policy must not become one to end the process.
"""

import json
from collections import Counter
from typing import Any

import msgspec
import pytest

from scheduler.kube.policies.registry import ParsedPolicy, PolicyList, PolicyRegistry, parse_policy
from scheduler.model.events import Event, PolicyGone, PolicyObserved
from tests.oracle.generating.dice import Dice

OBJECTS = 6_000
PARTS = 4

SPEC: dict[str, Any] = {
    "mode": "Enforce",
    "victims": {
        "namespaceSelector": {"matchLabels": {"a": "b"}},
        "podSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["x"]}]},
        "minPriority": 1,
        "maxPriority": 5,
        "priorityClassNames": ["x"],
    },
    "preemptors": {"minPriority": 3},
    "podDisruptionBudgets": "Strict",
    "victimMinRuntime": "10m",
    "maxVictimsPerPreemption": 3,
    "budgets": [{"maxVictims": 20, "window": "1h", "scope": "Cluster"}],
    "preemptorDelay": "5s",
    "maxPreemptionsPerOwner": {"maxPreemptions": 1, "window": "1h"},
    "foreignVictims": "Never",
    "victimsFrom": "SameOwner",
}
#: Seconds since the epoch.
NOW = 1_767_225_600.0
STATUS: dict[str, Any] = {
    "observedGeneration": 2,
    "conditions": [
        {"type": "Accepted", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    ],
    "accepted": {"generation": 2, "spec": {"maxVictimsPerPreemption": 1}},
    "history": [
        {"generation": 2, "time": "2026-01-01T00:00:00Z", "spec": {"maxVictimsPerPreemption": 1}},
        {"generation": 1, "time": "2025-12-01T00:00:00Z", "spec": {}},
    ],
    "lastVictim": {"name": "x"},
    "victims": 3,
}
#: API servers keep numbers as 64 bits, of integers or of floats.
ODD: list[Any] = [
    None, True, False, 0, -1, 1.5, 1e308, 2**63 - 1, -(2**63), 1e30, "", "a", "\u0000", "9" * 5000,
    "1e9999h", "-5m", "10" * 400 + "h", "NaN", [], {}, [None], [{}], {"": None}, {"a": [1, {}]},
]  # fmt: skip


def spoilt(dice: Dice, whole: Any) -> Any:
    """Return a value with some of its parts left out, added, or replaced by odd ones."""
    if dice.chance(0.06):
        return dice.pick(ODD)
    if isinstance(whole, dict):
        kept = {key: spoilt(dice, each) for key, each in whole.items() if dice.chance(0.95)}
        if dice.chance(0.05):
            kept[dice.pick(["", "unheard", *SPEC])] = dice.pick(ODD)
        return kept
    if isinstance(whole, list):
        return [spoilt(dice, each) for each in whole] + ([dice.pick(ODD)] * dice.chance(0.1))
    return whole


def body(dice: Dice, number: int) -> dict[str, Any]:
    """Return an object whose name and uid are whole, as an API server sees to it."""
    metadata = {"name": f"p{number % 7}", "uid": f"u{number % 11}"}
    version: Any = dice.pick([number, dice.pick(ODD)])
    return {
        "metadata": {**metadata, "generation": spoilt(dice, 3), "resourceVersion": version},
        "spec": spoilt(dice, SPEC),
        "status": spoilt(dice, STATUS),
    }


class Told:
    """What the machine observes, checked as it checks it."""

    def __init__(self) -> None:
        self.in_force: set[str] = set()
        self.counts: Counter[str] = Counter()

    def hear(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, PolicyObserved):
                self.in_force.add(event.policy.name)
            elif isinstance(event, PolicyGone):
                self.in_force.remove(event.name)
            self.counts[type(event).__name__] += 1


@pytest.mark.parametrize("part", range(PARTS))
def test_no_policy_stops_the_book(part: int):
    dice = Dice(0x90, part)
    book, told = PolicyRegistry(lambda: NOW), Told()
    for number in range(OBJECTS // PARTS):
        judged = parse_policy(body(dice, number))
        told.counts["refused" if judged.problem else "accepted"] += 1
        if dice.chance(0.2):
            told.hear(book.take_list(PolicyList(book.newest + 1, (judged,)), book.newest))
        elif dice.chance(0.1):
            told.hear(book.take_gone(judged.name, judged.uid, judged.version))
        else:
            told.hear(book.take(judged))
        sayable(judged, book)

    # Nothing is proved unless all of it happens.
    assert min(told.counts[each] for each in ("refused", "accepted", "PolicyGone")) > 20


def sayable(judged: ParsedPolicy, book: PolicyRegistry) -> None:
    """Write all statuses that are due as JSON, and observe them as the API server keeps them."""
    for name, due in book.due({}, 0).items():
        book.wrote(name, due.uid, json.loads(msgspec.json.encode(due.status)), judged.version)


@pytest.mark.parametrize("odd", [*ODD, 10**5000], ids=[str(each) for each in range(len(ODD) + 1)])
@pytest.mark.parametrize("part", ["metadata", "spec", "status", "accepted", "history"])
def test_every_field_may_be_invalid(part: str, odd: Any):
    whole: dict[str, Any] = {"metadata": {"name": "p"}, "spec": SPEC, "status": {**STATUS}}
    if part in STATUS:
        whole["status"][part] = odd
    else:
        whole[part] = odd

    judged = parse_policy(whole)
    PolicyRegistry(lambda: NOW).take(judged)

    assert (judged.policy is None) == bool(judged.problem)
    assert (judged.policy is None) == (part == "spec" and odd != {})
