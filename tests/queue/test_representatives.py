"""One pod is tried for all pods of its equivalence set that an event may help."""

from collections.abc import Iterator

import pytest

from scheduler.model.classified_pod import ClassifiedPod
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.queue.phases import QueuePhase
from tests.support.builders import pod
from tests.support.queues import FIT, T0, Queue, class_of, helps_all, helps_none, only

BOTH = frozenset({"NodeResourcesFit", "NodePorts"})
LATER = T0 + 60
GROUP = "class"
KEY = class_of(GROUP)


@pytest.fixture
def queue() -> Iterator[Queue]:
    made = Queue()
    yield made
    made.real.check()


@pytest.fixture
def retried(queue) -> Queue:
    """A queue in which the first of three pods of a class is tried."""
    for name in "abc":
        queue.rejected(name, group=GROUP)
    queue.wake(helps_all, LATER, "NodeAdd")
    return queue


def test_all_pods_get_the_rejectors_of_the_representative(retried):
    retried.real.add_unschedulable(retried.pop(LATER), BOTH, LATER, equivalence_key=KEY)

    assert {queued.rejectors for queued in retried.real} == {BOTH}


def unschedulable(queue: Queue) -> list[str]:
    return [name for name in "abc" if queue.phase(name) is QueuePhase.UNSCHEDULABLE]


ENDS = {
    "is assumed": lambda queue: queue.real.mark_assumed(queue.pop(LATER), LATER),
    "is gone": lambda queue: queue.real.delete("uid:default/a", LATER),
    "is gone while it is tried": lambda queue: queue.real.delete(queue.pop(LATER).uid, LATER),
    "ends in an error": lambda queue: queue.real.retry(queue.pop(LATER), LATER),
    "preempts": lambda queue: queue.real.begin_preemption(queue.pop(LATER), FIT, LATER),
    "is rejected for itself": lambda queue: queue.real.add_unschedulable(
        queue.pop(LATER), FIT, LATER
    ),
    "is of another class now": lambda queue: queue.update(pod("a"), now=LATER),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_the_next_pod_is_tried_when_the_first_one(retried, end):
    end(retried)

    assert retried.phase("b") is QueuePhase.ACTIVE
    assert retried.phase("c") is QueuePhase.UNSCHEDULABLE


@pytest.mark.parametrize(
    ("now", "want"),
    [
        pytest.param(T0 + 15, QueuePhase.ACTIVE, id="has ended already"),
        pytest.param(T0 + 9, QueuePhase.BACKOFF, id="ends first"),
    ],
)
def test_the_next_representative_is_the_pod_whose_back_off(now, want):
    queue = Queue(PodBackoff(10, 100))
    queue.rejected("late", now=T0 + 9, group=GROUP)
    queue.rejected("early", now=T0, group=GROUP)

    queue.wake(helps_all, now, "NodeAdd")

    assert queue.phases(["late", "early"]) == [QueuePhase.UNSCHEDULABLE, want]


# Equivalence groups of several classes

ONE_GROUP = b"several classes"


@pytest.fixture
def grouped(queue) -> Queue:
    """A queue in which the first of three pods of three classes is tried."""
    for name in "abc":
        queue.rejected(name, equivalence_key=ONE_GROUP)
    queue.wake(helps_all, LATER, "NodeAdd")
    return queue


@pytest.mark.parametrize("name", ["retried", "grouped"])
def test_a_follower_that_changes_is_still_tried(name, request):
    queue = request.getfixturevalue(name)
    changed = ClassifiedPod(pod("b").label("new").build())

    queue.real.update(changed, LATER, helps_none, "UnschedulablePodUpdate")

    assert unschedulable(queue) == ["c"]
    queue.real.add_unschedulable(
        queue.pop(LATER), FIT, LATER, equivalence_key=ONE_GROUP if name == "grouped" else KEY
    )
    assert queue.order(LATER) == ["b"]


def test_a_pod_that_is_no_longer_equivalent_is_tried_by_itself():
    strange: set[str] = set()
    queue = Queue(
        no_longer_equivalent=lambda pods: [p for p in pods if p.pod.metadata.name in strange]
    )
    for name in "abc":
        queue.rejected(name, equivalence_key=ONE_GROUP)
    queue.wake(helps_all, LATER, "NodeAdd")
    strange.add("c")

    queue.real.add_unschedulable(queue.pop(LATER), FIT, LATER, equivalence_key=ONE_GROUP)

    assert queue.order(LATER) == ["c"]
    queue.real.check()


def test_pods_that_must_be_retried_separately_are_tried_one_by_one(queue):
    for name in "abc":
        queue.rejected(name, group=GROUP)

    queue.wake(helps_all, LATER, "NodeAdd", retry_each=lambda pods: "uid:default/b" in pods)

    assert queue.order(LATER) == ["a", "b", "c"]


def test_hints_about_a_pod_specific_event_are_asked_for_each_pod(grouped):
    grouped.real.add_unschedulable(grouped.pop(LATER), FIT, LATER, equivalence_key=ONE_GROUP)

    woken = grouped.wake(only("b"), LATER + 60, "PersistentVolumeClaimAdd", pod_specific=True)

    assert woken == 1
    assert unschedulable(grouped) == ["a", "c"]
