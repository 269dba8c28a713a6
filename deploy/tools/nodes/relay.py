"""A bridge for bytes from one network namespace into another.

A listening socket stays in the namespace in which it was made, while new connections belong to the
namespace of the process. So a process of the site that inherits a socket of the machine's loopback
interface can hand what comes there to an address of the site.
"""

import asyncio
import contextlib
import socket
import threading

__all__ = ["start"]

CHUNK = 1 << 16


def start(listening: socket.socket, host: str, port: int) -> None:
    """Hand all connections to this address, in a thread that ends with the process."""
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
    """Copy until one side ends; then the other side learns of it."""
    with contextlib.suppress(OSError):
        while chunk := await reader.read(CHUNK):
            writer.write(chunk)
            await writer.drain()
    writer.close()
