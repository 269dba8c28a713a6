"""Everything in the machine that has work at some moment, without an event."""

from typing import Protocol

from scheduler.model.times import Seconds, earliest

__all__ = ["Timer", "Timers"]


class Timer(Protocol):
    """Has work that becomes due."""

    def flush(self, now: Seconds) -> None:
        """Do what is due."""

    def next_wakeup(self) -> Seconds | None:
        """Return when `flush` next has something to do; `None` when never."""


class Timers:
    """Timers, in the order in which they do what is due."""

    def __init__(self, *timers: Timer) -> None:
        self._timers = timers

    def flush(self, now: Seconds) -> None:
        """Do what is due."""
        for timer in self._timers:
            timer.flush(now)

    def next_wakeup(self) -> Seconds | None:
        """Return when `flush` next has something to do; `None` when never."""
        return earliest(timer.next_wakeup() for timer in self._timers)
