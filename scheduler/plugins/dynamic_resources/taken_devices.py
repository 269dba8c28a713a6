"""What a search has taken so far, and what is left for it.

Source: dynamic-resource-allocation v0.36.3 structured/internal/incubating.allocateDevice,
checkAvailableCounters. Differs: counters belong to a pool of one driver, as in v0.37.2.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import accumulate, chain
from operator import or_
from typing import Final, NamedTuple

from scheduler.plugins.dynamic_resources.capacity import Consumption, consumption, is_simple
from scheduler.plugins.dynamic_resources.claim_demand import ClaimDemand, Want
from scheduler.plugins.dynamic_resources.constraints import ConstraintState
from scheduler.state.devices.devices import Devices
from scheduler.state.devices.pools import NodePool
from scheduler.state.devices.slices import DeviceEntry, PoolId

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

    #: The position of the device.
    at: int
    constraints: tuple[ConstraintState, ...]
    #: Whether it consumes counters.
    counted: bool


class Taking:
    """The devices that one search has taken, claim by claim.

    A device has a position, in the order of the search; sets of devices are integers with a bit for
    each position.
    """

    def __init__(
        self, claims: Sequence[ClaimDemand], pools: Sequence[NodePool], devices: Devices
    ) -> None:
        self._devices = devices
        self._reference = devices.reference
        self.usage: Final = devices.usage
        self._pools = pools
        alone = pools[0] if len(pools) == 1 else None
        every = chain.from_iterable(pool.devices for pool in pools)
        #: All devices by position.
        self.entries: Final = tuple(every) if alone is None else alone.devices
        beyond = chain.from_iterable(pool.unreachable for pool in pools)
        #: Devices that are not on the node.
        self.unreachable: Final = frozenset(beyond) if alone is None else alone.unreachable
        #: The devices of each claim, in the order in which they were taken.
        self.taken: Final[list[list[TakenDevice]]] = [[] for _ in claims]
        #: The constraints of each claim.
        self.constraints: Final = [
            [ConstraintState(constraint) for constraint in claim.constraints] for claim in claims
        ]
        #: The set of devices that each claim has taken alone, and that of all claims.
        self.held: Final = [0] * len(claims)
        self.held_by_any = 0
        #: What each share of a shared device consumes, by position.
        self.shares: Final[dict[int, list[Consumption]]] = {}
        #: The counters that are consumed, in billionths, and what there is, by pool.
        self.consumed: Final[dict[PoolId, dict[tuple[str, str], int]]] = {}
        self._available: dict[PoolId, dict[tuple[str, str], int]] = {}

    def pool(self, at: int) -> NodePool:
        """Return the pool of a device."""
        ends = accumulate(len(pool.devices) for pool in self._pools)
        return self._pools[bisect_right(tuple(ends), at)]

    def blocked(self, index: int, want: Want) -> int:
        """Return the set of devices that this search has taken out of reach of a claim.

        With admin access only devices of the same claim are.
        """
        return self.held[index] if want.admin else self.held_by_any

    def may_have(self, index: int, want: Want, at: int) -> bool:
        """Return whether a claim may have a selected device before anything is taken.

        Raises:
            CapacityError: The capacity cannot be computed.
        """
        entry = self.entries[at]
        used = (self.usage.consumed(entry.id),) if entry.shared else ()
        if self._consumption(want, entry, used) is None:
            return False
        if entry.taints and not all(map(want.tolerates, entry.taints)):
            return False
        return not any(
            constraint.value(entry) is None
            for constraint in self.constraints[index]
            if constraint.concerns(want.request, want.name)
        )

    def has_capacity(self, want: Want, entry: DeviceEntry) -> bool:
        """Return whether a device has what a request needs while it is unused.

        Raises:
            CapacityError: The capacity cannot be computed.
        """
        return self._consumption(want, entry, ()) is not None

    def take(self, index: int, want: Want, at: int, *, must: bool) -> Undo | None:
        """Take a device for a request of a claim; `None` if that is not possible.

        Args:
            index: Of the claim.
            want: The request.
            at: The position of the device. Without `must` it is not blocked, and `may_have` holds.
            must: Whether it has to be this device. Constraints are checked before the capacity
                then, because their refusal is an error.

        Raises:
            ConstraintViolatedError: It has to be this device, and a constraint forbids it.
            CapacityError: The capacity cannot be computed.
        """
        entry = self.entries[at]
        if must and self._is_out_of_reach(index, want, at):
            return None
        consumed: Consumption | None = {}
        if entry.shared and not must:
            consumed = self._consumption(want, entry, self._used(at))
        if consumed is None:
            return None
        counted = bool(entry.counters) and not self._is_shared_already(at)
        if counted and not self._consume(at):
            return None
        added = self._constrain(index, want, entry, must=must)
        if added is not None and must:
            consumed = self._consumption(want, entry, self._used(at))
        if added is None or consumed is None:
            self._undo(Undo(at, added or (), counted))
            return None
        self._add(index, want, at, consumed)
        return Undo(at, added, counted)

    def _is_out_of_reach(self, index: int, want: Want, at: int) -> bool:
        """Return whether a claim cannot have a device because another one has it."""
        entry = self.entries[at]
        if not entry.shared and self.blocked(index, want) >> at & 1:
            return True
        return not want.admin and self.usage.is_taken(entry.id)

    def _add(self, index: int, want: Want, at: int, consumed: Consumption) -> None:
        entry = self.entries[at]
        if entry.shared:
            self.shares.setdefault(at, []).append(consumed)
        else:
            self.held[index] |= 1 << at
            self.held_by_any |= 1 << at
        self.taken[index].append(TakenDevice(want, entry, consumed if entry.shared else None))

    def give_back(self, index: int, undo: Undo) -> None:
        """Give back the device that a claim has taken last."""
        self.taken[index].pop()
        at = undo.at
        if self.entries[at].shared:
            shares = self.shares[at]
            shares.pop()
            if not shares:
                del self.shares[at]
        else:
            self.held[index] &= ~(1 << at)
            self.held_by_any = reduce(or_, self.held)
        self._undo(undo)

    def _undo(self, undo: Undo) -> None:
        for constraint in reversed(undo.constraints):
            constraint.remove()
        if undo.counted:
            self._release(undo.at)

    def _used(self, at: int) -> tuple[Mapping[str, int], ...]:
        """Return what is consumed of a shared device, by others and in this search."""
        entry = self.entries[at]
        return (self.usage.consumed(entry.id), *self._own(at)) if entry.shared else ()

    def _own(self, at: int) -> Iterator[Mapping[str, int]]:
        for share in self.shares.get(at, ()):
            yield {name: amount.nano for name, amount in share.items()}

    def _is_shared_already(self, at: int) -> bool:
        entry = self.entries[at]
        return entry.shared and (at in self.shares or self.usage.is_shared(entry.id))

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
        """Check constraints, and taints if need be; return those that count the device now."""
        if must and not all(map(want.tolerates, entry.taints)):
            return None
        added: list[ConstraintState] = []
        for constraint in self.constraints[index]:
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

    def available(self, pool: NodePool) -> dict[tuple[str, str], int]:
        """Return what there is of the counters of a pool, before anything is taken."""
        available = self._available.get(pool.id)
        if available is None:
            available = self._available[pool.id] = self._devices.available(pool)
        return available

    def _consume(self, at: int) -> bool:
        """Consume the counters of a device, if the pool has enough of all of its counters."""
        pool = self.pool(at)
        consumed = self.consumed.setdefault(pool.id, {})
        for counter, amount in self.entries[at].counters:
            consumed[counter] = consumed.get(counter, 0) + amount
        available = self.available(pool)
        if all(amount >= consumed.get(counter, 0) for counter, amount in available.items()):
            return True
        self._release(at)
        return False

    def _release(self, at: int) -> None:
        consumed = self.consumed[self.pool(at).id]
        for counter, amount in self.entries[at].counters:
            consumed[counter] -= amount
