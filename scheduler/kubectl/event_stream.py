"""Reads server-sent events.

Source: HTML living standard, 9.2.6. A carriage return alone does not end a line here, and `retry`
is ignored.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

__all__ = ["Event", "EventParser"]

#: More than the changes of 5,000 nodes in one event have.
EVENT_BYTES: Final = 2**26


class Event(NamedTuple):
    """One event."""

    kind: str
    data: bytes
    id: str


class EventParser:
    """Splits a stream into events; comments are left out."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._kind = ""
        self._id = ""
        self._data: list[bytes] = []

    def feed(self, part: bytes) -> Iterator[Event]:
        """Yield the events that a part of the stream completes.

        Raises:
            ValueError: An event is too large.
        """
        self._rest += part
        if len(self._rest) > EVENT_BYTES:
            raise ValueError("an event is too large")
        if b"\n" not in part:
            return
        *lines, rest = self._rest.split(b"\n")
        self._rest = bytearray(rest)
        for line in lines:
            event = self._line(bytes(line).removesuffix(b"\r"))
            if event is not None:
                yield event

    def _line(self, line: bytes) -> Event | None:
        if not line:
            return self._complete()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"event":
                self._kind = value.decode(errors="replace")
            case b"data":
                self._data.append(value)
            case b"id":
                self._id = value.decode(errors="replace")
            case _:
                pass
        return None

    def _complete(self) -> Event | None:
        if not self._data and not self._kind:
            return None
        event = Event(self._kind or "message", b"\n".join(self._data), self._id)
        self._kind, self._data = "", []
        return event
