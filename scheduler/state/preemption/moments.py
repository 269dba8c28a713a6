"""Moments in order, each with how often something happened then."""

import bisect
from typing import Final

from scheduler.model.times import Seconds

__all__ = ["MOST_TOLD", "Moments"]

#: So many of the last are told. No policy counts further: its numbers end there.
MOST_TOLD: Final = 10_000


class Moments:
    """When something happened; the same moment may count many times, at the cost of one."""

    __slots__ = ("_at", "_counts", "_several")

    def __init__(self) -> None:
        self._at: list[Seconds] = []
        self._counts: list[int] = []
        #: How many entries count more than once.
        self._several = 0

    def __bool__(self) -> bool:
        return bool(self._at)

    def add(self, at: Seconds, count: int) -> None:
        """Add what happened at a moment, so many times."""
        place = bisect.bisect_right(self._at, at)
        self._at.insert(place, at)
        self._counts.insert(place, count)
        self._several += count > 1

    def drop(self, at: Seconds, count: int) -> None:
        """Take back what was added in the same words."""
        place = bisect.bisect_left(self._at, at)
        while self._counts[place] != count:
            place += 1
        del self._at[place], self._counts[place]
        self._several -= count > 1

    def since(self, since: Seconds) -> list[Seconds]:
        """Return what happened after a moment, oldest first; the last `MOST_TOLD` at most."""
        first = bisect.bisect_right(self._at, since)
        if not self._several:
            return self._at[max(first, len(self._at) - MOST_TOLD) :]
        told: list[Seconds] = []
        for place in range(len(self._at) - 1, first - 1, -1):
            room = MOST_TOLD - len(told)
            if room <= 0:
                break
            told += [self._at[place]] * min(room, self._counts[place])
        told.reverse()
        return told
