"""EventTimes in order, each with a count of events."""

import bisect
from typing import Final

from scheduler.model.times import Seconds

__all__ = ["MAX_RETURNED", "EventTimes"]

#: How many of the last events are returned. No policy has a greater limit.
MAX_RETURNED: Final = 10_000


class EventTimes:
    """The times of events; many events at the same moment take as much space as one."""

    __slots__ = ("_at", "_counts", "_several")

    def __init__(self) -> None:
        self._at: list[Seconds] = []
        self._counts: list[int] = []
        #: How many entries have a count above one.
        self._several = 0

    def __bool__(self) -> bool:
        return bool(self._at)

    def add(self, at: Seconds, count: int) -> None:
        """Add a number of events at a moment."""
        index = bisect.bisect_right(self._at, at)
        self._at.insert(index, at)
        self._counts.insert(index, count)
        self._several += count > 1

    def drop(self, at: Seconds, count: int) -> None:
        """Remove what was added with the same arguments."""
        index = bisect.bisect_left(self._at, at)
        while self._counts[index] != count:
            index += 1
        del self._at[index], self._counts[index]
        self._several -= count > 1

    def count_since(self, since: Seconds) -> int:
        """Return how many events there were after a moment."""
        first = bisect.bisect_right(self._at, since)
        return sum(self._counts[first:]) if self._several else len(self._at) - first

    def since(self, since: Seconds) -> list[Seconds]:
        """Return the times of events after a moment, oldest first: the last `MAX_RETURNED`."""
        first = bisect.bisect_right(self._at, since)
        if not self._several:
            return self._at[max(first, len(self._at) - MAX_RETURNED) :]
        times: list[Seconds] = []
        for index in range(len(self._at) - 1, first - 1, -1):
            missing = MAX_RETURNED - len(times)
            if missing <= 0:
                break
            times += [self._at[index]] * min(missing, self._counts[index])
        times.reverse()
        return times
