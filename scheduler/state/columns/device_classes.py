"""Device classes, and the extended resources that they provide.

A pod may request devices by a resource: the one that a class names, or the implicit one of the
class. The plugins decide which nodes take such a pod.
"""

from collections.abc import Iterator, Set

from scheduler.model.api.objects import DeviceClass
from scheduler.model.api.resources import device_class_resource

__all__ = ["DeviceClasses"]


class DeviceClasses:
    """All device classes of the cluster. Only the cluster changes them.

    Source: dynamic-resource-allocation v0.36.3 extendedresourcecache. Differs: a name that two
    classes share is provided until both are deleted.
    """

    def __init__(self) -> None:
        self._classes: dict[str, DeviceClass] = {}
        #: The names of all resources that classes provide; a new set after each change.
        self.resources: Set[str] = frozenset()

    def __iter__(self) -> Iterator[DeviceClass]:
        return iter(self._classes.values())

    def write(self, device_class: DeviceClass) -> DeviceClass | None:
        """Store the state of a class; return its previous state."""
        name = device_class.metadata.name
        before = self._classes.get(name)
        self._classes[name] = device_class
        self._gather()
        return before

    def erase(self, name: str) -> DeviceClass | None:
        """Remove a class; return its last state."""
        before = self._classes.pop(name, None)
        self._gather()
        return before

    def _gather(self) -> None:
        implicit = {device_class_resource(name) for name in self._classes}
        named = (item.spec.extended_resource_name for item in self._classes.values())
        self.resources = frozenset(implicit.union(filter(None, named)))
