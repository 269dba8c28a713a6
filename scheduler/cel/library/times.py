"""Durations and timestamps: texts, arithmetic, parts of a timestamp in a time zone.

Source: cel-go v0.26.0 common/types/timestamp.go, duration.go, common/stdlib; Go's
time.ParseDuration and time.Parse(RFC3339). Of time zones with a name only UTC is known: the others
would have to be read from files, which the core does not do.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Final

from scheduler.cel.errors import CelFailure
from scheduler.cel.library.overloads import method
from scheduler.cel.values import INT_MAX, INT_MIN, Duration, Timestamp, go_quote

__all__ = [
    "OVERLOADS",
    "checked_duration",
    "checked_timestamp",
    "duration_text",
    "parse_duration",
    "parse_timestamp",
    "timestamp_of_seconds",
    "timestamp_text",
]

_SECOND: Final = 10**9
_FIRST: Final = -62135596800 * _SECOND
_LAST: Final = 253402300799 * _SECOND + 999_999_999
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS: Final = {
    "ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6,
    "s": _SECOND, "m": 60 * _SECOND, "h": 3600 * _SECOND,
}  # fmt: skip
_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_RFC3339: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?"
    r"(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,6}")


def checked_duration(nanos: int) -> Duration:
    """Return a duration; too long ones are a failure."""
    if INT_MIN <= nanos <= INT_MAX:
        return Duration(nanos)
    raise CelFailure("duration overflow")


def checked_timestamp(nanos: int, offset: int = 0) -> Timestamp:
    """Return a timestamp; those before year 1 and after 9999 are a failure."""
    if _FIRST <= nanos <= _LAST:
        return Timestamp(nanos, offset)
    raise CelFailure("timestamp overflow")


def timestamp_of_seconds(seconds: int) -> Timestamp:
    """Return the timestamp of Unix seconds."""
    return checked_timestamp(seconds * _SECOND)


def parse_duration(text: str) -> Duration:
    """Return the duration of a text such as "1h30m"."""
    nanos = _nanos(text)
    if nanos is None or not INT_MIN <= nanos <= INT_MAX:
        raise CelFailure("type conversion error from 'string' to 'google.protobuf.Duration'")
    return Duration(nanos)


def _nanos(text: str) -> int | None:
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return 0
    total, at = 0, 0
    while at < len(rest):
        match = _PART.match(rest, at)
        if match is None or not (match[1] or match[2]):
            return None
        unit = _UNITS[match[3]]
        whole = match[1].lstrip("0") or "0"
        if len(whole) > 19:
            return None
        fraction = (match[2] or "")[:18]
        total += int(whole) * unit
        total += int(fraction or "0") * unit // 10 ** len(fraction)
        at = match.end()
    return sign * total if rest else None


def duration_text(value: Duration) -> str:
    """Return a duration in seconds, e.g. "1.5s"."""
    whole, rest = divmod(abs(value.nanos), _SECOND)
    seconds = whole + rest / 1e9
    text = format(Decimal(repr(seconds)), "f").removesuffix(".0")
    sign = "-" if value.nanos < 0 and text != "0" else ""
    return f"{sign}{text}s"


def parse_timestamp(text: str) -> Timestamp:
    """Return the timestamp of a text in the form of RFC 3339."""
    match = _RFC3339.fullmatch(text)
    failure = CelFailure("type conversion error from 'string' to 'google.protobuf.Timestamp'")
    if match is None:
        raise failure
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    offset = 0
    if match[8]:
        hours, minutes = int(match[9]), int(match[10])
        if hours > 24 or minutes > 60:
            raise failure
        offset = (1 if match[8] == "+" else -1) * (hours * 3600 + minutes * 60)
    try:
        # Year 0 exists in Go, and is before the first timestamp.
        moment = datetime(year or 4, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        raise failure from None
    if year == 0:
        raise CelFailure("timestamp overflow")
    fraction = int((match[7] or "0")[:9].ljust(9, "0"))
    seconds = (moment - _EPOCH) // timedelta(seconds=1) - offset
    return checked_timestamp(seconds * _SECOND + fraction, offset)


def timestamp_text(value: Timestamp) -> str:
    """Return a timestamp in the form of RFC 3339."""
    seconds, nanos = divmod(value.nanos, _SECOND)
    moment = _EPOCH + timedelta(seconds=seconds + value.offset)
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    zone = "Z"
    if value.offset:
        hours, minutes = divmod(abs(value.offset) // 60, 60)
        zone = f"{'-' if value.offset < 0 else '+'}{hours:02d}:{minutes:02d}"
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}{fraction}{zone}"


def _zone(name: str) -> tzinfo:
    """Return a time zone by its name or its offset, such as "-08:00"."""
    hours, colon, minutes = name.partition(":")
    if not colon:
        return _named_zone(name)
    for part in (hours, minutes):
        if _NUMBER.fullmatch(part) is None:
            raise CelFailure(f"strconv.Atoi: parsing {go_quote(part)}: invalid syntax")
    offset = int(hours) * 60 + (-int(minutes) if name.startswith("-") else int(minutes))
    if abs(offset) >= 24 * 60:
        raise CelFailure(f"unknown time zone {name}")
    return timezone(timedelta(minutes=offset))


def _named_zone(name: str) -> tzinfo:
    if name in ("", "UTC"):
        return UTC
    if ".." in name or name.startswith(("/", "\\")):
        raise CelFailure("time: invalid location name")
    raise CelFailure(f"unknown time zone {name}")


def _moment(value: Timestamp, zone: str) -> datetime:
    place = _zone(zone)
    try:
        return (_EPOCH + timedelta(seconds=value.nanos // _SECOND)).astimezone(place)
    except OverflowError:
        raise CelFailure("timestamp overflow") from None


def _part(read: Callable[[datetime], int]) -> Callable[..., int]:
    def implementation(value: Timestamp, zone: str = "UTC") -> int:
        return read(_moment(value, zone))

    return implementation


def _milliseconds(value: Timestamp, zone: str = "UTC") -> int:
    _zone(zone)
    return value.nanos % _SECOND // 10**6


def _truncated(nanos: int, unit: int) -> int:
    return nanos // unit if nanos >= 0 else -(-nanos // unit)


_PARTS: Final[dict[str, Callable[..., int]]] = {
    "getFullYear": _part(lambda moment: moment.year),
    "getMonth": _part(lambda moment: moment.month - 1),
    "getDayOfYear": _part(lambda moment: moment.timetuple().tm_yday - 1),
    "getDayOfMonth": _part(lambda moment: moment.day - 1),
    "getDate": _part(lambda moment: moment.day),
    "getDayOfWeek": _part(lambda moment: moment.isoweekday() % 7),
    "getHours": _part(lambda moment: moment.hour),
    "getMinutes": _part(lambda moment: moment.minute),
    "getSeconds": _part(lambda moment: moment.second),
    "getMilliseconds": _milliseconds,
}

OVERLOADS: Final = (
    *(method(name, "timestamp -> int", read) for name, read in _PARTS.items()),
    *(method(name, "timestamp, string -> int", read) for name, read in _PARTS.items()),
    method("getHours", "duration -> int", lambda value: _truncated(value.nanos, 3600 * _SECOND)),
    method("getMinutes", "duration -> int", lambda value: _truncated(value.nanos, 60 * _SECOND)),
    method("getSeconds", "duration -> int", lambda value: _truncated(value.nanos, _SECOND)),
    method("getMilliseconds", "duration -> int", lambda value: _truncated(value.nanos, 10**6)),
)
