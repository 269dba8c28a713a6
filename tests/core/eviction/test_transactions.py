"""A preemption is one transaction: its plan is carried out, or given up by a deadline."""

import pytest

from scheduler.core.eviction.plan import EVICT_WITHIN
from scheduler.core.eviction.transitions import TERMINATION_MARGIN
from scheduler.model.decisions import Placed, Preempting
from scheduler.model.effects import ClearNomination, Evict, Nominate
from scheduler.model.events import FailureKind
from scheduler.model.plan_record import (
    CONDITION,
    VERSION,
    PlanRecord,
    decode,
    encode,
    fingerprint,
)
from scheduler.queue.phases import QueuePhase
from tests.support.builders import EPOCH, PodBuilder, node, pod
from tests.support.cluster import Cluster
from tests.support.evictions import HIGH, asked, two_victims, victim, wasted

# When a plan is executed


def test_a_preemptor_is_tried_again_only_when_enough_of_its_victims_have_terminated():
    cluster = two_victims()
    assert isinstance(cluster.schedule(HIGH), Preempting)

    cluster.delete("a")
    assert cluster.step() is None
    cluster.delete("b")

    attempt = cluster.step()
    assert attempt is not None
    assert attempt.decision == Placed("n1")


def test_a_preemptor_that_fits_before_all_its_victims_have_terminated_does_not_wait():
    cluster = two_victims()
    assert isinstance(cluster.schedule(HIGH), Preempting)
    cluster.add(node("n1").cpu("6"))
    cluster.drain()

    cluster.delete("a")

    attempt = cluster.step()
    assert attempt is not None
    assert attempt.decision == Placed("n1")


# What is written


def test_the_plan_is_written_together_with_the_nomination():
    cluster = two_victims()
    cluster.change("a", lambda own: own.owner("StatefulSet", "db").terminating())
    cluster.hold(Nominate)

    cluster.schedule(HIGH)

    (nominate,) = cluster.held
    assert isinstance(nominate, Nominate)
    own = cluster.ref("high").uid
    assert decode(nominate.plan) == PlanRecord(
        VERSION,
        "n1",
        cluster.now,
        (fingerprint(own, "uid:default/b"),),
        (fingerprint(own, "uid:default/a"),),
    )


def test_what_is_written_names_no_other_pod():
    cluster = two_victims()
    cluster.hold(Nominate)

    cluster.schedule(HIGH)

    (nominate,) = cluster.held
    assert isinstance(nominate, Nominate)
    for each in (cluster.ref("a"), cluster.ref("b")):
        assert each.uid not in nominate.plan
        assert f'"{each.name}"' not in nominate.plan


def test_a_preemption_that_nothing_counts_writes_nothing_down():
    cluster = two_victims()

    cluster.schedule(HIGH)

    kinds = [type(effect).__name__ for effect in cluster.effects]
    assert kinds == ["RecordEvent", "Nominate", "Evict", "Evict", "RecordEvent", "RecordEvent"]


def test_the_plan_is_removed_with_the_nomination():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    assert cluster.pod("high").condition(CONDITION) is not None

    cluster.fail()
    cluster.fail()

    assert cluster.asked(ClearNomination) == [ClearNomination(cluster.ref("high"))]
    assert cluster.pod("high").condition(CONDITION) is None


# Right before victims are asked


def test_victims_that_are_no_longer_needed_are_not_evicted():
    cluster = two_victims()
    cluster.hold(Nominate)
    cluster.schedule(HIGH)
    cluster.add(node("n1").cpu("6"))

    cluster.done()

    assert asked(cluster) == ["b"]


def test_no_victim_is_evicted_when_the_preemptor_fits_meanwhile():
    cluster = two_victims()
    cluster.hold(Nominate)
    cluster.schedule(HIGH)
    cluster.add(node("n1").cpu("8"))

    cluster.done()

    assert asked(cluster) == []
    assert [each.decision for each in cluster.drain()] == [Placed("n1")]


def planned(name: str, *victims: str) -> PodBuilder:
    """Return a preemptor of one cpu, to which an earlier leader has written its plan."""
    own = f"uid:default/{name}"
    marks = tuple(fingerprint(own, f"uid:default/{each}") for each in victims)
    plan = PlanRecord(VERSION, "n1", EPOCH, marks)
    return pod(name).cpu("1").priority(100).nominated("n1").planned(encode(plan))


def two_planned(first: int = 0, second: int = 0) -> Cluster:
    """Return two preemptors with a victim each. One is enough: the capacity of one is free already.

    Args:
        first: The priority of one's victim, a.
        second: The priority of the other's, b.
    """
    return Cluster(
        node("n1").cpu("3"), victim("a", first, "1"), victim("b", second, "1"),
        planned("one", "a"), planned("other", "b"),
    )  # fmt: skip


