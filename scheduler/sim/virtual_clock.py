"""A clock that a simulation sets, and what happens at its moments."""

from collections.abc import Callable

from scheduler.model.times import Seconds
from scheduler.queue.deadlines import Deadlines

__all__ = ["VirtualClock"]


class VirtualClock:
    """The time of a simulation. It stands still until `advance` is called.

    Attributes:
        now: The time, in seconds.
    """

    def __init__(self, now: Seconds = 0.0) -> None:
        self.now = now
        #: Each with its moment; every one applies.
        self._calls: Deadlines[tuple[Seconds, Callable[[], None]]] = Deadlines()

    def call_at(self, moment: Seconds, call: Callable[[], None]) -> None:
        """Have a function called at a moment; calls of one moment keep their order."""
        self._calls.put((moment, call), moment)

    def advance(self, to: Seconds) -> None:
        """Let time pass, and everything happen that is due until then, each at its moment."""
        for moment, call in self._calls.pop_until(to):
            self.now = max(self.now, moment)
            call()
        self.now = max(self.now, to)
