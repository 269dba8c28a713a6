"""Documents that change, as server-sent events.

Each event carries what changed since the event before, at most once a second. A reader that is slow
gets fewer events, not more of them to catch up with. A watch ends after some minutes, so that the
rights of the caller are reviewed again; the client goes on with the revision that it has.
"""

import asyncio
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final, TypeAlias

import msgspec

from scheduler.model.rest.cluster import Summary
from scheduler.model.rest.common import Document
from scheduler.model.rest.preemptions import PoliciesDocument
from scheduler.observe.api.requests import ApiError, ApiRequest, Stream

__all__ = ["Changes", "is_watch", "number_of", "revision_of", "watch", "whole"]

#: How often a document is looked at.
_EVERY_SECONDS: Final = 1.0
#: How often a comment is sent where nothing changes.
_PING_SECONDS: Final = 15.0
#: When a watch ends.
_LIFE_SECONDS: Final = 600.0
_ENCODER: Final = msgspec.json.Encoder()

#: Returns, for the revision that the reader has (0 for none), the present revision and what changed
#: as JSON, which is empty if nothing has; `None` if the reader has to list again.
Changes: TypeAlias = Callable[[int], Awaitable[tuple[int, bytes] | None]]


def is_watch(request: ApiRequest) -> bool:
    """Return whether a request wants events."""
    return request.query.get("watch", "") in ("1", "true")


def revision_of(request: ApiRequest) -> int:
    """Return the revision that the reader has; 0 for none.

    Raises:
        ValueError: It is no number.
    """
    text = request.query.get("revision", "")
    if not text:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise ValueError("revision must be a number that a document or an event has had")
    return int(text)


def watch(request: ApiRequest, changes: Changes) -> Stream:
    """Return the events of a document.

    Raises:
        ValueError: The revision in the query is no number.
    """
    events = _events(revision_of(request), changes)
    return Stream(events, "text/event-stream", endless=True)


async def _events(since: int, changes: Changes) -> AsyncGenerator[bytes]:
    loop = asyncio.get_running_loop()
    end = loop.time() + _LIFE_SECONDS
    written = loop.time()
    yield b": watching\n\n"
    while loop.time() < end:
        try:
            found = await changes(since)
        except ApiError:
            return  # the rights cannot be reviewed now; the client comes again
        if found is None:
            yield b"event: resync\ndata:\n\n"
            return
        since, data = found
        if data:
            yield b"event: update\nid: %d\ndata: " % since + data + b"\n\n"
            written = loop.time()
        elif loop.time() - written >= _PING_SECONDS:
            yield b": ping\n\n"
            written = loop.time()
        await asyncio.sleep(_EVERY_SECONDS)


def whole(make: Callable[[], Awaitable[Summary | PoliciesDocument]]) -> Changes:
    """Return the changes of a document that is sent as a whole."""

    async def changes(since: int) -> tuple[int, bytes] | None:
        document = await make()
        changed = document.revision != since
        return document.revision, _ENCODER.encode(document) if changed else b""

    return changes


def number_of(content: Document) -> int:
    """Return a revision for some content: another one whenever the content is another one."""
    return zlib.crc32(_ENCODER.encode(content)) + 1
