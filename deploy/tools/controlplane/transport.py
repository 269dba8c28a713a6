"""HTTP to one API server: pooled connections for requests, one of its own for each watch."""

import contextlib
import http.client
import select
import socket
import ssl
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass


@dataclass(frozen=True)
class Endpoint:
    """Address and credentials: a client certificate in `tls`, or a bearer token."""

    host: str
    port: int
    tls: ssl.SSLContext
    token: str | None = None


class Transport:
    """Sends requests; any number of threads may share it.

    Nothing is retried here, except that a pooled connection which the server has closed is replaced
    *before* it is used.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPSConnection] = []
        self._headers = {"Accept": "application/json"}
        if endpoint.token is not None:
            self._headers["Authorization"] = f"Bearer {endpoint.token}"

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float = 30.0,
    ) -> tuple[int, bytes]:
        """Send one request and read the whole answer: status and body.

        Raises:
            OSError, http.client.HTTPException: no (complete) answer came.
        """
        headers = self._headers if body is None else {**self._headers, "Content-Type": content_type}
        connection = self._borrow(timeout)
        try:
            connection.request(method, path, body=body, headers=headers)
            response = connection.getresponse()
            content = response.read()
        except BaseException:
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            with self._lock:
                self._idle.append(connection)
        return response.status, content

    def lines(self, path: str, timeout: float) -> Generator[bytes, None, None]:
        """GET a stream and yield its lines; the first one is the status code.

        Ends when the server ends the stream, raises TimeoutError after `timeout` seconds. Close the
        generator to hang up.
        """
        deadline = time.monotonic() + timeout
        connection = self._connect(timeout)
        with contextlib.closing(connection):
            connection.request("GET", path, headers=self._headers)
            sock = connection.sock  # http.client forgets it when the server wants to close
            response = connection.getresponse()
            with contextlib.closing(response):
                yield b"%d" % response.status
                buffer = b""
                while True:
                    sock.settimeout(_remaining(deadline))
                    chunk = response.read1(1 << 16)
                    if not chunk:
                        break
                    *lines, buffer = (buffer + chunk).split(b"\n")
                    yield from lines
                if buffer:
                    yield buffer

    def close(self) -> None:
        """Close the idle connections; the transport may be used again."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _borrow(self, timeout: float) -> http.client.HTTPSConnection:
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return self._connect(timeout)
            if _usable(connection.sock):
                connection.sock.settimeout(timeout)
                return connection
            connection.close()

    def _connect(self, timeout: float) -> http.client.HTTPSConnection:
        at = self._endpoint
        connection = http.client.HTTPSConnection(at.host, at.port, timeout=timeout, context=at.tls)
        try:
            connection.connect()
        except BaseException:
            connection.close()
            raise
        return connection


def _usable(sock: socket.socket | None) -> bool:
    """Return whether an idle connection is open: a closed one is readable, at its end."""
    if sock is None:
        return False
    poller = select.poll()
    poller.register(sock, select.POLLIN)
    return not poller.poll(0)


def _remaining(deadline: float) -> float:
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError("the time given for this watch is over")
    return remaining