@pytest.mark.parametrize(("first", "second"), [(0, 0), (0, 1), (1, 0)])
def test_two_preemptors_do_not_each_rely_on_the_victims_of_the_other(first, second):
    cluster = two_planned(first, second)
    cluster.drain()
    cluster.finish_terminating()
    cluster.drain()

    assert len(asked(cluster)) == 1
    assert {cluster.pod(name).spec.node_name for name in ("one", "other")} == {"n1"}


def test_a_victim_that_was_not_needed_is_not_a_victim_of_the_next_plan_either():
    cluster = two_planned()
    cluster.hold(Evict)
    cluster.drain()
    assert asked(cluster) == ["a"]
    # A victim that was not needed may not be evicted because another pod is planned for.
    cluster.add(victim("c", cpu="1"))
    cluster.done()
    cluster.hold()
    cluster.finish_terminating()
    cluster.drain()
    cluster.finish_terminating()
    cluster.drain()

    assert len(asked(cluster)) == 2
    assert {cluster.pod(name).spec.node_name for name in ("one", "other")} == {"n1"}


def test_a_plan_spares_victims_when_another_plan_evicts_a_pod_that_its_decision_has_kept():
    """An earlier leader planned to evict b. The decision for `two` keeps b and evicts a, c."""
    cluster = Cluster(
        node("n1").cpu("4"), victim("top", 200, "1"),
        victim("a", 0, "1"), victim("b", 5, "1"), victim("c", 0, "1"), planned("one", "b"),
    )  # fmt: skip
    cluster.hold(Evict)
    cluster.drain()
    assert asked(cluster) == ["b"]

    cluster.schedule(pod("two").cpu("1").priority(100))
    while cluster.held:
        cluster.done()
    cluster.finish_terminating()
    cluster.drain()

    assert len(asked(cluster)) == 2
    assert {cluster.pod(name).spec.node_name for name in ("one", "two")} == {"n1"}


def test_no_pod_is_evicted_when_a_more_important_pod_has_taken_the_capacity():
    cluster = Cluster(node("n1").cpu("4"), victim("a", 1, "1"))
    cluster.hold(Nominate)
    cluster.schedule(HIGH)
    cluster.schedule(pod("top").cpu("2").priority(200))
    cluster.hold()

    cluster.done()

    assert cluster.pod("top").spec.node_name == "n1"
    assert asked(cluster) == []
    assert cluster.nominations() == {}


# Deadlines


def test_a_victim_that_hangs_releases_the_node_and_the_preemptor_tries_another_one():
    cluster = two_victims()
    cluster.schedule(HIGH)
    cluster.add(node("n2").cpu("4"), victim("c", 50, "4", "n2"))
    cluster.delete("a")
    cluster.wait(TERMINATION_MARGIN - 1)
    cluster.drain()
    assert asked(cluster) == ["a", "b"]
    assert cluster.nominations() == {"high": "n1"}

    cluster.wait(1)
    decisions = [each.decision for each in cluster.drain()]

    assert isinstance(decisions[-1], Preempting)
    assert decisions[-1].node == "n2"
    assert asked(cluster) == ["a", "b", "c"]
    assert cluster.nominations() == {"high": "n2"}
    assert wasted(cluster) == {"victim_hangs": 2}


def test_a_node_where_a_victim_hangs_is_no_candidate_until_that_has_terminated():
    cluster = two_victims()
    cluster.schedule(HIGH)
    cluster.delete("a")

    cluster.wait(TERMINATION_MARGIN)
    cluster.drain()

    assert cluster.nominations() == {}
    assert cluster.pod("high").status.nominated_node_name == ""
    condition = cluster.pod("high").condition("PodScheduled")
    assert condition is not None
    assert "1 node(s) with an evicted pod that does not terminate" in condition.message
    cluster.finish_terminating()
    cluster.wait(15)
    assert [each.decision for each in cluster.drain()] == [Placed("n1")]


def test_the_end_of_the_grace_period_counts_not_its_begin():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    held = list(cluster.held)
    cluster.now += 60
    for each in held:
        cluster.done(each)

    cluster.now -= 60
    cluster.wait(TERMINATION_MARGIN + 59)
    assert cluster.nominations() == {"high": "n1"}
    cluster.wait(1)
    assert cluster.nominations() == {}


def test_an_eviction_without_an_answer_is_asked_for_again_until_the_deadline():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH.cpu("2"))
    begun = cluster.now

    while cluster.held:
        cluster.now += 30
        cluster.fail(kind=FailureKind.UNAVAILABLE)

    assert asked(cluster) == ["b"] * 4
    assert cluster.now == begun + EVICT_WITHIN
    assert cluster.asked(ClearNomination) == [ClearNomination(cluster.ref("high"))]
    assert cluster.phase("high") is QueuePhase.BACKOFF


def test_an_eviction_that_fails_at_once_is_not_asked_for_again():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH.cpu("2"))

    cluster.fail(kind=FailureKind.UNAVAILABLE)

    assert asked(cluster) == ["b"]
    assert cluster.phase("high") is QueuePhase.BACKOFF
