"""Devices that preemptors wait for: other pods see them as allocated.

A preemptor is nominated to a node, and takes its devices only when its victims are gone and their
claims are deallocated. As its nomination keeps resources of the node for it, these nominations keep
devices. They count for pods of its priority or lower; more important pods may take the devices.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from scheduler.model.api.devices import Allocation

__all__ = ["DeviceNomination", "DeviceNominations"]


class DeviceNomination(NamedTuple):
    """The devices that one preemptor waits for."""

    node: str
    priority: int
    #: As they are expected, one for each of its claims.
    allocations: tuple[Allocation, ...]
    #: Whether claims that its victims use, or have used, are still allocated.
    awaits_claims: bool


class DeviceNominations:
    """The nominations by uid of the preemptor."""

    def __init__(self, changed: Callable[[Allocation | None, Allocation | None], None]) -> None:
        """Begin without nominations.

        Args:
            changed: Takes an allocation that counts no more, and one that counts from now on.
        """
        self._changed: Final = changed
        self._by_uid: dict[str, DeviceNomination] = {}

    def __iter__(self) -> Iterator[DeviceNomination]:
        return iter(self._by_uid.values())

    def __len__(self) -> int:
        return len(self._by_uid)

    def get(self, uid: str) -> DeviceNomination | None:
        """Return the nomination of a preemptor."""
        return self._by_uid.get(uid)

    def put(self, uid: str, nomination: DeviceNomination) -> None:
        """Add the nomination of a preemptor, in place of its former one."""
        former = self._by_uid.get(uid)
        self._by_uid[uid] = nomination
        if former is None or former.allocations != nomination.allocations:
            for allocation in () if former is None else former.allocations:
                self._changed(allocation, None)
            for allocation in nomination.allocations:
                self._changed(None, allocation)

    def remove(self, uid: str) -> DeviceNomination | None:
        """Remove and return the nomination of a preemptor."""
        former = self._by_uid.pop(uid, None)
        for allocation in () if former is None else former.allocations:
            self._changed(allocation, None)
        return former

    def open_to(self, uid: str, priority: int) -> Mapping[str, tuple[Allocation, ...]]:
        """Return what does not count for a pod, by node: its own devices, and less important ones.

        On other nodes that see the same devices, these count.
        """
        found: dict[str, tuple[Allocation, ...]] = {}
        for of, nomination in self._by_uid.items():
            if of == uid or nomination.priority < priority:
                node = nomination.node
                found[node] = (*found.get(node, ()), *nomination.allocations)
        return found
