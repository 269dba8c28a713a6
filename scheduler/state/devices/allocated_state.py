"""Which devices are allocated: whole devices, and shares of devices that several claims may have.

Source: kube-scheduler v1.36.3 dynamicresources.allocatedDevices;
dynamic-resource-allocation v0.36.3 structured.AllocatedState.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from scheduler.model.api import quantity
from scheduler.model.api.devices import Allocation, DeviceResult

__all__ = ["AllocatedState", "DeviceId"]

#: Driver, pool and name.
DeviceId = tuple[str, str, str]

_NOTHING: Final[dict[str, int]] = {}


@dataclass(slots=True)
class AllocatedState:
    """The allocated devices and capacities, counted over all allocations."""

    #: How many claims have a device alone; more than one only after two schedulers collided.
    _devices: Counter[DeviceId] = field(default_factory=Counter)
    #: How many shares of a device are allocated.
    _shares: Counter[DeviceId] = field(default_factory=Counter)
    #: The consumed capacity of shared devices by name, in billionths.
    _consumed: dict[DeviceId, Counter[str]] = field(default_factory=dict)

    def is_allocated(self, device: DeviceId) -> bool:
        """Return whether a claim has the device alone."""
        return device in self._devices

    def is_shared(self, device: DeviceId) -> bool:
        """Return whether a claim has a share of the device."""
        return device in self._shares

    def is_allocated_or_shared(self, device: DeviceId) -> bool:
        """Return whether a claim has the device, alone or a share of it."""
        return device in self._devices or device in self._shares

    def counts(self, device: DeviceId) -> tuple[int, int]:
        """Return how many claims have the device alone, and how many shares of it there are."""
        return self._devices.get(device, 0), self._shares.get(device, 0)

    def consumed_capacity(self, device: DeviceId) -> Mapping[str, int]:
        """Return the consumed capacity of a shared device by name, in billionths."""
        return self._consumed.get(device, _NOTHING)

    def without(self, allocations: Iterable[Allocation]) -> "AllocatedState":
        """Return the state as if some of the allocations were gone; valid until the next change."""
        less = AllocatedState()
        for allocation in allocations:
            for _ in less.change(None, allocation):
                pass
        return _Without(self, less)

    def without_whole(self, devices: Iterable[DeviceId]) -> "AllocatedState":
        """Return the same as if claims were gone that have devices alone."""
        return _Without(self, AllocatedState(Counter(devices)))

    def change(
        self, before: Allocation | None, now: Allocation | None
    ) -> Iterator[tuple[str, str]]:
        """Replace an allocation; yield driver and name of the pools whose devices are affected."""
        for allocation, sign in ((before, -1), (now, +1)):
            if allocation is not None:
                for result in allocation.devices.results:
                    if not result.admin_access:
                        self._add(result, sign)
                        yield result.driver, result.pool

    def _add(self, result: DeviceResult, sign: int) -> None:
        counts = self._devices if result.share_id is None else self._shares
        counts[result.id] += sign
        if not counts[result.id]:
            del counts[result.id]
        if result.share_id is None or not result.consumed_capacity:
            return
        consumed = self._consumed.setdefault(result.id, Counter())
        for name, amount in result.consumed_capacity.items():
            consumed[name] += sign * quantity.exact(amount)
            if not consumed[name]:
                del consumed[name]
        if not consumed:
            del self._consumed[result.id]


class _Without(AllocatedState):
    """A state without some of its allocations; only these are copied."""

    __slots__ = ("_all", "_less")

    def __init__(self, whole: AllocatedState, less: AllocatedState) -> None:
        self._all = whole
        self._less = less

    def is_allocated(self, device: DeviceId) -> bool:
        # Most devices are as before.
        is_less = device in self._less._devices
        return self.counts(device)[0] > 0 if is_less else self._all.is_allocated(device)

    def is_shared(self, device: DeviceId) -> bool:
        return self.counts(device)[1] > 0

    def is_allocated_or_shared(self, device: DeviceId) -> bool:
        return any(count > 0 for count in self.counts(device))

    def counts(self, device: DeviceId) -> tuple[int, int]:
        (alone, shares), (less, fewer) = self._all.counts(device), self._less.counts(device)
        return alone - less, shares - fewer

    def consumed_capacity(self, device: DeviceId) -> Mapping[str, int]:
        consumed, less = self._all.consumed_capacity(device), self._less.consumed_capacity(device)
        if not less:
            return consumed
        left = {name: amount - less.get(name, 0) for name, amount in consumed.items()}
        return {name: amount for name, amount in left.items() if amount}
