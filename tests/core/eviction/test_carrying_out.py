"""A preemption is executed in order: nominate, evict, wait until the victims have terminated."""

from scheduler.model.decisions import Placed, Preempting, Unschedulable
from scheduler.model.effects import (
    Evict,
    Nominate,
    RecordEvent,
    SetCondition,
)
from scheduler.queue.phases import QueuePhase
from tests.support.builders import OURS, PodBuilder, node, pod
from tests.support.cluster import Cluster, without_plan
from tests.support.evictions import HIGH, two_victims, victim

FULL = "0/1 nodes are available: 1 Insufficient cpu."


def evict(cluster: Cluster, name: str, preemptor: str = "high") -> Evict:
    return Evict(cluster.ref(name), "n1", cluster.ref(preemptor), OURS, 0)


# The order of effects


def test_the_nomination_is_written_before_any_victim_is_evicted():
    cluster = two_victims()
    cluster.hold(Nominate)

    decision = cluster.schedule(HIGH)

    assert decision == Preempting("n1", cluster.refs("a", "b"), 0, FULL)
    (nominate,) = cluster.held
    assert without_plan(nominate) == Nominate(cluster.ref("high"), "n1", FULL, 0)
    assert cluster.evicted() == []


def test_the_effects_of_a_preemption_come_in_this_order():
    cluster = two_victims()

    cluster.schedule(HIGH)

    failed, nominate, *rest = cluster.effects
    assert isinstance(failed, RecordEvent)
    assert (failed.reason, failed.note) == ("FailedScheduling", FULL)
    assert without_plan(nominate) == Nominate(cluster.ref("high"), "n1", FULL, 0)
    assert [type(effect) for effect in rest] == [Evict, Evict, RecordEvent, RecordEvent]
    assert [(each.reason, each.regarding.name, each.note) for each in rest[2:]] == [
        ("Preempted", name, "Preempted by pod uid:default/high on node n1") for name in "ab"
    ]


def test_the_condition_is_written_with_the_nomination():
    cluster = two_victims()

    cluster.schedule(HIGH)

    assert cluster.asked(SetCondition) == []


def test_the_generations_that_were_looked_at_are_named():
    cluster = Cluster(node("n1").cpu("2"), victim("low").meta(generation=3))

    cluster.schedule(HIGH.cpu("2").meta(generation=7))

    assert [effect.generation for effect in cluster.asked(Nominate, Evict)] == [7, 3]


# Waiting


def test_the_preemptor_is_not_tried_until_every_eviction_is_answered():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    assert cluster.phase("high") is QueuePhase.PREEMPTING

    cluster.done(evict(cluster, "b"))
    assert cluster.phase("high") is QueuePhase.PREEMPTING

    cluster.done(evict(cluster, "a"))
    assert cluster.phase("high") is QueuePhase.UNSCHEDULABLE


def test_the_preemptor_takes_the_capacity_when_its_victims_have_terminated():
    cluster = two_victims()
    cluster.schedule(HIGH)

    cluster.finish_terminating()
    cluster.wait(3)

    assert [attempt.decision for attempt in cluster.drain()] == [Placed("n1")]
    assert cluster.nominations() == {}


def test_a_victim_that_terminates_before_all_answers_wakes_the_preemptor_afterwards():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    cluster.delete("a")
    cluster.delete("b")
    assert cluster.phase("high") is QueuePhase.PREEMPTING

    cluster.done(changed=False)
    cluster.done(changed=False)

    assert cluster.phase("high") is QueuePhase.BACKOFF


def test_one_terminated_victim_is_not_enough_while_others_are_being_evicted():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    cluster.done()
    cluster.finish_terminating()

    cluster.done()

    assert cluster.phase("high") is QueuePhase.UNSCHEDULABLE


def test_a_preemptor_is_not_tried_before_its_last_victim_has_terminated():
    cluster = two_victims()
    cluster.schedule(HIGH)

    cluster.delete("a")
    assert cluster.phase("high") is QueuePhase.UNSCHEDULABLE

    cluster.delete("b")
    assert cluster.phase("high") is QueuePhase.BACKOFF


def another_node(*pods: PodBuilder, cpu: str = "4") -> Cluster:
    """Give a preemptor that waits for its victims, and capacity that pods of another node take."""
    there = (each.on("n2").priority(1000) for each in pods)
    cluster = Cluster(node("n1").cpu("4"), node("n2").cpu(cpu), victim("a", 2), *there)
    cluster.schedule(HIGH)
    assert cluster.phase("high") is QueuePhase.UNSCHEDULABLE
    return cluster


def test_too_little_capacity_elsewhere_does_not_wake_a_pod_that_waits_for_victims():
    cluster = another_node(pod("x").cpu("1"), pod("y").cpu("3"))

    cluster.delete("x")

    assert cluster.phase("high") is QueuePhase.UNSCHEDULABLE


