"""Pods that wait for the same: of one kin, rejected by the same plugins.

An event that helps one pod of a group helps each, so a group is judged once.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from scheduler.model.objects import Pod
from scheduler.state.queued_pod import QueuedPod

__all__ = ["Apart", "Group", "Groups", "Judge", "Spared"]


class Group(NamedTuple):
    """What pods have in common that are judged alike by every event but their own changes."""

    #: Plugins whose verdict their last attempts failed on; empty after an error.
    rejectors: frozenset[str]
    #: Their kin: of one class, or of several.
    key: bytes
    #: Whether room is being made for them: their victims leave, and are not gone yet.
    promised: bool


#: Names the plugin that says an event can help a pod that these plugins rejected; empty when none.
Judge = Callable[[Pod, frozenset[str]], str]
#: Tells of pods of a group, by uid, whether an event that could help them certainly does not.
Spared = Callable[[Group, Mapping[str, QueuedPod]], bool]
#: Tells of pods of a group, by uid, whether they are not judged alike after all.
Apart = Callable[[Mapping[str, QueuedPod]], bool]


class Groups:
    """Waiting pods, by group and uid."""

    def __init__(self) -> None:
        self._groups: Final[dict[Group, dict[str, QueuedPod]]] = {}

    def __bool__(self) -> bool:
        return bool(self._groups)

    def __iter__(self) -> Iterator[QueuedPod]:
        return (each for pods in self._groups.values() for each in pods.values())

    def groups(self, *, apart: bool = False) -> list[tuple[Group, Mapping[str, QueuedPod]]]:
        """Return the groups that there are now; none is empty.

        Args:
            apart: Whether to return each pod of a kin of several classes on its own.
        """
        groups: list[tuple[Group, Mapping[str, QueuedPod]]] = list(self._groups.items())
        if not apart:
            return groups
        return [each for group, pods in groups for each in _parts(group, pods)]

    def of(self, group: Group) -> Mapping[str, QueuedPod]:
        """Return the pods of a group, by uid."""
        return self._groups.get(group, {})

    def regroup(self, group: Group, like: QueuedPod) -> None:
        """Note that the pods of a group are rejected by the plugins that reject another one now."""
        if (group.rejectors, group.key) == (like.rejectors, like.kin):
            return
        for queued in self._groups.pop(group, {}).values():
            queued.rejectors, queued.kin = like.rejectors, like.kin
            self.add(queued)

    def add(self, queued: QueuedPod) -> None:
        """Take in a pod, which must not change its group while it is here."""
        self._groups.setdefault(_group(queued), {})[queued.uid] = queued

    def pop(self, queued: QueuedPod) -> QueuedPod | None:
        """Take out a pod; `None` if it is not here."""
        group = _group(queued)
        pods = self._groups.get(group, {})
        found = pods.pop(queued.uid, None)
        if found is not None and not pods:
            del self._groups[group]
        return found


def _group(queued: QueuedPod) -> Group:
    return Group(queued.rejectors, queued.kin, queued.promised)


def _parts(
    group: Group, pods: Mapping[str, QueuedPod]
) -> Iterator[tuple[Group, Mapping[str, QueuedPod]]]:
    first = next(iter(pods.values()))
    if group.key == first.key:
        yield group, pods
    else:
        for uid, queued in pods.items():
            yield group, {uid: queued}
