"""No state of the machine is forgotten by a snapshot: it is copied, or said not to be."""

from collections import Counter, deque
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from scheduler.core.machine import Machine
from scheduler.core.snapshot.parts import PARTS, part
from scheduler.queue.backoff_duration import PodBackoff
from tests.support.cluster import profiles

#: Attributes that hold no state from which decisions follow, and why.
NOT_COPIED = {
    "queue": {"incoming", "wasted_wakeups"},  # metrics
    "ledger": {"_table"},  # made again when it is needed
    "policies": {
        "refusal_counts", "victim_counts",  # metrics
        "_compiled", "_compiled_for",  # made again when it is needed
        "_evict_only",  # from the configuration
    },
    "_binding": {
        "_pre_binding", "_reserved", "_by_object",  # running code: `not_copied` names it
        "_reservers",  # from the configuration
        "_device_waits",  # metrics
    },
    "_suspended": {"_attempts", "_ready"},  # running code: `not_copied` names it
    "": {
        "bindings_in_flight",  # the same as that of `_binding`
        "handlers", "outcome_handlers",  # what handles events and effects
    },
    "cluster": {"namespaces"},  # written again
    "cluster.policies": {"_policies"},  # written again
}  # fmt: skip
#: The configuration, and positions of readers of logs, which then read everything.
ELSEWHERE = {"_profiles", "_changes", "_nominations_seen"}
STATE = (dict, list, set, deque, Counter, tuple, int, float, bool, str, type(None), np.ndarray)


def everything(owner: Any) -> dict[str, Any]:
    if is_dataclass(owner):
        return {field.name: getattr(owner, field.name) for field in fields(owner)}
    return vars(owner)


def attributes(owner: Any) -> dict[str, Any]:
    return {
        name: value
        for name, value in everything(owner).items()
        if isinstance(value, STATE) and name not in ELSEWHERE
    }


def test_every_attribute_is_copied_or_said_not_to_be():
    machine = Machine(profiles(), PodBackoff())
    copied: dict[str, set[str]] = {}
    for path, names in PARTS:
        copied.setdefault(path, set()).update(names)

    for path, names in copied.items():
        found = attributes(part(machine, path)).keys()
        assert names <= everything(part(machine, path)).keys(), path
        assert found <= names | NOT_COPIED.get(path, set()), path
        assert not names & NOT_COPIED.get(path, set()), path


def test_every_object_with_state_below_the_machine_is_copied():
    machine = Machine(profiles(), PodBackoff())
    known = {id(part(machine, path)) for path, _ in PARTS}
    derived = {"Cluster", "SchedulingAlgorithm", "Outbox", "VictimMatrix", "OwnerCodes"}
    forgotten, seen, left = set(), set(), [machine]
    while left:
        owner = left.pop()
        if id(owner) in seen or type(owner).__name__ in derived:
            continue
        seen.add(id(owner))
        for value in everything(owner).values():
            has_attributes = hasattr(value, "__dict__") or type(value).__name__.endswith("State")
            if type(value).__module__.startswith("scheduler.") and has_attributes:
                left.append(value)
        mutable = [
            name
            for name, value in attributes(owner).items()
            if isinstance(value, dict | list | set | deque)
        ]
        if mutable and id(owner) not in known:
            forgotten.add((type(owner).__name__, *sorted(mutable)))

    assert forgotten == {
        ("Deadlines", "entries"),  # of reservations: `not_copied` names them
        ("Preemptions", "durations", "listeners"),  # metrics, and parts of it
        ("QueueingHints", "_hints", "_plugins"),  # from the configuration
    }
