"""What wakes a pod: events, own changes, the periodic flush, gates, and the end of a preemption."""

from collections.abc import Iterator

import pytest

from scheduler.queue.phases import QueuePhase
from tests.support.builders import pod
from tests.support.queues import FIT, T0, Queue, helps_all, helps_none, only

PORTS = frozenset({"NodePorts"})
LATER = T0 + 60


@pytest.fixture
def queue() -> Iterator[Queue]:
    made = Queue()
    yield made
    made.real.check()


# Events


def test_a_rejected_pod_waits_for_an_event(queue):
    queue.rejected("p")
    queue.real.flush(LATER)

    assert queue.phase("p") is QueuePhase.UNSCHEDULABLE
    assert not queue.real.ready()


def test_an_event_wakes_the_pods_that_it_helps(queue):
    for name in ("a", "b", "c"):
        queue.rejected(name)

    assert queue.wake(only("a", "c"), LATER, "NodeAdd") == 2

    assert queue.phases("abc") == [QueuePhase.ACTIVE, QueuePhase.UNSCHEDULABLE, QueuePhase.ACTIVE]


def test_the_hints_of_the_plugins_that_rejected_a_pod_are_asked(queue):
    queue.rejected("fit", FIT)
    queue.rejected("ports", PORTS)

    queue.wake(
        lambda _, rejectors: "NodePorts" if rejectors == PORTS else "", LATER, "AssignedPodDelete"
    )

    assert queue.phases(["fit", "ports"]) == [QueuePhase.UNSCHEDULABLE, QueuePhase.ACTIVE]


def test_hints_are_asked_once_for_pods_of_one_class_and_one_verdict(queue):
    for name in ("a", "b", "c"):
        queue.rejected(name, group="class")
    asked = []

    def judge(waiting, rejectors):
        asked.append(waiting.metadata.name)
        return "NodeResourcesFit"

    assert queue.wake(judge, LATER, "NodeAdd") == 3
    assert len(asked) == 1
    assert queue.order() == ["a"]


def test_hints_are_asked_separately_for_different_verdicts_of_a_class(queue):
    queue.rejected("a", FIT, group="class")
    queue.rejected("b", PORTS, group="class")

    helped = queue.wake(
        lambda _, rejectors: "NodeResourcesFit" if rejectors == FIT else "", LATER, "NodeAdd"
    )

    assert helped == 1
    assert queue.phases("ab") == [QueuePhase.ACTIVE, QueuePhase.UNSCHEDULABLE]


def test_no_hint_is_asked_for_a_dropped_pod(queue):
    queue.rejected("p")
    queue.real.delete("uid:default/p", T0)

    assert queue.wake(helps_all, LATER, "NodeAdd") == 0


def test_waking_a_pod_that_does_not_wait_does_nothing(queue):
    queue.add("p")
    queued = queue.real.get("uid:default/p")
    assert queued is not None

    queue.real.move_to_active_or_backoff(queued, T0, "NodeAdd")

    assert queued.phase is QueuePhase.ACTIVE
    assert queue.order() == ["p"]


# Own changes


def test_an_own_change_that_helps_wakes_the_pod(queue):
    queue.rejected("p")

    queue.update(pod("p").label("a", "b"), only("p"), LATER)

    assert queue.phase("p") is QueuePhase.ACTIVE
    assert queue.pop(LATER).pod.metadata.labels["a"] == "b"


def test_an_own_change_that_does_not_help_is_stored(queue):
    queue.rejected("p")

    queue.update(pod("p").label("a", "b"), helps_none, LATER)
    assert queue.phase("p") is QueuePhase.UNSCHEDULABLE

    queue.wake(
        lambda waiting, _: "Any" if waiting.metadata.labels.get("a") == "b" else "",
        LATER,
        "NodeAdd",
    )
    assert queue.phase("p") is QueuePhase.ACTIVE


def test_a_change_of_one_pod_does_not_wake_others_of_its_class(queue):
    queue.rejected("p", group="class")
    queue.rejected("q", group="class")

    queue.update(pod("p"), helps_all, LATER)

    assert queue.phases("pq") == [QueuePhase.ACTIVE, QueuePhase.UNSCHEDULABLE]


def test_a_change_of_an_active_pod_keeps_its_position(queue):
    queue.add("p", "q")

    queue.update(pod("p").label("a", "b"), helps_all)

    assert queue.order() == ["p", "q"]


def test_a_change_of_a_pod_in_back_off_does_not_shorten_it(queue):
    queue.failed("p")

    queue.update(pod("p").label("a", "b"), helps_all)

    assert queue.phase("p") is QueuePhase.BACKOFF


