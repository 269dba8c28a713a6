"""What was made from something, kept while that is in use, or while it is small enough together."""

from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import ref

__all__ = ["BoundedCache", "WeakCache"]

K = TypeVar("K")
T = TypeVar("T")


class WeakCache(Generic[K, T]):
    """Values made from objects, by identity; each goes when its object does."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[tuple[int, str], tuple[ref[K], T]] = {}

    def __len__(self) -> int:
        return len(self._values)

    def of(self, owner: K, further: str, make: Callable[[], T]) -> T:
        """Return the value of an object, and of what else it depends on."""
        key = (id(owner), further)
        found = self._values.get(key)
        if found is None:
            gone = ref(owner, lambda _: self._values.pop(key, None))
            found = self._values[key] = (gone, make())
        return found[1]


class BoundedCache(Generic[T]):
    """Values by key, those that were made last; bounded by the bytes of all keys together.

    A count would not do: the writer of a pod spec decides how long a key is, and what is made
    from it takes room in proportion.
    """

    __slots__ = ("_most_bytes", "_values", "size_bytes")

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._values: dict[bytes, T] = {}
        #: Of all keys together.
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: bytes) -> T | None:
        """Return the value of a key."""
        return self._values.get(key)

    def put(self, key: bytes, value: T) -> None:
        """Keep the value of a key that has none."""
        self._values[key] = value
        self.size_bytes += len(key)
        while self.size_bytes > self._most_bytes and len(self._values) > 1:
            oldest = next(iter(self._values))
            del self._values[oldest]
            self.size_bytes -= len(oldest)