def test_enough_capacity_elsewhere_wakes_a_pod_that_waits_for_victims():
    cluster = another_node(pod("x").cpu("1"), pod("y").cpu("3"))

    cluster.delete("x")
    cluster.delete("y")
    cluster.wait(3)

    assert [attempt.decision for attempt in cluster.drain()] == [Placed("n2")]


def test_capacity_for_another_nominated_pod_does_not_wake_a_pod_that_waits_for_victims():
    cluster = another_node(pod("x").cpu("4"))
    cluster.add(pod("theirs").scheduler("other").cpu("4").priority(100).nominated("n2"))

    cluster.delete("x")

    assert cluster.phase("high") is QueuePhase.UNSCHEDULABLE


def test_capacity_elsewhere_wakes_all_pods_of_a_class_that_wait_for_victims():
    cluster = Cluster(
        node("n1").cpu("4"), node("n2").cpu("4"), node("n3").cpu("4"),
        victim("a"), victim("b").on("n2"), pod("x").on("n3").cpu("4").priority(1000),
    )  # fmt: skip
    for name in ("h1", "h2"):
        cluster.schedule(pod(name).cpu("4").priority(100))

    cluster.delete("x")

    assert [cluster.phase(name) for name in ("h1", "h2")] == [QueuePhase.BACKOFF] * 2


def test_a_pod_that_does_not_preempt_yet_is_woken_by_any_capacity():
    cluster = Cluster(node("n1").cpu("4"), pod("x").on("n1").cpu("1").priority(1000))
    cluster.add(pod("y").on("n1").cpu("3").priority(1000))
    cluster.schedule(HIGH)

    cluster.delete("x")

    assert cluster.phase("high") is QueuePhase.BACKOFF


def test_the_nomination_keeps_lower_pods_out_while_the_victims_terminate():
    cluster = two_victims()
    cluster.schedule(HIGH)
    cluster.finish_terminating()

    decision = cluster.schedule(pod("mid").cpu("1").priority(50))

    assert isinstance(decision, Unschedulable)


def test_no_further_pod_is_evicted_while_a_victim_terminates():
    cluster = Cluster(node("n1").cpu("4"), victim("a", 1), victim("b", 0))
    cluster.schedule(HIGH.cpu("2"))
    assert cluster.evicted() == ["b"]
    cluster.add(node("n1").cpu("3"))

    cluster.wait(3)
    cluster.add(node("n1").cpu("3.5"))
    (attempt,) = cluster.drain()

    assert attempt.decision == Unschedulable(
        f"{FULL} no new claims to deallocate, "
        "preemption: not eligible due to a terminating pod on the nominated node."
    )
    assert cluster.evicted() == ["b"]
    assert cluster.nominations() == {"high": "n1"}


def test_a_preemptor_that_changes_meanwhile_still_gets_its_capacity():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    cluster.change("high", lambda own: own.label("mutated", "true"))

    cluster.done()
    cluster.done()
    cluster.finish_terminating()
    cluster.wait(3)

    assert [attempt.decision for attempt in cluster.drain()] == [Placed("n1")]


# Victims that need not be asked


def test_a_victim_that_is_terminating_already_is_not_asked_again():
    cluster = Cluster(node("n1").cpu("4"), victim("a", 1).terminating(), victim("b"))

    decision = cluster.schedule(HIGH)

    assert decision == Preempting("n1", cluster.refs("a", "b"), 0, FULL)
    assert cluster.evicted() == ["b"]


def test_with_every_victim_terminating_the_nomination_is_all_there_is():
    cluster = Cluster(node("n1").cpu("4"), victim("a").terminating(), victim("b").terminating())

    cluster.schedule(HIGH)

    assert [type(effect) for effect in cluster.effects] == [RecordEvent, Nominate]
    assert cluster.phase("high") is QueuePhase.UNSCHEDULABLE
    assert cluster.nominations() == {"high": "n1"}


def test_a_victim_deleted_before_the_nomination_was_written_is_not_evicted():
    cluster = two_victims()
    cluster.hold(Nominate)
    cluster.schedule(HIGH)
    cluster.delete("a")

    cluster.done()

    assert cluster.evicted() == ["b"]


def test_no_event_is_recorded_for_a_victim_that_was_already_gone():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    cluster.forget_effects()

    cluster.done(evict(cluster, "a"), changed=False)
    cluster.done(evict(cluster, "b"))

    assert [each.regarding.name for each in cluster.asked(RecordEvent)] == ["b"]


def test_a_victim_that_another_preemptor_asked_is_not_asked_again():
    cluster = Cluster(node("n1").cpu("4"), victim("a", 1), victim("b", 0))
    cluster.hold(Evict)
    cluster.schedule(pod("first").cpu("2").priority(100))
    assert cluster.evicted() == ["b"]

    decision = cluster.schedule(pod("second").cpu("4").priority(200))

    assert decision == Preempting("n1", cluster.refs("a", "b"), 0, FULL)
    assert cluster.evicted() == ["b", "a"]
