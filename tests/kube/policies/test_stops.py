"""A policy that stops all preemption, whatever else is wrong with it or with others."""

from dataclasses import replace

import pytest

from scheduler.kube.policies.registry import MAX_POLICIES, PolicyList, PolicyRegistry, parse_policy
from scheduler.model.events import PolicyObserved
from scheduler.model.policies import PreemptionPolicy
from tests.kube.fixtures import NOW
from tests.kube.policies.test_registry import (
    BAD,
    ONE,
    STAMP,
    TWO,
    due,
    most,
    numbered,
    policy,
)

STOP = {"stop": True, "stopReason": " incident\n4711\x07 "}


@pytest.fixture
def book() -> PolicyRegistry:
    return PolicyRegistry(lambda: NOW)


def stopping(rules: PreemptionPolicy, generation: int = 1) -> PolicyObserved:
    return PolicyObserved(replace(rules, generation=generation, stop="incident 4711"))


def test_a_stop_is_in_force_with_the_rules_beside_it(book):
    assert book.take(parse_policy(policy({**ONE, **STOP}))) == [stopping(most(1))]
    assert book.stops
    assert book.take(parse_policy(policy(ONE, 2, 2))) == [PolicyObserved(most(1, 2))]
    assert not book.stops


@pytest.mark.parametrize(
    "spec", [{**BAD, **STOP}, {"stopped": 1, **STOP}, {**STOP, "stopReason": 7}], ids=str
)
def test_a_stop_is_in_force_also_where_the_rest_is_refused(book, spec):
    assert book.take(parse_policy(policy(TWO))) == [PolicyObserved(most(2))]
    reason = "" if spec["stopReason"] == 7 else "incident 4711"

    found = book.take(parse_policy(policy(spec, 2, 2)))

    assert found == [PolicyObserved(replace(most(2, 2), stop=reason))]
    said = due(book)["conditions"][0]
    assert said["status"] == "False"
    assert said["message"].startswith("the stop is in force: spec.")
    # Without it, what was accepted before is in force again, also after a restart.
    without = {key: value for key, value in spec.items() if key not in STOP} or BAD
    assert book.take(parse_policy(policy(without, 3, 3))) == [PolicyObserved(most(2))]


def test_a_stop_that_was_accepted_ends_with_the_spec_that_asked_for_it(book):
    seen = policy(BAD, 2, 9, accepted={"generation": 1, "spec": {**ONE, **STOP}})

    assert book.take(parse_policy(seen)) == [PolicyObserved(most(1))]


def test_a_stop_does_not_count_among_the_policies_that_are_limited(book):
    many = [parse_policy(numbered(f"p{i:02}", 0)) for i in range(MAX_POLICIES)]
    newest = numbered("stop", 59)
    newest["spec"] = STOP

    book.take_list(PolicyList(5, (*many, parse_policy(newest))), 0)

    assert book.stops
    assert book.refused() == {}
    assert next(iter(book.due({}, 0))) == "stop"  # somebody waits for its status


@pytest.mark.parametrize(
    ("evicting", "status", "message"),
    [
        (0, "True", "no pod is evicted by preemption, and pods are scheduled without it"),
        (1, "False", "1 eviction that had begun before must end first"),
        (2, "False", "2 evictions that had begun before must end first"),
    ],
)
def test_the_status_says_when_nothing_is_evicted_any_more(book, evicting, status, message):
    book.take(parse_policy(policy(STOP, 3)))

    said = due(book, evicting=evicting)["conditions"][1]

    assert said == {
        "type": "Stopped",
        "status": status,
        "reason": "EvictionsEnd" if evicting else "Stopped",
        "message": message,
        "observedGeneration": 3,
        "lastTransitionTime": STAMP,
    }


def test_conditions_of_others_leave_room_for_ours(book):
    """The definition allows eight; the API server would refuse the status, and nobody knew."""
    others = [{"type": f"T{number}", "status": "True"} for number in range(8)]
    book.take(parse_policy(policy(STOP, conditions=others)))

    found = [each["type"] for each in due(book)["conditions"]]

    assert found == ["Accepted", "Stopped", "T0", "T1", "T2", "T3", "T4", "T5"]
