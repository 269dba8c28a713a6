"""HTTP/1.1 to one server, over connections that are kept open.

Requests are the scheduler's hot path, and this does no more than they need: no redirects, cookies,
compression, proxies or pipelining. Answers are parsed by llhttp (httptools).

Connections are made by the loop itself (`scheduler.kube.http.dialing`), from address and port.
Clients that make the socket and hand it to uvloop can leave a dead connection under a file
descriptor that every later one gets; then nothing can be reached any more.

A kept connection may be dead without a sign, after a load balancer failed over or a server lost
power. So when one does not answer, all idle ones that were last heard of before that request are
closed with it. None is kept for longer than ten minutes: HTTP/1.1 has no way to ask clients to
spread over API servers that came back.
"""

import asyncio
import functools
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from scheduler.kube.errors import Unreachable
from scheduler.kube.http.connection import HttpConnection, HttpResponse
from scheduler.kube.http.dialing import Dialer, ServerAddress
from scheduler.kube.http.server_time import ServerTime
from scheduler.kube.http.tls import Tls

__all__ = ["Http1", "Incoming", "Reply"]

#: Longer than the pauses between two slices of work, shorter than the server's patience.
KEEP_ALIVE_SECONDS: Final = 60.0
#: A connection is used for half of that at least, and for all of it at most.
LONGEST_AGE_SECONDS: Final = 600.0
#: Spreads the ages of connections that were made at once: multiples of it, without their whole
#: part, are as far from each other as can be. It is the golden ratio.
_SPREAD: Final = 0.618034
#: Between two looks at the files that TLS is made of.
LOOK_SECONDS: Final = 60.0
#: Between two looks for answers that are overdue.
OVERDUE_SECONDS: Final = 1.0
#: What changes nothing when it is sent a second time.
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
        tls: Tls | None,
        tls_server_name: str | None,
        headers: Mapping[str, str],
        server_time: ServerTime | None = None,
    ) -> None:
        """Connect to nothing yet.

        Args:
            server: The base URL.
            tls: For `https`; not looked at for `http`.
            tls_server_name: The name to expect in the certificate where it is not the host.
            headers: Sent with each request.
            server_time: What learns from the dates of answers.

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
        #: Of the TLS context that the kept connections were made with.
        self._generation = 0 if tls is None else tls.generation
        #: When to look at the files of `_tls` again.
        self._look_at = 0.0
        name = (tls_server_name or host) if secure else None
        self._dialer = Dialer(ServerAddress(host, port, self._tls, name))
        self._connections = 0
        self._server_time = server_time
        self._base = url.path.rstrip("/")
        self._always = _lines({"Host": url.netloc.rpartition("@")[2], **headers})
        #: The further headers of the last request, and their lines.
        self._further: tuple[Mapping[str, str], bytes] = ({}, b"")
        #: The one that was used last stands last.
        self._idle: list[HttpConnection] = []
        self._busy: set[HttpConnection] = set()
        #: When the answers are due that somebody is called back for.
        self._due: dict[HttpConnection, float] = {}
        self._overdue: asyncio.TimerHandle | None = None

    async def close(self) -> None:
        """Close all connections."""
        for connection in [*self._idle, *self._busy]:
            connection.abort()
        self._idle.clear()
        if self._overdue is not None:
            self._overdue.cancel()
        await asyncio.sleep(0)  # the loop notices what was closed

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
            method: GET, PUT and DELETE are sent again when a kept connection turns out to be cut.
            path: Below the base URL, with the query.
            headers: Further ones.
            body: What is sent.
            repeatable: Whether this one may be sent again too.

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

    def post(
        self,
        path: str,
        headers: Mapping[str, str],
        body: bytes,
        seconds: float,
        then: Callable[[Reply | Unreachable], None],
    ) -> bool:
        """Send a POST over a connection that is open already, and have `then` called later.

        It costs a fraction of `send`: no task waits for the answer, and no timer of its own.

        Args:
            path: Below the base URL, with the query.
            headers: Further ones.
            body: What is sent.
            seconds: How long the answer may take; it may be noticed a second late.
            then: Called once, with the answer or why there is none.

        Returns:
            Whether it was sent; else nobody is called.
        """
        loop = asyncio.get_running_loop()
        now = loop.time()
        connection = self._kept(now)
        if connection is None:
            return False
        self._busy.add(connection)
        answer = connection.ask(self._request("POST", path, headers, body), now)
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
            self._server_time.heard(answer.status, answer.headers.raw)
        then(Reply(answer.status, answer.headers, answer.data()))

    def _cut_overdue(self) -> None:
        """Give up the answers that are overdue."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in [each for each, due in self._due.items() if due <= now]:
            self._distrust(connection.asked_at)
            connection.give_up("no answer in time")
        self._overdue = loop.call_later(OVERDUE_SECONDS, self._cut_overdue) if self._due else None

    def _release(self, connection: HttpConnection) -> None:
        """Keep a connection for the next request, if it can be used again."""
        self._busy.discard(connection)
        if connection.rest(asyncio.get_running_loop().time()):
            self._idle.append(connection)
        else:
            connection.abort()

    async def stream(
        self, path: str, headers: Mapping[str, str], silence_seconds: float
    ) -> Incoming:
        """Begin to read; close what is returned.

        Raises:
            Unreachable: The server does not begin to answer, for so many seconds.
        """
        try:
            async with asyncio.timeout(silence_seconds):
                connection, answer = await self._begin("GET", path, headers, None, repeatable=True)
        except TimeoutError as error:
            raise Unreachable("the server did not answer in time") from error
        answer.streamed = True
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
            kept = self._kept(loop.time())
            connection = kept or await self._connect()
            self._busy.add(connection)
            answer = connection.ask(request, loop.time())
            try:
                await answer.head()
            except Unreachable:
                self.drop(connection)
                # The server may close a connection just when it is used again.
                if kept is None or answer.heard or not repeatable:
                    raise
            except BaseException:
                self.drop(connection)
                if kept is not None and not answer.heard:
                    self._distrust(connection.asked_at)
                raise
            else:
                if self._server_time is not None:
                    self._server_time.heard(answer.status, answer.headers.raw)
                return connection, answer

    def _request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> bytes:
        size = b"" if body is None else b"Content-Length: %d\r\n" % len(body)
        line = f"{method} {self._base}{path} HTTP/1.1\r\n".encode("ascii")
        if self._further[0] is not headers:
            self._further = (headers, _lines(headers))
        return b"".join((line, self._always, self._further[1], size, b"\r\n", body or b""))

    def _kept(self, now: float) -> HttpConnection | None:
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

    def _distrust(self, moment: float) -> None:
        """Close the idle connections that were not heard of since a moment."""
        kept = [each for each in self._idle if each.used_at > moment]
        for connection in self._idle:
            if connection.used_at <= moment:
                connection.abort()
        self._idle = kept

    def renew(self) -> bool:
        """Look at the files that TLS is made of; whether new connections are made differently.

        Connections of before are not used for further requests.
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
        self._distrust(self._look_at)
        return True

    async def _connect(self) -> HttpConnection:
        """Return a new connection.

        Raises:
            Unreachable: There is none, even with what the files of TLS hold at this moment.
        """
        try:
            connection = await self._dialer.connect()
        except Unreachable:
            if not self.renew():
                raise
            connection = await self._dialer.connect()
        self._connections += 1
        part = (1 + self._connections * _SPREAD % 1) / 2
        connection.old_at = asyncio.get_running_loop().time() + LONGEST_AGE_SECONDS * part
        return connection

    def drop(self, connection: HttpConnection) -> None:
        """Cut a connection that is in use."""
        self._busy.discard(connection)
        connection.abort()


def _lines(headers: Mapping[str, str]) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1")
