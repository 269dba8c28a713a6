"""Small integers for values that come and go: counted references, codes used again.

Readers keep tables by code. A table entry is good as long as its code was *born* before the
reader last looked, so a reader only has to look at codes that were born since. Codes that nobody
refers to rest before they are given to other values; many are given free at once, which starts a
new *epoch*. So whoever has followed an epoch may rely on the value of every code met in it.

Axes: A codes.
"""

from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

import numpy as np

from scheduler.state.columns.arrays import Int, grown

__all__ = ["RefcountedInterner"]

T = TypeVar("T")

#: Fewer idle codes than this are not given free, unless a pool says otherwise: a new epoch makes
#: readers start afresh that follow epochs.
_FEWEST: Final = 1024
#: So many bytes of keys of idle codes are, however few the codes: pods can be large.
_MOST_IDLE_BYTES: Final = 8 * 1024 * 1024


class RefcountedInterner(Generic[T]):
    """Gives equal values the same code while anyone refers to them; code 0 is for nothing."""

    __slots__ = ("_born", "_codes", "_fewest", "_free", "_idle", "_idle_bytes", "_keys",
                 "_references", "epoch", "serial", "values")  # fmt: skip

    def __init__(self, nothing: T, fewest: int = _FEWEST) -> None:
        """Make a pool whose code 0 stands for a value that is not counted.

        Args:
            nothing: The value of code 0.
            fewest: Fewer idle codes than this are not given free.
        """
        self._fewest = fewest
        #: The value of each code.
        self.values: list[T] = [nothing]
        #: How many codes were born.
        self.serial = 0
        #: Grows whenever codes get free for other values.
        self.epoch = 0
        self._codes: dict[bytes, int] = {}
        self._keys: list[bytes] = [b""]
        self._references: list[int] = [0]
        self._born: Int = np.zeros(16, dtype=np.int64)
        #: Codes that nobody refers to, in the order in which they were left.
        self._idle: dict[int, None] = {}
        self._idle_bytes = 0
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self.values)

    @property
    def live(self) -> int:
        """How many codes are referred to."""
        return len(self.values) - 1 - len(self._idle) - len(self._free)

    def references(self, code: int) -> int:
        """Return how many references there are to a code."""
        return self._references[code]

    def take(self, key: bytes, make: Callable[[], T]) -> int:
        """Return the code of a value and count one more reference to it.

        Args:
            key: Bytes that are equal for equal values.
            make: Returns the value, for a key that has no code.
        """
        code = self._codes.get(key)
        if code is None:
            code = self._bear(key, make())
        elif not self._references[code]:
            del self._idle[code]
            self._idle_bytes -= len(key)
        self._references[code] += 1
        return code

    def give_back(self, code: int) -> None:
        """Count one reference less."""
        if not code:
            return
        self._references[code] -= 1
        if not self._references[code]:
            self._idle[code] = None
            self._idle_bytes += len(self._keys[code])

    def born_since(self, serial: int) -> Int:
        """Return the codes that got their value after so many others."""
        return np.flatnonzero(self._born[: len(self.values)] > serial)

    def find(self, key: bytes) -> int | None:
        """Return the code of a key; it may be idle."""
        return self._codes.get(key)

    def key(self, code: int) -> bytes:
        """Return the key of a code that stands for a value."""
        return self._keys[code]

    def codes(self) -> Iterable[int]:
        """Return the codes that stand for a value, idle ones included."""
        return self._codes.values()

    def met(self, code: int, value: T) -> None:
        """Note that a value has a code now; for those who keep more about values."""

    def left(self, code: int, value: T) -> None:
        """Note that a value has no code any more."""

    def _bear(self, key: bytes, value: T) -> int:
        crowded = not self._free and len(self._idle) >= max(self._fewest, self.live)
        if crowded or self._idle_bytes > _MOST_IDLE_BYTES:
            self._reclaim()
        if self._free:
            code = self._free.pop()
        else:
            code = len(self.values)
            self.values.append(value)
            self._keys.append(b"")
            self._references.append(0)
            self._born = grown(self._born, code + 1)
        self.serial += 1
        self._born[code] = self.serial
        self.values[code] = value
        self._keys[code] = key
        self._codes[key] = code
        self.met(code, value)
        return code

    def _reclaim(self) -> None:
        """Let the codes that nobody refers to be used for other values."""
        self.epoch += 1
        for code in self._idle:
            del self._codes[self._keys[code]]
            self.left(code, self.values[code])
            self.values[code] = self.values[0]
            self._keys[code] = b""
        self._free.extend(self._idle)
        self._idle.clear()
        self._idle_bytes = 0

    def check(self) -> None:
        """Assert the invariants: every code is referred to, idle or free."""
        counted = [code for code, each in enumerate(self._references) if each]
        assert min(self._references) >= 0
        assert len(counted) == self.live
        assert not set(counted) & (set(self._idle) | set(self._free))
        assert self._idle_bytes == sum(len(self._keys[code]) for code in self._idle)
        assert set(self._codes.values()) == set(counted) | set(self._idle)
