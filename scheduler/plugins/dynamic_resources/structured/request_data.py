"""The devices that each request may get while none is allocated, determined in their order.

A device is matched when the allocator comes to it, or to count those that are left. A device on
which a selector fails, for instance, is an error only when the allocator comes to it.

Sets of devices are integers with a bit for each position, see `allocating_devices`.

Source: dynamic-resource-allocation v0.36.3 structured/internal/incubating.requestData,
allocator.isSelectable, selectorsMatch.
"""

from collections.abc import Callable, Hashable, Sequence
from itertools import islice
from typing import Final

from scheduler.cel.errors import hint
from scheduler.model.releases import Reference
from scheduler.plugins.dynamic_resources.structured.allocating_devices import AllocatingDevices
from scheduler.plugins.dynamic_resources.structured.claims import (
    RequestAccessor,
    RequestIndices,
)
from scheduler.plugins.dynamic_resources.structured.consumable_capacity import CapacityError
from scheduler.plugins.dynamic_resources.structured.selectors import (
    CompiledSelector,
)
from scheduler.state.devices.pools import Pool
from scheduler.state.devices.slices import DeviceWithId

__all__ = ["AllocationError", "DeviceMatcher", "RequestData"]


class AllocationError(Exception):
    """The allocator cannot continue: the attempt ends with this text."""


class RequestData:
    """The number of devices of a request, and the devices that match it, as far as determined."""

    __slots__ = ("all_devices", "errors", "failing", "last", "matching", "num_devices", "position")

    def __init__(
        self, num_devices: int, matching: int = 0, all_devices: tuple[int, ...] = ()
    ) -> None:
        #: How many devices the request needs.
        self.num_devices: Final = num_devices
        #: The positions of all devices that match it, for the allocation mode `All`.
        self.all_devices: Final = all_devices
        #: The set of devices that match the request, or on which matching fails.
        self.matching = matching
        #: The set of devices on which matching fails, and the errors.
        self.failing = 0
        self.errors: dict[int, AllocationError] = {}
        #: The devices before this position are determined.
        self.position = 0
        #: The equivalence key of the device that was matched last, and whether it is in `matching`.
        self.last: tuple[Hashable, bool] | None = None

    def add_error(self, at: int, error: AllocationError) -> None:
        """Add a device on which matching fails."""
        self.matching |= 1 << at
        self.failing |= 1 << at
        self.errors[at] = error


