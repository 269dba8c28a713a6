"""Connections to one server: which address, which socket options, how long.

A name may have several addresses, and any of them may be dead without saying so. They are tried in
the order of the resolver, the next one half a second after the last or as soon as that has failed,
and the first that works is taken. What failed lately is tried last, so a dead address costs its
half second once a minute, not once a connection.
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
#: For how long an address that failed is tried after all others.
DISTRUST_SECONDS: Final = 60.0

#: How soon the kernel gives up a connection whose other end is gone: what was sent and is not
#: acknowledged for 20 seconds, and one that is idle for 30 seconds and then silent to probes.
UNACKNOWLEDGED_MILLISECONDS: Final = 20_000
_SOCKET_OPTIONS: Final = (
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 30),
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 10),
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", 3),
    (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", UNACKNOWLEDGED_MILLISECONDS),
)


class ServerAddress(NamedTuple):
    """Where to connect to."""

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
        lately = {each: at for each, at in self._failed.items() if now - at < DISTRUST_SECONDS}
        self._failed = lately
        return sorted(addresses, key=lambda each: lately.get(each, 0.0))

    async def _resolve(self) -> list[str]:
        """Return the addresses of the server in the order of the resolver.

        Raises:
            OSError, ValueError: The name cannot be looked up.
        """
        host = self._server.host
        with contextlib.suppress(ValueError):
            ipaddress.ip_address(host)
            return [host]
        found = await asyncio.get_running_loop().getaddrinfo(
            host, self._server.port, type=socket.SOCK_STREAM
        )
        return list(dict.fromkeys(str(each[4][0]) for each in found))

    async def _first(self, addresses: list[str]) -> HttpConnection:
        """Connect to whichever address answers first.

        Raises:
            OSError, ValueError: None does; why the last one did not.
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
    """Attempts to connect to several addresses, one beside the other."""

    def __init__(
        self, connect: Callable[[str], Coroutine[Any, Any, HttpConnection]], addresses: list[str]
    ) -> None:
        self._connect = connect
        self._waiting = addresses[::-1]
        self._head_start = min(HEAD_START_SECONDS, CONNECT_SECONDS / (2 * len(addresses)))
        self._running: dict[asyncio.Task[HttpConnection], str] = {}
        #: The addresses that failed, or were slower than one that was tried later.
        self.overtaken: list[str] = []

    async def winner(self) -> HttpConnection:
        """Return the first connection; all other attempts end.

        Raises:
            OSError, ValueError: Every attempt failed; why the last one did.
        """
        problem: BaseException = OSError("the name has no address")
        try:
            while self._waiting or self._running:
                self._begin()
                ended, _ = await asyncio.wait(
                    self._running,
                    timeout=self._head_start if self._waiting else None,
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
        if self._waiting:
            address = self._waiting.pop()
            self._running[asyncio.create_task(self._connect(address))] = address

    async def _end(self) -> None:
        """End the other attempts, and close what they have reached meanwhile."""
        for task in self._running:
            task.cancel()
        for ended in await asyncio.gather(*self._running, return_exceptions=True):
            if isinstance(ended, HttpConnection):
                ended.abort()


def _set_options(connection: Any) -> None:
    """Have the kernel notice a dead connection; options that it lacks are left out."""
    for level, name, value in _SOCKET_OPTIONS:
        option = getattr(socket, name, None)
        if option is not None:
            with contextlib.suppress(OSError):
                connection.setsockopt(level, option, value)
