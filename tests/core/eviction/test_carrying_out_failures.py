"""Preemptions that cannot be completed, and nominations that block other pods."""

import pytest

from scheduler.model.decisions import Placed, Preempting, Unschedulable
from scheduler.model.effects import (
    Bind,
    ClearNomination,
    Evict,
    Nominate,
    RecordEvent,
    SetCondition,
)
from scheduler.model.events import FailureKind, NodeObserved
from scheduler.queue.phases import QueuePhase
from tests.support.builders import node, pod
from tests.support.cluster import Cluster

HIGH = pod("high").cpu("4").priority(100)
MID = pod("mid").cpu("2").priority(50).never_preempts()


def two_victims() -> Cluster:
    return Cluster(
        node("n1").cpu("4"),
        pod("a").on("n1").cpu("2").priority(2),
        pod("b").on("n1").cpu("2").priority(1),
    )


# The nomination is not taken


@pytest.mark.parametrize("kind", list(FailureKind))
def test_no_victim_is_evicted_without_a_nomination(kind):
    cluster = two_victims()
    cluster.hold(Nominate)
    cluster.schedule(HIGH)

    cluster.fail(kind=kind)

    assert cluster.evicted() == []
    assert cluster.nominations() == {}
    assert cluster.asked(ClearNomination) == []
    assert cluster.phase("high") is QueuePhase.BACKOFF


def test_a_preemptor_whose_nomination_failed_tries_again_after_a_back_off():
    cluster = two_victims()
    cluster.hold(Nominate)
    cluster.schedule(HIGH)
    cluster.fail()
    cluster.hold()

    assert cluster.drain() == []
    cluster.wait(12)
    (attempt,) = cluster.drain()

    assert isinstance(attempt.decision, Preempting)
    assert cluster.evicted() == ["a", "b"]


def test_the_condition_of_a_preemptor_whose_nomination_failed_is_written_later():
    cluster = two_victims()
    cluster.hold(Nominate)
    cluster.schedule(HIGH)
    cluster.fail()
    message = "0/1 nodes are available: 1 Insufficient cpu."
    assert cluster.pod("high").condition("PodScheduled") is None

    queued = cluster.machine.queue.get(cluster.ref("high").uid)
    assert queued is not None
    assert queued.reported_condition is None
    assert [each.note for each in cluster.asked(RecordEvent)] == [
        message,
        "preemption: nominating node n1: no",
    ]


# Evictions fail


@pytest.mark.parametrize("failing", ["a", "b"])
def test_a_plan_with_a_failed_eviction_is_cancelled_when_every_eviction_is_answered(failing):
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    failed, done = cluster.held if failing == "a" else reversed(cluster.held)

    cluster.fail(failed, FailureKind.FORBIDDEN)
    assert cluster.phase("high") is QueuePhase.PREEMPTING
    assert cluster.nominations() == {"high": "n1"}

    cluster.done(done)
    assert cluster.phase("high") is QueuePhase.BACKOFF
    assert cluster.nominations() == {}
    assert cluster.asked(ClearNomination) == [ClearNomination(cluster.ref("high"))]
    assert cluster.pod("high").status.nominated_node_name == ""
    assert cluster.asked(RecordEvent)[-1].note == f"preemption: evicting pod default/{failing}: no"


def test_a_victim_whose_eviction_failed_is_evicted_again_and_a_terminating_one_is_not():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    first, second = cluster.held
    cluster.done(first)
    cluster.fail(second)
    cluster.hold()
    cluster.wait(12)

    (attempt,) = cluster.drain()

    assert attempt.decision == Preempting(
        "n1", cluster.refs("a", "b"), 0, "0/1 nodes are available: 1 Insufficient cpu."
    )
    assert cluster.evicted() == ["a", "b", "b"]


def test_the_first_failure_is_the_one_that_is_reported():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    first, second = cluster.held

    cluster.fail(second)
    cluster.fail(first)

    assert cluster.asked(RecordEvent)[-1].note == "preemption: evicting pod default/b: no"


