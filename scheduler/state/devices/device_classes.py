"""Device classes, and the extended resources that they provide.

A pod may request devices by a resource: the one that a class names, or the implicit one of the
class. The plugins decide which nodes take such a pod.
"""

from collections.abc import Iterator, Set

from scheduler.model import times
from scheduler.model.api.devices import DeviceClass
from scheduler.model.api.resources import device_class_resource

__all__ = ["DeviceClasses"]


class DeviceClasses:
    """All device classes of the cluster. Only the cluster changes them.

    Source: dynamic-resource-allocation v0.36.3 extendedresourcecache. Differs: the table is a
    function of the classes that exist, whatever was deleted or renamed before.
    """

    def __init__(self) -> None:
        self._classes: dict[str, DeviceClass] = {}
        self._by_resource: dict[str, DeviceClass] = {}
        #: The names of all resources that classes provide; a new set after each change.
        self.resources: Set[str] = frozenset()

    def __iter__(self) -> Iterator[DeviceClass]:
        return iter(self._classes.values())

    def get(self, name: str) -> DeviceClass | None:
        """Return a class by name."""
        return self._classes.get(name)

    def of_resource(self, resource: str) -> DeviceClass | None:
        """Return the class that provides an extended resource."""
        return self._by_resource.get(resource)

    def write(self, device_class: DeviceClass) -> DeviceClass | None:
        """Store the state of a class; return its previous state."""
        name = device_class.metadata.name
        before = self._classes.get(name)
        self._classes[name] = device_class
        if before is None or _provides(before) != _provides(device_class):
            self._gather()
        else:
            self._replace(before, device_class)
        return before

    def erase(self, name: str) -> DeviceClass | None:
        """Remove a class; return its last state."""
        before = self._classes.pop(name, None)
        self._gather()
        return before

    def _replace(self, before: DeviceClass, now: DeviceClass) -> None:
        for resource in filter(None, _provides(now)[:2]):
            if self._by_resource.get(resource) is before:
                self._by_resource[resource] = now

    def _gather(self) -> None:
        # Of classes with one resource the newest wins, at the same second the lower name.
        by_name = sorted(self._classes.values(), key=_name, reverse=True)
        by_age = sorted(by_name, key=_created)
        named = {
            item.spec.extended_resource_name: item
            for item in by_age
            if item.spec.extended_resource_name
        }
        implicit = {device_class_resource(name): item for name, item in self._classes.items()}
        self._by_resource = {**implicit, **named}
        self.resources = frozenset(self._by_resource)


def _name(device_class: DeviceClass) -> str:
    return device_class.metadata.name


def _created(device_class: DeviceClass) -> float:
    return times.parse(device_class.metadata.creation_timestamp) or 0.0


def _provides(device_class: DeviceClass) -> tuple[str, str | None, float]:
    name = device_class.metadata.name
    explicit = device_class.spec.extended_resource_name
    return device_class_resource(name), explicit, _created(device_class)
