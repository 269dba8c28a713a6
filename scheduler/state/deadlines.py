"""When to look at something next: a heap of moments."""

import heapq
from collections.abc import Iterator
from itertools import count
from typing import Generic, TypeVar

from scheduler.model.times import Seconds

__all__ = ["Deadlines"]

Item = TypeVar("Item")


class Deadlines(Generic[Item]):
    """Items in the order of their moments; of one moment, the one that was put first.

    An item may be put more than once, and is taken out once for each time: whether it is still
    meant is for the caller to say.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[Seconds, int, Item]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, item: Item, moment: Seconds) -> None:
        """Take in an item."""
        heapq.heappush(self._entries, (moment, next(self._numbers), item))

    def first(self) -> Seconds | None:
        """Return the first moment; `None` when there is none."""
        return self._entries[0][0] if self._entries else None

    def pop_until(self, now: Seconds) -> Iterator[Item]:
        """Take out the items whose moment has come, and yield them."""
        due = []
        while self._entries and self._entries[0][0] <= now:
            due.append(heapq.heappop(self._entries)[2])
        return iter(due)
