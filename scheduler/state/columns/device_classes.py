"""Device classes, and the resources that they provide.

A pod may ask for devices by a resource: the class names one, and has one of its own besides. Which
nodes take such a pod is for the rules to say.
"""

from collections.abc import Iterator, Set

from scheduler.model.api.objects import DeviceClass
from scheduler.model.api.resources import device_class_resource

__all__ = ["DeviceClasses"]


class DeviceClasses:
    """All device classes of the cluster. Only the cluster changes them.

    Source: dynamic-resource-allocation v0.36.3 extendedresourcecache. Differs: a name that two
    classes share is provided until both are gone.
    """

    def __init__(self) -> None:
        self._classes: dict[str, DeviceClass] = {}
        #: The names of all resources that some class provides; a new set after each change.
        self.resources: Set[str] = frozenset()

    def __iter__(self) -> Iterator[DeviceClass]:
        return iter(self._classes.values())

    def write(self, device_class: DeviceClass) -> DeviceClass | None:
        """Take over the state of a class; return the one before."""
        name = device_class.metadata.name
        before = self._classes.get(name)
        self._classes[name] = device_class
        self._gather()
        return before

    def erase(self, name: str) -> DeviceClass | None:
        """Forget a class; return it."""
        before = self._classes.pop(name, None)
        self._gather()
        return before

    def _gather(self) -> None:
        found = {device_class_resource(name) for name in self._classes}
        named = (each.spec.extended_resource_name for each in self._classes.values())
        self.resources = frozenset(found.union(filter(None, named)))
