"""A cluster in memory whose effects and events wait until a test lets them happen."""

from collections import deque
from collections.abc import Callable, Iterable

from scheduler.core.machine import Machine
from scheduler.model.api.objects import Pod
from scheduler.model.effects import Effect, Evict, RecordEvent, SaveLedger
from scheduler.model.events import Event
from scheduler.sim.virtual_cluster import VirtualCluster
from tests.support.builders import EPOCH, PodBuilder

__all__ = ["LateCluster", "about"]


def about(effect: Effect) -> str:
    """Return the uid of the pod whose effects keep their order."""
    match effect:
        case Evict(victim=ref) | RecordEvent(regarding=ref):
            return ref.uid
        case SaveLedger():
            return "ledger"
        case _:
            return effect.pod.uid


class LateCluster(VirtualCluster):
    """A cluster in memory whose effects and events wait until a test lets them happen."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, float(EPOCH))
        #: Effects that were asked for and not done.
        self.waiting: list[Effect] = []
        #: What informers have not observed yet.
        self.news: deque[Event] = deque()
        #: How many objects were written.
        self.count = 0

    @property
    def now(self) -> float:
        return self.clock.now

    @now.setter
    def now(self, moment: float) -> None:
        self.clock.now = moment

    def put(self, pod: Pod) -> None:
        """Write a pod, with a new version."""
        self.count += 1
        super().put(PodBuilder(pod).version(self.count).build())

    def change(self, uid: str, how: Callable[[PodBuilder], PodBuilder]) -> None:
        """Change a pod, if it exists."""
        if uid in self.pods:
            self.put(how(PodBuilder(self.pods[uid])).build())

    def carry_out(self, effects: Iterable[Effect]) -> None:
        self.waiting += effects

    def next_effect(self, number: int) -> Effect | None:
        """Take an effect that no earlier one about the same pod stands before."""
        heads: dict[str, Effect] = {}
        for effect in self.waiting:
            heads.setdefault(about(effect), effect)
        if not heads:
            return None
        effect = list(heads.values())[number % len(heads)]
        self.waiting.remove(effect)
        return effect

    def _report(self, event: Event) -> None:
        self.news.append(event)

    def _bound(self, pod: Pod, node: str) -> Pod:
        return PodBuilder(pod).on(node).not_started().nominated("").build()
