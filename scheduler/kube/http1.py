"""HTTP/1.1 to one server, over connections that are kept open.

Requests are the scheduler's hot path, and this does no more than they need: no redirects, cookies,
compression, proxies or pipelining. Answers are parsed by llhttp (httptools).

Connections are made by the loop itself, from host and port. Clients that make the socket and hand
it to uvloop can leave a dead connection under a file descriptor that every later one gets; then
nothing can be reached any more.
"""

import asyncio
import ssl
from collections.abc import Mapping
from types import TracebackType
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import httptools

from scheduler.kube.errors import Unreachable

__all__ = ["Http1", "Incoming", "Reply"]

CONNECT_SECONDS: Final = 5.0
#: Longer than the pauses between two slices of work, shorter than the server's patience.
KEEP_ALIVE_SECONDS: Final = 60.0
#: Of a stream that is read more slowly than it comes, no more than that waits here.
BUFFER_BYTES: Final = 2**21
#: What is sent a second time when a kept connection turns out to be cut.
REPEATABLE: Final = frozenset({"GET", "PUT", "DELETE"})


class Reply(NamedTuple):
    """An answer, whatever its status. The names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Answer:
    """An answer while it comes: what the parser finds, and one reader that waits for it."""

    def __init__(self) -> None:
        self.parser: Final = httptools.HttpResponseParser(self)
        self.status = 0
        self.headers: dict[str, str] = {}
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
        self._failure: Unreachable | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def head(self) -> None:
        """Wait for status and headers."""
        while not self.begun:
            await self._news()

    async def body(self) -> bytes:
        """Wait for the rest of it, and return its body."""
        while not self.complete:
            await self._news()
        return b"".join(self._parts)

    async def part(self) -> bytes:
        """Return what has come since the last call, after waiting for it; empty at the end."""
        while not self._parts and not self.complete:
            await self._news()
        data = b"".join(self._parts)
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
        elif not self.complete:
            self._failure = Unreachable(problem or "the server closed the connection")
        self._tell()

    def _unsized(self) -> bool:
        return not self.headers.keys() & {"content-length", "transfer-encoding"}

    async def _news(self) -> None:
        if self._failure is not None:
            raise self._failure
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _tell(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # What the parser calls

    def on_message_begin(self) -> None:
        """Refuse a second answer to one request."""
        if self.complete:
            raise ValueError("an answer to nothing")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; what comes again is joined to the first."""
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        """Take note of the status; 1xx only announces the answer."""
        self.status = self.parser.get_status_code()
        self.begun = self.status >= 200
        if not self.begun:
            self.headers.clear()

    def on_body(self, part: bytes) -> None:
        """Keep a part."""
        self.buffered += len(part)
        self._parts.append(part)

    def on_message_complete(self) -> None:
        """Take note of the end, unless more was announced."""
        self.complete = self.begun
        self.kept = self.parser.should_keep_alive()


class _Connection(asyncio.Protocol):
    """One connection, with one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: Answer | None = None
        self._held = False
        #: When it was last used, by the loop's clock.
        self.used_at = 0.0

    def ask(self, request: bytes) -> Answer:
        """Send a request; its answer is still to come."""
        self._answer = answer = Answer()
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
        return kept and self.open

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
        if self._answer is None:
            self.abort()
            return
        try:
            self._answer.feed(data)
        except httptools.HttpParserError as error:
            self._answer.end(f"the answer is not HTTP: {error}")
            self.abort()
            return
        if self._answer.buffered > BUFFER_BYTES and self._answer.streamed and not self._held:
            self._held = True
            if self._transport is not None:
                self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits for an answer."""
        if self._answer is not None:
            self._answer.end("" if exc is None else str(exc) or type(exc).__name__)


class Incoming:
    """An answer that is read in parts, such as a watch."""

    def __init__(
        self, answer: Answer, connection: _Connection, silence_seconds: float, http: "Http1"
    ) -> None:
        self.status = answer.status
        self.headers: Mapping[str, str] = answer.headers
        self._connection = connection
        self._silence_seconds = silence_seconds
        self._http = http

    async def read(self) -> bytes:
        """Return what has come since the last call, after waiting for it; empty at the end.

        Raises:
            Unreachable: The connection broke, or was silent for too long.
        """
        try:
            async with asyncio.timeout(self._silence_seconds):
                return await self._connection.part()
        except TimeoutError as error:
            raise Unreachable("the connection was silent for too long") from error

    def close(self) -> None:
        """Cut the connection: there is no end of the answer to wait for."""
        self._http.drop(self._connection)


