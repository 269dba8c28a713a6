"""Two caches: one is weak by owner, one is limited in bytes, first in first out."""

from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import ref

__all__ = ["BoundedCache", "WeakCache"]

K = TypeVar("K")
T = TypeVar("T")


class WeakCache(Generic[K, T]):
    """Values derived from objects, by identity; a value is dropped with its object."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[tuple[int, str], tuple[ref[K], T]] = {}

    def __len__(self) -> int:
        return len(self._values)

    def of(self, owner: K, further: str, make: Callable[[], T]) -> T:
        """Return the value of an object and a further key; make it if there is none."""
        key = (id(owner), further)
        entry = self._values.get(key)
        if entry is None:
            dropping = ref(owner, lambda _: self._values.pop(key, None))
            entry = self._values[key] = (dropping, make())
        return entry[1]


class BoundedCache(Generic[T]):
    """The latest values by key, bounded by the bytes of all keys together.

    A bound by count is not enough: the author of a pod spec decides how long a key is, and the
    value takes memory in proportion.
    """

    __slots__ = ("_max_bytes", "_values", "size_bytes")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._values: dict[bytes, T] = {}
        #: Of all keys together.
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: bytes) -> T | None:
        """Return the value of a key, if it is cached."""
        return self._values.get(key)

    def put(self, key: bytes, value: T) -> None:
        """Add the value of a key that has none."""
        self._values[key] = value
        self.size_bytes += len(key)
        while self.size_bytes > self._max_bytes and len(self._values) > 1:
            oldest = next(iter(self._values))
            del self._values[oldest]
            self.size_bytes -= len(oldest)
