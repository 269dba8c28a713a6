"""The allocator of devices: depth first, the first solution counts.

Pools, slices, devices, requests and claims are tried in a fixed order, which is visible in the
allocation. Within a request only combinations of devices are tried, between requests everything.

Branches that cannot succeed are skipped: `pruning`. That makes failures fast, and changes neither
the solution nor the first error.

Source: dynamic-resource-allocation v0.36.3 structured/internal/incubating.Allocator.Allocate.
Differs: the time limit is a number of steps, as nothing here reads a clock.
"""

from collections.abc import Hashable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from scheduler.model.api.devices import EXACT_COUNT, MAX_RESULTS
from scheduler.model.releases import Reference
from scheduler.plugins.dynamic_resources.structured.allocating_devices import (
    AllocatingDevices,
    ConstraintViolatedError,
    InternalDeviceResult,
)
from scheduler.plugins.dynamic_resources.structured.claims import (
    CompiledClaim,
    RequestAccessor,
    RequestIndices,
    request_indices,
)
from scheduler.plugins.dynamic_resources.structured.consumable_capacity import CapacityError
from scheduler.plugins.dynamic_resources.structured.pruning import MAX_DEVICES, Pruning
from scheduler.plugins.dynamic_resources.structured.request_data import (
    AllocationError,
    DeviceMatcher,
    RequestData,
)
from scheduler.state.devices.allocated_state import AllocatedState
from scheduler.state.devices.pools import Pool

__all__ = ["AllocationError", "AllocationTimeoutError", "Allocator", "InternalAllocationResult"]

#: So many nested calls, counted as four for each device and request; pods that need more are
#: rejected.
_MAX_DEPTH: Final = 720
#: So many steps are always allowed, by the number of devices of the node.
_STEPS_PER_DEVICE: Final = 4
#: Branches are pruned after so many devices that led to no solution: before, pruning costs more
#: than it saves.
_PRUNE_AFTER: Final = 32


class AllocationTimeoutError(Exception):
    """The allocator took too many steps."""


class _Outcome(IntEnum):
    FAILED = 0
    ALLOCATED = 1
    #: No solution has few enough devices for the claim.
    MAX_SIZE_EXCEEDED = 2


class InternalAllocationResult(NamedTuple):
    """A solution."""

    #: The devices of each claim, in the order in which they were allocated.
    devices: tuple[tuple[InternalDeviceResult, ...], ...]
    #: The index of the selected subrequest, by index of the claim and of the request.
    selected_sub_requests: Mapping[tuple[int, int], int]


