"""Converts timestamps of the API to seconds and back.

All times in the scheduler are float seconds of one clock: the epoch time at the start of the
process plus monotonic time since. They compare with timestamps of pods and never run backwards.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

__all__ = ["LATEST", "Seconds", "earliest", "parse", "stamp"]

Seconds = float

#: The last second that a timestamp can name: the end of the year 9999.
LATEST: Final[Seconds] = 253_402_300_799.0


@lru_cache(maxsize=65_536)
def parse(text: str | None) -> Seconds | None:
    """Return an RFC 3339 timestamp as seconds since the epoch; `None` if it is absent or invalid.

    An invalid timestamp counts as absent: one bad object must not stop a decision.
    """
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()


def stamp(seconds: Seconds) -> str:
    """Return seconds since the epoch as an RFC 3339 timestamp with second precision."""
    return _stamp(int(seconds))


@lru_cache(maxsize=64)
def _stamp(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def earliest(moments: Iterable[Seconds | None]) -> Seconds | None:
    """Return the earliest of some times; `None` if there is none."""
    return min((moment for moment in moments if moment is not None), default=None)
