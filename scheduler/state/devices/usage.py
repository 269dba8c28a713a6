"""What allocations take: whole devices, and shares of devices that several claims may have.

Source: kube-scheduler v1.36.3 dynamicresources.allocatedDevices.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from scheduler.model.api import quantity
from scheduler.model.api.devices import Allocation, DeviceResult

__all__ = ["DeviceId", "Usage"]

#: Driver, pool and name.
DeviceId = tuple[str, str, str]

_NOTHING: Final[dict[str, int]] = {}


class Usage:
    """Counts of what is taken, over all allocations."""

    def __init__(self) -> None:
        #: How many claims have a device alone; more than one only after two schedulers collided.
        self._taken: Counter[DeviceId] = Counter()
        self._shares: Counter[DeviceId] = Counter()
        #: The consumed capacity of shared devices by name, in billionths.
        self._consumed: dict[DeviceId, Counter[str]] = {}

    def is_taken(self, device: DeviceId) -> bool:
        """Return whether a claim has the device alone."""
        return device in self._taken

    def is_shared(self, device: DeviceId) -> bool:
        """Return whether a claim has a share of the device."""
        return device in self._shares

    def is_used(self, device: DeviceId) -> bool:
        """Return whether a claim has the device, alone or a share of it."""
        return device in self._taken or device in self._shares

    def consumed(self, device: DeviceId) -> dict[str, int]:
        """Return the consumed capacity of a shared device by name, in billionths."""
        return self._consumed.get(device, _NOTHING)

    def change(
        self, before: Allocation | None, now: Allocation | None
    ) -> Iterator[tuple[str, str]]:
        """Count another allocation; yield driver and name of the pools whose devices it changes."""
        for allocation, sign in ((before, -1), (now, +1)):
            if allocation is not None:
                for result in allocation.devices.results:
                    if not result.admin_access:
                        self._add(result, sign)
                        yield result.driver, result.pool

    def _add(self, result: DeviceResult, sign: int) -> None:
        counts = self._taken if result.share_id is None else self._shares
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

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Usage):
            return NotImplemented
        mine = (self._taken, self._shares, self._consumed)
        return mine == (other._taken, other._shares, other._consumed)

    __hash__ = None  # type: ignore[assignment]