def test_a_nomination_that_cannot_be_cleared_stops_nothing():
    cluster = two_victims()
    cluster.hold(Evict, ClearNomination)
    cluster.schedule(HIGH)
    cluster.fail()
    cluster.fail()

    cluster.fail()

    assert cluster.nominations() == {}
    assert cluster.phase("high") is QueuePhase.BACKOFF


def test_an_event_that_cannot_be_written_stops_nothing():
    cluster = two_victims()
    cluster.hold(RecordEvent)
    cluster.schedule(HIGH)

    while cluster.held:
        cluster.fail()

    assert cluster.phase("high") is QueuePhase.UNSCHEDULABLE


# Pods blocked by a nomination


def blocked_by_a_nomination() -> Cluster:
    """Return a pod that waits because a preemptor without answers is nominated to the capacity."""
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    cluster.delete("a")
    cluster.delete("b")
    cluster.schedule(MID)
    assert cluster.phase("mid") is QueuePhase.UNSCHEDULABLE
    return cluster


def test_a_cancelled_plan_wakes_pods_blocked_by_its_nomination():
    cluster = blocked_by_a_nomination()

    cluster.fail()
    cluster.fail()

    assert cluster.phase("mid") is QueuePhase.BACKOFF


def test_a_deleted_preemptor_wakes_pods_blocked_by_its_nomination():
    cluster = blocked_by_a_nomination()

    cluster.delete("high")

    assert cluster.phase("mid") is QueuePhase.BACKOFF


def test_a_preemptor_bound_elsewhere_wakes_pods_blocked_by_its_nomination():
    cluster = blocked_by_a_nomination()

    cluster.change("high", lambda own: own.on("n9"))

    assert cluster.phase("mid") is QueuePhase.BACKOFF


def test_a_preemptor_placed_elsewhere_wakes_pods_blocked_by_its_nomination():
    cluster = blocked_by_a_nomination()
    cluster.done()
    cluster.done()
    cluster.add(node("n2").cpu("4").taint("only-for-high"))
    cluster.change("high", lambda own: own.tolerates("only-for-high", operator="Exists"))
    cluster.add(node("n1").cpu("3"))
    cluster.hold(Bind)
    cluster.wait(60)
    before = cluster.phase("mid")

    decisions = {attempt.pod.name: attempt.decision for attempt in cluster.drain()}

    assert before in (QueuePhase.ACTIVE, QueuePhase.UNSCHEDULABLE)
    assert decisions == {"high": Placed("n2"), "mid": Placed("n1")}


def test_a_preemptor_nominated_to_another_node_wakes_pods_blocked_by_its_nomination():
    cluster = blocked_by_a_nomination()
    cluster.done()
    cluster.done()
    cluster.add(node("n2").cpu("4").taint("only-for-high"))
    cluster.add(pod("c").on("n2").cpu("4").priority(-1))
    cluster.change("high", lambda own: own.tolerates("only-for-high", operator="Exists"))
    cluster.add(node("n1").cpu("3"))
    cluster.wait(60)

    cluster.drain()

    assert cluster.nominations() == {"high": "n2"}
    assert cluster.pod("mid").spec.node_name == "n1"


def test_a_preemptor_that_clears_a_nomination_wakes_pods_blocked_by_it():
    cluster = Cluster(
        node("n1").has({"cpu": "4", "example.com/gpu": "1"}),
        pod("user").on("n1").requests({"cpu": "2", "example.com/gpu": "1"}),
    )
    cluster.schedule(pod("nominated").cpu("3").priority(50).never_preempts().nominated("n1"))
    cluster.schedule(pod("mid").cpu("1").priority(10).never_preempts())
    assert cluster.phase("mid") is QueuePhase.UNSCHEDULABLE

    cluster.schedule(pod("high").requests({"example.com/gpu": "1"}).priority(100))

    assert cluster.nominations() == {"high": "n1"}
    assert cluster.phase("mid") is QueuePhase.BACKOFF


