"""Parses and formats durations as Go does: `15s`, `1m30s`, `1.5h`.

Seconds are floats everywhere in the settings. Go counts whole nanoseconds, so comparisons that
must agree with kube-scheduler go through `nanoseconds`.

Source: Go time.ParseDuration, time.Duration.String.
"""

import re
from typing import Final

__all__ = ["DurationError", "nanoseconds", "parse", "text"]

_SECOND: Final = 10**9
_MAX: Final = 2**63 - 1

#: Length of each unit in nanoseconds; the two micro signs look alike and are different characters.
_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "\N{MICRO SIGN}s": 10**3,
    "\N{GREEK SMALL LETTER MU}s": 10**3,
    "ms": 10**6,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")


class DurationError(ValueError):
    """The text is not a duration."""


def parse(duration: str) -> float:
    """Return a duration in seconds; it may be negative.

    Raises:
        DurationError: Not a duration, or one of more than 292 years.
    """
    negative = duration.startswith("-")
    rest = duration[1:] if duration[:1] in {"-", "+"} else duration
    if rest == "0":
        return 0.0
    if not rest:
        raise DurationError(f'invalid duration "{duration}"')
    total = 0
    while rest:
        length, rest = _part(rest, duration)
        total += length
    if total > _MAX + negative:
        raise DurationError(f'invalid duration "{duration}"')
    return (-total if negative else total) / _SECOND


def _part(rest: str, duration: str) -> tuple[int, str]:
    """Return the nanoseconds of the first number with its unit, and what follows it."""
    match = _PART.match(rest)
    if match is None or not (match[1] or match[2]):
        raise DurationError(f'invalid duration "{duration}"')
    whole, fraction, unit = match[1] or "0", match[2] or "", match[3]
    if not unit:
        raise DurationError(f'missing unit in duration "{duration}"')
    if unit not in _UNITS:
        raise DurationError(f'unknown unit "{unit}" in duration "{duration}"')
    scaled = int(whole + fraction) * _UNITS[unit] // 10 ** len(fraction)
    return scaled, rest[match.end() :]


def nanoseconds(seconds: float) -> int:
    """Return a duration in nanoseconds, in which Go compares durations."""
    return round(seconds * _SECOND)


def text(seconds: float) -> str:
    """Return a duration as Go formats it: `1m30s`, `500ms`, `0s`."""
    total = nanoseconds(seconds)
    sign, total = ("-", -total) if total < 0 else ("", total)
    if total == 0:
        return "0s"
    if total < _SECOND:
        units = ("ms", "\N{MICRO SIGN}s", "ns")
        unit = next(unit for unit in units if total >= _UNITS[unit])
        return f"{sign}{_decimal(total, _UNITS[unit])}{unit}"
    minutes, rest = divmod(total, _UNITS["m"])
    shown = f"{_decimal(rest, _SECOND)}s"
    if minutes:
        hours, minutes = divmod(minutes, 60)
        shown = f"{hours}h{minutes}m{shown}" if hours else f"{minutes}m{shown}"
    return sign + shown


def _decimal(count: int, unit: int) -> str:
    whole, rest = divmod(count, unit)
    digits = f"{rest:0{len(str(unit)) - 1}d}".rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)
