"""Connects to one server: which address, which socket options, which timeout.

A name may have several addresses, and any of them may be dead without an error. They are tried in
the order of the resolver, the next one half a second after the last or as soon as that has failed,
and the first that works is used. Addresses that failed lately are tried last, so a dead address
costs its half second once a minute, not once a connection.
"""

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple

from scheduler.kube.errors import Unreachable
from scheduler.kube.http.connection import HttpConnection
from scheduler.kube.http.tls import Tls

__all__ = ["Dialer", "ServerAddress"]

CONNECT_SECONDS: Final = 5.0
#: Before the next address is tried beside one that has not answered yet. Go waits 300 ms, and only
#: for the TCP connection; here the TLS handshake of a busy server counts, too.
#: Source: Go net.Dialer.FallbackDelay.
HEAD_START_SECONDS: Final = 0.5
#: How long an address that failed is tried after all others.
DISTRUST_SECONDS: Final = 60.0

#: When the kernel closes a connection whose other end is gone: after 20 seconds without an
#: acknowledgement of sent data, and after 30 idle seconds and then unanswered probes.
UNACKNOWLEDGED_MILLISECONDS: Final = 20_000
_SOCKET_OPTIONS: Final = (
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 30),
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 10),
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", 3),
    (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", UNACKNOWLEDGED_MILLISECONDS),
)


class ServerAddress(NamedTuple):
    """The address of a server."""

    host: str
    port: int
    #: `None` for plain HTTP.
    tls: Tls | None
    #: The name to expect in the certificate; `None` for plain HTTP.
    certified_name: str | None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Dialer:
    """Makes connections to one server."""

    def __init__(self, server: ServerAddress) -> None:
        self._server = server
        #: When each address failed last, by the loop's clock.
        self._failed: dict[str, float] = {}

    async def connect(self) -> HttpConnection:
        """Return a new connection.

        Raises:
            Unreachable: There is none within five seconds.
        """
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await self._first(await self._addresses())
        except TimeoutError as error:
            problem = f"no connection to {self._server} within {CONNECT_SECONDS:g} s"
            raise Unreachable(problem, sent=False) from error
        except (OSError, ValueError) as error:
            # A ValueError comes from a name that cannot be a host's.
            problem = f"cannot connect to {self._server}: {error}"
            raise Unreachable(problem, sent=False) from error

    async def _addresses(self) -> list[str]:
        """Return the addresses of the server, those that failed lately last."""
        addresses = await self._resolve()
        now = asyncio.get_running_loop().time()
        lately = {
            address: at for address, at in self._failed.items() if now - at < DISTRUST_SECONDS
        }
        self._failed = lately
        return sorted(addresses, key=lambda address: lately.get(address, 0.0))

    async def _resolve(self) -> list[str]:
        """Return the addresses of the server in the order of the resolver.

        Raises:
            OSError, ValueError: The name cannot be looked up.
        """
        host = self._server.host
        with contextlib.suppress(ValueError):
            ipaddress.ip_address(host)
            return [host]
        infos = await asyncio.get_running_loop().getaddrinfo(
            host, self._server.port, type=socket.SOCK_STREAM
        )
        return list(dict.fromkeys(str(info[4][0]) for info in infos))

    async def _first(self, addresses: list[str]) -> HttpConnection:
        """Connect to the address that answers first.

        Raises:
            OSError, ValueError: None answers; the error of the last one.
        """
        if len(addresses) == 1:
            return await self._open(addresses[0])
        race = _Race(self._open, addresses)
        try:
            return await race.winner()
        finally:
            now = asyncio.get_running_loop().time()
            self._failed |= dict.fromkeys(race.overtaken, now)

    async def _open(self, address: str) -> HttpConnection:
        server, connection = self._server, HttpConnection()
        try:
            transport, _ = await asyncio.get_running_loop().create_connection(
                lambda: connection,
                address,
                server.port,
                ssl=None if server.tls is None else server.tls.context,
                server_hostname=server.certified_name,
            )
        except BaseException:
            connection.abort()
            raise
        _set_options(transport.get_extra_info("socket"))
        return connection


class _Race:
    """Concurrent attempts to connect to several addresses."""

    def __init__(
        self, connect: Callable[[str], Coroutine[Any, Any, HttpConnection]], addresses: list[str]
    ) -> None:
        self._connect = connect
        self._untried = addresses[::-1]
        self._head_start = min(HEAD_START_SECONDS, CONNECT_SECONDS / (2 * len(addresses)))
        self._running: dict[asyncio.Task[HttpConnection], str] = {}
        #: The addresses that failed, or were slower than one that was tried later.
        self.overtaken: list[str] = []

    async def winner(self) -> HttpConnection:
        """Return the first connection; all other attempts end.

        Raises:
            OSError, ValueError: Every attempt failed; the error of the last one.
        """
        problem: BaseException = OSError("the name has no address")
        try:
            while self._untried or self._running:
                self._begin()
                ended, _ = await asyncio.wait(
                    self._running,
                    timeout=self._head_start if self._untried else None,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for task in ended:
                    error = task.exception()
                    if error is None:
                        del self._running[task]
                        return task.result()
                    self.overtaken.append(self._running.pop(task))
                    problem = error
        finally:
            self.overtaken.extend(self._running.values())
            await self._end()
        raise problem

    def _begin(self) -> None:
        if self._untried:
            address = self._untried.pop()
            self._running[asyncio.create_task(self._connect(address))] = address

    async def _end(self) -> None:
        """End the other attempts, and close connections that they have made meanwhile."""
        for task in self._running:
            task.cancel()
        for ended in await asyncio.gather(*self._running, return_exceptions=True):
            if isinstance(ended, HttpConnection):
                ended.abort()


def _set_options(connection: Any) -> None:
    """Let the kernel detect a dead connection; options that it lacks are left out."""
    for level, name, value in _SOCKET_OPTIONS:
        option = getattr(socket, name, None)
        if option is not None:
            with contextlib.suppress(OSError):
                connection.setsockopt(level, option, value)
