"""The clock: the only place where the scheduler reads the time.

Everything else is handed times as arguments. Three readings, for three purposes: `now` decides
(backoff, ages, time-outs), `wall` is written to the API and to logs, `perf` measures durations.
"""

import time

from scheduler.model.times import Seconds

__all__ = ["Clock"]


class Clock:
    """Reads the time of this machine.

    Invariant: `now` never runs backwards, whatever is done to the system clock. It starts at
    the epoch time of the moment the clock was made, so it compares with the stamps of pods; after
    a step of the system clock it stays apart from `wall` by that step.
    """

    __slots__ = ("_start",)

    def __init__(self) -> None:
        self._start = time.time() - time.monotonic()

    def now(self) -> Seconds:
        """Return seconds on the line on which all decisions are made: epoch, but monotonic."""
        return self._start + time.monotonic()

    def wall(self) -> Seconds:
        """Return the system's UTC time as seconds since the epoch, for stamps others read."""
        return time.time()

    #: Returns a reading of the finest monotonic counter, in seconds; only differences mean
    #: something. It is read once for each event, so there is no call in between.
    perf = staticmethod(time.perf_counter)