# Gates


def test_a_gated_pod_is_not_tried(queue):
    queue.add(pod("p").gated("a", "b"))

    assert queue.phase("p") is QueuePhase.GATED
    assert not queue.real.ready()


def test_no_event_wakes_a_gated_pod(queue):
    queue.add(pod("p").gated("a"))

    queue.wake(helps_all, LATER, "NodeAdd")
    queue.real.flush(T0)
    queue.real.flush(T0 + 1000)

    assert queue.phase("p") is QueuePhase.GATED


def test_a_pod_whose_last_gate_is_removed_is_active(queue):
    queue.add(pod("p").gated("a", "b"))

    queue.update(pod("p").gated("b"))
    assert queue.phase("p") is QueuePhase.GATED

    queue.update(pod("p"))
    assert queue.phase("p") is QueuePhase.ACTIVE


def test_a_gate_keeps_a_pod_out_that_is_woken(queue):
    queue.rejected("p")
    queue.update(pod("p").gated("a"), helps_all, LATER)

    assert queue.phase("p") is QueuePhase.GATED


# The periodic flush


def test_a_pod_that_no_event_wakes_is_tried_after_five_minutes(queue):
    queue.real.flush(T0)
    queue.rejected("p", now=T0 + 1)

    for now in range(int(T0) + 2, int(T0) + 302):
        queue.real.flush(now)
    assert queue.phase("p") is QueuePhase.UNSCHEDULABLE

    for now in range(int(T0) + 302, int(T0) + 332):
        queue.real.flush(now)
    assert queue.phase("p") is QueuePhase.ACTIVE
    assert queue.pop(T0 + 340).flushed


def test_the_flush_runs_every_thirty_seconds(queue):
    queue.real.flush(T0)
    queue.rejected("p", now=T0 - 300.5)

    queue.real.flush(T0 + 29.9)
    assert queue.phase("p") is QueuePhase.UNSCHEDULABLE

    queue.real.flush(T0 + 30)
    assert queue.phase("p") is QueuePhase.ACTIVE


def test_a_flushed_pod_that_fails_again_is_no_longer_flushed(queue):
    queue.real.flush(T0)
    queue.rejected("p")
    queue.real.flush(T0 + 400)
    queued = queue.pop(T0 + 400)
    assert queued.flushed

    queue.real.add_unschedulable(queued, FIT, T0 + 400)

    assert not queued.flushed


def test_only_pods_that_waited_long_enough_are_flushed(queue):
    queue.real.flush(T0)
    queue.rejected("old", now=T0)
    queue.rejected("new", now=T0 + 200)

    queue.real.flush(T0 + 310)

    assert queue.phases(["old", "new"]) == [QueuePhase.ACTIVE, QueuePhase.UNSCHEDULABLE]


# Preemptors whose preemption is being carried out


def test_a_preemptor_is_not_tried_during_its_preemption(queue):
    queue.held("p")
    queue.wake(helps_all, LATER, "AssignedPodDelete")
    queue.real.flush(T0)
    queue.real.flush(T0 + 1000)

    assert queue.phase("p") is QueuePhase.PREEMPTING
    assert not queue.real.ready()


def test_a_preemptor_waits_for_its_victims_after_its_preemption(queue):
    queued = queue.held("p")

    queue.real.end_preemption(queued, LATER, retry=False)
    assert queue.phase("p") is QueuePhase.UNSCHEDULABLE

    queue.wake(helps_all, LATER, "AssignedPodDelete")
    assert queue.phase("p") is QueuePhase.ACTIVE


def test_an_event_during_the_preemption_is_not_lost(queue):
    queued = queue.held("p")
    queue.wake(only("p"), T0, "AssignedPodDelete")

    queue.real.end_preemption(queued, LATER, retry=False)

    assert queue.phase("p") is QueuePhase.ACTIVE


def test_an_event_during_the_preemption_that_does_not_help_changes_nothing(queue):
    queued = queue.held("p")
    queue.wake(helps_none, T0, "AssignedPodDelete")

    queue.real.end_preemption(queued, LATER, retry=False)

    assert queue.phase("p") is QueuePhase.UNSCHEDULABLE


def test_an_own_change_during_the_preemption_is_not_lost(queue):
    queued = queue.held("p")
    queue.update(pod("p").label("a", "b"), helps_all)

    queue.real.end_preemption(queued, LATER, retry=False)

    assert queue.phase("p") is QueuePhase.ACTIVE


def test_a_preemptor_that_is_woken_early_still_backs_off(queue):
    queued = queue.held("p")
    queue.wake(helps_all, T0, "AssignedPodDelete")

    queue.real.end_preemption(queued, T0, retry=False)

    assert queue.phase("p") is QueuePhase.BACKOFF


