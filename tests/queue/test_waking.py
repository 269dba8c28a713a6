"""What the queue does with its pods, step by step: order, back-off, events, gates, preemptions."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from scheduler.queue.phases import QueuePhase
from scheduler.queue.scheduling_queue import QueuedPod
from tests.support.builders import PodBuilder, pod
from tests.support.queues import FIT, T0, Queue, class_of, helps_all, helps_none, only

PORTS = frozenset({"NodePorts"})
LATER = T0 + 60


@pytest.fixture
def queue() -> Queue:
    return Queue()


#: Each line is a step: a word, the names of pods, and the second if it is not 0. Some words:
#: `wake` is an event that helps these pods only; `own` a change of a pod that helps it, `idle` one
#: that does not; `gated` and `gates` add and change a pod with the gates behind its name; `end` and
#: `retry` end a preemption; `is` is what must be true then: a phase and its pods; `order` the pods
#: that are popped, in order. `class`, `other` and `group` are rejected pods of one equivalence
#: group; `alone` and the words with `reject` reject the next one, for itself or for all.
STEPS = {
    "a rejected pod waits for an event": """
        rejected p; flush @60; is unschedulable p
        wake @60; is unschedulable p; order @60""",
    "an event wakes the pods that it helps": """
        rejected a b c; wake a c @60; is active a c; is unschedulable b""",
    "a deleted pod is not woken": "rejected p; delete p; wake p @60; is gone p",
    "an own change that helps wakes the pod": "rejected p; own p @60; is active p",
    "an own change that does not help wakes no pod": """
        rejected p; idle p @60; is unschedulable p; wake p @60; is active p""",
    "a change of an active pod keeps its position": "add p q; own p; order p q",
    "a change of a pod in back-off does not shorten it": "failed p; own p; is backoff p",
    "a gated pod is not tried, and no event wakes it": """
        gated p a b; is gated p; order
        wake p @60; flush; flush @1000; is gated p
        gates p b; is gated p; gates p; is active p""",
    "a gate keeps a pod out that is woken": "rejected p; gates p a @60; is gated p",
    "a pod that no event wakes is tried after five minutes": """
        flush; rejected p @1; flush @30; flush @300; is unschedulable p; flush @331; is active p""",
    "the flush runs every thirty seconds": """
        flush; rejected p @-300.5; flush @29.9; is unschedulable p; flush @30; is active p""",
    "only pods that waited long enough are flushed": """
        flush; rejected old; rejected new @200; flush @310; is active old; is unschedulable new""",
    "a preemptor is not tried during its preemption": """
        held p; wake p @60; flush; flush @1000; is preempting p; order @1000""",
    "a preemptor waits for its victims after its preemption": """
        held p; end p @60; is unschedulable p; wake p @60; is active p""",
    "an event during the preemption is not lost": "held p; wake p; end p @60; is active p",
    "an event during the preemption that does not help changes nothing": """
        held p; wake; end p @60; is unschedulable p""",
    "an own change during the preemption is not lost": "held p; own p; end p @60; is active p",
    "a preemptor that is woken early still backs off": "held p; wake p; end p; is backoff p",
    "a preemptor that is to retry is active at once": "held p; retry p; is active p",
    "a preemptor whose preemption failed backs off and is tried again": """
        held p; break p; is backoff p; flush @2; is active p""",
    "a preemption cannot end twice": """
        held p; retry p @60; end p @60; break p @60; is active p""",
    "a preemptor can be deleted during its preemption": """
        held p; delete p; retry p; is gone p; order""",
    "a pod that is being bound is not tried": "bind p; wake p @60; is binding p; order @60",
    "a pod whose binding failed backs off": "bind p; unbind p; is backoff p; order",
    "the higher priority comes first": "add low:-1 high:2 none; order high none low",
    "of equal priority the pod that waits longer comes first": """
        add late @2; add early; order early late""",
    "of equal priority and time the first to arrive comes first": "add b c a; order b c a",
    "a pod that failed comes after equal pods that waited longer": """
        rejected first @2; add second @1; wake first @60; order second first @60""",
    "the time of a wake-up does not matter, the time of the failure does": """
        rejected old; rejected new @1; wake new @60; wake old @61; order old new @61""",
    "a pod whose priority changes moves": "add a:1 b:2; idle a:3; order a b",
    "a pod that is deleted is not popped": "add a b; delete a; delete a; is gone a; order b",
    "a woken pod waits until its back-off is over": """
        rejected p @0.5; wake p @0.6; is backoff p
        flush @1.9; is backoff p; flush @2; is active p""",
    "a pod whose back-off is over is active at once": "rejected p; wake p @2; is active p",
    "back-offs end in the order of their ends": """
        rejected later @1; rejected sooner; wake later sooner @1
        flush @2; is active sooner; is backoff later""",
    "without an active pod the next one in back-off is popped early": """
        rejected p; wake p; is backoff p; order p""",
    "with an active pod no pod is popped early": """
        rejected waiting; wake waiting; add active; order active waiting""",
    "of pods whose back-off ends together the higher priority comes first": """
        rejected low:1; rejected high:5; wake low high; order high low""",
    "a pod whose attempt was an error is never popped early, and needs no event": """
        failed p; is backoff p; order; flush @2; order p @2""",
    "one pod of a class is tried, and its rejection is valid for all": """
        class a b c; wake a b c @60; is active a; is unschedulable b c
        reject a @60; is unschedulable a b c; order @60; wake a b c @120; order b @120""",
    "each pod is tried where no rejection is valid for others": """
        class a b c; wake a b c @60; alone a @60; is active b; alone b @60; order c @60""",
    "an event before the attempt wakes no further pod": """
        class a b c; wake a b c @60; wake a b c @60; reject a @60; is unschedulable a b c""",
    "a follower that is woken otherwise is not tried twice": """
        class a b c; wake a b c @60; force b @60; assume a @60; order b c @60""",
    "each class has its own representative": """
        class a b; other c d; class e; wake a b c d e @60; order a c @60""",
    "a rejection can be valid for several classes": """
        group a b c; wake a b c @60; is unschedulable b c
        reject-group a @60; is unschedulable a b c; order @60""",
    "a rejection of one class says nothing about others": """
        group a b c; wake a b c @60; reject-own a @60; is active b; is unschedulable a c""",
    "a pod that changes later is alone in its class": """
        group a b c; wake a b c @60; reject-group a @60; idle b @60
        wake a b c @120; is unschedulable a; order b c @120""",
    "a deleted pod leaves the back-off": "failed a b; delete a; flush @2; order b @2",
}  # fmt: skip


def named(text: str, *gates: str) -> PodBuilder:
    name, _, priority = text.partition(":")
    made = pod(name).priority(int(priority)) if priority else pod(name)
    return made.gated(*gates)


def popped(queue: Queue, name: str, now: float) -> QueuedPod:
    queue.add(named(name), now=now)
    queued = queue.last[name.partition(":")[0]] = queue.pop(now)
    return queued


def end_preemption(queue: Queue, name: str, now: float, *, retry: bool) -> None:
    queue.real.end_preemption(queue.last[name], now, retry=retry)


def rejected_with(queue: Queue, name: str, now: float, **options: Any) -> None:
    queue.rejected(name, now=now, **options)


def next_of(queue: Queue, name: str, now: float) -> QueuedPod:
    """Pop the next pod, which must be this one."""
    queued = queue.pop(now)
    assert queued.pod.metadata.name == name
    return queued


def reject_again(
    queue: Queue, name: str, now: float, valid_for: Callable[[QueuedPod], bytes]
) -> None:
    queued = next_of(queue, name, now)
    queue.real.add_unschedulable(queued, FIT, now, equivalence_key=valid_for(queued))


#: What is done with each pod of a step.
EACH: dict[str, Callable[[Queue, str, float], object]] = {
    "add": lambda queue, name, now: queue.add(named(name), now=now),
    "rejected": lambda queue, name, now: queue.real.add_unschedulable(
        popped(queue, name, now), FIT, now
    ),
    "failed": lambda queue, name, now: queue.real.retry(popped(queue, name, now), now),
    "held": lambda queue, name, now: queue.real.begin_preemption(
        popped(queue, name, now), FIT, now
    ),
    "bind": lambda queue, name, now: queue.real.mark_assumed(popped(queue, name, now), now),
    "class": partial(rejected_with, group="class"),
    "other": partial(rejected_with, group="other"),
    "group": partial(rejected_with, equivalence_key=b"group"),
    "alone": partial(reject_again, valid_for=lambda queued: b""),
    "reject": partial(reject_again, valid_for=lambda queued: class_of("class")),
    "reject-own": partial(reject_again, valid_for=lambda queued: queued.key),
    "reject-group": partial(reject_again, valid_for=lambda queued: b"group"),
    "assume": lambda queue, name, now: queue.real.mark_assumed(next_of(queue, name, now), now),
    "force": lambda queue, name, now: queue.real.move_to_active_or_backoff(
        queue.real.get(f"uid:default/{name}"), now, "ForceActivate"
    ),
    "own": lambda queue, name, now: queue.update(named(name).label("a", "b"), helps_all, now),
    "idle": lambda queue, name, now: queue.update(named(name).label("a", "b"), helps_none, now),
    "delete": lambda queue, name, now: queue.real.delete(f"uid:default/{name}", now),
    "end": partial(end_preemption, retry=False),
    "retry": partial(end_preemption, retry=True),
    "break": lambda queue, name, now: queue.real.fail_preemption(queue.last[name], now),
    "unbind": lambda queue, name, now: queue.real.retry(queue.last[name], now),
}


def take(queue: Queue, step: str) -> None:
    words, _, second = step.partition("@")
    verb, *names = words.split()
    now = T0 + float(second or 0)
    if verb in EACH:
        for name in names:
            EACH[verb](queue, name, now)
    elif verb == "gated":
        queue.add(named(*names), now=now)
    elif verb == "gates":
        queue.update(named(*names), helps_all, now)
    elif verb == "wake":
        queue.wake(only(*names), now, "NodeAdd")
    elif verb == "flush":
        queue.real.flush(now)
    elif verb == "is":
        phase, *those = names
        want = None if phase == "gone" else QueuePhase(phase)
        assert queue.phases(those) == [want] * len(those), step
    else:
        assert verb == "order"
        assert queue.real.ready() == bool(names)
        assert queue.order(now) == names, step


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_step_by_step(queue, steps):
    for step in filter(None, map(str.strip, steps.replace("\n", ";").split(";"))):
        take(queue, step)
        queue.real.check()


# Hints


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


def test_a_change_of_one_pod_does_not_wake_others_of_its_class(queue):
    queue.rejected("p", group="class")
    queue.rejected("q", group="class")

    queue.update(pod("p"), helps_all, LATER)

    assert queue.phases("pq") == [QueuePhase.ACTIVE, QueuePhase.UNSCHEDULABLE]


def test_hints_see_a_change_that_woke_no_pod(queue):
    queue.rejected("p")
    queue.update(pod("p").label("a", "b"), helps_none, LATER)

    queue.wake(
        lambda waiting, _: "Any" if waiting.metadata.labels.get("a") == "b" else "",
        LATER,
        "NodeAdd",
    )

    assert queue.phase("p") is QueuePhase.ACTIVE


def test_a_flushed_pod_that_fails_again_is_no_longer_flushed(queue):
    queue.real.flush(T0)
    queue.rejected("p")
    queue.real.flush(T0 + 400)
    queued = queue.pop(T0 + 400)
    assert queued.flushed

    queue.real.add_unschedulable(queued, FIT, T0 + 400)

    assert not queued.flushed


# Wake-ups for nothing


def test_wake_ups_for_nothing_are_counted_by_plugin_and_first_event(queue):
    queue.rejected("p", FIT)
    for now in (LATER, LATER + 60):
        queue.wake(helps_all, now, "NodeAdd")
        queue.wake(helps_all, now, "AssignedPodDelete")
        queue.real.add_unschedulable(queue.pop(now), FIT, now)
    queue.update(pod("p").label("a"), helps_all, LATER + 120)
    queue.real.add_unschedulable(queue.pop(LATER + 120), FIT, LATER + 120)

    assert queue.real.wasted_wakeups == {
        ("NodeResourcesFit", "NodeAdd"): 2,
        ("NodeResourcesFit", "UnschedulablePodUpdate"): 1,
    }


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
