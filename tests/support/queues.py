"""A scheduling queue for tests, with pods by name and without real classes or plugins."""

from collections.abc import Iterable
from typing import Any

from scheduler.model.api.objects import Pod
from scheduler.model.classified_pod import ClassifiedPod
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.queue.phases import QueuePhase
from scheduler.queue.representatives import NoLongerEquivalent
from scheduler.queue.scheduling_queue import QueuedPod, SchedulingQueue
from scheduler.queue.waiting_sets import HintCheck, WakeUp
from tests.support.builders import PodBuilder, pod

T0 = 1000.0
FIT = frozenset({"NodeResourcesFit"})
NO_REJECTORS: frozenset[str] = frozenset()


def gate(waiting: Pod) -> str | None:
    """Keep pods with scheduling gates out."""
    return "SchedulingGates" if waiting.spec.scheduling_gates else None


def helps_all(_pod: Pod, rejectors: frozenset[str]) -> str:
    """Return a plugin: the event helps every pod."""
    return min(rejectors, default="*")


def helps_none(_pod: Pod, _rejectors: frozenset[str]) -> str:
    """Return no plugin: the event helps no pod."""
    return ""


def only(*names: str) -> HintCheck:
    """Return a hint that an event helps these pods only."""

    def judge(waiting: Pod, rejectors: frozenset[str]) -> str:
        return helps_all(waiting, rejectors) if waiting.metadata.name in names else ""

    return judge


def class_of(group: str) -> bytes:
    """Return the key of the class of pods that were added as members of a group."""
    return _in_class(pod(group), group).key


def _in_class(builder: PodBuilder, group: str = "") -> ClassifiedPod:
    """Return a pod in the class of a group, or in a class of its own."""
    return ClassifiedPod(builder.label("group", group or builder.object.metadata.name).build())


class Queue:
    """The real queue, with pods addressed by name."""

    def __init__(self, backoff: PodBackoff | None = None, **options: NoLongerEquivalent) -> None:
        self.real = SchedulingQueue(backoff or PodBackoff(), gate, **options)
        #: Pods by name as a test saw them last.
        self.last: dict[str, QueuedPod] = {}

    def add(self, *wanted: str | PodBuilder, now: float = T0, group: str = "") -> None:
        for item in wanted:
            builder = pod(item) if isinstance(item, str) else item
            self.real.add(_in_class(builder, group), now, "UnschedulablePodAdd")

    def update(self, builder: PodBuilder, judge: HintCheck = helps_none, now: float = T0) -> None:
        self.real.update(_in_class(builder), now, judge, "UnschedulablePodUpdate")

    def wake(self, judge: HintCheck, now: float, event: str, **options: Any) -> int:
        """Report an event that helps the pods a hint selects."""
        return self.real.move_all_to_active_or_backoff(WakeUp(event, judge, **options), now)

    def pop(self, now: float = T0) -> QueuedPod:
        queued = self.real.pop(now)
        assert queued is not None
        return queued

    def rejected(
        self,
        name: str,
        rejectors: frozenset[str] = FIT,
        now: float = T0,
        *,
        equivalence_key: bytes = b"",
        **options: str,
    ) -> None:
        """Add a rejected pod, and with a key all of its equivalence set."""
        self.add(name, now=now, **options)
        self.real.add_unschedulable(self.pop(now), rejectors, now, equivalence_key=equivalence_key)

    def held(self, name: str, now: float = T0) -> QueuedPod:
        """Add a pod whose preemption is being carried out."""
        self.add(name, now=now)
        queued = self.pop(now)
        self.real.begin_preemption(queued, FIT, now)
        return queued

    def failed(self, name: str, now: float = T0) -> None:
        """Add a pod whose attempt was an error."""
        self.add(name, now=now)
        self.real.retry(self.pop(now), now)

    def phase(self, name: str) -> QueuePhase | None:
        queued = self.real.get(f"uid:default/{name}")
        return None if queued is None else queued.phase

    def phases(self, names: Iterable[str]) -> list[QueuePhase | None]:
        return [self.phase(name) for name in names]

    def order(self, now: float = T0) -> list[str]:
        """Pop until nothing is left; return the names."""
        names = []
        while (queued := self.real.pop(now)) is not None:
            names.append(queued.pod.metadata.name)
        return names
