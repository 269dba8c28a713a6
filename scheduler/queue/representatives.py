"""One pod is tried for all pods of its equivalence set that an event may help.

An event that helps one pod of an equivalence set helps all of them, and a rejection of one pod
can apply to all waiting pods of the set. So one pod, the representative, is tried first. The next
pod of the set is tried if the cluster had capacity for this one, or if its attempt proved nothing
about the others. An event therefore costs one attempt for each pod that it helps and one more,
instead of one for each waiting pod.

Differs from kube-scheduler, which tries all of them again.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from typing import Final

from scheduler.model.times import Seconds
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.queue.phases import QueuePhase
from scheduler.queue.queued_pod import QueuedPod
from scheduler.queue.waiting_sets import WaitingSet, WaitingSets

__all__ = ["NoLongerEquivalent", "Representative", "Representatives", "SetRetry", "Wake"]

#: How many followers are searched for one whose back-off is over.
_FRONT: Final = 16

#: Wakes a pod: the time, the event and the plugin whose hint says that the event helps.
Wake = Callable[[QueuedPod, Seconds, str, str], None]
#: Returns which of some unschedulable pods of one equivalence set do not belong to it any more.
NoLongerEquivalent = Callable[[Collection[QueuedPod]], list[QueuedPod]]


@dataclass(slots=True)
class SetRetry:
    """Why the pods of a set are tried again, and which of them were not tried yet."""

    plugin: str
    event: str
    #: Uids, in the order in which the pods were unschedulable.
    followers: deque[str]


@dataclass(slots=True)
class Representative:
    """The pod that is tried for an equivalence set, and which unschedulable pods depend on it."""

    uid: str = ""
    retries: dict[WaitingSet, SetRetry] = field(default_factory=dict)


@dataclass(slots=True)
class Representatives:
    """The representative of each equivalence set; the pods that follow it stay unschedulable."""

    _unschedulable: WaitingSets = field(compare=False)
    _backoff: PodBackoff = field(compare=False)
    _wake: Wake = field(compare=False)
    _no_longer_equivalent: NoLongerEquivalent = field(compare=False)
    #: By key of the equivalence set.
    _representatives: dict[bytes, Representative] = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[bytes, str]]:
        """Yield the key of each equivalence set with the uid of its representative."""
        return ((key, first.uid) for key, first in self._representatives.items())

    def follows_representative(self, queued: QueuedPod) -> bool:
        """Return whether a pod is tried after the representative of its equivalence set."""
        first = self._representatives.get(queued.equivalence_key)
        retries = () if first is None else first.retries.values()
        return any(queued.uid in retry.followers for retry in retries)

    def start(self, waiting_set: WaitingSet, plugin: str, event: str, now: Seconds) -> None:
        """Try the pods of a set again, after a representative that is tried already."""
        under_way = waiting_set.key in self._representatives
        first = self._representatives.setdefault(waiting_set.key, Representative())
        first.retries[waiting_set] = SetRetry(
            plugin, event, deque(self._unschedulable.of(waiting_set))
        )
        if not under_way:
            self._wake_next(waiting_set.key, now)

    def finish(
        self, queued: QueuedPod, key: bytes, now: Seconds, *, rejected: bool = False
    ) -> None:
        """Record that a pod was tried, or will not be; wake the next pod if it is needed.

        Args:
            queued: The pod; nothing happens unless it is a representative.
            key: Of the equivalence set that it was tried for.
            now: The time.
            rejected: Whether its rejection is valid for the whole equivalence set.
        """
        first = self._representatives.get(key)
        if first is None or first.uid != queued.uid:
            return
        if not rejected:
            self._wake_next(key, now)
            return
        del self._representatives[key]
        for waiting_set, retry in first.retries.items():
            for pod in self._no_longer_equivalent(self._unschedulable.of(waiting_set).values()):
                self._wake(pod, now, retry.event, retry.plugin)
            self._unschedulable.follow(waiting_set, queued)

    def _wake_next(self, key: bytes, now: Seconds) -> None:
        """Make the next pod of an equivalence set its representative, if there is one."""
        first = self._representatives[key]
        while first.retries:
            waiting_set, retry = next(iter(first.retries.items()))
            queued = self._next(self._unschedulable.of(waiting_set), retry.followers, now)
            if queued is None:
                del first.retries[waiting_set]
                continue
            first.uid = queued.uid
            self._wake(queued, now, retry.event, retry.plugin)
            if queued.phase is not QueuePhase.GATED:
                return
        del self._representatives[key]

    def _next(
        self, pods: Mapping[str, QueuedPod], followers: deque[str], now: Seconds
    ) -> QueuedPod | None:
        """Take the next follower: the first whose back-off is over, else the one it ends for first.

        Only the first `_FRONT` followers are searched.
        """
        while followers and followers[0] not in pods:
            followers.popleft()  # not unschedulable any more
        front = [pods[uid] for uid in islice(followers, _FRONT) if uid in pods]
        if not front:
            return None
        ready = (pod for pod in front if not self._backoff.is_waiting(pod.backoff_expiry, now))
        chosen = next(ready, None) or min(front, key=attrgetter("backoff_expiry"))
        followers.remove(chosen.uid)
        return chosen