class Allocator:
    """Allocates devices of one node for some claims, once."""

    def __init__(
        self,
        claims: Sequence[CompiledClaim],
        claim_names: Sequence[str],
        pools: Sequence[Pool],
        allocated_state: AllocatedState,
        reference: Reference,
        prune_after: int = _PRUNE_AFTER,
    ) -> None:
        """Prepare the allocation.

        Args:
            claims: The claims to allocate.
            claim_names: The names of the claims in errors.
            pools: Of the node.
            allocated_state: The devices that are allocated, in fact or in a hypothesis.
            reference: The release.
            prune_after: Branches are pruned after so many devices that led to no solution.
        """
        self._claims = claims
        self._claim_names = claim_names
        self._pools = pools
        usable = [pool for pool in pools if not pool.is_incomplete and not pool.is_invalid]
        self._reference = reference
        self._max_steps = 0
        #: How many steps were made.
        self.steps = 0
        self._allocating = AllocatingDevices(claims, usable, allocated_state, reference)
        self._matcher = DeviceMatcher(claim_names, self._allocating, reference, self._count_steps)
        self._selected_sub_requests: dict[tuple[int, int], int] = {}
        self._prune_after = prune_after
        self._pruning: Pruning | None = None
        #: The sets of equivalent devices, where the node has too many devices for `pruning`.
        self._equivalent: dict[Hashable, int] = {}

    @property
    def has_invalid_pool(self) -> bool:
        """Whether some pool of the node is invalid."""
        return any(pool.is_invalid for pool in self._pools)

    def allocate(self, max_steps: int) -> InternalAllocationResult | None:
        """Return the first solution; `None` if there is none.

        Args:
            max_steps: The allocator gives up after so many, and more for large pools.

        Raises:
            AllocationError: There was an error before a solution.
            AllocationTimeoutError: There were too many steps.
        """
        devices = sum(len(pool.devices) for pool in self._pools)
        self._max_steps, depth = max(max_steps, _STEPS_PER_DEVICE * devices), 0
        for index in range(len(self._claims)):
            depth += self._validate_claim(index) * 4 + len(self._claims[index].requests) * 4 + 1
        if depth > _MAX_DEPTH:
            raise AllocationError(
                "the claims of the pod ask for more devices than preemptive-scheduler searches for"
            )
        if self._allocate_request(0, 0) is not _Outcome.ALLOCATED:
            return None
        results = tuple(map(tuple, self._allocating.results))
        return InternalAllocationResult(results, dict(self._selected_sub_requests))

    # Before the search ------------------------------------------------------------------------

    def _validate_claim(self, index: int) -> int:
        """Determine how many devices a claim needs at least, and at most; return the latter.

        Raises:
            AllocationError: The claim cannot be allocated at all.
        """
        claim, name, total, most = self._claims[index], self._claim_names[index], 0, 0
        for request in claim.requests:
            counts = [self._validate_request(each, name) for each in request.alternatives]
            least = min(counts, default=0)
            if self._reference.limits_devices_by_request and total + least > MAX_RESULTS:
                raise AllocationError(
                    f"claim {name}, request {request.name}: adding {least} devices exceeds the "
                    f"claim limit of {MAX_RESULTS}, with {total} already accounted for"
                )
            total += least
            most += min(max(counts, default=0), MAX_RESULTS)
        if total > MAX_RESULTS:
            raise AllocationError(
                f"claim {name}: number of requested devices {total} exceeds the claim limit of "
                f"{MAX_RESULTS}"
            )
        for position, constraint in enumerate(claim.spec.constraints):
            if constraint.match_attribute is None and constraint.distinct_attribute is None:
                raise AllocationError(
                    f"claim {name}, constraint #{position}: empty constraint (unsupported "
                    "constraint type?)"
                )
        return min(most, MAX_RESULTS)

    def _validate_request(self, request: RequestAccessor, claim_name: str) -> int:
        """Validate a request, store its `RequestData`, and return its number of devices.

        Source: validateDeviceRequest.
        """
        where = f"claim {claim_name}, request {request.name}"
        if request.api.derived_attributes and self._reference.refuses_derived_attributes:
            raise AllocationError(
                f"{where}: cannot handle request with derived attributes, the feature is disabled"
            )
        for position, selector in enumerate(request.api.selectors):
            if selector.cel is None:
                raise AllocationError(
                    f"{where}, selector #{position}: CEL expression empty (unsupported selector "
                    "type?)"
                )
        name = request.api.device_class_name
        if not name:
            raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
        if request.device_class is None:
            missing = f'deviceclass.resource.k8s.io "{name}" not found'
            raise AllocationError(f"{where}: could not retrieve device class {name}: {missing}")
        if request.wants_all_devices:
            devices = self._matcher.all_devices(request, where, claim_name, self._pools)
            matching = sum(1 << at for at in devices) if len(devices) <= MAX_RESULTS else 0
            data = RequestData(len(devices), matching, devices)
        elif request.api.allocation_mode == EXACT_COUNT:
            data = RequestData(request.api.count)
        else:
            raise AllocationError(f"{where}: unsupported count mode {request.api.allocation_mode}")
        self._matcher.request_data[request] = data
        return data.num_devices

    # The search, upstream's allocateOne -------------------------------------------------------

    def _allocate_request(self, index: int, position: int) -> _Outcome:
        """Allocate a request of a claim, by its position, and all that follow."""
        self._count_steps()
        if index >= len(self._claims):
            return _Outcome.ALLOCATED
        requests = self._claims[index].requests
        if position >= len(requests):
            outcome = self._allocate_request(index + 1, 0)
            return _Outcome.FAILED if outcome is _Outcome.MAX_SIZE_EXCEEDED else outcome
        pruning, state, alternatives = self._pruning, None, requests[position].alternatives
        if pruning is not None:
            state = pruning.state(index, position)
            if state in pruning.failed:
                return _Outcome.FAILED
        if requests[position].has_sub_requests:
            outcome = self._allocate_first_available(index, position, alternatives)
        else:
            outcome = self._allocate_one(RequestIndices(index, position, alternatives[0]), 0, 0, 0)
        # Not after MAX_SIZE_EXCEEDED: the devices tried until then depend on their order.
        if pruning is not None and outcome is _Outcome.FAILED:
            pruning.failed.add(state)
        return outcome

    def _allocate_first_available(
        self, index: int, position: int, sub_requests: Sequence[RequestAccessor]
    ) -> _Outcome:
        """Try the subrequests of a request in the order of preference."""
        all_exceeded = True
        for sub_index, sub_request in enumerate(sub_requests):
            self._count_steps()
            outcome = self._allocate_one(RequestIndices(index, position, sub_request), 0, 0, 0)
            if outcome is _Outcome.ALLOCATED:
                self._selected_sub_requests[index, position] = sub_index
                return outcome
            all_exceeded = all_exceeded and outcome is _Outcome.MAX_SIZE_EXCEEDED
        return _Outcome.MAX_SIZE_EXCEEDED if all_exceeded else _Outcome.FAILED

    def _allocate_one(self, r: RequestIndices, number: int, start: int, excluded: int) -> _Outcome:
        """Allocate the next device of a request, or the requests after it.

        Args:
            r: The request.
            number: How many devices it has already.
            start: The position to continue from, so that only combinations are tried.
            excluded: The set of devices that lead to no solution, as equivalent ones have shown.
        """
        data, wants_all = self._matcher.request_data[r.request], r.request.wants_all_devices
        missing = data.num_devices - number
        if wants_all and not data.all_devices:
            return _Outcome.FAILED
        if missing <= 0:
            return self._allocate_request(r.claim, r.position + 1)
        if len(self._allocating.results[r.claim]) + missing > MAX_RESULTS:
            return _Outcome.MAX_SIZE_EXCEEDED
        self._count_steps()
        if wants_all:
            return self._allocate_device(r, data.all_devices[number], number, 0)
        return self._allocate_candidates(r, number, start, excluded)

    def _allocate_candidates(
        self, r: RequestIndices, number: int, start: int, excluded: int
    ) -> _Outcome:
        """Try the devices from a position on; for the arguments see `_allocate_one`."""
        missing, pruning = self._matcher.request_data[r.request].num_devices - number, self._pruning
        if pruning is not None and pruning.cannot_succeed(r, missing, -1 << start & ~excluded):
            return _Outcome.FAILED
        # Enough devices for the device before are enough for the first one tried here.
        enough = number > 0 or missing == 1
        while enough or self._matcher.has_enough(r, missing, start, excluded):
            at = self._matcher.next(r, start, excluded)
            if at is None:
                break
            self._count_steps()
            outcome = self._allocate_device(r, at, number, excluded)
            if outcome is not _Outcome.FAILED:
                return outcome
            excluded |= self._equivalent_devices(r, at)
            start, enough = at + 1, missing == 1
        return _Outcome.FAILED

    def _allocate_device(self, r: RequestIndices, at: int, number: int, excluded: int) -> _Outcome:
        """Allocate a device and all that follows; roll back if that fails.

        Raises:
            AllocationError: A request for all devices cannot have it, or its capacity is invalid.
        """
        try:
            rollback = self._allocating.allocate(r, at)
        except ConstraintViolatedError as error:
            name = "/".join(self._allocating.devices[at].id)
            raise AllocationError(
                f"claim {self._claim_names[r.claim]}, request {r.request.name}: cannot add device "
                f"{name} because a claim constraint would not be satisfied"
            ) from error
        except CapacityError as error:
            raise self._matcher.capacity_error(r, at, error) from error
        if rollback is None:
            return _Outcome.FAILED
        outcome = self._allocate_one(r, number + 1, at + 1, excluded)
        if outcome is not _Outcome.ALLOCATED:
            self._allocating.rollback(r.claim, rollback)
        return outcome

    def _equivalent_devices(self, r: RequestIndices, at: int) -> int:
        """Return the set of devices that lead to no solution, as one of them did not."""
        if self._prune_after > 0:
            self._prune_after -= 1
            return 0
        matcher, count = self._matcher, len(self._allocating.devices)
        if count > MAX_DEVICES:
            return self._devices_of_equal_key(r.request, at)
        if self._pruning is None:
            for other in request_indices(self._claims):
                while not other.request.wants_all_devices and matcher.match(other, count):
                    pass
            data, count_steps = matcher.request_data, self._count_steps
            self._pruning = Pruning(self._claims, data, self._allocating, count_steps)
        return self._pruning.equivalent_devices(r, at)

    def _devices_of_equal_key(self, request: RequestAccessor, at: int) -> int:
        """Return the set of devices with the key of one; none for a device usable twice."""
        devices, key = self._allocating.devices, self._allocating.devices[at].equivalence_key
        if request.admin_access or devices[at].allow_multiple_allocations:
            return 0
        equivalent = self._equivalent.get(key)
        if equivalent is None:
            bits = ["01"[device.equivalence_key == key] for device in reversed(devices)]
            equivalent = self._equivalent[key] = int("".join(bits), 2)
        return equivalent

    def _count_steps(self, number: int = 1) -> None:
        self.steps += number
        if self.steps > self._max_steps:
            raise AllocationTimeoutError
