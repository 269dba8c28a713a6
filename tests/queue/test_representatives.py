"""One pod is tried for all of its class that an event may help."""

from collections.abc import Iterator

import pytest

from scheduler.model.classified_pod import ClassifiedPod
from scheduler.queue.backoff import PodBackoff
from scheduler.queue.phases import QueuePhase
from tests.support.builders import pod
from tests.support.queues import FIT, T0, Queue, class_of, everybody, nobody, only

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
def called(queue) -> Queue:
    """A queue in which the first of three pods of a class has its turn."""
    for name in "abc":
        queue.rejected(name, group=GROUP)
    queue.wake(everybody, LATER, "NodeAdd")
    return queue


def parked(queue: Queue) -> list[str]:
    return [name for name in "abc" if queue.phase(name) is QueuePhase.UNSCHEDULABLE]


def test_one_of_a_class_has_its_turn(called):
    assert called.phase("a") is QueuePhase.ACTIVE
    assert parked(called) == ["b", "c"]


def test_who_is_rejected_for_all_leaves_the_others_where_they_are(called):
    called.real.reject(called.pop(LATER), FIT, LATER, group_key=KEY)

    assert parked(called) == ["a", "b", "c"]
    assert not called.real.ready()


def test_all_are_rejected_by_what_rejected_the_one(called):
    called.real.reject(called.pop(LATER), BOTH, LATER, group_key=KEY)

    def about_ports(_, rejectors):
        return "NodePorts" if rejectors == BOTH else ""

    assert called.wake(about_ports, LATER, "AssignedPodDelete") == 3


def test_the_next_event_begins_anew(called):
    called.real.reject(called.pop(LATER), FIT, LATER, group_key=KEY)

    called.wake(everybody, LATER + 60, "NodeAdd")

    assert called.order(LATER + 60) == ["b"]


