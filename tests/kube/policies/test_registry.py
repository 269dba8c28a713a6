"""Which policy is in force, and what its status should say."""

from typing import Any

import pytest

from scheduler.config import policies
from scheduler.kube.policies.registry import (
    MAX_POLICIES,
    PolicyList,
    PolicyRegistry,
    parse_policy,
)
from scheduler.model.events import PolicyGone, PolicyObserved
from scheduler.model.policies import LastVictim, PolicyFigures, PreemptionPolicy
from tests.kube.fixtures import NOW

STAMP = "2026-01-01T00:00:00Z"
BAD = {"maxVictimsPerPreemption": -1}
PROBLEM = "spec.maxVictimsPerPreemption: Invalid value: -1: not in valid range [0, 10000]"


def policy(
    spec: dict[str, Any], generation: int = 1, version: int = 1, *, uid: str = "u", **status: Any
) -> dict[str, Any]:
    return {
        "apiVersion": policies.API_VERSION,
        "kind": policies.KIND,
        "metadata": {
            "name": "p",
            "uid": uid,
            "generation": generation,
            "resourceVersion": str(version),
        },
        "spec": spec,
        "status": status,
    }


def most(victims: int, generation: int = 1, uid: str = "u") -> PreemptionPolicy:
    return PreemptionPolicy("p", uid, generation, max_victims_per_preemption=victims)


def accepted(condition: str = "True", generation: int = 1, **said: str) -> dict[str, Any]:
    reason = {"True": "Accepted", "False": "Refused"}[condition]
    return {
        "type": "Accepted",
        "status": condition,
        "reason": reason,
        "message": "the rules are in force",
        "observedGeneration": generation,
        "lastTransitionTime": STAMP,
        **said,
    }


@pytest.fixture
def book() -> PolicyRegistry:
    return PolicyRegistry(lambda: NOW)


def due(book: PolicyRegistry, *, evicting: int = 0, **figures: PolicyFigures) -> Any:
    return book.due(figures, evicting).get("p", ("", None))[1]


ONE, TWO = {"maxVictimsPerPreemption": 1}, {"maxVictimsPerPreemption": 2}
ONE_IN_FORCE = {
    "accepted": {"generation": 1, "spec": ONE},
    "history": [{"generation": 1, "time": STAMP, "spec": ONE}],
    "victims": 0,
}


# What is in force


def test_a_policy_is_reported_when_it_appears_changes_and_disappears(book):
    assert book.take(parse_policy(policy(ONE, 1, 1))) == [PolicyObserved(most(1, 1))]
    assert book.take(parse_policy(policy(TWO, 2, 2))) == [PolicyObserved(most(2, 2))]
    assert book.take_gone("p", "u", 3) == [PolicyGone("p")]
    assert len(book) == 0


def test_a_refused_generation_keeps_the_accepted_one_in_force(book):
    book.take(parse_policy(policy(ONE, 1, 1)))

    assert book.take(parse_policy(policy(BAD, 2, 2))) == []
    assert book.refused() == {"p": PROBLEM}
    assert book.take(parse_policy(policy(TWO, 3, 3))) == [PolicyObserved(most(2, 3))]
    assert book.refused() == {}


def test_policies_are_counted_by_whether_they_are_in_force(book):
    assert book.count_by_state() == {"current": 0, "behind": 0, "none": 0}
    book.take(parse_policy(policy(BAD, 1, 1)))
    assert book.count_by_state() == {"current": 0, "behind": 0, "none": 1}
    book.take(parse_policy(policy(ONE, 2, 2)))
    assert book.count_by_state() == {"current": 1, "behind": 0, "none": 0}

    book.take(parse_policy(policy(BAD, 3, 3)))

    assert book.count_by_state() == {"current": 0, "behind": 1, "none": 0}


def test_after_a_restart_the_status_shows_what_was_accepted(book):
    seen = policy(BAD, 2, 9, accepted={"generation": 1, "spec": ONE})

    assert book.take(parse_policy(seen)) == [PolicyObserved(most(1, 1))]
    assert due(book)["accepted"] == {"generation": 1, "spec": ONE}


def test_a_generation_that_the_status_calls_accepted_is_validated_again(book):
    assert book.take(parse_policy(policy(BAD, 2, 9, accepted={"generation": 1, "spec": BAD}))) == []
    assert book.take_gone("p", "u", 10) == []


