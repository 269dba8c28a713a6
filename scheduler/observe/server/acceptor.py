"""Accepts connections in the serving thread: counts them, limits their rate, and does TLS.

A connection is counted from the moment it is accepted. Then it waits, for a few seconds at most,
for the first bytes of a handshake, and for its turn to have one: a silent client takes no turn.
After that the protocol of the web server owns it, until it is lost.
"""

import asyncio
import contextlib
import socket
from asyncio import sslproto
from typing import Final, Protocol

from scheduler.observe.server.client_certificates import TlsContexts
from scheduler.observe.server.connections import ConnectionTable, OpenConnection, peer
from scheduler.observe.server.listen import Limits
from scheduler.observe.server.rates import FairTurns, Rate

__all__ = ["Acceptor"]

#: How long a client may take to shut TLS down.
_SHUTDOWN_SECONDS: Final = 1.0
#: Pause before the next accept after the process has run out of file descriptors.
_PAUSE_SECONDS: Final = 0.1


class Server(Protocol):
    """Serves connections."""

    def protocol(self, connection: OpenConnection, /) -> asyncio.Protocol:
        """Return the protocol of a connection."""

    def forget(self, connection: OpenConnection, /) -> None:
        """Forget a connection that is lost."""


class Acceptor:
    """Accepts connections of a listening socket. Made in the loop of the serving thread.

    Args:
        listener: The listening socket, non-blocking.
        server: Serves the connections.
        contexts: The TLS contexts; `None` for no TLS.
        table: All open connections.
        limits: The limits on clients.
    """

    def __init__(
        self,
        listener: socket.socket,
        server: Server,
        contexts: TlsContexts | None,
        table: ConnectionTable,
        limits: Limits,
    ) -> None:
        self._listener = listener
        self._server = server
        self._contexts = contexts
        self._table = table
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        now = self._loop.time()
        self._accepts = Rate(limits.accepts, now)
        self._turns: FairTurns[asyncio.Future[None]] = FairTurns(
            limits.handshakes, limits.peer_handshakes, now
        )
        self._drawing: asyncio.TimerHandle | None = None
        self._serving: dict[OpenConnection, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Accept until cancelled; then close what is open."""
        try:
            while True:
                await self._accept()
                await asyncio.sleep(self._accepts.reserve(self._loop.time()))
        finally:
            if self._drawing is not None:
                self._drawing.cancel()
            tasks = list(self._serving.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self) -> None:
        try:
            sock, address = await self._loop.sock_accept(self._listener)
        except ConnectionError:
            return  # the client has closed the connection before
        except OSError:  # there are no more file descriptors
            least = self._table.least()
            if least is not None:
                self._table.drop(least)
                self._serving[least].cancel()
            await asyncio.sleep(_PAUSE_SECONDS)
            return
        connection = OpenConnection(peer(address[0]), self._loop.time())
        evicted = self._table.admit(connection)
        if evicted is connection:
            sock.close()
            return
        if evicted is not None:
            self._serving[evicted].cancel()
        self._serving[connection] = self._loop.create_task(self._serve(connection, sock))

    async def _serve(self, connection: OpenConnection, sock: socket.socket) -> None:
        """Serve a connection until it is lost."""
        transport: asyncio.BaseTransport | None = None
        lost: asyncio.Future[None] = self._loop.create_future()
        try:
            with contextlib.suppress(OSError, TimeoutError):
                transport = await self._connected(connection, sock, lost)
                await lost
        finally:
            self._serving.pop(connection, None)
            self._table.drop(connection)
            self._server.forget(connection)
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()
            elif transport is None:
                sock.close()

    async def _connected(
        self, connection: OpenConnection, sock: socket.socket, lost: "asyncio.Future[None]"
    ) -> asyncio.BaseTransport:
        """Pass a socket to the protocol of the web server, after the handshake."""

        def watched() -> asyncio.Protocol:
            inner = self._server.protocol(connection)
            return _Watched(inner, connection, self._limits.request_bytes, lost)

        if self._contexts is None:
            transport, _ = await self._loop.connect_accepted_socket(watched, sock)
            return transport
        context = self._contexts.current()
        patience = self._limits.handshake_seconds
        shaken: asyncio.Future[None] = self._loop.create_future()
        raw: asyncio.Transport | None = None
        try:
            async with asyncio.timeout(patience):
                await self._readable(sock)
                await self._turn(connection.peer)
                raw, _ = await self._loop.connect_accepted_socket(
                    lambda: _Tls(
                        self._loop,
                        watched(),
                        # Of the context, asyncio only uses `wrap_bio`.
                        context,  # type: ignore[arg-type]
                        shaken,
                        server_side=True,
                        # Typeshed has whole seconds here; the loop takes any number.
                        ssl_handshake_timeout=patience,  # type: ignore[arg-type]
                        ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
                    ),
                    sock,
                )
                await shaken
        except BaseException:
            if raw is not None:
                raw.abort()
            raise
        return raw

    async def _readable(self, sock: socket.socket) -> None:
        """Wait for the first bytes, or the end, of what a client sends."""
        readable: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(sock, _done, readable)
        try:
            await readable
        finally:
            self._loop.remove_reader(sock)

    async def _turn(self, peer: str) -> None:
        """Wait until it is a peer's turn to have a handshake."""
        ticket: asyncio.Future[None] = self._loop.create_future()
        self._turns.add(peer, ticket, self._loop.time())
        self._draw()
        try:
            await ticket
        finally:
            self._turns.drop(peer, ticket)

    def _draw(self) -> None:
        """Give turns to the peers that are due, and schedule the next draw."""
        if self._drawing is not None:
            self._drawing.cancel()
            self._drawing = None
        now = self._loop.time()
        while (ticket := self._turns.take_next(now)) is not None:
            _done(ticket)
        pause = self._turns.pause(now)
        if pause is not None:
            self._drawing = self._loop.call_later(pause, self._draw)


class _Tls(sslproto.SSLProtocol):
    """The TLS protocol of asyncio, with less memory for each connection.

    Requests are short; with asyncio's read buffer of 256 KiB, all connections would take 128 MiB.
    """

    max_size = 16 * 1024


class _Watched(asyncio.Protocol):
    """Passes everything on to a protocol, and reports the loss of its connection.

    Args:
        inner: The protocol.
        connection: What it serves.
        most: How many bytes may come before a response.
        lost: Gets a result when the connection is lost.
    """

    def __init__(
        self,
        inner: asyncio.Protocol,
        connection: OpenConnection,
        most: int,
        lost: "asyncio.Future[None]",
    ) -> None:
        self._inner = inner
        self._connection = connection
        self._most = most
        self._lost = lost
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Pass it on."""
        self._transport = transport
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Pass it on; close the connection when it is too much."""
        if self._connection.count(data) <= self._most:
            self._inner.data_received(data)
        elif isinstance(self._transport, asyncio.WriteTransport):
            self._transport.abort()

    def eof_received(self) -> bool | None:
        """Pass it on."""
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        """Pass it on."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self._inner.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        """Pass it on and report it."""
        self._inner.connection_lost(error)
        _done(self._lost)


def _done(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
