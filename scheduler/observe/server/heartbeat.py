"""A heartbeat of the scheduler's loop for the serving thread.

The loop writes a time, the other thread reads it: one number, which needs no lock.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from scheduler.model.times import Seconds

__all__ = ["STUCK_SECONDS", "Heartbeat"]

#: How long the loop may be blocked before the process counts as dead. A restart costs a whole
#: start, even with 150,000 pods, and a leader that is blocked has lost its lease long before; so
#: this is generous.
STUCK_SECONDS: Final = 300.0
#: Time between two beats.
_BEAT_SECONDS: Final = 0.25


class Heartbeat:
    """How long ago the loop last ran.

    Args:
        now: Returns seconds of a monotonic clock; called from both threads.
    """

    def __init__(self, now: Callable[[], Seconds]) -> None:
        self._now = now
        self._beat_at = now()

    @property
    def age(self) -> Seconds:
        """The time since the last beat."""
        return max(0.0, self._now() - self._beat_at)

    def beat(self) -> None:
        """Record that the loop runs."""
        self._beat_at = self._now()

    async def keep(self) -> None:
        """Beat in the loop that awaits this, until cancelled."""
        while True:
            self.beat()
            await asyncio.sleep(_BEAT_SECONDS)

    def stuck(self) -> str | None:
        """Return what is wrong if the loop has been blocked for too long."""
        age = self.age
        return f"the scheduling loop has not run for {age:.0f} s" if age > STUCK_SECONDS else None
