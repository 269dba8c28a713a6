"""Which resources have columns: cpu, memory and ephemeral storage, and those that nodes offer.

A request alone gives no resource a column, because the authors of pods could request any number of
names: a resource that no node offers is insufficient everywhere, whatever the amount. A name that
no node offers any more loses its code, and the code is reused.

Axes: R resources.
"""

from collections.abc import Sequence, Set
from typing import Final, Generic, TypeVar

from scheduler.model.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY

__all__ = ["NOT_OFFERED", "Coded", "ResourceAxis"]

T = TypeVar("T")

#: The code of names that no node offers; beyond all columns.
NOT_OFFERED: Final = 2**31

_NATIVE: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)


class ResourceAxis:
    """The codes of resources in all columns: cpu, memory, ephemeral storage, then as offered."""

    __slots__ = ("_codes", "_free", "_fresh", "_offers", "_retired", "values", "version")

    def __init__(self) -> None:
        #: The name of each code; empty for codes that are not in use.
        self.values: list[str] = list(_NATIVE)
        #: Grows whenever a name gets a code or loses it.
        self.version = 0
        self._codes: dict[str, int] = {name: code for code, name in enumerate(_NATIVE)}
        #: How many nodes offer each name that is not native.
        self._offers: dict[str, int] = {}
        self._fresh: list[int] = []
        self._retired: list[int] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self.values)

    def code(self, name: str) -> int:
        """Return the code of a name, `NOT_OFFERED` if it has none."""
        return self._codes.get(name, NOT_OFFERED)

    def offered(self) -> Set[str]:
        """Return all names that have a code."""
        return self._codes.keys()

    def offer(self, name: str) -> int:
        """Record that one more node offers a resource; return its code."""
        if name in _NATIVE:
            return self._codes[name]
        self._offers[name] = self._offers.get(name, 0) + 1
        code = self._codes.get(name)
        if code is None:
            code = self._free.pop() if self._free else len(self.values)
            if code == len(self.values):
                self.values.append(name)
            else:
                self.values[code] = name
            self._codes[name] = code
            self._fresh.append(code)
            self.version += 1
        return code

    def withdraw(self, name: str) -> None:
        """Record that one node less offers a resource."""
        if name in _NATIVE:
            return
        self._offers[name] -= 1
        if not self._offers[name]:
            del self._offers[name]
            code = self._codes.pop(name)
            self.values[code] = ""
            self._retired.append(code)
            self.version += 1

    def take_changes(self) -> tuple[list[int], list[int]]:
        """Return the codes that lost their name and those that got one since the last call.

        The former may be reused from now on: the caller must clear all that it keeps by them.
        """
        retired = self._retired
        fresh = [code for code in self._fresh if self.values[code]]
        self._free += retired
        self._fresh, self._retired = [], []
        return retired, fresh


class Coded(Generic[T]):
    """An item for each of some resource names, by code; codes are updated with the axis."""

    __slots__ = ("_axis", "_items", "_now", "_version")

    def __init__(self, axis: ResourceAxis, items: Sequence[tuple[str, T]]) -> None:
        self._axis = axis
        self._items = items
        self._now: list[tuple[int, T]] = []
        self._version = -1

    def now(self) -> list[tuple[int, T]]:
        """Return code and item of each name, in order; `NOT_OFFERED` if no node offers it."""
        if self._version != self._axis.version:
            code = self._axis.code
            self._now = [(code(name), item) for name, item in self._items]
            self._version = self._axis.version
        return self._now
