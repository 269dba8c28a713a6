"""Waiting pods of one equivalence group that the same plugins rejected.

An event that helps one pod of a group helps all of them, so hints are evaluated once for a group.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from scheduler.model.api.objects import Pod
from scheduler.queue.queued_pod import QueuedPod

__all__ = ["ConcernCheck", "HintCheck", "WaitingGroup", "WaitingGroups", "WakeUp"]


class WaitingGroup(NamedTuple):
    """What waiting pods have in common if the same events help them, changes of their own aside."""

    #: Plugins that rejected them in their last attempts; empty after an error.
    rejectors: frozenset[str]
    #: Of their equivalence group: one class, or several.
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


def _never(_group: WaitingGroup, _pods: Mapping[str, QueuedPod]) -> bool:
    return False


def _never_singly(_pods: Mapping[str, QueuedPod]) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class WakeUp:
    """An event that may help waiting pods, and what decides which of them it moves."""

    #: Its name in metrics.
    event: str
    helped_by: HintCheck
    #: No hint is asked for groups none of whose rejectors is registered for the event.
    concerns: ConcernCheck = _always
    #: Whether it may help one pod of a group and not another, so that hints are asked for each pod.
    pod_specific: bool = False
    #: Returns whether the event certainly does not help the pods of a group, by uid.
    rules_out: Callable[[WaitingGroup, Mapping[str, QueuedPod]], bool] = _never
    #: Returns whether the pods of a group, by uid, must be retried one by one.
    retry_each: Callable[[Mapping[str, QueuedPod]], bool] = _never_singly


class WaitingGroups:
    """Waiting pods, by group and uid."""

    def __init__(self) -> None:
        #: By rejectors first: most events concern few plugins.
        self._groups: Final[dict[frozenset[str], dict[WaitingGroup, dict[str, QueuedPod]]]] = {}

    def __bool__(self) -> bool:
        return bool(self._groups)

    def __iter__(self) -> Iterator[QueuedPod]:
        return (
            queued
            for groups in self._groups.values()
            for pods in groups.values()
            for queued in pods.values()
        )

    def concerned(self, wake_up: WakeUp) -> list[tuple[WaitingGroup, Mapping[str, QueuedPod]]]:
        """Return the groups that an event concerns; none is empty."""
        concerned: list[tuple[WaitingGroup, Mapping[str, QueuedPod]]] = []
        for rejectors, groups in self._groups.items():
            if wake_up.concerns(rejectors):
                concerned += groups.items()
        if not wake_up.pod_specific:
            return concerned
        return [part for group, pods in concerned for part in _parts(group, pods)]

    def of(self, group: WaitingGroup) -> Mapping[str, QueuedPod]:
        """Return the pods of a group, by uid."""
        return self._groups.get(group.rejectors, {}).get(group, {})

    def regroup(self, group: WaitingGroup, like: QueuedPod) -> None:
        """Give the pods of a group the rejectors and the equivalence group of another pod."""
        if (group.rejectors, group.key) == (like.rejectors, like.group_key):
            return
        for queued in [*self.of(group).values()]:
            self.pop(queued)
            queued.rejectors, queued.group_key = like.rejectors, like.group_key
            queued.reason = like.reason
            self.add(queued)

    def add(self, queued: QueuedPod) -> None:
        """Add a pod, whose group must not change while it is here."""
        groups = self._groups.setdefault(queued.rejectors, {})
        groups.setdefault(_group(queued), {})[queued.uid] = queued

    def pop(self, queued: QueuedPod) -> QueuedPod | None:
        """Remove and return a pod; `None` if it is not here."""
        groups = self._groups.get(queued.rejectors, {})
        pods = groups.get(group := _group(queued), {})
        removed = pods.pop(queued.uid, None)
        if removed is not None and not pods:
            del groups[group]
            if not groups:
                del self._groups[queued.rejectors]
        return removed


def _group(queued: QueuedPod) -> WaitingGroup:
    return WaitingGroup(queued.rejectors, queued.group_key, queued.victims_terminating)


def _parts(
    group: WaitingGroup, pods: Mapping[str, QueuedPod]
) -> Iterator[tuple[WaitingGroup, Mapping[str, QueuedPod]]]:
    """Split a group into single pods, unless all of them are of one class."""
    first = next(iter(pods.values()))
    if group.key == first.key:
        yield group, pods
    else:
        for uid, queued in pods.items():
            yield group, {uid: queued}
