"""Forwards TCP connections from one network namespace to another.

A listening socket stays in the namespace in which it was created; new connections are made in the
namespace of the process. So a process of the sandbox that inherits a listening socket of the
machine's loopback interface can forward its connections to an address of the sandbox.
"""

import asyncio
import contextlib
import socket
import threading

__all__ = ["start"]

CHUNK = 1 << 16


def start(listening: socket.socket, host: str, port: int) -> None:
    """Forward all connections to this address, in a daemon thread."""
    listening.setblocking(False)
    serving = _serve(listening, host, port)
    threading.Thread(target=lambda: asyncio.run(serving), daemon=True).start()


async def _serve(listening: socket.socket, host: str, port: int) -> None:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(host, port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))

    server = await asyncio.start_server(accept, sock=listening)
    await server.serve_forever()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until one side ends, then close the other side."""
    with contextlib.suppress(OSError):
        while chunk := await reader.read(CHUNK):
            writer.write(chunk)
            await writer.drain()
    writer.close()
