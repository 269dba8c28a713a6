"""Constraints of a claim: attributes in which its devices must agree, or must differ.

Source: dynamic-resource-allocation v0.37.2 structured/internal/incubating.matchAttributeConstraint,
distinctAttributeConstraint. Differs from v0.36.3, which remembers one value of each request for
`distinctAttribute`, and so compares a device with the previous one of its request only.
"""

from typing import Final

from scheduler.model.api.devices import AttributeValue, Constraint
from scheduler.state.devices.slices import DeviceEntry

__all__ = ["LIST", "ConstraintState", "Typed"]

#: The type of an attribute with a list.
LIST: Final = "list"

#: Type and value of an attribute.
Typed = tuple[str, object]


class ConstraintState:
    """One constraint and the values of the devices that are taken so far."""

    __slots__ = ("_attribute", "_domain", "_name", "_requests", "_values", "distinct")

    def __init__(self, constraint: Constraint) -> None:
        attribute = constraint.match_attribute
        #: Whether the values must differ; otherwise they must agree.
        self.distinct: Final = attribute is None
        self._attribute: Final = attribute or constraint.distinct_attribute or ""
        domain, _, name = self._attribute.partition("/")
        self._domain: Final = domain
        self._name: Final = name
        self._requests: Final = frozenset(constraint.requests)
        self._values: list[Typed] = []

    def concerns(self, request: str, name: str) -> bool:
        """Return whether it is about a request; for the arguments see `add`."""
        named = self._requests
        return not named or request in named or name in named

    def add(self, request: str, name: str, entry: DeviceEntry) -> bool | None:
        """Add a device, if the constraint allows it.

        Args:
            request: The name of the request.
            name: The same, or `request/subrequest`.
            entry: The device.

        Returns:
            Whether it is allowed; `None` if the constraint is not about this request. After True
            there must be one `remove`.
        """
        if not self.concerns(request, name):
            return None
        value = self.value(entry)
        if value is None:
            return False
        kept = self._values
        # A list, whose type these rules do not know, is allowed for the first device only.
        listed = value[0] == LIST
        if kept and (listed or (value in kept if self.distinct else value != kept[0])):
            return False
        kept.append(value)
        return True

    def remove(self) -> None:
        """Remove the device that was added last."""
        self._values.pop()

    @property
    def kept(self) -> frozenset[Typed]:
        """The values of the devices that are taken so far."""
        return frozenset(self._values)

    def value(self, entry: DeviceEntry) -> Typed | None:
        """Return the value of a device; `None` if it has none, so that it can never be added."""
        attributes = entry.device.attributes
        attribute = attributes.get(self._attribute)
        if attribute is None and self._name and self._domain == entry.id[0]:
            attribute = attributes.get(self._name)
        return None if attribute is None else _typed(attribute)


def _typed(attribute: AttributeValue) -> Typed:
    if attribute.string is not None:
        return "string", attribute.string
    if attribute.int_ is not None:
        return "int", attribute.int_
    if attribute.bool_ is not None:
        return "bool", attribute.bool_
    return (LIST, None) if attribute.version is None else ("version", attribute.version)
