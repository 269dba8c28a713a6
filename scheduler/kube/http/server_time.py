"""By how much this host's clock is ahead of the API server's, measured from its responses.

Every response has the server's time in its `Date` header, in whole seconds. When it arrives, the
server's clock shows that time or a later one. So the host's clock is ahead by no more than the
difference. This upper bound is used: if it is too large, victims are protected for longer.

No single header is trusted. The result is the second smallest difference of the last minute, and of
five responses at least, however old: a response from a cache in between makes the difference too
large, and one from another clock too small. Error pages do not count: a proxy may have created
them. Implausible differences are limited:

    the host ahead by more than a day     counts as a day, so nothing is protected for longer the
    host behind by more than a day    the response is ignored
"""

from collections import deque
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Final

from scheduler.model.times import Seconds

__all__ = ["LARGEST", "ServerTime"]

#: The most that the host's clock counts as ahead, and the most that it may be behind.
LARGEST: Final[Seconds] = 86_400.0
#: How long a difference counts, and how many count however old they are.
KEPT_SECONDS: Final[Seconds] = 60.0
KEPT_AT_LEAST: Final = 5
#: Between two answers that are evaluated.
PAUSE_SECONDS: Final[Seconds] = 1.0
#: Smaller changes are not reported: `Date` has whole seconds only.
SMALLEST_CHANGE: Final[Seconds] = 1.0
#: The length of `Sun, 06 Nov 1994 08:49:37 GMT`, the only form that servers may write.
_LENGTH: Final = 29


class ServerTime:
    """Estimates the difference; gets the head of every answer and evaluates one a second."""

    def __init__(self, now: Callable[[], Seconds]) -> None:
        """Know nothing yet.

        Args:
            now: The clock that is compared with the server's.
        """
        self._report: Callable[[Seconds], None] = _ignore
        self._now = now
        self._reported: Seconds = 0.0
        #: When dates arrived, and by how much `now` was larger.
        self._differences: deque[tuple[Seconds, Seconds]] = deque()
        self._next = -float("inf")

    def report_to(self, report: Callable[[Seconds], None]) -> None:
        """Report the seconds by which the host's clock is ahead, now and whenever they change.

        Answers may have arrived before: a difference that is known already is reported at once.
        """
        self._report = report
        if self._reported:
            report(self._reported)

    def observe(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Evaluate the head of an answer that has just arrived."""
        now = self._now()
        if now < self._next or not 200 <= status < 300:
            return
        date = next((value for name, value in headers if name.lower() == b"date"), b"")
        moment = parse(date)
        if moment is None or now - moment < -LARGEST:
            return
        self._next = now + PAUSE_SECONDS
        self._add(now, now - moment)

    def _add(self, now: Seconds, ahead: Seconds) -> None:
        differences = self._differences
        differences.append((now, ahead))
        while len(differences) > KEPT_AT_LEAST and differences[0][0] < now - KEPT_SECONDS:
            differences.popleft()
        smallest = sorted(difference for _, difference in differences)[:2]
        ahead_by = min(max(smallest[-1], 0.0), LARGEST)
        if abs(ahead_by - self._reported) > SMALLEST_CHANGE:
            self._reported = ahead_by
            self._report(ahead_by)


def _ignore(_: Seconds) -> None:
    """Do nothing."""


def parse(date: bytes) -> Seconds | None:
    """Return the time in a `Date` header; `None` where it cannot be parsed."""
    if len(date) != _LENGTH or not date.endswith(b" GMT"):
        return None
    try:
        return parsedate_to_datetime(date.decode("ascii")).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
