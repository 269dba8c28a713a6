"""The parts of devices that selectors read, shared by equal devices.

Source: dynamic-resource-allocation v0.36.3 cel.DeviceMatches.
"""

import itertools
from functools import lru_cache
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from scheduler.cel.device import Attribute, CelDevice, Version, refusal
from scheduler.model.api.devices import AttributeValue, Device
from scheduler.model.releases import Reference

__all__ = ["DeviceKind", "DeviceKinds", "attribute_of"]

_encode: Final = msgspec.msgpack.Encoder(order="sorted").encode


class DeviceKind:
    """The parts of a device that selectors read; equal devices share one."""

    __slots__ = ("__weakref__", "device", "driver", "error", "is_plain", "serial")

    def __init__(self, driver: str, device: Device, serial: int, reference: Reference) -> None:
        self.driver: Final = driver
        #: Any device of the kind.
        self.device: Final = device
        #: No other kind has it, also after this one is gone.
        self.serial: Final = serial
        #: Whether each attribute has one value of one type, as most have.
        self.is_plain: Final = all(map(_is_plain, device.attributes.values()))
        #: The error of every selector; `None` for most.
        self.error: Final = (
            None
            if self.is_plain and _is_readable(device)
            else refusal(self.complete(), knows_lists=reference.selectors_know_list_attributes)
        )

    def complete(self) -> CelDevice:
        """Return a device with everything that a selector can read."""
        device = self.device
        return CelDevice(
            driver=self.driver,
            attributes={name: attribute_of(value) for name, value in device.attributes.items()},
            capacity={name: str(capacity.value) for name, capacity in device.capacity.items()},
            allow_multiple_allocations=bool(device.allow_multiple_allocations),
        )


class DeviceKinds:
    """The kinds of all devices."""

    def __init__(self, reference: Reference) -> None:
        self._reference: Final = reference
        self._kinds: WeakValueDictionary[bytes, DeviceKind] = WeakValueDictionary()
        self._serial: Final = itertools.count()

    def of(self, driver: str, device: Device) -> DeviceKind:
        """Return the kind of a device of a driver."""
        read = (driver, device.attributes, device.capacity, bool(device.allow_multiple_allocations))
        key = _encode(read)
        kind = self._kinds.get(key)
        if kind is None:
            kind = DeviceKind(driver, device, next(self._serial), self._reference)
            self._kinds[key] = kind
        return kind


def attribute_of(attribute: AttributeValue) -> Attribute:
    """Return the value of an attribute; `None`, which no selector accepts, if it has none."""
    versions = attribute.versions
    if versions is not None:
        return [Version(each) for each in versions]
    if attribute.version is not None:
        return Version(attribute.version)
    others = (
        attribute.ints, attribute.bools, attribute.strings,
        attribute.int_, attribute.bool_, attribute.string,
    )  # fmt: skip
    return next((value for value in others if value is not None), None)


def _is_readable(device: Device) -> bool:
    """Return whether the versions and amounts of a device can be read."""
    versions = (each.version for each in device.attributes.values() if each.version is not None)
    amounts = (str(each.value) for each in device.capacity.values())
    return all(map(_is_version, versions)) and all(map(_is_amount, amounts))


def _is_plain(value: AttributeValue) -> bool:
    """Return whether an attribute has one value of one type."""
    if value.strings is not None or value.versions is not None:
        return False
    if value.ints is not None or value.bools is not None:
        return False
    is_set = (value.string is not None) + (value.version is not None)
    return is_set + (value.int_ is not None) + (value.bool_ is not None) == 1


# Most devices have the same versions and amounts.


@lru_cache(maxsize=4096)
def _is_version(text: str) -> bool:
    return CelDevice("", {"x": Version(text)}, {}).view.error is None


@lru_cache(maxsize=4096)
def _is_amount(text: str) -> bool:
    return CelDevice("", {}, {"x": text}).view.error is None
