"""One HTTP connection to a server, and the response on it."""

import asyncio
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import httptools

from scheduler.kube.errors import Unreachable

__all__ = ["BUFFER_BYTES", "Headers", "HttpConnection", "HttpResponse"]

#: The most that is buffered of a stream that is read more slowly than it arrives. A refusal may be
#: as large, too: a Status has some hundred bytes, a proxy's page some thousand.
BUFFER_BYTES: Final = 2**21
#: The limit of an answer that is read as a whole: more than a page of 500 objects can have, of
#: which etcd stores none above 1.5 MiB.
ANSWER_BYTES: Final = 2**30
#: The limits of what is not a body: status lines and headers, of announcing answers (1xx), too, and
#: trailers. An API server sends some twenty headers; client-go reads 10 MiB of them.
HEAD_BYTES: Final = 2**20
HEADERS: Final = 1000


class Headers(Mapping[str, str]):
    """Headers of an answer by their names in lower case; repeated ones are joined.

    They are rarely read, so they are decoded at the first access.
    """

    def __init__(self) -> None:
        self.raw: list[tuple[bytes, bytes]] = []

    @functools.cached_property
    def _decoded(self) -> dict[str, str]:
        decoded: dict[str, str] = {}
        for name, value in self.raw:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1")
            decoded[key] = f"{decoded[key]}, {text}" if key in decoded else text
        return decoded

    def __getitem__(self, name: str) -> str:
        return self._decoded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._decoded)

    def __len__(self) -> int:
        return len(self._decoded)


