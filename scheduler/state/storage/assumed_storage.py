"""Observed objects, with assumed states for some of them.

An assumed state is derived from the last observed state of the object. A newer observed state
replaces it.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

from scheduler.model.api.storage import PersistentVolume, PersistentVolumeClaim

__all__ = ["AssumeCache"]

T = TypeVar("T", PersistentVolume, PersistentVolumeClaim)


class AssumeCache(Generic[T]):
    """All objects of one kind, observed or assumed.

    Source: kube-scheduler v1.36.3 volumebinding.passiveAssumeCache.
    """

    __slots__ = ("_assumed", "_observed")

    def __init__(self) -> None:
        self._observed: dict[str, T] = {}
        self._assumed: dict[str, T] = {}

    def __len__(self) -> int:
        return len(self._observed)

    def __iter__(self) -> Iterator[T]:
        return (self._assumed.get(key, item) for key, item in self._observed.items())

    @property
    def assumed(self) -> int:
        """How many objects have an assumed state."""
        return len(self._assumed)

    def get(self, key: str) -> T | None:
        """Return the assumed state of an object, else its observed state."""
        return self._assumed.get(key) or self._observed.get(key)

    def observed(self, key: str) -> T | None:
        """Return the observed state of an object."""
        return self._observed.get(key)

    def write(self, key: str, item: T) -> T | None:
        """Store an observed state, which ends an older assumed one; return the previous one."""
        before = self._observed.get(key)
        self._observed[key] = item
        assumed = self._assumed.get(key)
        if assumed is not None and _version(assumed) != _version(item):
            del self._assumed[key]
        return before

    def erase(self, key: str) -> T | None:
        """Remove an object; return its last observed state."""
        self._assumed.pop(key, None)
        return self._observed.pop(key, None)

    def assume(self, key: str, item: T) -> None:
        """Assume a state of an object, which must be derived from the last observed state.

        Raises:
            ValueError: It is derived from another state.
        """
        observed = self._observed.get(key)
        if observed is None or _version(observed) != _version(item):
            raise ValueError(f"{key} is out of sync and cannot be assumed")
        self._assumed[key] = item

    def restore(self, key: str, item: T) -> None:
        """Drop an assumed state, unless a newer one was observed since."""
        assumed = self._assumed.get(key)
        if assumed is not None and _version(assumed) == _version(item):
            del self._assumed[key]


def _version(item: PersistentVolume | PersistentVolumeClaim) -> str:
    return item.metadata.resource_version