class Http1:
    """Requests to one server. Close it, inside the event loop that it was used in."""

    def __init__(
        self,
        server: str,
        tls: ssl.SSLContext | None,
        tls_server_name: str | None,
        headers: Mapping[str, str],
    ) -> None:
        """Connect to nothing yet.

        Args:
            server: The base URL.
            tls: For `https`; the system's authorities count where there is none.
            tls_server_name: The name to expect in the certificate where it is not the host.
            headers: Sent with each request.
        """
        url = urlsplit(server)
        secure = url.scheme == "https"
        self._host = url.hostname or ""
        self._port = url.port or (443 if secure else 80)
        self._tls = (tls or ssl.create_default_context()) if secure else None
        self._server_hostname = (tls_server_name or self._host) if secure else None
        self._base = url.path.rstrip("/")
        self._always = _lines({"Host": url.netloc.rpartition("@")[2], **headers})
        #: The one that was used last stands last.
        self._idle: list[_Connection] = []
        self._busy: set[_Connection] = set()

    async def __aenter__(self) -> "Http1":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        for connection in [*self._idle, *self._busy]:
            connection.abort()
        self._idle.clear()
        await asyncio.sleep(0)  # the loop notices what was closed

    async def send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> Reply:
        """Send a request and return the answer.

        Raises:
            Unreachable: No complete answer came.
        """
        connection, answer = await self._begin(method, path, headers, body)
        try:
            data = await answer.body()
        except BaseException:
            self.drop(connection)
            raise
        self._busy.discard(connection)
        if connection.rest(asyncio.get_running_loop().time()):
            self._idle.append(connection)
        else:
            connection.abort()
        return Reply(answer.status, answer.headers, data)

    async def stream(
        self, path: str, headers: Mapping[str, str], silence_seconds: float
    ) -> Incoming:
        """Begin to read; close what is returned.

        Raises:
            Unreachable: The server does not begin to answer, for so many seconds.
        """
        try:
            async with asyncio.timeout(silence_seconds):
                connection, answer = await self._begin("GET", path, headers, None)
        except TimeoutError as error:
            raise Unreachable("the server did not answer in time") from error
        answer.streamed = True
        return Incoming(answer, connection, silence_seconds, self)

    async def _begin(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> tuple[_Connection, Answer]:
        """Send a request and wait until its answer begins."""
        request = self._request(method, path, headers, body)
        while True:
            kept = self._kept()
            connection = kept or await self._connect()
            self._busy.add(connection)
            answer = connection.ask(request)
            try:
                await answer.head()
            except Unreachable:
                self.drop(connection)
                # The server may close a connection just when it is used again.
                if kept is None or answer.heard or method not in REPEATABLE:
                    raise
            except BaseException:
                self.drop(connection)
                raise
            else:
                return connection, answer

    def _request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> bytes:
        size = b"" if body is None else b"Content-Length: %d\r\n" % len(body)
        line = f"{method} {self._base}{path} HTTP/1.1\r\n".encode("ascii")
        return b"".join((line, self._always, _lines(headers), size, b"\r\n", body or b""))

    def _kept(self) -> _Connection | None:
        """Return a connection that is open and was used lately, if there is one."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.open and now - connection.used_at < KEEP_ALIVE_SECONDS:
                return connection
            connection.abort()
        return None

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, connection = await loop.create_connection(
                    _Connection,
                    self._host,
                    self._port,
                    ssl=self._tls,
                    server_hostname=self._server_hostname,
                )
        except TimeoutError as error:
            problem = f"no connection to {self._host}:{self._port} within {CONNECT_SECONDS:g} s"
            raise Unreachable(problem, sent=False) from error
        except OSError as error:
            problem = f"cannot connect to {self._host}:{self._port}: {error}"
            raise Unreachable(problem, sent=False) from error
        return connection

    def drop(self, connection: _Connection) -> None:
        """Cut a connection that is in use."""
        self._busy.discard(connection)
        connection.abort()


def _lines(headers: Mapping[str, str]) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1")