class DeviceMatcher:
    """Determines which devices match the requests of one run of the allocator."""

    def __init__(
        self,
        claim_names: Sequence[str],
        allocating: AllocatingDevices,
        reference: Reference,
        count_steps: Callable[[int], None],
    ) -> None:
        """Start with no device matched.

        Args:
            claim_names: The names of the claims in errors.
            allocating: The devices that are being allocated.
            reference: The release.
            count_steps: Called with the number of steps that some work takes.
        """
        self._claim_names = claim_names
        self._allocating = allocating
        self._reference = reference
        self._count_steps = count_steps
        self.request_data: dict[RequestAccessor, RequestData] = {}

    def all_devices(
        self, request: RequestAccessor, where: str, claim_name: str, pools: Sequence[Pool]
    ) -> tuple[int, ...]:
        """Return the positions of all devices that can be selected, for the mode `All`.

        Args:
            request: The request.
            where: Claim and request in errors.
            claim_name: The claim in errors.
            pools: Of the node.

        Raises:
            AllocationError: A pool cannot be used, or a device cannot be matched.
        """
        all_devices, first = [], 0
        for pool in pools:
            if pool.is_incomplete or pool.is_invalid:
                state = "being updated" if pool.is_incomplete else "invalid"
                raise AllocationError(
                    f"{where}: asks for all devices, but resource pool {pool.name} is currently "
                    f"{state}"
                )
            for at, device in enumerate(pool.devices, first):
                self._count_steps(1)
                if not self._is_selectable(request, device, claim_name):
                    continue
                try:
                    if self._allocating.consumed_capacity(request, device, ()) is not None:
                        all_devices.append(at)
                except CapacityError as error:
                    name = device.device.name
                    text = f"{where}: checking capacity for device {name}: {error}"
                    raise AllocationError(text) from error
            first += len(pool.devices)
        return tuple(all_devices)

    def has_enough(self, r: RequestIndices, count: int, start: int, excluded: int) -> bool:
        """Return whether enough available devices match a request, from a position on.

        Args:
            r: The request.
            count: How many devices it needs.
            start: The position.
            excluded: The set of devices that do not count.

        Raises:
            AllocationError: Matching fails on a device before there are enough, so that the
                allocator would come to it.
        """
        data = self.request_data[r.request]
        candidates = -1 << start & ~self._allocating.in_use(r) & ~excluded
        while True:
            matching = data.matching & candidates
            failing = matching & data.failing
            before = (failing & -failing) - 1 if failing else -1
            missing = count - (matching & before).bit_count()
            if missing <= 0:
                return True
            if failing:
                raise data.errors[before.bit_length()]
            if not self.match(r, missing):
                return False

    def next(self, r: RequestIndices, start: int, excluded: int) -> int | None:
        """Return the position of the next available device that matches; `None` for none.

        For the arguments see `has_enough`.

        Raises:
            AllocationError: Matching fails on that device.
        """
        data = self.request_data[r.request]
        candidates = -1 << start & ~self._allocating.in_use(r) & ~excluded
        while True:
            matching = data.matching & candidates
            if matching:
                at = (matching & -matching).bit_length() - 1
                if data.failing >> at & 1:
                    raise data.errors[at]
                return at
            if not self.match(r, 1):
                return None

    def match(self, r: RequestIndices, count: int) -> bool:
        """Determine which devices match a request, among those not determined before.

        Args:
            r: The request.
            count: After so many matching devices the rest is left; one that fails is the last.

        Returns:
            Whether any device matches or fails.
        """
        data, allocating = self.request_data[r.request], self._allocating
        allocated_state, matched, last = allocating.allocated_state, 0, data.last
        first = at = data.position
        for device in islice(allocating.devices, first, None):
            if r.request.admin_access or not allocated_state.is_allocated(device.id):
                # A device that is equivalent to the last one need not be matched.
                if (
                    last is None
                    or last[0] != device.equivalence_key
                    or device.allow_multiple_allocations
                    or allocating.not_targeting_node
                ):
                    last = device.equivalence_key, self._matches(r, at)
                if last[1]:
                    data.matching |= 1 << at
                    matched += 1
                    if data.failing >> at & 1:
                        last, matched = None, count
            at += 1
            if matched >= count:
                break
        data.position, data.last = at, last
        self._count_steps(at - first)
        return matched > 0

    def _matches(self, r: RequestIndices, at: int) -> bool:
        """Return whether a device matches a request while none is allocated, or fails to."""
        device, data = self._allocating.devices[at], self.request_data[r.request]
        try:
            selectable = self._is_selectable(r.request, device, self._claim_names[r.claim])
            return selectable and self._allocating.is_allocatable(r, at)
        except AllocationError as error:
            data.add_error(at, error)
        except CapacityError as error:
            data.add_error(at, self.capacity_error(r, at, error))
        return True

    def capacity_error(self, r: RequestIndices, at: int, error: CapacityError) -> AllocationError:
        """Return the error of a device whose capacity cannot be computed."""
        where = f"claim {self._claim_names[r.claim]}, request {r.request.name}"
        name = "/".join(self._allocating.devices[at].id)
        return AllocationError(f"{where}: checking capacity for device {name}: {error}")

    def _is_selectable(
        self, request: RequestAccessor, device: DeviceWithId, claim_name: str
    ) -> bool:
        """Return whether the selectors of class and request match a device of the node."""
        of_class, own = request.class_selectors, request.selectors
        if of_class:
            where = f"class {request.api.device_class_name}"
            if not self._selectors_match(of_class, where, device):
                return False
        if own and not self._selectors_match(own, f"claim {claim_name}", device):
            return False
        return device.id not in self._allocating.not_targeting_node

    def _selectors_match(
        self, selectors: Sequence[CompiledSelector], where: str, device: DeviceWithId
    ) -> bool:
        for position, selector in enumerate(selectors):
            result = selector.device_matches(device.kind)
            if isinstance(result, str):
                at = f"{where}: selector #{position}"
                if selector.compile_error:
                    raise AllocationError(f"{at}: CEL compile error: {selector.compile_error}")
                if self._reference.selector_errors_name_devices:
                    at, result = f"{at} on device {'/'.join(device.id)}", result + hint(result)
                raise AllocationError(f"{at}: CEL runtime error: {result}")
            if not result:
                return False
        return True
