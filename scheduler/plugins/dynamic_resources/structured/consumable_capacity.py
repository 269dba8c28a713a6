"""How much of the capacities of a device a request consumes, and whether that much is left.

Amounts are in billionths.

Source: dynamic-resource-allocation v0.36.3 structured/internal/incubating/consumable_capacity.go.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from scheduler.model.api import quantity
from scheduler.model.api.devices import CapacityRange, RequestPolicy
from scheduler.model.api.objects import Quantities
from scheduler.model.releases import Reference
from scheduler.state.devices.slices import DeviceCapacity, DeviceWithId

__all__ = ["CapacityError", "ConsumedCapacity", "consumed_capacity", "has_capacity_by_default"]

_WHOLE: Final = 10**9
_MAX_INT64: Final = 2**63 - 1
_NOT_REPRESENTABLE: Final = (
    "capacity request cannot be represented in the device's range arithmetic"
)

#: The amount that is consumed of each capacity, by name.
ConsumedCapacity = dict[str, "Amount"]


class Amount(NamedTuple):
    """An amount of a capacity."""

    nano: int
    #: A quantity with the format in which the amount is written.
    format_of: str
    #: The requested quantity that it was rounded up from.
    requested: str = "0"

    @property
    def text(self) -> str:
        """The amount as it is written into an allocation."""
        return quantity.written(self.nano, like=self.format_of)


class CapacityError(Exception):
    """A capacity is negative, or cannot be computed with; it ends the attempt."""


def has_capacity_by_default(device: DeviceWithId) -> bool:
    """Return whether an unallocated device fits every request that names no capacities."""
    if device.allow_multiple_allocations:
        return False
    for capacity in device.capacity.values():
        if capacity.request_policy is not None or capacity.value < 0:
            return False
    return True


def consumed_capacity(
    device: DeviceWithId,
    requested: Quantities,
    consumed_before: tuple[Mapping[str, int], ...],
    reference: Reference,
) -> ConsumedCapacity | None:
    """Return the capacity that a request consumes; `None` if the device does not have that much.

    Args:
        device: The device.
        requested: The requested capacities, by name.
        consumed_before: What other shares of the device consume, by name.
        reference: The release.

    Raises:
        CapacityError: An amount is negative or beyond 64 bits, and the release has errors for that.

    Source: CmpRequestOverCapacity, GetConsumedCapacityFromRequest.
    """
    if any(name not in device.capacity for name in requested):
        return None
    consumed: ConsumedCapacity = {}
    for name, capacity in device.capacity.items():
        amount = consumed[name] = _amount(capacity, requested.get(name), reference)
        if reference.capacity_errors_end_attempts:
            _check(name, capacity, amount)
    for name, capacity in device.capacity.items():
        amount = consumed[name]
        if _violates_policy(capacity.request_policy, amount):
            return None
        if sum(other.get(name, 0) for other in consumed_before) + amount.nano > capacity.value:
            return None
    return consumed


def _amount(
    capacity: DeviceCapacity, requested: str | float | None, reference: Reference
) -> Amount:
    """Return how much of one capacity a request consumes, whether or not it may.

    Source: calculateConsumedCapacity.
    """
    policy = capacity.request_policy
    if requested is None:
        if policy is not None and policy.default is not None:
            return _parsed(policy.default)
        return Amount(capacity.value, capacity.text)
    amount = _parsed(requested)
    if policy is None:
        return amount
    limits = policy.valid_range
    if limits is not None and limits.min is not None:
        return _rounded_up(amount, _parsed(limits.min), limits.step, reference)
    larger = (valid for valid in map(_parsed, policy.valid_values) if amount.nano <= valid.nano)
    return next(larger, amount)


def _check(name: str, capacity: DeviceCapacity, amount: Amount) -> None:
    """Reject an amount that is negative, or was rounded beyond 64 bits.

    Raises:
        CapacityError: It is rejected.
    """
    if amount.nano < 0:
        raise CapacityError(f'capacity "{name}": capacity value is negative')
    limits = None if capacity.request_policy is None else capacity.request_policy.valid_range
    if limits is None or None in (limits.min, limits.step) or amount.nano <= _MAX_INT64 * _WHOLE:
        return
    requested = quantity.canonical(amount.requested)
    how = (
        f"request {requested} exceeds MaxInt64"
        if quantity.exact(amount.requested) > _MAX_INT64 * _WHOLE
        else f"rounding request {requested} up to the next step passes MaxInt64"
    )
    raise CapacityError(f'capacity "{name}": {_NOT_REPRESENTABLE}: {how}')


def _rounded_up(
    amount: Amount, least: Amount, step: str | float | None, reference: Reference
) -> Amount:
    """Return an amount rounded up to the minimum, or to the next step above it.

    Source: roundUpRange.
    """
    if amount.nano < least.nano:
        return least
    if step is None:
        return amount
    width, start = _whole_units(step), _ceil(least.nano)
    steps = -(-(_ceil(amount.nano) - start) // width) if width else 0
    format_of = str(step) if reference.rounds_in_format_of_step else "Gi"
    return Amount((start + width * steps) * _WHOLE, format_of, amount.format_of)


def _violates_policy(policy: RequestPolicy | None, amount: Amount) -> bool:
    if policy is None or (
        policy.default is not None and amount.nano == _parsed(policy.default).nano
    ):
        return False
    if policy.valid_range is not None:
        return _violates_range(policy.valid_range, amount.nano)
    valid = [quantity.exact(value) for value in policy.valid_values]
    return bool(valid) and amount.nano not in valid


def _violates_range(limits: CapacityRange, nano: int) -> bool:
    if limits.max is not None and nano > quantity.exact(limits.max):
        return True
    if limits.step is None:
        return False
    step, start = _whole_units(limits.step), 0 if limits.min is None else _whole_units(limits.min)
    return bool(step) and (_ceil(nano) - start) % step != 0


def _parsed(text: str | float) -> Amount:
    return Amount(quantity.exact(text), str(text))


def _whole_units(text: str | float) -> int:
    """Return a quantity in whole units, rounded away from zero."""
    return _ceil(quantity.exact(text))


def _ceil(nano: int) -> int:
    return -(-nano // _WHOLE)
