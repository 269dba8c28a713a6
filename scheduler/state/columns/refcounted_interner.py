"""Small integers for values with a limited life: references are counted, codes are reused.

Readers keep tables by code. A table entry is valid as long as its code was not assigned to a value
since the reader's last update, so a reader only has to update codes that were assigned since. Codes
without references stay idle before they are reused; many are freed at once, which starts a new
*epoch*. Within an epoch, the value of a code does not change.

Axes: A codes.
"""

from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

import numpy as np

from scheduler.state.columns.arrays import Int, grown

__all__ = ["RefcountedInterner"]

T = TypeVar("T")

#: How many idle codes there must be before they are freed, unless an interner has its own limit: a
#: new epoch makes readers that depend on epochs start from scratch.
_MIN_IDLE: Final = 1024
#: Idle codes are also freed when their keys exceed this number of bytes: pods can be large.
_MAX_IDLE_BYTES: Final = 8 * 1024 * 1024


class RefcountedInterner(Generic[T]):
    """Gives equal values the same code while there are references; code 0 is not counted."""

    __slots__ = ("_assigned", "_codes", "_fewest", "_free", "_idle", "_idle_bytes", "_keys",
                 "_references", "epoch", "serial", "values")  # fmt: skip

    def __init__(self, nothing: T, fewest: int = _MIN_IDLE) -> None:
        """Create an interner whose code 0 stands for a value that is not counted.

        Args:
            nothing: The value of code 0.
            fewest: How many idle codes there must be before they are freed.
        """
        self._fewest = fewest
        #: The value of each code.
        self.values: list[T] = [nothing]
        #: How often a code was assigned to a value.
        self.serial = 0
        #: Grows whenever codes are freed for other values.
        self.epoch = 0
        self._codes: dict[bytes, int] = {}
        self._keys: list[bytes] = [b""]
        self._references: list[int] = [0]
        self._assigned: Int = np.zeros(16, dtype=np.int64)
        #: Codes without references, in the order in which they lost the last one.
        self._idle: dict[int, None] = {}
        self._idle_bytes = 0
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self.values)

    @property
    def live(self) -> int:
        """How many codes have references."""
        return len(self.values) - 1 - len(self._idle) - len(self._free)

    def references(self, code: int) -> int:
        """Return the number of references to a code."""
        return self._references[code]

    def acquire(self, key: bytes, make: Callable[[], T]) -> int:
        """Return the code of a value and add a reference to it.

        Args:
            key: Bytes that are equal for equal values.
            make: Returns the value, for a key that has no code.
        """
        code = self._codes.get(key)
        if code is None:
            code = self._assign(key, make())
        elif not self._references[code]:
            del self._idle[code]
            self._idle_bytes -= len(key)
        self._references[code] += 1
        return code

    def release(self, code: int) -> None:
        """Remove a reference."""
        if not code:
            return
        self._references[code] -= 1
        if not self._references[code]:
            self._idle[code] = None
            self._idle_bytes += len(self._keys[code])

    def assigned_since(self, serial: int) -> Int:
        """Return the codes that were assigned after `serial` had this value."""
        return np.flatnonzero(self._assigned[: len(self.values)] > serial)

    def find(self, key: bytes) -> int | None:
        """Return the code of a key; it may be idle."""
        return self._codes.get(key)

    def key(self, code: int) -> bytes:
        """Return the key of a code that stands for a value."""
        return self._keys[code]

    def codes(self) -> Iterable[int]:
        """Return the codes that stand for a value, idle ones included."""
        return self._codes.values()

    def on_assigned(self, code: int, value: T) -> None:
        """Handle that a value got a code; for subclasses that keep more about values."""

    def on_freed(self, code: int, value: T) -> None:
        """Handle that a value lost its code."""

    def _assign(self, key: bytes, value: T) -> int:
        crowded = not self._free and len(self._idle) >= max(self._fewest, self.live)
        if crowded or self._idle_bytes > _MAX_IDLE_BYTES:
            self._reclaim()
        if self._free:
            code = self._free.pop()
        else:
            code = len(self.values)
            self.values.append(value)
            self._keys.append(b"")
            self._references.append(0)
            self._assigned = grown(self._assigned, code + 1)
        self.serial += 1
        self._assigned[code] = self.serial
        self.values[code] = value
        self._keys[code] = key
        self._codes[key] = code
        self.on_assigned(code, value)
        return code

    def _reclaim(self) -> None:
        """Free all idle codes for other values."""
        self.epoch += 1
        for code in self._idle:
            del self._codes[self._keys[code]]
            self.on_freed(code, self.values[code])
            self.values[code] = self.values[0]
            self._keys[code] = b""
        self._free.extend(self._idle)
        self._idle.clear()
        self._idle_bytes = 0

    def check(self) -> None:
        """Assert the invariants: every code has references, or is idle or free."""
        counted = [code for code, number in enumerate(self._references) if number]
        assert min(self._references) >= 0
        assert len(counted) == self.live
        assert not set(counted) & (set(self._idle) | set(self._free))
        assert self._idle_bytes == sum(len(self._keys[code]) for code in self._idle)
        assert set(self._codes.values()) == set(counted) | set(self._idle)
