"""One connection to a server, and the answer that comes over it."""

import asyncio
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import httptools

from scheduler.kube.errors import Unreachable

__all__ = ["BUFFER_BYTES", "Headers", "HttpConnection", "HttpResponse"]

#: Of a stream that is read more slowly than it comes, no more than that waits here. A refusal may
#: be so large, too: a Status has some hundred bytes, a proxy's page some thousand.
BUFFER_BYTES: Final = 2**21
#: An answer that is read as a whole may be so large: more than a page of 500 objects can be, of
#: which etcd holds none above 1.5 MiB.
ANSWER_BYTES: Final = 2**30


class Headers(Mapping[str, str]):
    """Headers of an answer by their names in lower case; repeated ones are joined.

    Few are ever looked at, so they are decoded when the first one is.
    """

    def __init__(self) -> None:
        self.raw: list[tuple[bytes, bytes]] = []

    @functools.cached_property
    def _decoded(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, value in self.raw:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1")
            found[key] = f"{found[key]}, {text}" if key in found else text
        return found

    def __getitem__(self, name: str) -> str:
        return self._decoded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._decoded)

    def __len__(self) -> int:
        return len(self._decoded)


class HttpResponse:
    """An answer while it comes: what the parser finds, and one reader that waits for it."""

    def __init__(self) -> None:
        self.parser: Final = httptools.HttpResponseParser(self)
        self.status = 0
        self.headers: Final = Headers()
        #: Whether status and headers are there.
        self.begun = False
        self.complete = False
        #: Whether the server keeps the connection; known when the answer is complete.
        self.kept = False
        #: Whether any byte of it has come.
        self.heard = False
        #: Whether it is read in parts, so that it may have to wait for its reader.
        self.streamed = False
        self.buffered = 0
        self._parts: list[bytes] = []
        #: Called once, when it is complete or nothing more comes of it; instead of a reader.
        self.then: Callable[[HttpResponse], None] | None = None
        self.failure: Unreachable | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def head(self) -> None:
        """Wait for status and headers."""
        while not self.begun:
            await self._news()

    async def body(self) -> bytes:
        """Wait for the rest of it, and return its body."""
        while not self.complete:
            await self._news()
        return self.data()

    def data(self) -> bytes:
        """Return what is there of the body."""
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)

    async def part(self) -> bytes:
        """Return what has come since the last call, after waiting for it; empty at the end."""
        while not self._parts and not self.complete:
            await self._news()
        data = self.data()
        self._parts.clear()
        self.buffered = 0
        return data

    def feed(self, data: bytes) -> None:
        """Parse what has come.

        Raises:
            httptools.HttpParserError: It is not HTTP.
        """
        self.heard = True
        self.parser.feed_data(data)
        if self.begun:
            self._tell()

    def end(self, problem: str) -> None:
        """Take note that nothing more comes; an answer without a length ends so."""
        if self.begun and not problem and self._unsized():
            self.complete = True
        elif not self.complete and self.failure is None:  # what ended it first is the reason
            self.failure = Unreachable(problem or "the server closed the connection")
        self._tell()

    def _unsized(self) -> bool:
        return not self.headers.keys() & {"content-length", "transfer-encoding"}

    async def _news(self) -> None:
        if self.failure is not None:
            raise self.failure
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _tell(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        elif self.then is not None and (self.complete or self.failure is not None):
            then, self.then = self.then, None
            then(self)

    # What the parser calls

    def on_message_begin(self) -> None:
        """Refuse a second answer to one request."""
        if self.complete:
            raise ValueError("an answer to nothing")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; few are ever looked at."""
        self.headers.raw.append((name, value))

    def on_headers_complete(self) -> None:
        """Take note of the status; 1xx only announces the answer."""
        self.status = self.parser.get_status_code()
        self.begun = self.status >= 200
        if not self.begun:
            self.headers.raw.clear()

    def on_body(self, part: bytes) -> None:
        """Keep a part."""
        self.buffered += len(part)
        self._parts.append(part)

    def on_message_complete(self) -> None:
        """Take note of the end, unless more was announced."""
        self.complete = self.begun
        self.kept = self.parser.should_keep_alive()


class HttpConnection(asyncio.Protocol):
    """One connection, with one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: HttpResponse | None = None
        self._held = False
        #: When it was last heard of, by the loop's clock.
        self.used_at = 0.0
        #: When the last request was sent.
        self.asked_at = 0.0
        #: From when on it takes no further request.
        self.old_at = 0.0

    def ask(self, request: bytes, now: float) -> HttpResponse:
        """Send a request; its answer is still to come."""
        self.asked_at = now
        self._answer = answer = HttpResponse()
        if self.open and self._transport is not None:
            self._transport.write(request)
        else:
            answer.end("the connection is closed")
        return answer

    async def part(self) -> bytes:
        """Return the next part of the answer, and let more come."""
        if self._answer is None:
            return b""
        data = await self._answer.part()
        if self._held and self._transport is not None:
            self._held = False
            self._transport.resume_reading()
        return data

    @property
    def open(self) -> bool:
        """Whether another request can be sent, as far as is known."""
        return self._transport is not None and not self._transport.is_closing()

    def rest(self, now: float) -> bool:
        """Get ready for another request; whether there can be one."""
        kept = self._answer is not None and self._answer.complete and self._answer.kept
        self._answer = None
        self.used_at = now
        return kept and now < self.old_at and self.open

    def give_up(self, problem: str) -> None:
        """Close it, and tell whoever waits for the answer why."""
        self.abort()
        if self._answer is not None:
            self._answer.end(problem)

    def abort(self) -> None:
        """Close it without a good-bye."""
        if self._transport is not None:
            self._transport.abort()

    # What the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = transport  # type: ignore[assignment]  # of a stream, so it writes

    def data_received(self, data: bytes) -> None:
        """Parse what has come; nobody asked for what comes between two requests."""
        answer = self._answer
        if answer is None:
            self.abort()
            return
        try:
            answer.feed(data)
        except httptools.HttpParserUpgrade:
            self.give_up("the server changed to another protocol")
            return
        except httptools.HttpParserError as error:
            answer.end(f"the answer is not HTTP: {error}")
            self.abort()
            return
        if answer.buffered > BUFFER_BYTES:
            self._hold_back(answer)

    def _hold_back(self, answer: HttpResponse) -> None:
        """Let no more of a stream come than is read, and give up an answer that is too large."""
        limit = ANSWER_BYTES if answer.status < 300 else BUFFER_BYTES
        if not answer.streamed:
            if answer.buffered > limit and not answer.complete:
                self.give_up("the answer is too large")
        elif not self._held:
            self._held = True
            if self._transport is not None:
                self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits for an answer."""
        if self._answer is not None:
            self._answer.end("" if exc is None else str(exc) or type(exc).__name__)
