"""How long a pod backs off after failed attempts. It waits in `queue/scheduling_queue`.

Source: kube-scheduler v1.36.3 backend/queue.backoffQueue.calculateBackoffDuration. Times are whole
seconds on purpose: a backoff of one second ends between one and two seconds after the failure.
"""

import math
from dataclasses import dataclass

from scheduler.model.times import Seconds

__all__ = ["PodBackoff"]


@dataclass(frozen=True, slots=True)
class PodBackoff:
    """The two settings of the back-off."""

    #: First pause in seconds.
    initial_seconds: int = 1
    #: Longest pause in seconds; 0 switches the back-off off.
    max_seconds: int = 10

    def duration(self, failures: int) -> int:
        """Return the pause in seconds, which doubles with every failure."""
        if failures <= 0:
            return 0
        doublings = failures - 1
        # The limit is shifted down, because a pause that is doubled could grow without bound.
        if self.initial_seconds > self.max_seconds >> doublings:
            return self.max_seconds
        return self.initial_seconds << doublings

    def expiry(self, failed_at: Seconds, failures: int) -> Seconds:
        """Return when the pause after the last failure ends, a whole second."""
        return math.floor(failed_at + self.duration(failures))

    def is_waiting(self, expiry: Seconds, now: Seconds) -> bool:
        """Return whether a back-off is not over yet."""
        return self.max_seconds > 0 and expiry >= math.floor(now)
