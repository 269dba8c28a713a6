"""A load balancer in front of several servers: each connection goes to the next one."""

import asyncio
import contextlib


class Alternating:
    """Listens on the loopback interface.

    Attributes:
        ports: The ports of the servers; a test changes them as an upgrade does.
        port: Where it listens.
        connections: How many connections were made.
    """

    def __init__(self, *ports: int) -> None:
        self.ports = ports
        self.port = 0
        self.connections = 0
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "Alternating":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await self.cut()

    async def cut(self) -> None:
        """Close all connections."""
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        port = self.ports[self.connections % len(self.ports)]
        self.connections += 1
        with contextlib.suppress(OSError, asyncio.CancelledError):
            upstream, sender = await asyncio.open_connection("127.0.0.1", port)
            ways = [
                asyncio.ensure_future(_pump(reader, sender)),
                asyncio.ensure_future(_pump(upstream, writer)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                sender.transport.abort()
        writer.transport.abort()
        self._open.discard(task)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
