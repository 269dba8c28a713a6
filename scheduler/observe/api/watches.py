"""Documents that change, as server-sent events.

Each event carries what changed since the event before, at most once a second. A reader that is slow
gets fewer events, not more of them to catch up with. A watch ends after some minutes, so that none
is open for ever; the client continues with its last revision. `server/watch_places` ends it earlier
where the caller may not open it any more.
"""

import asyncio
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from typing import Final, TypeAlias

import msgspec

from scheduler.model.rest.cluster import Summary
from scheduler.model.rest.common import Document
from scheduler.model.rest.preemptions import PoliciesDocument
from scheduler.observe.api.requests import ApiRequest, StatusError, Stream

__all__ = ["Changes", "is_watch", "number_of", "revision_of", "watch", "whole"]

#: How often a document is looked at.
_EVERY_SECONDS: Final = 1.0
#: How often a comment is sent where nothing changes.
_PING_SECONDS: Final = 15.0
#: How long a reader may take for the events of one change, which are kept meanwhile.
_READ_SECONDS: Final = 30.0
#: When a watch ends.
_LIFE_SECONDS: Final = 600.0
_ENCODER: Final = msgspec.json.Encoder()

#: Returns, for the revision that the reader has (0 for none), the present revision and what changed
#: as JSON, in as many documents as are good for the reader; `None` if it has to list again. A
#: revision of 0 means that a watch cannot be resumed.
Changes: TypeAlias = Callable[[int], Awaitable[tuple[int, Iterable[bytes]] | None]]


def is_watch(request: ApiRequest) -> bool:
    """Return whether a request wants events."""
    return request.query.get("watch", "") in ("1", "true")


def revision_of(request: ApiRequest) -> int:
    """Return the revision that the reader has; 0 for none.

    Raises:
        ValueError: It is not a number.
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
        ValueError: The revision in the query is not a number.
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
        except StatusError:
            return  # the permissions cannot be reviewed now; the client retries
        if found is None:
            yield b"event: resync\ndata:\n\n"
            return
        since, documents = found
        late = loop.time() + _READ_SECONDS
        for event in _updates(since, documents):
            yield event
            written = loop.time()
            if written > late:
                return
        if loop.time() - written >= _PING_SECONDS:
            yield b": ping\n\n"
            written = loop.time()
        await asyncio.sleep(_EVERY_SECONDS)


def _updates(revision: int, documents: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the events with some documents; a reader has the revision once it has the last one."""
    last = b""
    for data in documents:
        if last:
            yield b"event: update\ndata: " + last + b"\n\n"
        last = data
    if last:
        number = b"id: %d\n" % revision if revision else b""
        yield b"event: update\n" + number + b"data: " + last + b"\n\n"


def whole(make: Callable[[], Awaitable[Summary | PoliciesDocument]]) -> Changes:
    """Return the changes of a document that is sent as a whole."""

    async def changes(since: int) -> tuple[int, Iterable[bytes]] | None:
        document = await make()
        changed = document.revision != since
        return document.revision, (_ENCODER.encode(document),) if changed else ()

    return changes


def number_of(content: Document) -> int:
    """Return a revision for some content: another one whenever the content is another one."""
    return zlib.crc32(_ENCODER.encode(content)) + 1
