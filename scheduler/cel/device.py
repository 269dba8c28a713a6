"""What a selector is evaluated for: one device of a ResourceSlice."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from scheduler.cel.errors import CelFailure, EvaluationError
from scheduler.cel.library.quantity import Quantity, parse_quantity
from scheduler.cel.library.semver import parse_semver
from scheduler.cel.values import DefaultMap

__all__ = ["Attribute", "CelDevice", "Version", "refusal"]


class Version(str):
    """The text of a version attribute; plain `str` is a string attribute."""

    __slots__ = ()


#: A value that a selector sees.
Scalar: TypeAlias = int | bool | str | Version
#: None is an attribute of an unknown type.
Attribute: TypeAlias = Scalar | Sequence[Scalar] | None


@dataclass(frozen=True)
class CelDevice:
    """A device as its ResourceSlice says it.

    Attributes:
        driver: name of the driver, and the domain of names without one.
        attributes: values by name, with or without a domain; other types are not supported, and
            lists only by some releases.
        capacity: quantities by name, with or without a domain, as texts.
        allow_multiple_allocations: whether several claims may share the device.
        view: what expressions see of it, made once.

    Source: dynamic-resource-allocation v0.36.3 cel.DeviceMatches.
    """

    driver: str
    attributes: Mapping[str, Attribute]
    capacity: Mapping[str, str]
    allow_multiple_allocations: bool = False
    view: "View" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "view", View(self))


class View:
    """The variable `device`.

    Attributes:
        fields: the fields of the variable.
        error: why no expression can be evaluated for the device; None for most.
        list_error: the same where lists are not supported.
    """

    __slots__ = ("error", "fields", "list_error")

    def __init__(self, device: CelDevice) -> None:
        self.error: str | None = None
        self.list_error: str | None = None
        attributes, capacity = DefaultMap(), DefaultMap()
        for name, value in device.attributes.items():
            domain, own = _qualified(name, device.driver)
            attributes.setdefault(domain, {})[own] = self._attribute(name, value)
        for name, text in device.capacity.items():
            domain, own = _qualified(name, device.driver)
            capacity.setdefault(domain, {})[own] = self._quantity(name, text)
        self.fields: dict[str, Any] = {
            "driver": device.driver,
            "allowMultipleAllocations": device.allow_multiple_allocations,
            "attributes": attributes,
            "capacity": capacity,
        }

    def _attribute(self, name: str, value: object) -> object:
        if isinstance(value, list):
            self.list_error = self.list_error or _unsupported(name)
            return [self._scalar(name, each) for each in value]
        return self._scalar(name, value)

    def _scalar(self, name: str, value: object) -> object:
        if isinstance(value, Version):
            try:
                return parse_semver(value)
            except CelFailure as error:
                self._failed(f"attribute {name}: parse semantic version: {error}")
                return None
        if isinstance(value, str):
            return str(value)
        if isinstance(value, bool | int):
            return value
        self._failed(_unsupported(name))
        return None

    def _quantity(self, name: str, text: str) -> Quantity | None:
        try:
            return parse_quantity(text)
        except EvaluationError as error:
            self._failed(f"capacity {name}: {error}")
            return None

    def _failed(self, message: str) -> None:
        if self.error is None:
            self.error = message


def refusal(device: CelDevice, *, knows_lists: bool) -> str | None:
    """Return why no expression can be evaluated for a device; None for most.

    Args:
        device: the device.
        knows_lists: whether the release knows attributes with a list of values.
    """
    return device.view.error or (None if knows_lists else device.view.list_error)


def _unsupported(name: str) -> str:
    return f"attribute {name}: unsupported attribute value"


def _qualified(name: str, driver: str) -> tuple[str, str]:
    domain, slash, own = name.partition("/")
    return (domain, own) if slash else (driver, name)
