"""Objects as they are believed to be: observed, and for a while assumed.

What is assumed of an object was made from its last observed state. News of the object ends it,
for then the API server knows better.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

from scheduler.model.api.storage import PersistentVolume, PersistentVolumeClaim

__all__ = ["AssumeCache"]

T = TypeVar("T", PersistentVolume, PersistentVolumeClaim)


class AssumeCache(Generic[T]):
    """All objects of one kind.

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
        """Of how many objects something is assumed."""
        return len(self._assumed)

    def get(self, key: str) -> T | None:
        """Return an object as it is believed to be."""
        return self._assumed.get(key) or self._observed.get(key)

    def observed(self, key: str) -> T | None:
        """Return an object as the API server has it."""
        return self._observed.get(key)

    def write(self, key: str, item: T) -> T | None:
        """Take over an observed state; return the last one. A newer one ends what was assumed."""
        before = self._observed.get(key)
        self._observed[key] = item
        assumed = self._assumed.get(key)
        if assumed is not None and _version(assumed) != _version(item):
            del self._assumed[key]
        return before

    def erase(self, key: str) -> T | None:
        """Forget an object; return its last observed state."""
        self._assumed.pop(key, None)
        return self._observed.pop(key, None)

    def assume(self, key: str, item: T) -> None:
        """Assume a state of an object, made from the one that was observed last.

        Raises:
            ValueError: It was made from another one.
        """
        observed = self._observed.get(key)
        if observed is None or _version(observed) != _version(item):
            raise ValueError(f"{key} is out of sync and cannot be assumed")
        self._assumed[key] = item

    def restore(self, key: str, item: T) -> None:
        """Assume nothing of an object any more, unless it was observed since."""
        assumed = self._assumed.get(key)
        if assumed is not None and _version(assumed) == _version(item):
            del self._assumed[key]


def _version(item: PersistentVolume | PersistentVolumeClaim) -> str:
    return item.metadata.resource_version
