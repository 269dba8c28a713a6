"""Log records as lines: how a record is formatted, and how lines are written to the stream.

`logs` passes records as dicts whose first keys are `ts`, `level` and `event`. A line is printable,
ends with the only newline in it, and is so short that container runtimes do not split it.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeAlias

import msgspec

from scheduler.observe.logs import escape

__all__ = ["LINE_LIMIT", "LogStream", "Render", "Sink", "json_line", "text_line"]

#: The maximum length of a line in bytes; container runtimes split lines at 16 KiB.
LINE_LIMIT: Final = 16_000

#: The lengths that strings and lists of an overlong record are cut to, tried in this order.
_CUTS: Final = ((2_000, 50), (200, 10), (40, 2))

#: Fields whose values are always hidden.
_SECRET_FIELDS: Final = frozenset(
    {"authorization", "certificate", "cookie", "headers", "password", "secret", "token"}
)
#: Bearer tokens, JSON web tokens, and passwords in URLs.
_SECRET: Final = re.compile(
    rb"(?i:bearer[ :=]+)[\w.~+/=-]{6,}|eyJ[\w-]{6,}\.[\w.-]+|(?<=://)[^/@\s\"]{1,200}(?=@)"
)
_HIDDEN: Final = b"[hidden]"

_BARE: Final = re.compile(r"[^\s\"=\\]+")
_ENCODER: Final = msgspec.json.Encoder(enc_hook=str)

LogRecord: TypeAlias = Mapping[str, object]
Render: TypeAlias = Callable[[LogRecord], bytes]


def json_line(record: LogRecord) -> bytes:
    """Return a record as one line of JSON."""
    return _line(record, _json)


def text_line(record: LogRecord) -> bytes:
    """Return a record as one line of text: time, level, event, then `key=value`."""
    return _line(record, _text)


class LogStream(Protocol):
    """The binary file that lines are written to."""

    def write(self, content: bytes, /) -> object:
        """Write all of it."""

    def flush(self) -> object:
        """Flush the buffer."""


class Sink:
    """Collects lines and writes many at once.

    Its methods have the names of log levels because structlog calls them by level. If the stream
    fails, lines are lost, but the process continues.
    """

    def __init__(self, stream: LogStream, limit_bytes: int = 64 * 1024) -> None:
        self._stream = stream
        self._limit = limit_bytes
        self._lines: list[bytes] = []
        self._size = 0
        #: How many lines could not be written.
        self.lost = 0

    def info(self, line: bytes) -> None:
        """Buffer a line until the next flush, or until the buffer is full."""
        self._lines.append(line)
        self._size += len(line)
        if self._size >= self._limit:
            self.flush()

    debug = warning = info

    def error(self, line: bytes) -> None:
        """Write a line, and all lines before it, at once."""
        self._lines.append(line)
        self.flush()

    critical = error

    def flush(self) -> None:
        """Write all buffered lines."""
        if not self._lines:
            return
        lines, self._lines, self._size = self._lines, [], 0
        try:
            self._stream.write(b"".join(lines))
            self._stream.flush()
        except (OSError, ValueError):  # the disk is full, the reader is gone, or it is closed
            self.lost += len(lines)


def _line(record: LogRecord, encode: Callable[[LogRecord], bytes]) -> bytes:
    if not _SECRET_FIELDS.isdisjoint(record):
        record = {
            key: _HIDDEN.decode() if key in _SECRET_FIELDS else value
            for key, value in record.items()
        }
    line = encode(record)
    if len(line) >= LINE_LIMIT:
        line = _short_enough(record, encode)
    return line + b"\n"


def _short_enough(record: LogRecord, encode: Callable[[LogRecord], bytes]) -> bytes:
    for cut in _CUTS:
        line = encode({key: _cut(key, value, *cut) for key, value in record.items()})
        if len(line) < LINE_LIMIT:
            return line
    head = {key: _cut(key, record[key], *_CUTS[-1]) for key in ("ts", "level", "event")}
    return encode({**head, "fields_lost": len(record) - len(head)})


def _json(record: LogRecord) -> bytes:
    try:
        line = _ENCODER.encode(record)
    except (UnicodeEncodeError, TypeError, RecursionError):
        line = _ENCODER.encode({key: _spelled(value) for key, value in record.items()})
    if not line.isascii() or b"\x7f" in line:
        line = escape.json_text(line.decode()).encode()
    return _discreet(line)


def _text(record: LogRecord) -> bytes:
    stamp, level, event, *rest = record.items()
    head = f"{stamp[1]} {level[1]!s:<7} {_shown(event[1])}"
    tail = "".join(f" {key}={_shown(value)}" for key, value in rest)
    return _discreet(escape.printable(head + tail).encode())


def _shown(value: object) -> str:
    if not isinstance(value, str):
        if not isinstance(value, list | tuple):
            return str(value)
        value = ",".join(map(str, value))
    if _BARE.fullmatch(value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _discreet(line: bytes) -> bytes:
    # Searching for the fixed part of each secret is much cheaper than the regular expression.
    if b"earer" in line or b"EARER" in line or b"eyJ" in line or b"://" in line:
        return _SECRET.sub(_HIDDEN, line)
    return line


def _spelled(value: object) -> object:
    """Return a value that JSON can encode."""
    match value:
        case None | bool() | int() | float():
            return value
        case _:
            return escape.without_surrogates(str(value))


def _cut(key: str, value: object, characters: int, items: int) -> object:
    match value:
        case str() if key == "exception":  # the end has the type and message of the error
            return value[-characters:]
        case list() | tuple():
            kept = [escape.shortened(str(item), characters) for item in value[:items]]
            return kept + ["..."] * (len(value) > items)
        case None | bool() | int() | float():
            return value
        case _:
            return escape.shortened(str(value), characters)