def test_a_preemptor_that_is_to_retry_is_active_at_once(queue):
    queued = queue.held("p")

    queue.real.end_preemption(queued, T0, retry=True)

    assert queue.phase("p") is QueuePhase.ACTIVE


def test_a_preemptor_whose_preemption_failed_backs_off_and_is_tried_again(queue):
    queued = queue.held("p")

    queue.real.fail_preemption(queued, T0)
    assert queue.phase("p") is QueuePhase.BACKOFF

    queue.real.flush(T0 + 2)
    assert queue.phase("p") is QueuePhase.ACTIVE


def test_a_preemption_cannot_end_twice(queue):
    queued = queue.held("p")
    queue.real.end_preemption(queued, LATER, retry=True)

    queue.real.end_preemption(queued, LATER, retry=False)
    queue.real.fail_preemption(queued, LATER)

    assert queue.phase("p") is QueuePhase.ACTIVE


def test_a_preemptor_can_be_dropped_during_its_preemption(queue):
    queued = queue.held("p")

    queue.real.delete("uid:default/p", T0)
    queue.real.end_preemption(queued, T0, retry=True)

    assert queue.phase("p") is None
    assert not queue.real.ready()


# Bindings


def test_a_pod_that_is_being_bound_is_not_tried(queue):
    queue.add("p")
    queue.real.mark_assumed(queue.pop(), T0)
    queue.wake(helps_all, LATER, "NodeAdd")

    assert queue.phase("p") is QueuePhase.BINDING
    assert not queue.real.ready()


def test_a_pod_whose_binding_failed_backs_off(queue):
    queue.add("p")
    queued = queue.pop()
    queue.real.mark_assumed(queued, T0)

    queue.real.retry(queued, T0)

    assert queue.phase("p") is QueuePhase.BACKOFF
    assert not queue.real.ready()


# Wake-ups for nothing


def test_a_pod_that_the_same_plugins_reject_again_was_woken_for_nothing(queue):
    queue.rejected("p", FIT)
    queue.wake(helps_all, LATER, "NodeAdd")

    queue.real.add_unschedulable(queue.pop(LATER), FIT, LATER)

    assert queue.real.wasted_wakeups == {("NodeResourcesFit", "NodeAdd"): 1}


def test_a_pod_is_counted_each_time_that_it_was_woken_for_nothing(queue):
    queue.rejected("p", FIT)
    for now in (LATER, LATER + 60):
        queue.wake(helps_all, now, "NodeAdd")
        queue.real.add_unschedulable(queue.pop(now), FIT, now)

    assert queue.real.wasted_wakeups.total() == 2


def test_the_event_that_woke_a_pod_first_is_counted(queue):
    queue.rejected("p", FIT)
    queue.wake(helps_all, T0, "NodeAdd")
    queue.wake(helps_all, T0, "AssignedPodDelete")

    queue.real.add_unschedulable(queue.pop(LATER), FIT, LATER)

    assert list(queue.real.wasted_wakeups) == [("NodeResourcesFit", "NodeAdd")]


def test_a_wake_up_by_an_own_change_without_effect_is_counted_as_wasted(queue):
    queue.rejected("p", FIT)
    queue.update(pod("p").label("a"), helps_all, LATER)

    queue.real.add_unschedulable(queue.pop(LATER), FIT, LATER)

    assert list(queue.real.wasted_wakeups) == [("NodeResourcesFit", "UnschedulablePodUpdate")]


@pytest.mark.parametrize("ending", ["other plugins", "an error", "a preemption", "a node"])
def test_a_wake_up_with_another_outcome_is_not_counted_as_wasted(queue, ending):
    queue.rejected("p", FIT)
    queue.wake(helps_all, LATER, "NodeAdd")
    woken = queue.pop(LATER)

    match ending:
        case "other plugins":
            queue.real.add_unschedulable(woken, PORTS, LATER)
        case "an error":
            queue.real.retry(woken, LATER)
        case "a preemption":
            queue.real.begin_preemption(woken, FIT, LATER)
        case "a node":
            queue.real.mark_assumed(woken, LATER)

    assert not queue.real.wasted_wakeups


def test_a_pod_that_no_event_woke_was_not_woken_for_nothing(queue):
    queue.rejected("p", FIT)
    queue.real.flush(T0)
    queue.real.flush(T0 + 400)

    queue.real.add_unschedulable(queue.pop(T0 + 400), FIT, T0 + 400)

    assert not queue.real.wasted_wakeups