class HttpResponse:
    """An answer while it arrives: the results of the parser, and one waiting reader."""

    def __init__(self) -> None:
        #: `None` when the answer has ended. The parser refers to the answer, so each request would
        #: leave a cycle to the garbage collector otherwise.
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self.status = 0
        self.headers: Final = Headers()
        #: Whether status and headers have arrived.
        self.begun = False
        self.complete = False
        #: Whether the server keeps the connection; known when the answer is complete.
        self.kept = False
        #: Whether any byte of it has arrived.
        self.received = False
        #: Where it is read in parts: how many bytes are buffered before the server has to wait for
        #: the reader. 0 for an answer that is read as a whole.
        self.streamed = 0
        self.buffered = 0
        #: How many headers there may be after those of announcing answers, and bytes received since
        #: the last part of the body.
        self._headers_left = HEADERS
        self._bytes_beside = 0
        self._parts: list[bytes] = []
        #: Called once, when it is complete or has failed; instead of a reader.
        self.then: Callable[[HttpResponse], None] | None = None
        self.failure: Unreachable | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def head(self) -> None:
        """Wait for status and headers."""
        while not self.begun:
            await self._wait()

    async def body(self) -> bytes:
        """Wait for the end of the answer, and return its body."""
        while not self.complete:
            await self._wait()
        return self.data()

    def data(self) -> bytes:
        """Return the part of the body that is buffered."""
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)

    async def read_chunk(self) -> bytes:
        """Wait for data since the last call and return it; empty at the end."""
        while not self._parts and not self.complete:
            await self._wait()
        data = self.data()
        self._parts.clear()
        self.buffered = 0
        return data

    def feed(self, data: bytes) -> None:
        """Parse received data.

        Raises:
            httptools.HttpParserError: It is not HTTP, or has too many headers.
        """
        if self._parser is None:
            raise httptools.HttpParserError("data after the end")
        self.received = True
        self._bytes_beside += len(data)
        self._parser.feed_data(data)
        if self.complete:
            self._parser = None
        # The parser keeps a header that has not ended, so those that it reports are not all.
        elif self._bytes_beside > HEAD_BYTES:
            raise httptools.HttpParserError(f"more than {HEAD_BYTES} bytes of headers")
        if self.begun:
            self._notify()

    def end(self, problem: str) -> None:
        """Record the end of the connection: the server's ends an answer without a length.

        Args:
            problem: Empty if the server closed the connection.
        """
        if not self.complete and self.failure is None:  # the first reason counts
            if self.begun and not problem and self._unsized():
                self.complete = True
            else:
                self.failure = Unreachable(problem or "the server closed the connection")
        self._parser = None
        self._notify()

    def _unsized(self) -> bool:
        return not self.headers.keys() & {"content-length", "transfer-encoding"}

    async def _wait(self) -> None:
        if self.failure is not None:
            raise self.failure
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _notify(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        elif self.then is not None and (self.complete or self.failure is not None):
            then, self.then = self.then, None
            then(self)

    # What the parser calls

    def on_message_begin(self) -> None:
        """Refuse a second answer to one request."""
        if self.complete:
            raise ValueError("a response without a request")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header undecoded.

        Raises:
            httptools.HttpParserError: There are too many.
        """
        raw = self.headers.raw
        raw.append((name, value))
        if len(raw) > self._headers_left:
            raise httptools.HttpParserError(f"more than {HEADERS} headers")

    def on_headers_complete(self) -> None:
        """Record the status; 1xx only announces the answer."""
        self.status = 0 if self._parser is None else self._parser.get_status_code()
        self.begun = self.status >= 200
        if not self.begun:
            self._headers_left -= len(self.headers.raw)
            self.headers.raw.clear()

    def on_body(self, part: bytes) -> None:
        """Store a part of the body."""
        self.buffered += len(part)
        self._bytes_beside = 0
        self._parts.append(part)

    def on_message_complete(self) -> None:
        """Record the end, unless the status was 1xx."""
        self.complete = self.begun
        self.kept = self._parser is not None and self._parser.should_keep_alive()


class HttpConnection(asyncio.Protocol):
    """One connection, with one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: HttpResponse | None = None
        self._paused = False
        #: When it last received something, by the loop's clock.
        self.used_at = 0.0
        #: When the last request was sent.
        self.asked_at = 0.0
        #: After this time it is not used for another request.
        self.old_at = 0.0

    def send(self, request: bytes, now: float) -> HttpResponse:
        """Send a request; return its answer, which has not arrived yet."""
        self.asked_at = now
        self._answer = answer = HttpResponse()
        if self.open and self._transport is not None:
            self._transport.write(request)
        else:
            answer.end("the connection is closed")
        return answer

    async def read_chunk(self) -> bytes:
        """Return the next part of the answer, and resume reading."""
        if self._answer is None:
            return b""
        data = await self._answer.read_chunk()
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return data

    @property
    def open(self) -> bool:
        """Whether another request can be sent, as far as is known."""
        return self._transport is not None and not self._transport.is_closing()

    def make_idle(self, now: float) -> bool:
        """Prepare for another request; return whether there can be one."""
        kept = self._answer is not None and self._answer.complete and self._answer.kept
        self._answer = None
        self.used_at = now
        return kept and now < self.old_at and self.open

    def give_up(self, problem: str) -> None:
        """Close the connection at once, and fail an answer that is not complete."""
        if self._transport is not None:
            self._transport.abort()
        if self._answer is not None:
            self._answer.end(problem)

    def abort(self) -> None:
        """Close the connection at once."""
        self.give_up("the client closed the connection")

    # What the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = transport  # type: ignore[assignment]  # of a stream, so it writes

    def data_received(self, data: bytes) -> None:
        """Parse received data; close the connection if it comes between two requests."""
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
            # What a callback raises is the context of the parser's own error.
            self.give_up(f"the response is not HTTP: {error.__context__ or error}")
            return
        if answer.buffered > (answer.streamed or BUFFER_BYTES):
            self._limit_buffer(answer)

    def _limit_buffer(self, answer: HttpResponse) -> None:
        """Pause a stream that is read too slowly, and abort an answer that is too large."""
        limit = ANSWER_BYTES if answer.status < 300 else BUFFER_BYTES
        if not answer.streamed:
            if answer.buffered > limit and not answer.complete:
                self.give_up("the response is too large")
        elif not self._paused:
            self._paused = True
            if self._transport is not None:
                self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the answer that is being received."""
        if self._answer is not None:
            self._answer.end("" if exc is None else str(exc) or type(exc).__name__)
