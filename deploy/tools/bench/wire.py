"""A lean HTTP/1.1 client: one request at a time on a connection, many connections.

The generator and the ceiling share the machine with the API server: what they need is taken from
what is measured. This client needs about a third of what a general one does.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from deploy.tools.controlplane.transport import Endpoint

__all__ = ["Call", "Refused", "Wire", "delete", "merge", "post", "put", "send_all"]

#: Requests under way at a time; more gains nothing on a few cores.
CONNECTIONS: Final = 64

_JSON: Final = "application/json"
_STRATEGIC: Final = "application/strategic-merge-patch+json"


class Refused(RuntimeError):
    """The API server said no.

    Attributes:
        status: the HTTP status code.
    """

    def __init__(self, call: "Call", status: int, body: bytes) -> None:
        said = body.decode(errors="replace")[:300]
        super().__init__(f"{call.method} {call.path}: {status} {said}")
        self.status = status


class Call(NamedTuple):
    """One request."""

    method: str
    path: str
    body: bytes = b""
    content_type: str = _JSON


def post(path: str, body: Any) -> Call:
    """Return the creation of an object, or the use of a subresource."""
    return Call("POST", path, json.dumps(body).encode())


def put(path: str, body: Any) -> Call:
    """Return the replacement of an object."""
    return Call("PUT", path, json.dumps(body).encode())


def merge(path: str, body: Any) -> Call:
    """Return a strategic merge patch."""
    return Call("PATCH", path, json.dumps(body).encode(), _STRATEGIC)


def delete(path: str, body: Any = None) -> Call:
    """Return the deletion of an object."""
    return Call("DELETE", path, b"" if body is None else json.dumps(body).encode())


@dataclass(slots=True)
class Wire:
    """One connection; not for two tasks at a time."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    host: str

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, at: Endpoint) -> AsyncIterator["Wire"]:
        """Connect for the length of a `with` block."""
        reader, writer = await asyncio.open_connection(at.host, at.port, ssl=at.tls)
        try:
            yield cls(reader, writer, f"{at.host}:{at.port}")
        finally:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def send(self, call: Call) -> bytes:
        """Send a request and return the body of the answer.

        Raises:
            Refused: the status says that it failed.
            OSError, EOFError: the connection broke.
        """
        head = (
            f"{call.method} {call.path} HTTP/1.1\r\nHost: {self.host}\r\n"
            f"Accept: application/json\r\nContent-Type: {call.content_type}\r\n"
            f"Content-Length: {len(call.body)}\r\n\r\n"
        )
        self.writer.write(head.encode() + call.body)
        answer = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        body = await self._body(answer)
        status = int(answer[9:12])
        if status >= 400:
            raise Refused(call, status, body)
        return body

    async def _body(self, head: bytes) -> bytes:
        _, found, rest = head.partition(b"\r\ncontent-length:")
        if found:
            return await self.reader.readexactly(int(rest[: rest.index(b"\r")]))
        chunks = []
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            chunks.append(await self.reader.readexactly(size))
            await self.reader.readexactly(2)
        await self.reader.readexactly(2)
        return b"".join(chunks)


async def send_all(
    at: Endpoint, jobs: Iterable[Sequence[Call]], connections: int = CONNECTIONS
) -> None:
    """Carry out many jobs at once, the calls of each in order.

    Raises:
        Refused: a call failed; what was not begun yet is given up.
        OSError, EOFError: a connection broke.
    """
    waiting = iter(jobs)

    async def worker() -> None:
        async with Wire.open(at) as wire:
            for job in waiting:
                for call in job:
                    await wire.send(call)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(connections):
                group.create_task(worker())
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
