"""When to look at something next: a heap of moments."""

import heapq
from collections.abc import Iterator
from itertools import count
from typing import Final, Generic, TypeVar

from scheduler.model.times import Seconds

__all__ = ["Deadlines"]

Item = TypeVar("Item")


class Deadlines(Generic[Item]):
    """Items in the order of their moments; of one moment, the one that was put first.

    An item may be put more than once, and is taken out once for each time: whether it is still
    meant is for the caller to say.
    """

    def __init__(self) -> None:
        #: Moments and items as a heap; only to be looked at.
        self.entries: Final[list[tuple[Seconds, int, Item]]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self.entries)

    def put(self, item: Item, moment: Seconds) -> None:
        """Take in an item."""
        heapq.heappush(self.entries, (moment, next(self._numbers), item))

    def first(self) -> Seconds | None:
        """Return the first moment; `None` when there is none."""
        return self.entries[0][0] if self.entries else None

    def pop_until(self, now: Seconds) -> Iterator[Item]:
        """Take out the items whose moment has come, and yield them."""
        due = []
        while self.entries and self.entries[0][0] <= now:
            due.append(heapq.heappop(self.entries)[2])
        return iter(due)
