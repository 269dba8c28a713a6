"""The clock: the only place where the scheduler reads the time.

Everything else gets times as arguments. There are four readings for four purposes: `now` is for
decisions (backoff, ages, timeouts), `wall` is written to the API and to logs, `elapsed` is for
deadlines that count a suspension of the host, `perf` measures durations.
"""

import functools
import time
from collections.abc import Callable
from typing import Final

from scheduler.model.times import Seconds

__all__ = ["Clock"]

#: By how much a second of `now` may be longer or shorter than a second.
LARGEST_SLEW: Final = 0.05
#: `now` approaches `wall` at the rate at which the difference would be gone after this time.
SLEW_SECONDS: Final = 60.0

#: A clock that counts while the host is suspended; elsewhere the usual monotonic clock.
_SINCE_BOOT: Final[Callable[[], float]] = (
    functools.partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic
)


class Clock:
    """Reads the time of this machine.

    Invariant: `now` never goes backwards, whatever happens to the system clock, and never jumps.
    It starts at the epoch time of the moment when the clock was made, so it is comparable with the
    stamps of pods. After a step of the system clock it approaches `wall`, by three seconds a minute
    at most: a step of an hour takes most of a day. So a process that began before its node's clock
    was set does not stay wrong permanently, and no deadline ends early or late by more than a
    twentieth. It is independent of the API server's clock: `now` and a stamp of the server may
    differ by any amount, and a comparison of the two must be safe in both directions.
    `kube/http/server_time` learns from the server's answers by how much `now` is ahead.
    """

    __slots__ = ("_at", "_base", "_rate", "_wall", "elapsed")

    def __init__(
        self, wall: Callable[[], Seconds] = time.time, elapsed: Callable[[], float] = _SINCE_BOOT
    ) -> None:
        """Start at this moment.

        Args:
            wall: The system's UTC time as seconds since the epoch.
            elapsed: Seconds since some moment; never stops nor goes backwards.
        """
        self._wall = wall
        #: Returns seconds that count during a suspension, too; only differences mean something.
        self.elapsed: Final = elapsed
        self._base = wall()
        self._at = elapsed()
        self._rate = 1.0

    def now(self) -> Seconds:
        """Return the time for all decisions: seconds since the epoch, but monotonic."""
        return self._base + (self.elapsed() - self._at) * self._rate

    def adjust(self) -> None:
        """Read the system clock, and approach it from now on; to be called about every second.

        Between two calls `now` runs at one rate, so a late call does no harm.
        """
        at = self.elapsed()
        self._base += (at - self._at) * self._rate
        self._at = at
        slew = (self._wall() - self._base) / SLEW_SECONDS
        self._rate = 1.0 + min(max(slew, -LARGEST_SLEW), LARGEST_SLEW)

    def wall(self) -> Seconds:
        """Return the system's UTC time as seconds since the epoch, for stamps others read."""
        return self._wall()

    #: Returns the finest monotonic counter, in seconds; only differences mean something. It is read
    #: once for each event, so there is no wrapper around it.
    perf = staticmethod(time.perf_counter)