def test_a_policy_that_was_never_accepted_is_not_in_force(book):
    assert book.take(parse_policy(policy(BAD))) == []
    assert len(book) == 1
    assert book.take_gone("p", "u", 2) == []


def test_a_policy_of_the_same_name_inherits_nothing(book):
    book.take(parse_policy(policy(ONE, 3, 1, uid="first")))

    assert book.take(parse_policy(policy(BAD, 1, 2, uid="second"))) == [PolicyGone("p")]
    assert book.take(parse_policy(policy(TWO, 2, 3, uid="second"))) == [
        PolicyObserved(most(2, 2, "second"))
    ]


# Lists


def test_a_list_shows_which_policies_exist_and_which_are_deleted(book):
    assert book.take_list(PolicyList(5, (parse_policy(policy(ONE, 1, 2)),)), book.newest) == [
        PolicyObserved(most(1))
    ]
    assert book.take_list(PolicyList(6, ()), book.newest) == [PolicyGone("p")]


def test_events_watched_before_a_list_do_not_restore_a_deleted_policy(book):
    book.take_list(PolicyList(8, ()), book.newest)

    assert book.take(parse_policy(policy(ONE, 1, 7))) == []
    assert book.take(parse_policy(policy(ONE, 1, 9))) == [PolicyObserved(most(1))]


def test_without_their_definition_there_are_no_policies(book):
    book.take(parse_policy(policy(ONE, 1, 500)))

    assert book.clear() == [PolicyGone("p")]
    assert book.take(parse_policy(policy(ONE, 1, 3))) == [PolicyObserved(most(1))]


# Status


@pytest.mark.parametrize(
    ("specs", "condition", "more"),
    [
        ([ONE], accepted(), ONE_IN_FORCE),
        (
            [ONE, BAD],
            accepted("False", 2, message=f"generation 1 is in force: {PROBLEM}"),
            ONE_IN_FORCE,
        ),
        ([BAD], accepted("False", message=f"nothing is in force: {PROBLEM}"), {}),
    ],
    ids=["the rules are in force", "an older generation is in force", "nothing is in force"],
)
def test_the_status_shows_what_is_in_force(book, specs, condition, more):
    for generation, spec in enumerate(specs, 1):
        book.take(parse_policy(policy(spec, generation, generation)))

    assert due(book) == {"observedGeneration": len(specs), "conditions": [condition], **more}


def test_what_was_done_is_in_the_status(book):
    book.take(parse_policy(policy(ONE)))
    last = LastVictim("team", "web-0", "n1", "team/high", NOW)

    status = due(book, p=PolicyFigures(3, {"budgets": 2}, last, {"foreignVictims": 1}))

    assert status["victims"] == 3
    assert (status["refusals"], status["wouldRefuse"]) == ({"budgets": 2}, {"foreignVictims": 1})
    assert status["lastVictim"] == {
        "namespace": "team",
        "name": "web-0",
        "node": "n1",
        "preemptor": "team/high",
        "time": STAMP,
    }


def test_a_status_that_is_as_it_should_be_is_not_written(book):
    book.take(parse_policy(policy(ONE)))
    status = due(book)
    book.wrote("p", "u", status, 2)

    assert due(book) is None
    book.take(parse_policy(policy(ONE, 1, 2, **status)))
    assert due(book) is None
    restarted = PolicyRegistry(lambda: NOW + 60)
    restarted.take(parse_policy(policy(ONE, 1, 2, **status)))
    assert due(restarted) is None


def test_the_transition_time_does_not_change_with_the_message(book):
    earlier = accepted("False", lastTransitionTime="2025-01-01T00:00:00Z")
    book.take(parse_policy(policy({"mode": "X"}, 2, 1, conditions=[earlier])))
    assert due(book)["conditions"][0]["lastTransitionTime"] == "2025-01-01T00:00:00Z"

    book.take(parse_policy(policy(ONE, 3, 2, conditions=[earlier])))
    assert due(book)["conditions"][0]["lastTransitionTime"] == STAMP


def test_conditions_of_others_are_kept(book):
    other = {"type": "Reviewed", "status": "True"}
    book.take(parse_policy(policy(ONE, 1, 1, conditions=[other])))

    assert due(book)["conditions"] == [accepted(), other]


