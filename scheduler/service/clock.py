"""The clock: the only place where the scheduler reads the time.

Everything else is handed times as arguments. Four readings, for four purposes: `now` decides
(backoff, ages, time-outs), `wall` is written to the API and to logs, `elapsed` bounds what must end
after some time whatever happens to the host, `perf` measures durations.
"""

import functools
import time
from collections.abc import Callable
from typing import Final

from scheduler.model.times import Seconds

__all__ = ["Clock"]

#: By how much a second of `now` may be longer or shorter than a second.
LARGEST_SLEW: Final = 0.05
#: `now` approaches `wall` so that what is left of the difference would be gone after that long.
SLEW_SECONDS: Final = 60.0

#: Goes on while the host is suspended; where the system has none, the usual monotonic clock.
_SINCE_BOOT: Final[Callable[[], float]] = (
    functools.partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic
)


class Clock:
    """Reads the time of this machine.

    Invariant: `now` never runs backwards, whatever is done to the system clock, nor does it jump.
    It starts at the epoch time of the moment the clock was made, so it compares with the stamps of
    pods. After a step of the system clock it approaches `wall`, by three seconds a minute at most:
    a step of an hour takes most of a day. So a process that began before its node's clock was set
    does not stay wrong for its whole life, and no deadline ends early or late by more than a
    twentieth. It says nothing of the API server's clock: `now` and a stamp of the server may differ
    by any amount, and a comparison of the two must be safe in both directions. By how much `now` is
    ahead is learnt from the server's answers (`kube/http/server_time`).
    """

    __slots__ = ("_at", "_base", "_rate", "_wall", "elapsed")

    def __init__(
        self, wall: Callable[[], Seconds] = time.time, elapsed: Callable[[], float] = _SINCE_BOOT
    ) -> None:
        """Start at this moment.

        Args:
            wall: The system's UTC time as seconds since the epoch.
            elapsed: Seconds since some moment; never stands still nor goes back.
        """
        self._wall = wall
        #: Return seconds that go on while the host is suspended; only differences mean something.
        self.elapsed: Final = elapsed
        self._base = wall()
        self._at = elapsed()
        self._rate = 1.0

    def now(self) -> Seconds:
        """Return seconds on the line on which all decisions are made: epoch, but monotonic."""
        return self._base + (self.elapsed() - self._at) * self._rate

    def follow(self) -> None:
        """Look at the system clock, and approach it from now on; to be called every second or so.

        Between two calls `now` goes at one rate, so a call that comes late does no harm.
        """
        at = self.elapsed()
        self._base += (at - self._at) * self._rate
        self._at = at
        slew = (self._wall() - self._base) / SLEW_SECONDS
        self._rate = 1.0 + min(max(slew, -LARGEST_SLEW), LARGEST_SLEW)

    def wall(self) -> Seconds:
        """Return the system's UTC time as seconds since the epoch, for stamps others read."""
        return self._wall()

    #: Returns a reading of the finest monotonic counter, in seconds; only differences mean
    #: something. It is read once for each event, so there is no call in between.
    perf = staticmethod(time.perf_counter)
