"""A heap of items by the moment at which each is due."""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from scheduler.model.times import Seconds

__all__ = ["Deadlines"]

Item = TypeVar("Item")

#: How many entries may be void before they are dropped.
_FEW: Final = 64


def _always(_item: object, _moment: Seconds) -> bool:
    return True


@dataclass(slots=True)
class Deadlines(Generic[Item]):
    """Items in the order of their moments; for equal moments, in the order of arrival.

    An item may be added more than once. Entries that do not apply any more are void: they are
    skipped, and there are never many more of them than of valid entries.
    """

    #: Returns whether an item is still due at a moment.
    _is_valid: Callable[[Item, Seconds], bool] = field(default=_always, compare=False)
    entries: list[tuple[Seconds, int, Item]] = field(default_factory=list)
    #: Of the next entry.
    _number: int = 0
    #: How many entries there may be before the void ones are dropped.
    _most: int = _FEW

    def __len__(self) -> int:
        """Return the number of entries, void ones included."""
        return len(self.entries)

    def put(self, item: Item, moment: Seconds) -> None:
        """Add an item that is due at a moment."""
        heapq.heappush(self.entries, (moment, self._number, item))
        self._number += 1
        if len(self.entries) > self._most:
            self.entries = [entry for entry in self.entries if self._is_valid(entry[2], entry[0])]
            heapq.heapify(self.entries)
            self._most = 2 * len(self.entries) + _FEW

    def first(self) -> Seconds | None:
        """Return the first moment; `None` if there is none."""
        while self.entries:
            moment, _, item = self.entries[0]
            if self._is_valid(item, moment):
                return moment
            heapq.heappop(self.entries)
        return None

    def pop_until(self, now: Seconds) -> Iterator[Item]:
        """Remove and yield the items that are due.

        An item is checked for validity just before it is yielded, so the treatment of one item can
        make the next one void. Items that are added meanwhile are yielded, too, if they are due.
        """
        while (moment := self.first()) is not None and moment <= now:
            yield heapq.heappop(self.entries)[2]