def test_the_last_victim_outlives_a_restart(book):
    last = {"namespace": "team", "name": "web-0"}
    book.take(parse_policy(policy(ONE, 1, 1, lastVictim=last)))

    assert due(book)["lastVictim"] == last


def test_the_figures_of_another_installation_are_no_reason_to_write(book):
    book.take(parse_policy(policy(ONE)))
    status = due(book)
    book.wrote("p", "u", status, 2)

    book.take(parse_policy(policy(ONE, 1, 3, **{**status, "victims": 7})))

    assert due(book) is None
    assert due(book, p=PolicyFigures(1))["victims"] == 1


def test_a_status_that_was_removed_is_written_again(book):
    book.take(parse_policy(policy(ONE)))
    status = due(book)
    book.wrote("p", "u", status, 2)

    book.take(parse_policy(policy(ONE, 1, 3)))

    assert due(book) == status


def test_a_state_from_before_the_write_is_no_reason_to_write_again(book):
    book.take(parse_policy(policy(ONE)))
    status = due(book)
    book.wrote("p", "u", status, 5)

    book.take(parse_policy(policy(ONE, 1, 4)))

    assert due(book) is None


def test_an_object_without_anything_is_refused_and_no_defect():
    judged = parse_policy({})

    assert (judged.name, judged.policy, judged.problem) == ("", None, "spec: Required value")


# Odd objects


def test_what_reading_a_policy_raises_refuses_it(monkeypatch):
    def raises(_: object) -> PreemptionPolicy:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(policies, "read", raises)

    judged = parse_policy(policy(ONE))

    assert judged.policy is None
    assert judged.problem == "the policy cannot be read: ZeroDivisionError: by nothing"


# Too many


def numbered(name: str, created: int, version: int = 1) -> dict[str, Any]:
    made = policy(ONE, 1, version)
    made["metadata"] |= {"name": name, "creationTimestamp": f"2026-01-01T00:{created:02}:00Z"}
    return made


def test_the_oldest_policies_are_in_force_and_others_are_refused_by_name(book):
    all_of_them = [parse_policy(numbered(f"p{i}", 59 - i % 60)) for i in range(MAX_POLICIES + 2)]
    events = book.take_list(PolicyList(5, tuple(all_of_them)), 0)

    assert len(events) == MAX_POLICIES
    assert set(book.refused()) == {"p0", "p60"}
    assert book.count_by_state() == {"current": MAX_POLICIES, "behind": 0, "none": 2}
    status = book.due({}, 0)["p0"][1]
    assert "accepted" not in status
    assert status["conditions"][0]["status"] == "False"
    assert status["conditions"][0]["message"] == (
        "nothing is in force: there are 66 policies, and at most the 64 oldest of them can be in"
        " force"
    )


def test_a_policy_above_the_limit_takes_effect_when_another_is_deleted(book):
    many = tuple(parse_policy(numbered(f"p{i:02}", 0)) for i in range(MAX_POLICIES + 1))
    book.take_list(PolicyList(5, many), 0)

    events = book.take_gone("p07", "u", 6)

    assert [type(each).__name__ for each in events] == ["PolicyGone", "PolicyObserved"]
    assert isinstance(events[1], PolicyObserved)
    assert events[1].policy.name == "p64"
    assert book.refused() == {}


# A history that was replaced


def test_a_list_that_is_older_than_what_was_known_before_it_was_asked_for_counts(book):
    book.take(parse_policy(policy(ONE, 1, 1_000_000)))
    book.wrote("p", "u", {"victims": 0}, 1_000_001)

    restored = parse_policy(policy(TWO, 1, 500_000, uid="another"))
    events = book.take_list(PolicyList(500_010, (restored,)), book.newest)

    assert events == [PolicyGone("p"), PolicyObserved(most(2, uid="another"))]
    assert book.take(parse_policy(policy(ONE, 2, 500_020, uid="another"))) == [
        PolicyObserved(most(1, 2, "another"))
    ]


def test_a_list_that_was_overtaken_by_a_change_does_not_count(book):
    asked_at = book.newest
    book.take(parse_policy(policy(ONE, 1, 9)))

    assert book.take_list(PolicyList(8, ()), asked_at) == []
    assert len(book) == 1


def test_the_end_of_another_policy_of_that_name_is_not_meant(book):
    book.take(parse_policy(policy(ONE, 1, 2, uid="second")))

    assert book.take_gone("p", "first", 1) == []
    assert len(book) == 1
