"""How much of the capacities of a device a request consumes, and whether it has that much.

Amounts are in billionths.

Source: dynamic-resource-allocation v0.36.3 structured/internal/incubating/consumable_capacity.go.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from scheduler.model.api import quantity
from scheduler.model.api.devices import CapacityRange, RequestPolicy
from scheduler.model.api.objects import Quantities
from scheduler.state.devices.slices import CapacityLimit, DeviceEntry

__all__ = ["Consumption", "consumption", "is_simple"]

_WHOLE: Final = 10**9

#: The amount that is consumed of each capacity, and its text.
Consumption = dict[str, "Amount"]


class Amount(NamedTuple):
    """An amount of a capacity."""

    nano: int
    #: A text in the format that it is written in.
    like: str

    @property
    def text(self) -> str:
        """The amount as it is written into an allocation."""
        return quantity.written(self.nano, like=self.like)


def is_simple(entry: DeviceEntry) -> bool:
    """Return whether every request without capacities fits a device that nobody uses."""
    return not entry.shared and all(limit.policy is None for limit in entry.capacity.values())


def consumption(
    entry: DeviceEntry,
    requests: Quantities,
    used: tuple[Mapping[str, int], ...],
    *,
    in_format_of_step: bool,
) -> Consumption | None:
    """Return what a request consumes of a device; `None` if the device does not have that much.

    Args:
        entry: The device.
        requests: The capacity that is requested, by name.
        used: What others have consumed already, by name.
        in_format_of_step: Whether a rounded amount is written in the format of the step.
    """
    if any(name not in entry.capacity for name in requests):
        return None
    consumed: Consumption = {}
    for name, limit in entry.capacity.items():
        amount = _amount(limit, requests.get(name), in_format_of_step=in_format_of_step)
        if amount is None:
            return None
        if sum(others.get(name, 0) for others in used) + amount.nano > limit.value:
            return None
        consumed[name] = amount
    return consumed


def _amount(
    limit: CapacityLimit, request: str | float | None, *, in_format_of_step: bool
) -> Amount | None:
    """Return how much of one capacity a request consumes; `None` if the policy forbids it."""
    policy = limit.policy
    if policy is None:
        return Amount(limit.value, limit.text) if request is None else _parsed(request)
    default = None if policy.default is None else _parsed(policy.default)
    if request is None:
        amount = default or Amount(limit.value, limit.text)
    else:
        amount = _rounded(_parsed(request), policy, in_format_of_step=in_format_of_step)
    if default is not None and amount.nano == default.nano:
        return amount
    return amount if _allows(policy, amount.nano) else None


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
        return Amount((start + step * steps) * _WHOLE, like)
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
