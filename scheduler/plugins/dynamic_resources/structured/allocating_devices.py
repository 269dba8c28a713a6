"""The devices that one run of the allocator is allocating, and the counters and capacity left.

Source: dynamic-resource-allocation v0.36.3 structured/internal/incubating.allocator.allocateDevice,
checkAvailableCounters. Differs: counters belong to a pool of one driver, as in v0.37.2.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import accumulate, chain
from operator import or_
from typing import Final, NamedTuple

from scheduler.model.releases import Reference
from scheduler.plugins.dynamic_resources.structured.claims import (
    CompiledClaim,
    RequestAccessor,
    RequestIndices,
)
from scheduler.plugins.dynamic_resources.structured.constraints import AttributeConstraint
from scheduler.plugins.dynamic_resources.structured.consumable_capacity import (
    ConsumedCapacity,
    consumed_capacity,
    has_capacity_by_default,
)
from scheduler.state.devices.allocated_state import AllocatedState
from scheduler.state.devices.pools import Pool
from scheduler.state.devices.slices import DeviceWithId, PoolId

__all__ = ["AllocatingDevices", "ConstraintViolatedError", "InternalDeviceResult"]


class ConstraintViolatedError(Exception):
    """A device of a request for all devices violates a constraint of the claim."""


class InternalDeviceResult(NamedTuple):
    """A device that is allocated for a request."""

    request: RequestAccessor
    device: DeviceWithId
    #: For a device that allows multiple allocations; `None` for others.
    consumed_capacity: ConsumedCapacity | None


class DeviceRollback(NamedTuple):
    """The changes that `AllocatingDevices.allocate` has made, to be undone."""

    #: The position of the device.
    at: int
    constraints: tuple[AttributeConstraint, ...]
    counters_reserved: bool


class AllocatingDevices:
    """The devices that one run of the allocator is allocating, claim by claim.

    A device has a position, in the order of the search; sets of devices are integers with a bit for
    each position.
    """

    def __init__(
        self,
        claims: Sequence[CompiledClaim],
        pools: Sequence[Pool],
        allocated_state: AllocatedState,
        reference: Reference,
    ) -> None:
        self.allocated_state: Final = allocated_state
        self._reference = reference
        self._pools = pools
        only = pools[0] if len(pools) == 1 else None
        devices = chain.from_iterable(pool.devices for pool in pools)
        #: All devices by position.
        self.devices: Final = tuple(devices) if only is None else only.devices
        excluded = chain.from_iterable(pool.not_targeting_node for pool in pools)
        #: Devices that are not available on the node.
        self.not_targeting_node: Final = (
            frozenset(excluded) if only is None else only.not_targeting_node
        )
        #: The devices of each claim, in the order in which they were allocated.
        self.results: Final[list[list[InternalDeviceResult]]] = [[] for _ in claims]
        #: The constraints of each claim.
        self.constraints: Final = [
            [AttributeConstraint(constraint) for constraint in claim.spec.constraints]
            for claim in claims
        ]
        #: The set of whole devices that are being allocated for each claim, and that for any claim.
        self.for_claim: Final = [0] * len(claims)
        self.for_any_claim = 0
        #: The consumed capacity of each share of a device, by position.
        self.allocating_capacity: Final[dict[int, list[ConsumedCapacity]]] = {}
        #: The counters consumed, and those available before, in billionths by pool.
        self.consumed_counters: Final[dict[PoolId, dict[tuple[str, str], int]]] = {}
        self._available_counters: dict[PoolId, dict[tuple[str, str], int]] = {}

    def pool(self, at: int) -> Pool:
        """Return the pool of a device."""
        ends = accumulate(len(pool.devices) for pool in self._pools)
        return self._pools[bisect_right(tuple(ends), at)]

    def in_use(self, r: RequestIndices) -> int:
        """Return the set of devices being allocated that a request cannot get.

        With admin access these are only devices of the same claim.
        """
        return self.for_claim[r.claim] if r.request.admin_access else self.for_any_claim

    def is_allocatable(self, r: RequestIndices, at: int) -> bool:
        """Return whether a selected device can be allocated for a request as the first one.

        Raises:
            CapacityError: The capacity cannot be computed.
        """
        device = self.devices[at]
        shares: tuple[Mapping[str, int], ...] = ()
        if device.allow_multiple_allocations:
            shares = (self.allocated_state.consumed_capacity(device.id),)
        if self.consumed_capacity(r.request, device, shares) is None:
            return False
        if device.taints and not all(map(r.request.tolerates, device.taints)):
            return False
        constraints = self.constraints[r.claim]
        return not constraints or not any(
            constraint.lookup_attribute(device) is None
            for constraint in constraints
            if constraint.matches(r.request)
        )

    def allocate(self, r: RequestIndices, at: int) -> DeviceRollback | None:
        """Allocate a device for a request; `None` if that is not possible.

        Args:
            r: The request. If it wants all devices, constraints are checked before the capacity,
                because their violation is an error.
            at: The position of the device. If the request wants only some devices, the device is
                allocatable and not in use.

        Raises:
            ConstraintViolatedError: The request wants all devices, and a constraint forbids one.
            CapacityError: The capacity cannot be computed.
        """
        device, must = self.devices[at], r.request.wants_all_devices
        if must and self._is_in_use(r, at):
            return None
        consumed: ConsumedCapacity | None = {}
        if device.allow_multiple_allocations and not must:
            consumed = self.consumed_capacity(r.request, device, self._shares(at))
        if consumed is None:
            return None
        reserves = bool(device.consumes_counters) and not self._is_capacity_in_use(at)
        if reserves and not self._reserve_counters(at):
            return None
        added = self._add_to_constraints(r, device)
        if added is not None and must:
            consumed = self.consumed_capacity(r.request, device, self._shares(at))
        if added is None or consumed is None:
            self._undo(DeviceRollback(at, added or (), reserves))
            return None
        if device.allow_multiple_allocations:
            self.allocating_capacity.setdefault(at, []).append(consumed)
        else:
            self.for_claim[r.claim] |= 1 << at
            self.for_any_claim |= 1 << at
        share = consumed if device.allow_multiple_allocations else None
        self.results[r.claim].append(InternalDeviceResult(r.request, device, share))
        return DeviceRollback(at, added, reserves)

    def _is_in_use(self, r: RequestIndices, at: int) -> bool:
        """Return whether a device is allocated, or being allocated, out of reach of a request."""
        device = self.devices[at]
        if not device.allow_multiple_allocations and self.in_use(r) >> at & 1:
            return True
        return not r.request.admin_access and self.allocated_state.is_allocated(device.id)

    def rollback(self, index: int, rollback: DeviceRollback) -> None:
        """Deallocate the device that was allocated last for a claim."""
        self.results[index].pop()
        at = rollback.at
        if self.devices[at].allow_multiple_allocations:
            shares = self.allocating_capacity[at]
            shares.pop()
            if not shares:
                del self.allocating_capacity[at]
        else:
            self.for_claim[index] &= ~(1 << at)
            self.for_any_claim = reduce(or_, self.for_claim)
        self._undo(rollback)

    def _undo(self, rollback: DeviceRollback) -> None:
        for constraint in reversed(rollback.constraints):
            constraint.remove()
        if rollback.counters_reserved:
            self._release_counters(rollback.at)

    def _shares(self, at: int) -> tuple[Mapping[str, int], ...]:
        """Return the consumed capacity of a shared device, allocated and being allocated."""
        device = self.devices[at]
        if not device.allow_multiple_allocations:
            return ()
        return (self.allocated_state.consumed_capacity(device.id), *self._allocating_shares(at))

    def _allocating_shares(self, at: int) -> Iterator[Mapping[str, int]]:
        for share in self.allocating_capacity.get(at, ()):
            yield {name: amount.nano for name, amount in share.items()}

    def _is_capacity_in_use(self, at: int) -> bool:
        """Return whether a share of a device is allocated, or being allocated."""
        device = self.devices[at]
        return device.allow_multiple_allocations and (
            at in self.allocating_capacity or self.allocated_state.is_shared(device.id)
        )

    def consumed_capacity(
        self, request: RequestAccessor, device: DeviceWithId, shares: tuple[Mapping[str, int], ...]
    ) -> ConsumedCapacity | None:
        """Return the capacity that a request consumes beside shares; `None` if it is too much.

        Raises:
            CapacityError: The capacity cannot be computed.
        """
        if not request.capacities and has_capacity_by_default(device):
            return {}
        return consumed_capacity(device, request.capacities, shares, self._reference)

    def _add_to_constraints(
        self, r: RequestIndices, device: DeviceWithId
    ) -> tuple[AttributeConstraint, ...] | None:
        """Add a device to the constraints that match; `None` if one, or a taint, forbids it."""
        must = r.request.wants_all_devices
        if must and not all(map(r.request.tolerates, device.taints)):
            return None
        added: list[AttributeConstraint] = []
        for constraint in self.constraints[r.claim]:
            allowed = constraint.add(r.request, device)
            if allowed:
                added.append(constraint)
            elif allowed is not None:
                for former in reversed(added):
                    former.remove()
                if must:
                    raise ConstraintViolatedError
                return None
        return tuple(added)

    def available_counters(self, pool: Pool) -> dict[tuple[str, str], int]:
        """Return the counters of a pool that allocations leave, in billionths."""
        available = self._available_counters.get(pool.id)
        if available is None:
            available = pool.available_counters(self.allocated_state)
            self._available_counters[pool.id] = available
        return available

    def _reserve_counters(self, at: int) -> bool:
        """Consume the counters of a device, if the pool has enough of all of its counters."""
        pool = self.pool(at)
        consumed = self.consumed_counters.setdefault(pool.id, {})
        for counter, amount in self.devices[at].consumes_counters:
            consumed[counter] = consumed.get(counter, 0) + amount
        available = self.available_counters(pool)
        if all(amount >= consumed.get(counter, 0) for counter, amount in available.items()):
            return True
        self._release_counters(at)
        return False

    def _release_counters(self, at: int) -> None:
        consumed = self.consumed_counters[self.pool(at).id]
        for counter, amount in self.devices[at].consumes_counters:
            consumed[counter] -= amount
