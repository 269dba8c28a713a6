"""Waiting pods of one equivalence set that the same plugins rejected.

An event that helps one pod of a set helps all of them, so hints are evaluated once for a set.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduler.model.api.objects import Pod
from scheduler.queue.queued_pod import QueuedPod

__all__ = ["ConcernCheck", "HintCheck", "WaitingSet", "WaitingSets", "WakeUp"]


class WaitingSet(NamedTuple):
    """Key of waiting pods that the same cluster events can help."""

    #: Plugins that rejected them in their last attempts; empty after an error.
    rejectors: frozenset[str]
    #: Of their equivalence set: one class, or several.
    key: bytes
    #: Whether victims that were evicted for them are still terminating.
    victims_terminating: bool


#: Returns the plugin whose hint says that an event can help a pod that these plugins rejected;
#: empty if there is none.
HintCheck = Callable[[Pod, frozenset[str]], str]
#: Returns whether any of these rejecting plugins is registered for an event.
ConcernCheck = Callable[[frozenset[str]], bool]


def _always(_rejectors: frozenset[str]) -> bool:
    return True


def _never(_set: WaitingSet, _pods: Mapping[str, QueuedPod]) -> bool:
    return False


def _never_singly(_pods: Mapping[str, QueuedPod]) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class WakeUp:
    """An event that may help waiting pods, and what decides which of them it moves."""

    #: Its name in metrics.
    event: str
    helped_by: HintCheck
    #: No hint is asked for sets none of whose rejectors is registered for the event.
    concerns: ConcernCheck = _always
    #: Whether it may help one pod of a set and not another, so that hints are asked for each pod.
    pod_specific: bool = False
    #: Returns whether the event certainly does not help the pods of a set, by uid.
    rules_out: Callable[[WaitingSet, Mapping[str, QueuedPod]], bool] = _never
    #: Returns whether the pods of a set, by uid, must be retried one by one.
    retry_each: Callable[[Mapping[str, QueuedPod]], bool] = _never_singly


@dataclass(slots=True)
class WaitingSets:
    """Waiting pods, by set and uid."""

    #: By rejectors first: most events concern few plugins.
    _sets: dict[frozenset[str], dict[WaitingSet, dict[str, QueuedPod]]] = field(
        default_factory=dict
    )

    def __bool__(self) -> bool:
        return bool(self._sets)

    def __iter__(self) -> Iterator[QueuedPod]:
        return (
            queued
            for sets in self._sets.values()
            for pods in sets.values()
            for queued in pods.values()
        )

    def concerned(self, wake_up: WakeUp) -> list[tuple[WaitingSet, Mapping[str, QueuedPod]]]:
        """Return the sets that an event concerns; none is empty."""
        concerned: list[tuple[WaitingSet, Mapping[str, QueuedPod]]] = []
        for rejectors, sets in self._sets.items():
            if wake_up.concerns(rejectors):
                concerned += sets.items()
        if not wake_up.pod_specific:
            return concerned
        return [part for waiting_set, pods in concerned for part in _parts(waiting_set, pods)]

    def of(self, waiting_set: WaitingSet) -> Mapping[str, QueuedPod]:
        """Return the pods of a set, by uid."""
        return self._sets.get(waiting_set.rejectors, {}).get(waiting_set, {})

    def follow(self, waiting_set: WaitingSet, like: QueuedPod) -> None:
        """Give the pods of a set the rejectors and the equivalence set of another pod."""
        if (waiting_set.rejectors, waiting_set.key) == (like.rejectors, like.equivalence_key):
            return
        for queued in [*self.of(waiting_set).values()]:
            self.pop(queued)
            queued.rejectors, queued.equivalence_key = like.rejectors, like.equivalence_key
            queued.reason = like.reason
            self.add(queued)

    def add(self, queued: QueuedPod) -> None:
        """Add a pod, whose set must not change while it is here."""
        sets = self._sets.setdefault(queued.rejectors, {})
        sets.setdefault(_set_of(queued), {})[queued.uid] = queued

    def pop(self, queued: QueuedPod) -> QueuedPod | None:
        """Remove and return a pod; `None` if it is not here."""
        sets = self._sets.get(queued.rejectors, {})
        pods = sets.get(waiting_set := _set_of(queued), {})
        removed = pods.pop(queued.uid, None)
        if removed is not None and not pods:
            del sets[waiting_set]
            if not sets:
                del self._sets[queued.rejectors]
        return removed


def _set_of(queued: QueuedPod) -> WaitingSet:
    return WaitingSet(queued.rejectors, queued.equivalence_key, queued.victims_terminating)


def _parts(
    waiting_set: WaitingSet, pods: Mapping[str, QueuedPod]
) -> Iterator[tuple[WaitingSet, Mapping[str, QueuedPod]]]:
    """Split a set into single pods, unless all of them are of one class."""
    first = next(iter(pods.values()))
    if waiting_set.key == first.key:
        yield waiting_set, pods
    else:
        for uid, queued in pods.items():
            yield waiting_set, {uid: queued}
