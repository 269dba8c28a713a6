"""HTTP/1.1 to one server, over connections that are kept open.

Requests are the scheduler's hot path, so this does no more than they need: no redirects, cookies,
compression, proxies or pipelining. Responses are parsed by llhttp (httptools).

The event loop makes the connections (`scheduler.kube.http.dialing`), from address and port. Clients
that make the socket and pass it to uvloop can leave a dead connection under a file descriptor that
every later one gets; then no server can be reached any more.

A kept connection may be dead without an error, after a failover of a load balancer or a power
failure of a server. So when one does not respond, all idle ones that last received something before
that request are closed as well. None is kept for longer than ten minutes: HTTP/1.1 has no way to
make clients spread over API servers that are available again.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from scheduler.kube.errors import Unreachable
from scheduler.kube.http.connection import BUFFER_BYTES, HttpConnection, HttpResponse
from scheduler.kube.http.dialing import Dialer, ServerAddress
from scheduler.kube.http.server_time import ServerTime
from scheduler.kube.http.tls import Tls

__all__ = ["Http1", "Incoming", "Reply"]

#: Longer than the pauses between two slices of work, shorter than the server's idle timeout.
KEEP_ALIVE_SECONDS: Final = 60.0
#: A connection is used for half of this at least, and for all of it at most.
MAX_AGE_SECONDS: Final = 600.0
#: Spreads the ages of connections that were made together: the fractional parts of its multiples
#: are as far from each other as possible. It is the golden ratio.
_SPREAD: Final = 0.618034
#: Between two checks of the TLS files.
LOOK_SECONDS: Final = 60.0
#: Between two checks for overdue answers.
OVERDUE_SECONDS: Final = 1.0
#: Methods that change nothing when they are sent a second time.
REPEATABLE: Final = frozenset({"GET", "PUT", "DELETE"})


class Reply(NamedTuple):
    """An answer, whatever its status. The names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Incoming:
    """An answer that is read in parts, such as a watch."""

    def __init__(
        self,
        answer: HttpResponse,
        connection: HttpConnection,
        silence_seconds: float,
        http: "Http1",
    ) -> None:
        self.status = answer.status
        self.headers: Mapping[str, str] = answer.headers
        self._connection = connection
        self._silence_seconds = silence_seconds
        self._http = http

    async def read(self) -> bytes:
        """Wait for data since the last call and return it; empty at the end.

        Raises:
            Unreachable: The connection broke, or was silent for too long.
        """
        try:
            async with asyncio.timeout(self._silence_seconds):
                return await self._connection.read_chunk()
        except TimeoutError as error:
            raise Unreachable("the connection was silent for too long") from error

    def close(self) -> None:
        """Abort the connection: the answer has no end."""
        self._http.drop(self._connection)


