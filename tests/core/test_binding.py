"""From a decision to a pod on its node: assume, bind, confirm; and everything that goes wrong."""

import pytest

from scheduler.core.outbox import Bound
from scheduler.model.decisions import Placed, Unschedulable
from scheduler.model.effects import Bind, RecordEvent, SetCondition
from scheduler.model.events import FailureKind, PodObserved
from scheduler.queue.phases import QueuePhase
from tests.support.builders import OURS, node, pod
from tests.support.cluster import Cluster


@pytest.fixture
def cluster() -> Cluster:
    """Give a cluster in which the pod `p` is being bound to the only node."""
    made = Cluster(node("n1").cpu("2"))
    made.hold(Bind)
    assert made.schedule(pod("p").cpu("2")) == Placed("n1")
    return made


def bind(cluster: Cluster) -> Bind:
    return Bind(cluster.ref("p"), "n1", OURS)


def test_a_placed_pod_is_bound(cluster):
    assert cluster.held == [bind(cluster)]
    assert cluster.phase("p") is QueuePhase.BINDING


def test_a_pod_takes_its_capacity_before_it_is_bound(cluster):
    assert isinstance(cluster.schedule(pod("q").cpu("1")), Unschedulable)


def test_a_bound_pod_is_removed_from_the_queue_and_gets_an_event(cluster):
    cluster.wait(3)

    cluster.done()

    assert cluster.phase("p") is None
    assert cluster.bound == [Bound(cluster.ref("p"), "n1", OURS, 1, 3.0, flushed=False)]
    assert cluster.asked(RecordEvent) == [
        RecordEvent(
            cluster.ref("p"), "Normal", "Scheduled", "Binding",
            "Successfully assigned default/p to n1", OURS, "1",
        )
    ]  # fmt: skip


def test_the_watch_may_confirm_before_the_answer_comes(cluster):
    cluster.change("p", lambda own: own.on("n1"))
    assert cluster.phase("p") is None
    assert cluster.machine.cluster.assumed == 0

    cluster.done()

    assert len(cluster.bound) == 1


def test_the_answer_may_come_before_the_watch_confirms(cluster):
    cluster.lag()
    cluster.done()
    assert cluster.machine.cluster.assumed == 1

    cluster.catch_up()

    assert cluster.machine.cluster.assumed == 0
    assert isinstance(cluster.schedule(pod("q").cpu("1")), Unschedulable)


def test_what_was_assumed_stays_however_long_the_answer_takes(cluster):
    cluster.wait(3600)

    assert cluster.machine.cluster.assumed == 1
    assert isinstance(cluster.schedule(pod("q").cpu("1")), Unschedulable)


@pytest.mark.parametrize(
    "kind",
    [FailureKind.CONFLICT, FailureKind.REFUSED, FailureKind.FORBIDDEN, FailureKind.UNAVAILABLE],
)
def test_a_pod_that_could_not_be_bound_frees_its_capacity_and_is_tried_again(cluster, kind):
    cluster.fail(kind=kind)

    assert cluster.phase("p") is QueuePhase.BACKOFF
    assert cluster.schedule(pod("q").cpu("2").priority(9)) == Placed("n1")
    cluster.fail()
    cluster.wait(3)
    assert [attempt.decision for attempt in cluster.drain()] == [Placed("n1"), Unschedulable(
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: "
        "0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )]  # fmt: skip


def test_the_reason_is_reported_for_a_pod_that_could_not_be_bound(cluster):
    cluster.fail()

    error = 'running Bind plugin "DefaultBinder": no'
    assert cluster.asked(SetCondition) == [
        SetCondition(cluster.ref("p"), "SchedulerError", error, 0)
    ]
    assert [each.note for each in cluster.asked(RecordEvent)] == [error]


def test_a_pod_that_could_not_be_bound_has_no_nomination_any_more():
    cluster = Cluster(node("n1"))
    cluster.hold(Bind)
    cluster.schedule(pod("p").nominated("n1"))

    cluster.fail()

    assert cluster.asked(SetCondition)[0].clear_nomination
    assert cluster.pod("p").status.nominated_node_name == ""
    assert cluster.nominations() == {}


def test_a_deleted_pod_is_not_tried_again(cluster):
    cluster.fail(kind=FailureKind.GONE)

    assert cluster.phase("p") is None
    assert cluster.machine.cluster.assumed == 0
    assert cluster.asked(SetCondition) == []


def test_a_terminating_pod_is_not_tried_again(cluster):
    cluster.lag()
    cluster.change("p", lambda own: own.terminating())
    cluster.catch_up()

    cluster.fail(kind=FailureKind.CONFLICT)

    assert cluster.phase("p") is None
    assert cluster.asked(SetCondition) == []


def test_a_pod_that_is_deleted_while_it_is_bound_frees_its_capacity(cluster):
    cluster.delete("p")
    assert cluster.machine.cluster.assumed == 0

    cluster.fail(kind=FailureKind.GONE)

    assert cluster.phase("p") is None
    assert cluster.schedule(pod("q").cpu("2")) == Placed("n1")


def test_a_late_state_without_a_node_does_not_unbind(cluster):
    cluster.lag()
    cluster.done()

    cluster.observe(PodObserved(pod("p").cpu("2").version(1).build()))
    cluster.catch_up()

    assert cluster.phase("p") is None
    assert isinstance(cluster.schedule(pod("q").cpu("1")), Unschedulable)


def test_a_pod_that_changed_while_it_was_bound_is_tried_with_its_new_state(cluster):
    cluster.change("p", lambda own: own.selects(disk="ssd"))
    cluster.fail()
    cluster.wait(3)

    (attempt,) = cluster.drain()

    assert attempt.plugins == ("NodeAffinity",)


# Pods that are woken


def waiting_for_capacity() -> Cluster:
    made = Cluster(node("n1").cpu("2"))
    made.hold(Bind)
    made.schedule(pod("p").cpu("2"))
    made.schedule(pod("q").cpu("2"))
    assert made.phase("q") is QueuePhase.UNSCHEDULABLE
    return made


def test_a_failed_binding_wakes_a_pod_that_waits_for_the_capacity():
    cluster = waiting_for_capacity()

    cluster.fail()

    assert cluster.phase("q") is QueuePhase.BACKOFF


def test_a_pod_that_is_deleted_while_it_is_bound_wakes_a_pod_that_waits_for_the_capacity():
    cluster = waiting_for_capacity()

    cluster.delete("p")

    assert cluster.phase("q") is QueuePhase.BACKOFF


def test_a_pod_bound_elsewhere_by_another_scheduler_wakes_a_pod_that_waits_for_the_capacity():
    cluster = waiting_for_capacity()

    cluster.change("p", lambda own: own.on("n2"))
    assert cluster.phase("q") is QueuePhase.BACKOFF
    cluster.fail(kind=FailureKind.CONFLICT)

    assert cluster.phase("p") is None
    cluster.hold()
    assert [attempt.decision for attempt in cluster.drain()] == [Placed("n1")]


def test_a_confirmed_binding_wakes_no_pod_that_waits_for_capacity():
    cluster = waiting_for_capacity()

    cluster.done()

    assert cluster.phase("q") is QueuePhase.UNSCHEDULABLE
