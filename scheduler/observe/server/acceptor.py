"""Accepts connections, in the thread that serves: counted, rated, and with TLS.

A connection is counted from the moment it is accepted. Then it waits, for a few seconds at most,
for the first bytes of a handshake, and for its turn to have one: a silent client takes no turn.
After that it belongs to the protocol of the web server, until it is lost.
"""

import asyncio
import contextlib
import socket
import ssl
from asyncio import sslproto
from typing import Final, Protocol

from scheduler.observe.rates import FairTurns, Rate
from scheduler.observe.server.connections import OpenConnection, Table, peer
from scheduler.observe.server.listen import Limits

__all__ = ["Acceptor"]

#: How long a client may take to say good-bye over TLS.
_GOODBYE_SECONDS: Final = 1.0
#: Before it is tried again to accept, when there was no descriptor for a connection.
_REST_SECONDS: Final = 0.1


class Server(Protocol):
    """Serves connections."""

    def protocol(self, held: OpenConnection, /) -> asyncio.Protocol:
        """Return the protocol of a connection."""

    def forget(self, held: OpenConnection, /) -> None:
        """Forget a connection that is lost."""


class Acceptor:
    """Takes connections from a listening socket. Made in the loop of the thread that serves.

    Args:
        listener: Listens, and does not block.
        server: Serves them.
        context: TLS; `None` for none.
        table: The connections that there are.
        limits: How much clients may take.
    """

    def __init__(
        self,
        listener: socket.socket,
        server: Server,
        context: ssl.SSLContext | None,
        table: Table,
        limits: Limits,
    ) -> None:
        self._listener = listener
        self._server = server
        self._context = context
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
            return  # the client has left before
        except OSError:  # there is no descriptor left
            least = self._table.least()
            if least is not None:
                self._table.drop(least)
                self._serving[least].cancel()
            await asyncio.sleep(_REST_SECONDS)
            return
        held = OpenConnection(peer(address[0]), self._loop.time())
        leaving = self._table.admit(held)
        if leaving is held:
            sock.close()
            return
        if leaving is not None:
            self._serving[leaving].cancel()
        self._serving[held] = self._loop.create_task(self._serve(held, sock))

    async def _serve(self, held: OpenConnection, sock: socket.socket) -> None:
        """Serve a connection until it is lost."""
        transport: asyncio.BaseTransport | None = None
        lost: asyncio.Future[None] = self._loop.create_future()
        try:
            with contextlib.suppress(OSError, TimeoutError):
                transport = await self._connected(held, sock, lost)
                await lost
        finally:
            self._serving.pop(held, None)
            self._table.drop(held)
            self._server.forget(held)
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()
            elif transport is None:
                sock.close()

    async def _connected(
        self, held: OpenConnection, sock: socket.socket, lost: "asyncio.Future[None]"
    ) -> asyncio.BaseTransport:
        """Hand a socket to the protocol of the web server, after the handshake."""

        def watched() -> asyncio.Protocol:
            return _Watched(self._server.protocol(held), lost)

        context = self._context
        if context is None:
            transport, _ = await self._loop.connect_accepted_socket(watched, sock)
            return transport
        patience = self._limits.handshake_seconds
        shaken: asyncio.Future[None] = self._loop.create_future()
        raw: asyncio.Transport | None = None
        try:
            async with asyncio.timeout(patience):
                await self._readable(sock)
                await self._turn(held.peer)
                raw, _ = await self._loop.connect_accepted_socket(
                    lambda: _Tls(
                        self._loop,
                        watched(),
                        context,
                        shaken,
                        server_side=True,
                        # Typeshed has whole seconds here; the loop takes any number.
                        ssl_handshake_timeout=patience,  # type: ignore[arg-type]
                        ssl_shutdown_timeout=_GOODBYE_SECONDS,
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
        came: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(sock, _done, came)
        try:
            await came
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
        """Give turns to those whose time has come, and look again when there is a next one."""
        if self._drawing is not None:
            self._drawing.cancel()
            self._drawing = None
        now = self._loop.time()
        while (ticket := self._turns.draw(now)) is not None:
            _done(ticket)
        pause = self._turns.pause(now)
        if pause is not None:
            self._drawing = self._loop.call_later(pause, self._draw)


class _Tls(sslproto.SSLProtocol):
    """TLS as asyncio has it, with less memory for each connection.

    A request is short; asyncio's own 256 KiB for what comes in would be 128 MiB of all connections.
    """

    max_size = 16 * 1024


class _Watched(asyncio.Protocol):
    """Passes everything on to a protocol, and tells when its connection is lost."""

    def __init__(self, inner: asyncio.Protocol, lost: "asyncio.Future[None]") -> None:
        self._inner = inner
        self._lost = lost

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Pass it on."""
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Pass it on."""
        self._inner.data_received(data)

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
        """Pass it on and tell."""
        self._inner.connection_lost(error)
        _done(self._lost)


def _done(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
