"""How much of the capacities of a device a request consumes, and whether it has that much.

Amounts are in billionths.

Source: dynamic-resource-allocation v0.36.3 structured/internal/incubating/consumable_capacity.go.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from scheduler.model.api import quantity
from scheduler.model.api.devices import CapacityRange, RequestPolicy
from scheduler.model.api.objects import Quantities
from scheduler.model.releases import Reference
from scheduler.state.devices.slices import CapacityLimit, DeviceEntry

__all__ = ["CapacityError", "Consumption", "consumption", "is_simple"]

_WHOLE: Final = 10**9
_MAX_INT64: Final = 2**63 - 1
_NOT_REPRESENTABLE: Final = (
    "capacity request cannot be represented in the device's range arithmetic"
)

#: The amount that is consumed of each capacity, and its text.
Consumption = dict[str, "Amount"]


class Amount(NamedTuple):
    """An amount of a capacity."""

    nano: int
    #: A text in the format that it is written in.
    like: str
    #: The request that it was rounded from.
    asked: str = "0"

    @property
    def text(self) -> str:
        """The amount as it is written into an allocation."""
        return quantity.written(self.nano, like=self.like)


class CapacityError(Exception):
    """A capacity is negative, or cannot be computed with; it ends the attempt."""


def is_simple(entry: DeviceEntry) -> bool:
    """Return whether every request without capacities fits the device while it is unused."""
    return not entry.shared and all(
        limit.policy is None and limit.value >= 0 for limit in entry.capacity.values()
    )


def consumption(
    entry: DeviceEntry,
    requests: Quantities,
    used: tuple[Mapping[str, int], ...],
    reference: Reference,
) -> Consumption | None:
    """Return what a request consumes of a device; `None` if the device does not have that much.

    Args:
        entry: The device.
        requests: The capacity that is requested, by name.
        used: What others have consumed already, by name.
        reference: The release.

    Raises:
        CapacityError: An amount is negative or beyond 64 bits, and the release has errors for that.
    """
    if any(name not in entry.capacity for name in requests):
        return None
    consumed: Consumption = {}
    for name, limit in entry.capacity.items():
        amount = consumed[name] = _amount(limit, requests.get(name), reference)
        if reference.capacity_errors_end_attempts:
            _check(name, limit, amount)
    for name, limit in entry.capacity.items():
        amount = consumed[name]
        if not _is_allowed(limit.policy, amount):
            return None
        if sum(others.get(name, 0) for others in used) + amount.nano > limit.value:
            return None
    return consumed


def _amount(limit: CapacityLimit, request: str | float | None, reference: Reference) -> Amount:
    """Return how much of one capacity a request consumes, whether or not it may."""
    policy = limit.policy
    if request is None:
        if policy is not None and policy.default is not None:
            return _parsed(policy.default)
        return Amount(limit.value, limit.text)
    amount = _parsed(request)
    if policy is None:
        return amount
    return _rounded(amount, policy, in_format_of_step=reference.rounds_in_format_of_step)


def _check(name: str, limit: CapacityLimit, amount: Amount) -> None:
    """Refuse an amount that is negative, or was rounded beyond 64 bits.

    Raises:
        CapacityError: It is refused.
    """
    if amount.nano < 0:
        raise CapacityError(f'capacity "{name}": capacity value is negative')
    limits = None if limit.policy is None else limit.policy.valid_range
    if limits is None or None in (limits.min, limits.step) or amount.nano <= _MAX_INT64 * _WHOLE:
        return
    asked = quantity.canonical(amount.asked)
    how = (
        f"request {asked} exceeds MaxInt64"
        if quantity.exact(amount.asked) > _MAX_INT64 * _WHOLE
        else f"rounding request {asked} up to the next step passes MaxInt64"
    )
    raise CapacityError(f'capacity "{name}": {_NOT_REPRESENTABLE}: {how}')


def _is_allowed(policy: RequestPolicy | None, amount: Amount) -> bool:
    if policy is None or (
        policy.default is not None and amount.nano == _parsed(policy.default).nano
    ):
        return True
    return _allows(policy, amount.nano)


def _rounded(amount: Amount, policy: RequestPolicy, *, in_format_of_step: bool) -> Amount:
    limits = policy.valid_range
    if limits is not None and limits.min is not None:
        least = _parsed(limits.min)
        if amount.nano < least.nano:
            return least
        if limits.step is None:
            return amount
        step = _value(limits.step)
        start = _value(limits.min)
        steps = -(-(_ceil(amount.nano) - start) // step) if step else 0
        like = str(limits.step) if in_format_of_step else "Gi"
        return Amount((start + step * steps) * _WHOLE, like, amount.like)
    for valid in map(_parsed, policy.valid_values):
        if amount.nano <= valid.nano:
            return valid
    return amount


def _allows(policy: RequestPolicy, nano: int) -> bool:
    if policy.valid_range is not None:
        return _is_in_range(policy.valid_range, nano)
    valid = [quantity.exact(each) for each in policy.valid_values]
    return not valid or nano in valid


def _is_in_range(limits: CapacityRange, nano: int) -> bool:
    if limits.max is not None and nano > quantity.exact(limits.max):
        return False
    if limits.step is None:
        return True
    step, start = _value(limits.step), 0 if limits.min is None else _value(limits.min)
    return not step or (_ceil(nano) - start) % step == 0


def _parsed(text: str | float) -> Amount:
    return Amount(quantity.exact(text), str(text))


def _value(text: str | float) -> int:
    """Return a quantity in whole units, rounded away from zero."""
    return _ceil(quantity.exact(text))


def _ceil(nano: int) -> int:
    return -(-nano // _WHOLE)
