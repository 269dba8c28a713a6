"""Sends requests with credentials to the API server.

`Transport` is the interface: its users do not depend on how requests are sent.
"""

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import Protocol

from scheduler.kube.auth.cluster_access import ClusterAccess
from scheduler.kube.errors import Unreachable
from scheduler.kube.http.http1 import Http1, Reply
from scheduler.kube.http.server_time import ServerTime

__all__ = ["HttpTransport", "Reply", "ReplyStream", "StreamingTransport", "Transport"]


class Transport(Protocol):
    """Sends requests."""

    async def send(self, method: str, path: str, body: bytes | None, content_type: str) -> Reply:
        """Send a request and return the answer.

        Raises:
            Unreachable: No complete answer came.
        """

    def dispatch(
        self,
        method: str,
        path: str,
        body: bytes,
        content_type: str,
        seconds: float,
        then: Callable[[Reply | Unreachable], None],
    ) -> bool:
        """Send a write if it can be sent at once, and have `then` called with its answer later.

        Args:
            method: POST or PATCH.
            path: With the query.
            body: The body.
            content_type: Of the body.
            seconds: How long the answer may take.
            then: Called once, with the answer or the error.

        Returns:
            Whether it was sent; `then` is not called otherwise.
        """


class ReplyStream(Protocol):
    """An answer that has no end."""

    status: int
    headers: Mapping[str, str]

    async def read(self) -> bytes:
        """Wait for data since the last call and return it; empty at the end.

        Raises:
            Unreachable: The connection broke, or was silent for too long.
        """


class StreamingTransport(Transport, Protocol):
    """Sends requests and opens streams."""

    def stream(
        self, path: str, silence_seconds: float
    ) -> contextlib.AbstractAsyncContextManager[ReplyStream]:
        """Open a stream; it is closed after `silence_seconds` without a byte."""


class HttpTransport:
    """HTTP/1.1 with credentials. Create and close it inside the running event loop."""

    def __init__(
        self,
        connection: ClusterAccess,
        user_agent: str,
        accept: str = "",
        server_time: ServerTime | None = None,
    ) -> None:
        self._credentials = connection.credentials
        #: Credentials and content type of the last request with a body, and its headers.
        self._typed: tuple[Mapping[str, str], str, Mapping[str, str]] = ({}, "", {})
        # Compression would cost more time than it saves on the way to an API server.
        headers = {"User-Agent": user_agent, "Accept-Encoding": "identity"}
        if accept:
            headers["Accept"] = accept
        self._http = Http1(
            connection.server,
            connection.secured,
            connection.tls_server_name,
            headers,
            server_time,
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
        await self._http.close()

    async def send(self, method: str, path: str, body: bytes | None, content_type: str) -> Reply:
        """Send a request and return the answer; after a 401 once more with fresh credentials.

        Raises:
            Unreachable: No complete answer came.
            ConnectionSettingsError: The credentials cannot be obtained.
        """
        auth_headers = await self._credentials.headers()
        reply = await self._send(auth_headers, method, path, body, content_type)
        if reply.status == 401 and (fresh := await self._renewed(auth_headers)) is not None:
            reply = await self._send(fresh, method, path, body, content_type)
        return reply

    async def _renewed(self, auth_headers: Mapping[str, str]) -> Mapping[str, str] | None:
        """Return new headers in place of refused ones; `None` where there are none.

        An expired certificate is refused with 401, too; a new one may come from its file, or with
        the credentials. Connections that were made with the old one are not used again.

        Raises:
            ConnectionSettingsError: The credentials cannot be obtained.
        """
        may_help = self._credentials.on_unauthorized(auth_headers)
        fresh = await self._credentials.headers()
        may_help |= self._http.renew()
        return fresh if may_help else None

    def dispatch(
        self,
        method: str,
        path: str,
        body: bytes,
        content_type: str,
        seconds: float,
        then: Callable[[Reply | Unreachable], None],
    ) -> bool:
        """Send a write if credentials and a connection are available."""
        auth_headers = self._credentials.cached_headers()
        if auth_headers is None:
            return False
        headers = self._with_type(auth_headers, content_type)
        return self._http.dispatch(method, path, headers, body, seconds, then)

    def _with_type(self, auth_headers: Mapping[str, str], content_type: str) -> Mapping[str, str]:
        """Return the headers of a request with a body; those of the last one if they are equal."""
        if self._typed[0] is not auth_headers or self._typed[1] != content_type:
            self._typed = (
                auth_headers,
                content_type,
                {**auth_headers, "Content-Type": content_type},
            )
        return self._typed[2]

    async def _send(
        self,
        auth_headers: Mapping[str, str],
        method: str,
        path: str,
        body: bytes | None,
        content_type: str,
    ) -> Reply:
        headers = auth_headers if body is None else self._with_type(auth_headers, content_type)
        return await self._http.send(method, path, headers, body)

    @contextlib.asynccontextmanager
    async def stream(self, path: str, silence_seconds: float) -> AsyncIterator[ReplyStream]:
        """Open a stream; it is closed after `silence_seconds` without a byte.

        Raises:
            Unreachable: The server does not begin to answer.
            ConnectionSettingsError: The credentials cannot be obtained.
        """
        auth_headers = await self._credentials.headers()
        stream = await self._http.stream(path, auth_headers, silence_seconds)
        if stream.status == 401:
            try:
                fresh = await self._renewed(auth_headers)
            except BaseException:
                stream.close()
                raise
            if fresh is not None:
                stream.close()
                stream = await self._http.stream(path, fresh, silence_seconds)
        try:
            yield stream
        finally:
            stream.close()
