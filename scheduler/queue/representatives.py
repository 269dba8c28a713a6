"""Who is tried for all pods of its kin that an event may help.

Pods of one kin are judged alike, so one attempt that fails speaks for all of them that wait. One
pod has its turn; the next one follows where the cluster had room for it, or where its attempt said
nothing about the others. So an event costs an attempt for each pod that it helps and one more, and
not one for each that waits.

Differs from kube-scheduler, which tries all of them again.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from typing import Final

from scheduler.model.times import Seconds
from scheduler.queue.backoff import PodBackoff
from scheduler.queue.phases import QueuePhase
from scheduler.queue.queued_pod import QueuedPod
from scheduler.queue.waiting_groups import WaitingGroup, WaitingGroups

__all__ = ["Representatives", "Strangers", "Wake"]

#: So many pods of a line are looked at for one whose back-off is over.
_FRONT: Final = 16

#: Wakes a pod: the time, the event and the plugin that saw hope in it.
Wake = Callable[[QueuedPod, Seconds, str, str], None]
#: Returns those of some parked pods of one kin that are not of it any more.
Strangers = Callable[[Collection[QueuedPod]], list[QueuedPod]]


@dataclass(frozen=True, slots=True)
class _Call:
    """Why the pods of a group are tried, and which of them were not yet."""

    plugin: str
    event: str
    #: Uids, in the order in which the pods came to wait.
    line: deque[str]


@dataclass(slots=True)
class _Trial:
    """A kin, while a pod of it is tried."""

    #: The uid of that pod.
    first: str = ""
    calls: dict[WaitingGroup, _Call] = field(default_factory=dict)


class Representatives:
    """Each kin of which a pod is tried for others. Those others stay parked."""

    def __init__(
        self, parked: WaitingGroups, backoff: PodBackoff, wake: Wake, strangers: Strangers
    ) -> None:
        self._parked = parked
        self._backoff = backoff
        self._wake = wake
        self._strangers = strangers
        self._trials: dict[bytes, _Trial] = {}

    def __iter__(self) -> Iterator[tuple[bytes, str]]:
        """Yield each kin with the uid of the pod that is tried for it."""
        return ((key, trial.first) for key, trial in self._trials.items())

    def follows_representative(self, queued: QueuedPod) -> bool:
        """Tell whether a pod is among those who follow in a trial of its kin."""
        trial = self._trials.get(queued.group_key)
        calls = () if trial is None else trial.calls.values()
        return any(queued.uid in call.line for call in calls)

    def call(self, group: WaitingGroup, plugin: str, event: str, now: Seconds) -> None:
        """Have the pods of a group tried; whoever is tried for its kin already comes first."""
        under_way = group.key in self._trials
        trial = self._trials.setdefault(group.key, _Trial())
        trial.calls[group] = _Call(plugin, event, deque(self._parked.of(group)))
        if not under_way:
            self._go_on(group.key, now)

    def tried(self, queued: QueuedPod, key: bytes, now: Seconds, *, rejected: bool = False) -> None:
        """Note that a pod was tried, or will not be; others may have waited for that.

        Args:
            queued: The pod.
            key: Of the kin that it was tried for.
            now: The time.
            rejected: Whether all others of that kin are rejected with it.
        """
        trial = self._trials.get(key)
        if trial is None or trial.first != queued.uid:
            return
        if not rejected:
            self._go_on(key, now)
            return
        del self._trials[key]
        for group, call in trial.calls.items():
            for each in self._strangers(self._parked.of(group).values()):
                self._wake(each, now, call.event, call.plugin)
            self._parked.regroup(group, queued)

    def _go_on(self, key: bytes, now: Seconds) -> None:
        """Wake the next pod of a kin, if there is one."""
        trial = self._trials[key]
        while trial.calls:
            group, call = next(iter(trial.calls.items()))
            queued = self._next(self._parked.of(group), call.line, now)
            if queued is None:
                del trial.calls[group]
                continue
            trial.first = queued.uid
            self._wake(queued, now, call.event, call.plugin)
            if queued.phase is not QueuePhase.GATED:
                return
        del self._trials[key]

    def _next(
        self, pods: Mapping[str, QueuedPod], line: deque[str], now: Seconds
    ) -> QueuedPod | None:
        """Take the next pod out of a line: one whose back-off is over, if one stands in front."""
        while line and line[0] not in pods:
            line.popleft()  # it went its own way
        front = [pods[uid] for uid in islice(line, _FRONT) if uid in pods]
        if not front:
            return None
        ready = (each for each in front if not self._backoff.waiting(each.backoff_expiry, now))
        chosen = next(ready, None) or min(front, key=attrgetter("backoff_expiry"))
        line.remove(chosen.uid)
        return chosen
