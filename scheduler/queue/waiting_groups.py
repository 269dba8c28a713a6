"""Pods that wait for the same: of one kin, rejected by the same plugins.

An event that helps one pod of a group helps each, so a group is judged once.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from scheduler.model.api.objects import Pod
from scheduler.queue.queued_pod import QueuedPod

__all__ = ["Hears", "Judge", "WaitingGroup", "WaitingGroups", "WakeUp"]


class WaitingGroup(NamedTuple):
    """What pods have in common that are judged alike by every event but their own changes."""

    #: Plugins whose verdict their last attempts failed on; empty after an error.
    rejectors: frozenset[str]
    #: Their kin: of one class, or of several.
    key: bytes
    #: Whether room is being made for them: their victims leave, and are not gone yet.
    victims_terminating: bool


#: Names the plugin that says an event can help a pod that these plugins rejected; empty when none.
Judge = Callable[[Pod, frozenset[str]], str]
#: Tells of rejecting plugins whether any of them hears of an event.
Hears = Callable[[frozenset[str]], bool]


def _every(_rejectors: frozenset[str]) -> bool:
    return True


def _certain(_group: WaitingGroup, _pods: Mapping[str, QueuedPod]) -> bool:
    return False


def _alike(_pods: Mapping[str, QueuedPod]) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class WakeUp:
    """An event that may help waiting pods, and all that decides which of them it moves."""

    #: What it is called in metrics.
    event: str
    helped_by: Judge
    #: Groups whose rejectors do not hear of it are not judged at all.
    concerns: Hears = _every
    #: Whether it may help one pod and not another of its group, so that each is judged by itself.
    pod_specific: bool = False
    #: Tells of pods of a group, by uid, whether the event certainly does not help them.
    rules_out: Callable[[WaitingGroup, Mapping[str, QueuedPod]], bool] = _certain
    #: Tells of pods of a group, by uid, whether one attempt does not speak for all of them.
    retry_each: Callable[[Mapping[str, QueuedPod]], bool] = _alike


class WaitingGroups:
    """Waiting pods, by group and uid."""

    def __init__(self) -> None:
        #: Also by rejectors: most events concern few plugins.
        self._groups: Final[dict[frozenset[str], dict[WaitingGroup, dict[str, QueuedPod]]]] = {}

    def __bool__(self) -> bool:
        return bool(self._groups)

    def __iter__(self) -> Iterator[QueuedPod]:
        return (
            each
            for groups in self._groups.values()
            for pods in groups.values()
            for each in pods.values()
        )

    def concerned(self, wake_up: WakeUp) -> list[tuple[WaitingGroup, Mapping[str, QueuedPod]]]:
        """Return the groups that hear of an event; none is empty."""
        found: list[tuple[WaitingGroup, Mapping[str, QueuedPod]]] = []
        for rejectors, groups in self._groups.items():
            if wake_up.concerns(rejectors):
                found += groups.items()
        if not wake_up.pod_specific:
            return found
        return [each for group, pods in found for each in _parts(group, pods)]

    def of(self, group: WaitingGroup) -> Mapping[str, QueuedPod]:
        """Return the pods of a group, by uid."""
        return self._groups.get(group.rejectors, {}).get(group, {})

    def regroup(self, group: WaitingGroup, like: QueuedPod) -> None:
        """Note that the pods of a group are rejected by the plugins that reject another one now."""
        if (group.rejectors, group.key) == (like.rejectors, like.group_key):
            return
        for queued in [*self.of(group).values()]:
            self.pop(queued)
            queued.rejectors, queued.group_key = like.rejectors, like.group_key
            self.add(queued)

    def add(self, queued: QueuedPod) -> None:
        """Take in a pod, which must not change its group while it is here."""
        groups = self._groups.setdefault(queued.rejectors, {})
        groups.setdefault(_group(queued), {})[queued.uid] = queued

    def pop(self, queued: QueuedPod) -> QueuedPod | None:
        """Take out a pod; `None` if it is not here."""
        groups = self._groups.get(queued.rejectors, {})
        pods = groups.get(group := _group(queued), {})
        found = pods.pop(queued.uid, None)
        if found is not None and not pods:
            del groups[group]
            if not groups:
                del self._groups[queued.rejectors]
        return found


def _group(queued: QueuedPod) -> WaitingGroup:
    return WaitingGroup(queued.rejectors, queued.group_key, queued.victims_terminating)


def _parts(
    group: WaitingGroup, pods: Mapping[str, QueuedPod]
) -> Iterator[tuple[WaitingGroup, Mapping[str, QueuedPod]]]:
    first = next(iter(pods.values()))
    if group.key == first.key:
        yield group, pods
    else:
        for uid, queued in pods.items():
            yield group, {uid: queued}
