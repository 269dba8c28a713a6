"""The order of the queue, back-off, and removal."""

from collections.abc import Iterator

import pytest

from scheduler.model.classified_pod import ClassifiedPod
from scheduler.model.releases import V1_36, V1_37, Reference
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.queue.phases import QueuePhase
from scheduler.queue.scheduling_queue import SchedulingQueue
from tests.support.builders import pod
from tests.support.queues import FIT, NO_REJECTORS, T0, Queue, helps_all


@pytest.fixture
def queue() -> Iterator[Queue]:
    made = Queue()
    yield made
    made.real.check()


# Order


def test_a_pod_of_the_same_name_with_another_uid_is_another_pod(queue):
    queue.add(pod("p").uid("1"))
    queue.real.delete("1", T0)
    queue.add(pod("p").uid("2"))

    assert queue.pop().uid == "2"
    assert queue.real.pop(T0) is None


def test_pods_that_leave_without_a_turn_are_forgotten(queue):
    queue.add(pod("first").priority(9))
    for number in range(100):
        queue.add(pod(f"p-{number}").uid(f"{number}"))
        queue.real.delete(f"{number}", T0)

    for moment in (T0, T0 + 60.0):
        queue.real.flush(moment)

    assert len(queue.real._active._entries) == 1
    assert queue.pop().pod.metadata.name == "first"


def test_attempts_are_counted(queue):
    queue.add("p")

    for attempt in (1, 2, 3):
        queued = queue.pop(T0 + 20 * attempt)
        assert queued.attempts == attempt
        queue.real.add_unschedulable(queued, FIT, T0 + 20 * attempt)
        queue.wake(helps_all, T0 + 20 * attempt, "NodeAdd")


def test_the_first_time_in_the_active_queue_is_remembered(queue):
    queue.add("p", now=0.0)
    queued = queue.pop(5.0)
    queue.real.add_unschedulable(queued, FIT, 5.0)

    queue.wake(helps_all, 60.0, "NodeAdd")

    assert queued.first_active == 0.0


def test_lengths_are_by_queue(queue):
    queue.add("active", pod("gated").gated("a"))
    queue.rejected("waiting")
    queue.failed("erring")
    queue.held("held")

    assert queue.real.lengths() == {"active": 1, "backoff": 1, "unschedulable": 1, "gated": 2}
    assert len(queue.real) == 5
    assert sorted(queued.pod.metadata.name for queued in queue.real) == [
        "active", "erring", "gated", "held", "waiting",
    ]  # fmt: skip


# Back-off


def backed_off(queue: Queue, rejectors: list[frozenset[str]]) -> float:
    """Run attempts of a pod with these ends; return its back-off after the last, in seconds."""
    queue.add("p")
    now = T0
    for each in rejectors:
        queued = queue.pop(now)
        if each:
            queue.real.add_unschedulable(queued, each, now)
            queue.wake(helps_all, now, "NodeAdd")
        else:
            queue.real.retry(queued, now)
        waited = queued.backoff_expiry - now
        now += 100
        queue.real.flush(now)
    return waited


VERDICT, ERROR = FIT, NO_REJECTORS


@pytest.mark.parametrize(
    ("ends", "seconds"),
    [
        ([VERDICT], 1),
        ([VERDICT] * 2, 2),
        ([VERDICT] * 3, 4),
        ([VERDICT] * 4, 8),
        ([VERDICT] * 5, 10),
        ([VERDICT] * 9, 10),
        ([ERROR], 1),
        ([ERROR] * 3, 4),
        ([VERDICT, VERDICT, ERROR], 1),
        ([VERDICT, ERROR, ERROR], 2),
        ([ERROR, ERROR, ERROR, VERDICT], 1),
        ([VERDICT, ERROR, VERDICT], 2),
    ],
    ids=lambda each: (
        " ".join("v" if end else "e" for end in each) if isinstance(each, list) else ""
    ),
)
def test_verdicts_in_all_and_errors_in_a_row_decide_the_back_off(queue, ends, seconds):
    assert backed_off(queue, ends) == seconds


def test_the_back_off_can_be_switched_off():
    queue = Queue(PodBackoff(initial_seconds=1, max_seconds=0))
    queue.failed("p")

    assert queue.phase("p") is QueuePhase.ACTIVE


# The next wake-up


def test_without_waiting_pods_there_is_no_next_wakeup(queue):
    queue.add("p")

    assert queue.real.next_wakeup() is None


def test_the_next_wakeup_is_the_end_of_the_first_back_off(queue):
    queue.failed("late", now=T0 + 5)
    queue.failed("early", now=T0)

    assert queue.real.next_wakeup() == T0 + 2
    queue.real.flush(T0 + 2)
    assert queue.phase("early") is QueuePhase.ACTIVE


def test_the_next_wakeup_for_unschedulable_pods_is_the_next_flush(queue):
    queue.real.flush(T0)
    queue.rejected("p")

    assert queue.real.next_wakeup() == T0 + 30


class Door:
    """A gate that opens and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked, self.open = 0, False

    def __call__(self, _pod: object) -> str | None:
        self.asked += 1
        return None if self.open else "Door"


def behind(door: Door, reference: Reference) -> SchedulingQueue:
    queue = SchedulingQueue(PodBackoff(), door, reference=reference)
    queue.flush(T0)
    queue.add(ClassifiedPod(pod("p").build()), T0, "UnscheduledPodAdd")
    return queue


def test_v1_37_checks_the_gates_of_a_pod_after_five_minutes():
    door = Door()
    queue = behind(door, V1_37)
    assert queue.next_wakeup() == T0 + 30
    queue.flush(T0 + 290)
    assert door.asked == 1

    queue.flush(T0 + 330)
    assert (door.asked, queue.active()) == (2, False)
    queue.flush(T0 + 600)
    assert door.asked == 2

    door.open = True
    queue.flush(T0 + 660)
    assert queue.active()
    assert queue.incoming["active", "UnschedulableTimeout"] == 1
    queue.check()


def test_v1_36_does_not_check_gates_again():
    door = Door()
    queue = behind(door, V1_36)

    queue.flush(T0 + 10_000)

    assert (door.asked, queue.next_wakeup()) == (1, None)


def test_a_deleted_pod_is_not_checked_again():
    door = Door()
    queue = behind(door, V1_37)

    queue.delete(pod("p").build().uid, T0)
    queue.flush(T0 + 1000)

    assert door.asked == 1


def test_moves_are_counted_by_event(queue):
    queue.add("a", pod("gated").gated("x"))
    queue.rejected("b")
    queue.wake(helps_all, T0, "NodeAdd")
    queue.real.flush(T0 + 5)

    assert dict(queue.real.incoming) == {
        ("active", "UnschedulablePodAdd"): 2,
        ("gated", "UnschedulablePodAdd"): 1,
        ("unschedulable", "ScheduleAttemptFailure"): 1,
        ("backoff", "NodeAdd"): 1,
        ("active", "BackoffComplete"): 1,
    }


def test_the_invariants_are_really_checked():
    queue = Queue()
    queue.add("p")
    queue.real._active.pop()

    with pytest.raises(AssertionError):
        queue.real.check()
