"""What a search has taken so far, and what is left for it.

Source: dynamic-resource-allocation v0.36.3 structured/internal/incubating.allocateDevice,
checkAvailableCounters. Differs: counters belong to a pool of one driver, as in v0.37.2.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from scheduler.plugins.dynamic_resources.capacity import Consumption, consumption, is_simple
from scheduler.plugins.dynamic_resources.claim_demand import ClaimDemand, Want
from scheduler.plugins.dynamic_resources.constraints import ConstraintState
from scheduler.state.devices.devices import Devices
from scheduler.state.devices.pools import NodePool
from scheduler.state.devices.slices import DeviceEntry, PoolId
from scheduler.state.devices.usage import DeviceId

__all__ = ["ConstraintViolatedError", "TakenDevice", "Taking", "Undo"]


class ConstraintViolatedError(Exception):
    """A device must be taken, and a constraint of the claim forbids it."""


class TakenDevice(NamedTuple):
    """A device that the search has taken for a request."""

    want: Want
    entry: DeviceEntry
    #: What it consumes of a shared device; `None` for others.
    consumed: Consumption | None


class Undo(NamedTuple):
    """What is needed to give a device back."""

    pool: NodePool
    entry: DeviceEntry
    constraints: tuple[ConstraintState, ...]
    #: Whether it consumes counters.
    counted: bool


class Taking:
    """The devices that one search has taken, claim by claim."""

    def __init__(self, claims: Sequence[ClaimDemand], devices: Devices) -> None:
        self._devices = devices
        self._usage = devices.usage
        self._reference = devices.reference
        #: The devices of each claim, in the order in which they were taken.
        self.taken: list[list[TakenDevice]] = [[] for _ in claims]
        self._constraints = [
            [ConstraintState(constraint) for constraint in claim.constraints] for claim in claims
        ]
        #: The claims that have taken a device alone.
        self._holders: dict[DeviceId, set[int]] = {}
        #: What each share of a shared device consumes.
        self._shares: dict[DeviceId, list[Consumption]] = {}
        self._consumed: dict[PoolId, dict[tuple[str, str], int]] = {}
        self._available: dict[PoolId, dict[tuple[str, str], int]] = {}

    def is_in_use(self, index: int, want: Want, entry: DeviceEntry) -> bool:
        """Return whether a claim cannot have a device because it is taken.

        With admin access only devices of the same claim are out of reach.
        """
        holders = self._holders.get(entry.id)
        if want.admin:
            return holders is not None and index in holders
        return bool(holders) or self._usage.is_taken(entry.id)

    def twin(self, want: Want, pool: NodePool, entry: DeviceEntry) -> Hashable:
        """Return what is equal for devices that would fail in the same way; `None` for none."""
        if entry.shared:
            return None
        unreachable = entry.id in pool.unreachable
        if not want.admin:
            # Most are reachable; a pool may have 100,000 devices that have no twin.
            return (entry.twin, unreachable) if unreachable else entry.twin
        holders = tuple(sorted(self._holders.get(entry.id, ())))
        return (entry.twin, unreachable, self._usage.is_taken(entry.id), holders)

    def has_capacity(self, want: Want, entry: DeviceEntry) -> bool:
        """Return whether a device has what a request needs while it is unused.

        Raises:
            CapacityError: The capacity cannot be computed.
        """
        return self._consumption(want, entry, ()) is not None

    def take(
        self, index: int, want: Want, pool: NodePool, entry: DeviceEntry, *, must: bool
    ) -> Undo | None:
        """Take a device for a request of a claim; `None` if that is not possible.

        Args:
            index: Of the claim.
            want: The request.
            pool: Of the device.
            entry: The device.
            must: Whether it has to be this device. Constraints are checked before the capacity
                then, because their refusal is an error.

        Raises:
            ConstraintViolatedError: It has to be this device, and a constraint forbids it.
            CapacityError: The capacity cannot be computed.
        """
        if must and not entry.shared and self.is_in_use(index, want, entry):
            return None
        if entry.shared and not want.admin and self._usage.is_taken(entry.id):
            return None
        consumed = None if must else self._consumption(want, entry, self._used(entry))
        if consumed is None and not must:
            return None
        counted = bool(entry.counters) and not self._is_shared_already(entry)
        if counted and not self._consume(pool, entry):
            return None
        added = self._constrain(index, want, entry, must=must)
        if added is not None and must:
            consumed = self._consumption(want, entry, self._used(entry))
        if added is None or consumed is None:
            self._undo(Undo(pool, entry, added or (), counted))
            return None
        if entry.shared:
            self._shares.setdefault(entry.id, []).append(consumed)
        else:
            self._holders.setdefault(entry.id, set()).add(index)
        taken = TakenDevice(want, entry, consumed if entry.shared else None)
        self.taken[index].append(taken)
        return Undo(pool, entry, added, counted)

    def give_back(self, index: int, undo: Undo) -> None:
        """Give back the device that a claim has taken last."""
        self.taken[index].pop()
        entry = undo.entry
        if entry.shared:
            shares = self._shares[entry.id]
            shares.pop()
            if not shares:
                del self._shares[entry.id]
        else:
            self._holders[entry.id].discard(index)
        self._undo(undo)

    def _undo(self, undo: Undo) -> None:
        for constraint in reversed(undo.constraints):
            constraint.remove()
        if undo.counted:
            self._release(undo.pool, undo.entry)

    def _used(self, entry: DeviceEntry) -> tuple[Mapping[str, int], ...]:
        """Return what is consumed of a shared device, by others and in this search."""
        if not entry.shared:
            return ()
        return (self._usage.consumed(entry.id), *self._own(entry))

    def _own(self, entry: DeviceEntry) -> Iterator[Mapping[str, int]]:
        for share in self._shares.get(entry.id, ()):
            yield {name: amount.nano for name, amount in share.items()}

    def _is_shared_already(self, entry: DeviceEntry) -> bool:
        return entry.shared and (entry.id in self._shares or self._usage.is_shared(entry.id))

    def _consumption(
        self, want: Want, entry: DeviceEntry, used: tuple[Mapping[str, int], ...]
    ) -> Consumption | None:
        """Return what a request consumes of a device; `None` if the device does not have it."""
        if not want.capacity and is_simple(entry):
            return {}
        return consumption(entry, want.capacity, used, self._reference)

    def _constrain(
        self, index: int, want: Want, entry: DeviceEntry, *, must: bool
    ) -> tuple[ConstraintState, ...] | None:
        """Check taints and constraints; return the constraints that count the device now."""
        if not all(map(want.tolerates, entry.taints)):
            return None
        added: list[ConstraintState] = []
        for constraint in self._constraints[index]:
            allowed = constraint.add(want.request, want.name, entry)
            if allowed:
                added.append(constraint)
            elif allowed is not None:
                for each in reversed(added):
                    each.remove()
                if must:
                    raise ConstraintViolatedError
                return None
        return tuple(added)

    def _consume(self, pool: NodePool, entry: DeviceEntry) -> bool:
        """Consume the counters of a device, if the pool has enough of all of its counters."""
        available = self._available.get(pool.id)
        if available is None:
            available = self._available[pool.id] = self._devices.available(pool)
        consumed = self._consumed.setdefault(pool.id, {})
        for counter, amount in entry.counters:
            consumed[counter] = consumed.get(counter, 0) + amount
        if all(amount >= consumed.get(counter, 0) for counter, amount in available.items()):
            return True
        self._release(pool, entry)
        return False

    def _release(self, pool: NodePool, entry: DeviceEntry) -> None:
        consumed = self._consumed[pool.id]
        for counter, amount in entry.counters:
            consumed[counter] -= amount
