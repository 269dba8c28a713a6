"""Events while many preemptors wait for their victims, at 30,000 pods."""

import itertools
from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import replace

from scheduler.core.machine import Machine
from scheduler.model.api.objects import Pod
from scheduler.model.decisions import Preempting
from scheduler.model.effects import Effect, Evict
from scheduler.model.events import EffectDone, PodGone, PodObserved
from tests.perf.core_cases import STARTED, Case, machine
from tests.perf.policy_cases import NODES, NOW, PODS, in_flight, running_pod, wanting

__all__ = ["CASES", "full"]

#: Preemptors that wait; no two are equal.
WAITING: Final = 1000


def full() -> Machine:
    """Return a machine with 5,000 nodes of six pods each."""
    made = machine(NODES)
    for index in range(NODES * PODS):
        made.observe(PodObserved(running_pod(index)), NOW)
    return made


def _own_class(serial: int) -> Pod:
    """Return a preemptor with a label that no other one has."""
    made = wanting(serial)
    return replace(made, metadata=replace(made.metadata, labels={"own": str(serial)}))


def _preempt(made: Machine, preemptor: Pod) -> list[Evict]:
    """Let a pod preempt; all its effects succeed. Return its evictions."""
    made.observe(PodObserved(preemptor), NOW)
    attempt = made.step(NOW)
    assert attempt is not None
    assert isinstance(attempt.decision, Preempting), attempt.decision
    effects: list[Effect] = list(attempt.effects)
    for effect in effects:
        # What an outcome asks for follows.
        effects.extend(made.observe(EffectDone(effect), NOW).effects)
    return [each for each in effects if isinstance(each, Evict)]


def _ends() -> Callable[[int], None]:
    """Return what observes how victims terminate and end, each that of another preemptor."""
    made = full()
    first = [_preempt(made, _own_class(serial))[0] for serial in range(WAITING)]
    terminating = iter(first)

    def observe(count: int) -> None:
        for effect in itertools.islice(terminating, count):
            victim = made.cluster.find_pod(effect.victim.uid)
            assert victim is not None
            metadata = replace(victim.metadata, deletion_timestamp=STARTED)
            made.observe(PodObserved(replace(victim, metadata=metadata)), NOW)
            made.observe(PodGone(victim.key, victim.uid), NOW)
            assert made.cluster.find_pod(victim.uid) is None

    return observe


def _beside_evictions() -> Callable[[int], None]:
    """Return what observes how pods change while evictions are in flight under a policy."""
    made = full()
    in_flight(made)
    serial = itertools.count(1)

    def observe(count: int) -> None:
        for number in itertools.islice(serial, count):
            pod = running_pod(number % (NODES * PODS))
            metadata = replace(pod.metadata, labels={"app": str(number)})
            made.observe(PodObserved(replace(pod, metadata=metadata)), NOW)
        assert len(made.policies.in_flight) > 0

    return observe


CASES: Final[Mapping[str, Case]] = {
    "the end of a victim, 1000 preemptors of their own classes, 30000 pods": Case(_ends, 1),
    "a changed pod, 400 in flight, 30000 pods": Case(_beside_evictions, 200),
}
