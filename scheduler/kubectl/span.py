"""Spans of time as people write them: `20:00`, `12h`, `2026-01-02`, or as in RFC 3339."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from scheduler.kubectl.errors import CommandError
from scheduler.model import times

__all__ = ["of"]

_AGO: Final = re.compile(r"-?(\d{1,9})([smhdw])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_CLOCK: Final = re.compile(r"(\d{1,2}):(\d{2})")


def of(since: str, until: str, now: float) -> tuple[str, str]:
    """Return the ends of a span as in RFC 3339; empty where none is given.

    A time of day is the last one that has passed, in the time zone of this machine: the last one
    before now for the end, and the last one before the end for the beginning.

    Args:
        since: The beginning.
        until: The end.
        now: Seconds since the epoch.

    Raises:
        PluginError: One is malformed, or the end is not after the beginning.
    """
    end = _moment(until, now, now, "--until") if until else now
    begin = _moment(since, end, now, "--since") if since else None
    if begin is not None and begin >= end:
        raise CommandError(f"--since {since} is not before --until {until or 'now'}")
    return (
        "" if begin is None else times.stamp(begin),
        times.stamp(end) if until else "",
    )


def _moment(written: str, before: float, now: float, flag: str) -> float:
    """Return a moment; a time of day is the last one before another moment."""
    if ago := _AGO.fullmatch(written):
        return max(0.0, now - int(ago[1]) * _SECONDS[ago[2]])
    try:
        if clock := _CLOCK.fullmatch(written):
            return _time_of_day(int(clock[1]), int(clock[2]), before)
        moment = datetime.fromisoformat(written)
        # Without a time zone it is that of this machine.
        return moment.astimezone(UTC).timestamp()
    except (ValueError, OverflowError) as error:
        raise CommandError(
            f"{flag}: not a time: {written}",
            "write 20:00, 12h (ago), 2026-01-02, or 2026-01-02T15:04:05Z",
        ) from error


def _time_of_day(hour: int, minute: int, before: float) -> float:
    local = datetime.fromtimestamp(before).astimezone()
    found = local.replace(hour=hour, minute=minute, second=0, microsecond=0, tzinfo=None)
    if found.astimezone().timestamp() >= before:
        found -= timedelta(days=1)
    return found.astimezone().timestamp()
