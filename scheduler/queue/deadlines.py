"""When to look at something next: a heap of moments."""

import heapq
from collections.abc import Callable, Iterator
from itertools import count
from typing import Final, Generic, TypeVar

from scheduler.model.times import Seconds

__all__ = ["Deadlines"]

Item = TypeVar("Item")

#: How many entries may be void before all are looked through.
_FEW: Final = 64


class Deadlines(Generic[Item]):
    """Items in the order of their moments; of one moment, the one that was put first.

    An item may be put more than once. Entries that are not meant any more are void: they are left
    out, and there are never many more of them than of others.
    """

    def __init__(self, is_meant: Callable[[Item, Seconds], bool]) -> None:
        """Make it.

        Args:
            is_meant: Tells of an item and a moment whether it is still to be looked at then.
        """
        self._is_meant = is_meant
        self.entries: list[tuple[Seconds, int, Item]] = []
        self._numbers = count()
        #: How many entries there may be before the void ones are dropped.
        self._most = _FEW

    def __len__(self) -> int:
        """Return how many entries are kept, void ones included."""
        return len(self.entries)

    def put(self, item: Item, moment: Seconds) -> None:
        """Take in an item."""
        heapq.heappush(self.entries, (moment, next(self._numbers), item))
        if len(self.entries) > self._most:
            self.entries = [each for each in self.entries if self._is_meant(each[2], each[0])]
            heapq.heapify(self.entries)
            self._most = 2 * len(self.entries) + _FEW

    def first(self) -> Seconds | None:
        """Return the first moment; `None` when there is none."""
        while self.entries:
            moment, _, item = self.entries[0]
            if self._is_meant(item, moment):
                return moment
            heapq.heappop(self.entries)
        return None

    def pop_until(self, now: Seconds) -> Iterator[Item]:
        """Take out the items whose moment has come, and yield them.

        Whether one is meant is asked when it is its turn, so what is done about one counts for the
        next. What is put meanwhile for a moment that has come is yielded, too.
        """
        while (moment := self.first()) is not None and moment <= now:
            yield heapq.heappop(self.entries)[2]
