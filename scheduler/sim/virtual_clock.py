"""A clock that a simulation sets, and what happens at its moments."""

import heapq
from collections.abc import Callable
from itertools import count

from scheduler.model.times import Seconds

__all__ = ["VirtualClock"]


class VirtualClock:
    """The time of a simulation. It stands still until `advance` is called.

    Attributes:
        now: The time, in seconds.
    """

    def __init__(self, now: Seconds = 0.0) -> None:
        self.now = now
        self._calls: list[tuple[Seconds, int, Callable[[], None]]] = []
        self._order = count()

    def call_at(self, moment: Seconds, call: Callable[[], None]) -> None:
        """Have a function called at a moment; calls of one moment keep their order."""
        heapq.heappush(self._calls, (moment, next(self._order), call))

    def advance(self, to: Seconds) -> None:
        """Let time pass, and everything happen that is due until then, each at its moment."""
        while self._calls and self._calls[0][0] <= to:
            moment, _, call = heapq.heappop(self._calls)
            self.now = max(self.now, moment)
            call()
        self.now = max(self.now, to)
