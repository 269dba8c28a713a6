"""The values that a selector reads of a device, and the key of its result.

Drivers publish a serial number for each device, so no two devices are equal. Selectors read a few
attributes, in which most devices are.
"""

from collections.abc import Hashable, Mapping
from typing import Final, NamedTuple

import msgspec

from scheduler.cel.device import Attribute
from scheduler.cel.device import Device as CelDevice
from scheduler.cel.planning.reads import Reads
from scheduler.model.api.devices import AttributeValue
from scheduler.state.devices.device_kinds import DeviceKind, attribute_of

__all__ = ["Projection"]

_encode: Final = msgspec.msgpack.Encoder().encode


class _Entry(NamedTuple):
    """An attribute or capacity that is read, and how devices can name it."""

    of_attributes: bool
    #: The name with its domain; "" if no such name has that domain.
    full: str
    domain: str
    #: The name without its domain, which devices of the driver of that name can use.
    own: str


class Projection:
    """The values that a selector reads of devices."""

    __slots__ = ("_driver", "_entries", "_shared", "size")

    def __init__(self, reads: Reads) -> None:
        self._driver: Final = reads.driver
        self._shared: Final = reads.shared
        self._entries: Final = tuple(
            _Entry(
                each.kind == "attributes",
                # A domain ends at the first slash.
                "" if "/" in each.domain else f"{each.domain}/{each.name}",
                each.domain,
                each.name,
            )
            for each in reads.entries
        )
        #: How many values are read.
        self.size: Final = len(self._entries) + reads.driver + reads.shared

    def key(self, kind: DeviceKind) -> Hashable | None:
        """Return a key, equal for devices with equal values; `None` if any value can be read.

        Devices that have a name twice, with and without the domain, are taken as a whole.
        """
        device, driver = kind.device, kind.driver
        parts: list[Hashable] = []
        for of_attributes, full, domain, own in self._entries:
            known: Mapping[str, object] = device.attributes if of_attributes else device.capacity
            value = known.get(full)
            if domain == driver and own in known and "/" not in own:
                if value is not None:
                    return None
                value = known[own]
            if value is None:
                parts.append(None)
            elif of_attributes:
                text = value.string if kind.is_plain else None  # type: ignore[attr-defined]
                # Strings and bytes are never equal, so the types of values do not mix.
                parts.append(_encode(value) if text is None else text)
            else:
                parts.append(str(value.value))  # type: ignore[attr-defined]
        if self._driver:
            parts.append(driver)
        if self._shared:
            parts.append(bool(device.allow_multiple_allocations))
        # The table of a selector has keys of one form: these alone are never tuples.
        return parts[0] if len(parts) == 1 and parts[0] is not None else tuple(parts)

    def device(self, kind: DeviceKind) -> CelDevice:
        """Return a device of a kind, which has no name twice, with the values that are read."""
        attributes: dict[str, Attribute] = {}
        capacity: dict[str, str] = {}
        for of_attributes, full, domain, own in self._entries:
            names = [full, own] if domain == kind.driver and "/" not in own else [full]
            for name in names:
                value: AttributeValue | None = kind.device.attributes.get(name)
                if of_attributes and value is not None:
                    attributes[name] = attribute_of(value)
                elif not of_attributes and name in kind.device.capacity:
                    capacity[name] = str(kind.device.capacity[name].value)
        shared = bool(kind.device.allow_multiple_allocations)
        return CelDevice(kind.driver, attributes, capacity, shared)
