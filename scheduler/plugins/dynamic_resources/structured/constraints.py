"""Constraints of a claim: attributes in which its devices must agree, or must differ.

Source: dynamic-resource-allocation v0.37.2 structured/internal/incubating.matchAttributeConstraint,
distinctAttributeConstraint. Differs from v0.36.3, which remembers one value of each request for
`distinctAttribute`, and so compares a device with the previous one of its request only.
"""

from typing import Final

from scheduler.model.api.devices import AttributeValue, DeviceConstraint
from scheduler.plugins.dynamic_resources.structured.claims import RequestAccessor
from scheduler.state.devices.slices import DeviceWithId

__all__ = ["LIST", "AttributeConstraint", "TypedValue"]

#: The type of an attribute with a list.
LIST: Final = "list"

#: Type and value of an attribute.
TypedValue = tuple[str, object]


class AttributeConstraint:
    """A `matchAttribute` or `distinctAttribute`, with the values of the devices so far."""

    __slots__ = ("_attribute", "_domain", "_name", "_requests", "_values", "distinct")

    def __init__(self, constraint: DeviceConstraint) -> None:
        attribute = constraint.match_attribute
        #: Whether the values must differ; otherwise they must be equal.
        self.distinct: Final = attribute is None
        self._attribute: Final = attribute or constraint.distinct_attribute or ""
        domain, _, name = self._attribute.partition("/")
        self._domain: Final = domain
        self._name: Final = name
        self._requests: Final = frozenset(constraint.requests)
        self._values: list[TypedValue] = []

    def matches(self, request: RequestAccessor) -> bool:
        """Return whether the constraint applies to a request."""
        names = self._requests
        return not names or request.base_name in names or request.request_name in names

    def add(self, request: RequestAccessor, device: DeviceWithId) -> bool | None:
        """Add a device, if the constraint allows it.

        Returns:
            Whether it is allowed; `None` if the constraint does not apply to the request. After
            True there must be one `remove`.
        """
        if not self.matches(request):
            return None
        value = self.lookup_attribute(device)
        if value is None:
            return False
        values = self._values
        # kube-scheduler does not compare lists: only the first device may have one.
        is_list = value[0] == LIST
        if values and (is_list or (value in values if self.distinct else value != values[0])):
            return False
        values.append(value)
        return True

    def remove(self) -> None:
        """Remove the device that was added last."""
        self._values.pop()

    @property
    def values(self) -> frozenset[TypedValue]:
        """The values of the devices allocated so far."""
        return frozenset(self._values)

    def lookup_attribute(self, device: DeviceWithId) -> TypedValue | None:
        """Return the value of a device; `None` if it has none, so that it can never be added."""
        attributes = device.device.attributes
        attribute = attributes.get(self._attribute)
        if attribute is None and self._name and self._domain == device.id[0]:
            attribute = attributes.get(self._name)
        return None if attribute is None else _typed(attribute)


def _typed(attribute: AttributeValue) -> TypedValue:
    if attribute.string is not None:
        return "string", attribute.string
    if attribute.int_ is not None:
        return "int", attribute.int_
    if attribute.bool_ is not None:
        return "bool", attribute.bool_
    return (LIST, None) if attribute.version is None else ("version", attribute.version)