class Http1:
    """A client for one server. Close it in the event loop that used it."""

    def __init__(
        self,
        server: str,
        tls: Tls | None,
        tls_server_name: str | None,
        headers: Mapping[str, str],
        server_time: ServerTime | None = None,
        connect: Callable[[], Awaitable[HttpConnection]] | None = None,
    ) -> None:
        """Make no connection yet.

        Args:
            server: The base URL.
            tls: For `https`; ignored for `http`.
            tls_server_name: The name to expect in the certificate where it is not the host.
            headers: Sent with each request.
            server_time: Gets the dates of answers.
            connect: Makes connections instead of the event loop, as through a tunnel; raises
                Unreachable. It secures them itself; `tls` only says when they are out of date.

        Raises:
            ValueError: The URL cannot be used, or is https and `tls` is missing.
        """
        url = urlsplit(server)
        secure = url.scheme == "https"
        if secure and tls is None:
            raise ValueError(f"{server}: https needs TLS settings")
        host = url.hostname or ""
        port = (443 if secure else 80) if url.port is None else url.port
        self._tls = tls if secure else None
        #: The generation of the TLS context that kept connections use.
        self._generation = 0 if tls is None else tls.generation
        #: When to check the files of `_tls` again.
        self._look_at = 0.0
        name = (tls_server_name or host) if secure else None
        self._dial = connect or Dialer(ServerAddress(host, port, self._tls, name)).connect
        self._connections = 0
        self._server_time = server_time
        self._base = url.path.rstrip("/")
        self._always = _lines({"Host": url.netloc.rpartition("@")[2], **headers})
        #: The further headers of the last request, and their lines.
        self._further: tuple[Mapping[str, str], bytes] = ({}, b"")
        #: The most recently used one is last.
        self._idle: list[HttpConnection] = []
        self._busy: set[HttpConnection] = set()
        #: When the answers with a callback are due.
        self._due: dict[HttpConnection, float] = {}
        self._overdue: asyncio.TimerHandle | None = None

    async def close(self) -> None:
        """Close all connections."""
        for connection in [*self._idle, *self._busy]:
            connection.abort()
        self._idle.clear()
        if self._overdue is not None:
            self._overdue.cancel()
        await asyncio.sleep(0)  # the loop handles the closed connections

    async def send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        repeatable: bool = False,
    ) -> Reply:
        """Send a request and return the answer.

        Args:
            method: GET, PUT and DELETE are sent again when a kept connection was closed.
            path: Below the base URL, with the query.
            headers: Additional ones.
            body: The body.
            repeatable: Whether a request with another method may be sent again, too.

        Raises:
            Unreachable: No complete answer came.
        """
        repeatable = repeatable or method in REPEATABLE
        connection, answer = await self._begin(method, path, headers, body, repeatable=repeatable)
        try:
            data = await answer.body()
        except BaseException:
            self.drop(connection)
            raise
        self._release(connection)
        return Reply(answer.status, answer.headers, data)

    def dispatch(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes,
        seconds: float,
        then: Callable[[Reply | Unreachable], None],
    ) -> bool:
        """Send a request over a connection that is open already, and have `then` called later.

        It costs a fraction of `send`: no task waits for the answer, and no timer of its own. It is
        not sent again when the server has closed the connection.

        Args:
            method: Of a write.
            path: Below the base URL, with the query.
            headers: Additional ones.
            body: The body.
            seconds: How long the answer may take; it may be noticed a second late.
            then: Called once, with the answer or the error.

        Returns:
            Whether it was sent; `then` is not called otherwise.
        """
        loop = asyncio.get_running_loop()
        now = loop.time()
        connection = self._idle_connection(now)
        if connection is None:
            return False
        self._busy.add(connection)
        answer = connection.send(self._request(method, path, headers, body), now)
        answer.then = functools.partial(self._ended, connection, then)
        self._due[connection] = now + seconds
        if self._overdue is None:
            self._overdue = loop.call_later(OVERDUE_SECONDS, self._cut_overdue)
        return True

    def _ended(
        self,
        connection: HttpConnection,
        then: Callable[[Reply | Unreachable], None],
        answer: HttpResponse,
    ) -> None:
        """Hand an answer over."""
        self._due.pop(connection, None)
        if answer.failure is not None:
            self.drop(connection)
            then(answer.failure)
            return
        self._release(connection)
        if self._server_time is not None:
            self._server_time.observe(answer.status, answer.headers.raw)
        then(Reply(answer.status, answer.headers, answer.data()))

    def _cut_overdue(self) -> None:
        """Abort the connections of overdue answers."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in [late for late, due in self._due.items() if due <= now]:
            self._close_silent(connection.asked_at)
            connection.give_up("no response in time")
        self._overdue = loop.call_later(OVERDUE_SECONDS, self._cut_overdue) if self._due else None

    def _release(self, connection: HttpConnection) -> None:
        """Keep a connection for another request, if it can be used again."""
        self._busy.discard(connection)
        if connection.make_idle(asyncio.get_running_loop().time()):
            self._idle.append(connection)
        else:
            connection.abort()

    async def stream(
        self,
        path: str,
        headers: Mapping[str, str],
        silence_seconds: float,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> Incoming:
        """Begin to read a stream; the caller closes what is returned.

        Args:
            path: With the query.
            headers: In addition to those of each request.
            silence_seconds: How long the server may send nothing.
            buffer_bytes: How much is buffered before the server has to wait for the reader.

        Raises:
            Unreachable: The server does not begin to answer within so many seconds.
        """
        try:
            async with asyncio.timeout(silence_seconds):
                connection, answer = await self._begin("GET", path, headers, None, repeatable=True)
        except TimeoutError as error:
            raise Unreachable("the server did not respond in time") from error
        answer.streamed = buffer_bytes
        return Incoming(answer, connection, silence_seconds, self)

    async def _begin(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        repeatable: bool,
    ) -> tuple[HttpConnection, HttpResponse]:
        """Send a request and wait until its answer begins."""
        request = self._request(method, path, headers, body)
        loop = asyncio.get_running_loop()
        while True:
            kept = self._idle_connection(loop.time())
            connection = kept or await self._connect()
            self._busy.add(connection)
            answer = connection.send(request, loop.time())
            try:
                await answer.head()
            except Unreachable:
                self.drop(connection)
                # The server may close a connection at the moment when it is used again.
                if kept is None or answer.received or not repeatable:
                    raise
            except BaseException:
                self.drop(connection)
                if kept is not None and not answer.received:
                    self._close_silent(connection.asked_at)
                raise
            else:
                if self._server_time is not None:
                    self._server_time.observe(answer.status, answer.headers.raw)
                return connection, answer

    def _request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> bytes:
        size = b"" if body is None else b"Content-Length: %d\r\n" % len(body)
        line = f"{method} {self._base}{path} HTTP/1.1\r\n".encode("ascii")
        if self._further[0] is not headers:
            self._further = (headers, _lines(headers))
        return b"".join((line, self._always, self._further[1], size, b"\r\n", body or b""))

    def _idle_connection(self, now: float) -> HttpConnection | None:
        """Return a connection that is open, was used lately and is not too old, if there is one."""
        if now >= self._look_at:
            self.renew()
        while self._idle:
            connection = self._idle.pop()
            idle = now - connection.used_at
            if idle < KEEP_ALIVE_SECONDS and now < connection.old_at and connection.open:
                return connection
            connection.abort()
        return None

    def _close_silent(self, moment: float) -> None:
        """Close the idle connections that have received nothing since a moment."""
        kept = [connection for connection in self._idle if connection.used_at > moment]
        for connection in self._idle:
            if connection.used_at <= moment:
                connection.abort()
        self._idle = kept

    def renew(self) -> bool:
        """Check the TLS files; return whether new connections use a new context.

        Connections with the old context are not used for further requests.
        """
        self._look_at = asyncio.get_running_loop().time() + LOOK_SECONDS
        if self._tls is None:
            return False
        self._tls.refresh()
        if self._tls.generation == self._generation:
            return False
        self._generation = self._tls.generation
        for connection in self._busy:
            connection.old_at = 0.0
        self._close_silent(self._look_at)
        return True

    async def _connect(self) -> HttpConnection:
        """Return a new connection.

        Raises:
            Unreachable: There is none, even with the current TLS files.
        """
        try:
            connection = await self._dial()
        except Unreachable:
            if not self.renew():
                raise
            connection = await self._dial()
        self._connections += 1
        part = (1 + self._connections * _SPREAD % 1) / 2
        connection.old_at = asyncio.get_running_loop().time() + MAX_AGE_SECONDS * part
        return connection

    def drop(self, connection: HttpConnection) -> None:
        """Abort a connection that is in use."""
        self._busy.discard(connection)
        connection.abort()


def _lines(headers: Mapping[str, str]) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1")
