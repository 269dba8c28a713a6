"""Devices that preemptors wait for: other pods see them as allocated.

A preemptor is nominated to a node, and takes its devices only when its victims are gone and their
claims are deallocated. As its nomination keeps resources of the node for it, these nominations keep
devices. They count for pods of its priority or lower; more important pods may take the devices.
Pods that name a claim of a victim wait until it is deallocated, too: else they would keep it. And
pods that share a claim with a preemptor wait until it is allocated.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from scheduler.model.api.devices import Allocation

__all__ = ["DeviceNomination", "DeviceNominations"]


class DeviceNomination(NamedTuple):
    """The devices that one preemptor waits for."""

    node: str
    priority: int
    #: As they are expected, by uid of its claim.
    devices: Mapping[str, Allocation]
    #: Keys of the claims that its victims use, or have used, and that are still allocated.
    claims: frozenset[str]

    @property
    def allocations(self) -> tuple[Allocation, ...]:
        """The expected allocations."""
        return tuple(self.devices.values())


class DeviceNominations:
    """The nominations by uid of the preemptor."""

    def __init__(self, changed: Callable[[Allocation | None, Allocation | None], None]) -> None:
        """Begin without nominations.

        Args:
            changed: Takes an allocation that counts no more, and one that counts from now on.
        """
        self._changed: Final = changed
        self._by_uid: dict[str, DeviceNomination] = {}
        #: The preemptors, by uid, that wait for the deallocation of a claim, by its key; and those
        #: whose claim it is, by its uid.
        self._by_claim: dict[str, set[str]] = {}
        #: How many nominations have each priority.
        self._priorities: Counter[int] = Counter()
        self._by_promise: dict[str, set[str]] = {}

    def __iter__(self) -> Iterator[DeviceNomination]:
        return iter(self._by_uid.values())

    def __len__(self) -> int:
        return len(self._by_uid)

    def get(self, uid: str) -> DeviceNomination | None:
        """Return the nomination of a preemptor."""
        return self._by_uid.get(uid)

    def waiting_for(self, claim: str) -> list[str]:
        """Return the preemptors, by uid, that wait for the deallocation of a claim, by its key."""
        return sorted(self._by_claim.get(claim, ()))

    def keeps(self, claim: str, uid: str, priority: int) -> bool:
        """Return whether a claim, by its key, is to be deallocated before a pod may use it."""
        preemptors = self._by_claim.get(claim, set()) - {uid}
        return any(self._by_uid[each].priority >= priority for each in preemptors)

    def promises(self, claim: str, uid: str, priority: int) -> bool:
        """Return whether a claim, by its uid, will be allocated for another pod that needs it."""
        preemptors = self._by_promise.get(claim, set()) - {uid}
        return any(self._by_uid[each].priority >= priority for each in preemptors)

    def put(self, uid: str, nomination: DeviceNomination) -> None:
        """Add the nomination of a preemptor, in place of its former one."""
        former = self._by_uid.get(uid)
        self._by_uid[uid] = nomination
        self._index(uid, former, nomination)
        if former is None or former.devices != nomination.devices:
            for allocation in () if former is None else former.allocations:
                self._changed(allocation, None)
            for allocation in nomination.allocations:
                self._changed(None, allocation)

    def remove(self, uid: str) -> DeviceNomination | None:
        """Remove and return the nomination of a preemptor."""
        former = self._by_uid.pop(uid, None)
        self._index(uid, former, None)
        for allocation in () if former is None else former.allocations:
            self._changed(allocation, None)
        return former

    def _index(
        self, uid: str, former: DeviceNomination | None, now: DeviceNomination | None
    ) -> None:
        for nomination, change, sign in ((former, _remove, -1), (now, _add, +1)):
            if nomination is not None:
                self._priorities[nomination.priority] += sign
                if not self._priorities[nomination.priority]:
                    del self._priorities[nomination.priority]
                change(self._by_claim, nomination.claims, uid)
                change(self._by_promise, nomination.devices, uid)

    def open_to(self, uid: str, priority: int) -> Mapping[str, tuple[Allocation, ...]]:
        """Return what does not count for a pod, by node: its own devices, and less important ones.

        On other nodes that see the same devices, these count.
        """
        found: dict[str, tuple[Allocation, ...]] = {}
        if uid not in self._by_uid and min(self._priorities, default=priority) >= priority:
            return found
        for of, nomination in self._by_uid.items():
            if of == uid or nomination.priority < priority:
                node = nomination.node
                found[node] = (*found.get(node, ()), *nomination.allocations)
        return found


def _add(index: dict[str, set[str]], claims: Iterable[str], uid: str) -> None:
    for claim in claims:
        index.setdefault(claim, set()).add(uid)


def _remove(index: dict[str, set[str]], claims: Iterable[str], uid: str) -> None:
    for claim in claims:
        index[claim].remove(uid)
        if not index[claim]:
            del index[claim]