ENDS = {
    "is assumed": lambda queue: queue.real.mark_assumed(queue.pop(LATER), LATER),
    "is gone": lambda queue: queue.real.drop("uid:default/a", LATER),
    "is gone while it is tried": lambda queue: queue.real.drop(queue.pop(LATER).uid, LATER),
    "ends in an error": lambda queue: queue.real.retry(queue.pop(LATER), LATER),
    "preempts": lambda queue: queue.real.begin_preemption(queue.pop(LATER), FIT, LATER),
    "is rejected for itself": lambda queue: queue.real.reject(queue.pop(LATER), FIT, LATER),
    "is of another class now": lambda queue: queue.update(pod("a"), now=LATER),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_the_next_one_has_its_turn_when_the_first(called, end):
    end(called)

    assert called.phase("b") is QueuePhase.ACTIVE
    assert called.phase("c") is QueuePhase.UNSCHEDULABLE


def test_each_has_one_turn_where_nobody_speaks_for_others(called):
    names = []
    while called.real.ready():
        names.append((queued := called.pop(LATER)).pod.metadata.name)
        called.real.reject(queued, FIT, LATER)

    assert names == ["a", "b", "c"]


def test_who_went_its_own_way_has_no_second_turn(called):
    called.real.wake_pod(called.real.get("uid:default/b"), LATER, "ForceActivate")
    called.real.mark_assumed(called.pop(LATER), LATER)

    assert called.order(LATER) == ["b", "c"]


def test_an_event_meanwhile_is_covered_by_the_attempt_that_is_to_come(called):
    called.wake(everybody, LATER, "NodeAdd")
    assert parked(called) == ["b", "c"]

    called.real.reject(called.pop(LATER), FIT, LATER, group_key=KEY)

    assert not called.real.ready()


def test_pods_that_are_judged_apart_are_tried_one_by_one(queue):
    for name in "abc":
        queue.rejected(name, group=GROUP)

    queue.wake(everybody, LATER, "NodeAdd", retry_each=lambda pods: "uid:default/b" in pods)

    assert queue.order(LATER) == ["a", "b", "c"]


def test_each_class_has_a_trial_of_its_own(queue):
    for name, group in zip("abcde", (GROUP, GROUP, "other", "other", GROUP), strict=True):
        queue.rejected(name, group=group)

    queue.wake(everybody, LATER, "NodeAdd")

    assert queue.order(LATER) == ["a", "c"]


@pytest.mark.parametrize(
    ("now", "want"),
    [
        pytest.param(T0 + 15, QueuePhase.ACTIVE, id="has ended already"),
        pytest.param(T0 + 9, QueuePhase.BACKOFF, id="ends first"),
    ],
)
def test_the_next_one_is_the_one_whose_back_off(now, want):
    queue = Queue(PodBackoff(10, 100))
    queue.rejected("late", now=T0 + 9, group=GROUP)
    queue.rejected("early", now=T0, group=GROUP)

    queue.wake(everybody, now, "NodeAdd")

    assert queue.phases(["late", "early"]) == [QueuePhase.UNSCHEDULABLE, want]


# Kin of several classes

KIN = b"kin"


@pytest.fixture
def kindred(queue) -> Queue:
    """A queue in which the first of three pods of three classes has its turn."""
    for name in "abc":
        queue.rejected(name, group_key=KIN)
    queue.wake(everybody, LATER, "NodeAdd")
    return queue


def test_one_of_several_classes_has_its_turn_and_speaks_for_all(kindred):
    assert parked(kindred) == ["b", "c"]

    kindred.real.reject(kindred.pop(LATER), BOTH, LATER, group_key=KIN)

    assert parked(kindred) == ["a", "b", "c"]
    assert {queued.rejectors for queued in kindred.real} == {BOTH}


def test_who_is_rejected_for_its_class_speaks_for_no_other(kindred):
    first = kindred.pop(LATER)
    kindred.real.reject(first, BOTH, LATER, group_key=first.key)

    assert kindred.phase("b") is QueuePhase.ACTIVE
    assert {queued.rejectors for queued in kindred.real} == {FIT, BOTH}


@pytest.mark.parametrize("name", ["called", "kindred"])
def test_who_changes_while_others_come_first_has_its_turn(name, request):
    queue = request.getfixturevalue(name)
    changed = ClassifiedPod(pod("b").label("new").build())

    queue.real.update(changed, LATER, nobody, "UnschedulablePodUpdate")

    assert parked(queue) == ["c"]
    queue.real.reject(queue.pop(LATER), FIT, LATER, group_key=KIN if name == "kindred" else KEY)
    assert queue.order(LATER) == ["b"]


def test_who_changes_later_is_of_its_class_alone(kindred):
    kindred.real.reject(kindred.pop(LATER), FIT, LATER, group_key=KIN)
    changed = ClassifiedPod(pod("b").label("new").build())
    kindred.real.update(changed, LATER, nobody, "UnschedulablePodUpdate")

    kindred.wake(everybody, LATER + 60, "NodeAdd")

    assert parked(kindred) == ["a"]
    assert kindred.order(LATER + 60) == ["b", "c"]


def test_an_event_about_a_name_is_judged_for_each(kindred):
    kindred.real.reject(kindred.pop(LATER), FIT, LATER, group_key=KIN)

    woken = kindred.wake(only("b"), LATER + 60, "PersistentVolumeClaimAdd", pod_specific=True)

    assert woken == 1
    assert parked(kindred) == ["a", "c"]


def test_who_is_not_of_its_kin_any_more_is_tried_for_itself():
    strange: set[str] = set()
    queue = Queue(
        strangers=lambda pods: [each for each in pods if each.pod.metadata.name in strange]
    )
    for name in "abc":
        queue.rejected(name, group_key=KIN)
    queue.wake(everybody, LATER, "NodeAdd")
    strange.add("c")

    queue.real.reject(queue.pop(LATER), FIT, LATER, group_key=KIN)

    assert queue.order(LATER) == ["c"]
    queue.real.check()