def test_a_cleared_nomination_wakes_lower_and_equal_pods_only():
    cluster = Cluster(node("n1").cpu("4"))
    cluster.add(pod("nominated").scheduler("other").cpu("3").priority(50).nominated("n1"))
    for name, priority in (("low", 10), ("equal", 50)):
        cluster.schedule(pod(name).cpu("2").priority(priority).never_preempts())
    cluster.schedule(pod("high").cpu("9").priority(90))
    assert [cluster.phase(name) for name in ("low", "equal", "high")] == [
        QueuePhase.UNSCHEDULABLE
    ] * 3

    cluster.add(pod("nominated").scheduler("other").cpu("3").priority(50))

    assert [cluster.phase(name) for name in ("low", "equal", "high")] == [
        QueuePhase.BACKOFF,
        QueuePhase.BACKOFF,
        QueuePhase.UNSCHEDULABLE,
    ]


# Conditions


def test_a_condition_that_could_not_be_written_is_written_next_time():
    cluster = Cluster(node("n1").cpu("1"))
    cluster.hold(SetCondition)
    cluster.schedule(pod("p").cpu("2"))
    cluster.fail()

    cluster.add(node("n2").cpu("1"))
    cluster.wait(600)
    cluster.wait(600)
    cluster.drain()

    assert len(cluster.asked(SetCondition)) == 2


def test_a_condition_that_failed_for_a_deleted_pod_is_dropped():
    cluster = Cluster(node("n1").cpu("1"))
    cluster.hold(SetCondition)
    cluster.schedule(pod("p").cpu("2"))
    cluster.delete("p")

    cluster.fail(kind=FailureKind.GONE)

    assert cluster.phase("p") is None


def test_a_condition_that_says_the_same_is_not_written_again():
    cluster = Cluster(node("n1").cpu("1"))
    decision = cluster.schedule(pod("p").cpu("2"))

    cluster.wait(600)
    cluster.wait(600)
    (attempt,) = cluster.drain()

    assert attempt.decision == decision
    assert isinstance(decision, Unschedulable)
    assert len(cluster.asked(SetCondition)) == 1
    assert len(cluster.asked(RecordEvent)) == 2


def test_a_condition_that_the_pod_has_already_is_not_written():
    cluster = Cluster(node("n1").cpu("1"))
    decision = cluster.schedule(pod("p").cpu("2"))
    assert isinstance(decision, Unschedulable)

    again = Cluster(node("n1").cpu("1"))
    told = pod("p").cpu("2").condition("PodScheduled", "False", "Unschedulable", decision.message)
    again.schedule(told)

    assert again.asked(SetCondition) == []


def test_a_condition_is_written_to_clear_a_nomination_even_if_it_says_the_same():
    cluster = Cluster(node("n1").cpu("1"))
    decision = cluster.schedule(pod("p").cpu("2"))
    cluster.change("p", lambda own: own.nominated("n1"))
    assert cluster.nominations() == {"p": "n1"}

    cluster.wait(600)
    cluster.wait(600)
    cluster.drain()

    assert isinstance(decision, Unschedulable)
    assert cluster.asked(SetCondition)[-1] == SetCondition(
        cluster.ref("p"), "Unschedulable", decision.message, 0, clear_nomination=True
    )
    assert cluster.nominations() == {}


def test_a_nomination_that_the_watch_has_not_brought_yet_is_cleared_all_the_same():
    cluster = two_victims()
    cluster.add(HIGH)
    cluster.lag()
    cluster.step()
    assert cluster.nominations() == {"high": "n1"}

    cluster.observe(NodeObserved(node("n1").cpu("1").build()))
    cluster.wait(400)
    cluster.wait(400)
    cluster.drain()

    assert [effect.clear_nomination for effect in cluster.asked(SetCondition)] == [True]
