"""By how much this host's clock is ahead of the API server's, as far as its answers tell.

Every answer carries the server's time in its `Date` header, in whole seconds. When it arrives, the
server's clock shows that time or a later one. So the host's clock is ahead by no more than the
difference, and this is what counts: too much of it protects victims for longer.

No single header is believed. What counts is the second smallest difference of the last minute, and
of five answers at least, however old: one answer that was kept somewhere on the way makes the
difference too large, and one from another clock too small. Error pages do not count: a proxy may
have made them. There are two bounds for what no sane clock shows:

    the host ahead by more than a day     counts as a day, so nothing is protected for longer
    the host behind by more than a day    is not believed, and nothing is learnt from it
"""

from collections import deque
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Final

from scheduler.model.times import Seconds

__all__ = ["LARGEST", "ServerTime"]

#: The most that the host's clock counts as ahead, and the most that it may be behind.
LARGEST: Final[Seconds] = 86_400.0
#: For how long a difference counts, and how many count however old they are.
KEPT_SECONDS: Final[Seconds] = 60.0
KEPT_AT_LEAST: Final = 5
#: Between two answers that are looked at.
PAUSE_SECONDS: Final[Seconds] = 1.0
#: A change that is smaller is not told: `Date` knows whole seconds only.
SMALLEST_CHANGE: Final[Seconds] = 1.0
#: As `Sun, 06 Nov 1994 08:49:37 GMT`, which is the only form that servers may write.
_LENGTH: Final = 29


class ServerTime:
    """Learns it from the dates of answers; asked about each answer, it looks at one a second."""

    def __init__(self, now: Callable[[], Seconds]) -> None:
        """Know nothing yet.

        Args:
            now: The clock whose difference is wanted.
        """
        #: Called with the seconds that the host's clock is ahead by, whenever these have changed.
        self.tell: Callable[[Seconds], None] = _ignore
        self._now = now
        self._told: Seconds = 0.0
        #: Moments at which dates came, and by how much `now` was larger.
        self._found: deque[tuple[Seconds, Seconds]] = deque()
        self._next = -float("inf")

    def heard(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Take note of the head of an answer that has just come."""
        now = self._now()
        if now < self._next or not 200 <= status < 300:
            return
        date = next((value for name, value in headers if name.lower() == b"date"), b"")
        moment = parse(date)
        if moment is None or now - moment < -LARGEST:
            return
        self._next = now + PAUSE_SECONDS
        self._note(now, now - moment)

    def _note(self, now: Seconds, ahead: Seconds) -> None:
        found = self._found
        found.append((now, ahead))
        while len(found) > KEPT_AT_LEAST and found[0][0] < now - KEPT_SECONDS:
            found.popleft()
        smallest = sorted(each for _, each in found)[:2]
        counts = min(max(smallest[-1], 0.0), LARGEST)
        if abs(counts - self._told) > SMALLEST_CHANGE:
            self._told = counts
            self.tell(counts)


def _ignore(_: Seconds) -> None:
    """Tell no other part."""


def parse(date: bytes) -> Seconds | None:
    """Return the moment that a `Date` header names; `None` where it cannot be read."""
    if len(date) != _LENGTH or not date.endswith(b" GMT"):
        return None
    try:
        return parsedate_to_datetime(date.decode("ascii")).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
