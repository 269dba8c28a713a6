"""Bytes to the API server and back.

`Transport` is the seam: one method. What sits on it neither knows nor cares how requests travel,
so a leaner client than aiohttp can carry the hot writes.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, NamedTuple, Protocol

import aiohttp
from yarl import URL

from scheduler.kube.connection import Connection
from scheduler.kube.errors import Unreachable

__all__ = ["HttpTransport", "Reply", "Stream", "StreamingTransport", "Transport"]

#: An object of several MiB must not stall between two reads of the socket.
READ_BUFFER_BYTES: Final = 2**21
CONNECT_SECONDS: Final = 5.0
#: Longer than the pauses between two slices of work, shorter than the server's patience.
KEEP_ALIVE_SECONDS: Final = 60.0


class Reply(NamedTuple):
    """An answer, whatever its status."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport(Protocol):
    """Sends requests."""

    async def send(self, method: str, path: str, body: bytes | None, content_type: str) -> Reply:
        """Send a request and return the answer.

        Raises:
            Unreachable: No complete answer came.
        """


class Stream(Protocol):
    """An answer that has no end."""

    status: int
    headers: Mapping[str, str]

    async def read(self) -> bytes:
        """Return what has come since the last call, after waiting for it; empty at the end.

        Raises:
            Unreachable: The connection broke, or was silent for too long.
        """


class StreamingTransport(Transport, Protocol):
    """Sends requests and opens streams."""

    def stream(
        self, path: str, silence_seconds: float
    ) -> contextlib.AbstractAsyncContextManager[Stream]:
        """Open a stream; it is given up after `silence_seconds` without a byte."""


@dataclass(slots=True)
class _AiohttpStream:
    """A stream over aiohttp."""

    response: aiohttp.ClientResponse
    status: int
    headers: Mapping[str, str]

    async def read(self) -> bytes:
        """Return what has come since the last call."""
        try:
            return await self.response.content.readany()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(_problem(error)) from error


class HttpTransport:
    """HTTP/1.1 over aiohttp. Create and close it inside the running event loop.

    When a kept connection turns out to be cut, aiohttp itself sends a GET, PUT or DELETE a second
    time; all of ours may be repeated.
    """

    def __init__(self, connection: Connection, user_agent: str) -> None:
        self._server = connection.server
        self._credentials = connection.credentials
        self._tls_server_name = connection.tls_server_name
        # Compression would cost more time than it saves on the way to an API server.
        self._headers = {"User-Agent": user_agent, "Accept-Encoding": "identity"}
        # Concurrency is bounded by the callers: a limit here would let a watch starve a write.
        connector = aiohttp.TCPConnector(
            limit=0,
            ssl=True if connection.tls is None else connection.tls,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=READ_BUFFER_BYTES,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        )

    async def __aenter__(self) -> "HttpTransport":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()
        await asyncio.sleep(0)  # the loop notices what was closed

    async def send(self, method: str, path: str, body: bytes | None, content_type: str) -> Reply:
        """Send a request and return the answer; after a 401 once more with fresh credentials.

        Raises:
            Unreachable: No complete answer came.
            ConnectionSettingsError: The credentials cannot be obtained.
        """
        reply = await self._send(method, path, body, content_type)
        if reply.status == 401 and self._credentials.refused():
            reply = await self._send(method, path, body, content_type)
        return reply

    async def _send(self, method: str, path: str, body: bytes | None, content_type: str) -> Reply:
        headers = {**self._headers, **await self._credentials.headers()}
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            async with self._session.request(
                method,
                URL(self._server + path, encoded=True),
                data=body,
                headers=headers,
                allow_redirects=False,
                server_hostname=self._tls_server_name,
            ) as response:
                return Reply(response.status, response.headers, await response.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(error) from error

    @contextlib.asynccontextmanager
    async def stream(self, path: str, silence_seconds: float) -> AsyncIterator[Stream]:
        """Open a stream; it is given up after `silence_seconds` without a byte.

        Raises:
            Unreachable: The server does not begin to answer.
            ConnectionSettingsError: The credentials cannot be obtained.
        """
        response = await self._open(path, silence_seconds)
        if response.status == 401 and self._credentials.refused():
            response.close()
            response = await self._open(path, silence_seconds)
        try:
            yield _AiohttpStream(response, response.status, response.headers)
        finally:
            # There is no end of the answer to wait for, and no one to say good-bye to.
            if response.connection is not None and response.connection.transport is not None:
                response.connection.transport.abort()
            response.close()

    async def _open(self, path: str, silence_seconds: float) -> aiohttp.ClientResponse:
        headers = {**self._headers, **await self._credentials.headers()}
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_SECONDS, sock_read=silence_seconds
        )
        try:
            return await self._session.get(
                URL(self._server + path, encoded=True),
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
                server_hostname=self._tls_server_name,
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(error) from error


def _unreachable(error: Exception) -> Unreachable:
    refused = isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
    return Unreachable(_problem(error), sent=not refused)


def _problem(error: Exception) -> str:
    if isinstance(error, aiohttp.SocketTimeoutError):
        return "the connection was silent for too long"
    if isinstance(error, asyncio.TimeoutError):
        return "the server did not answer in time"
    return str(error) or type(error).__name__
