"""Requests of the benchmark itself, over the HTTP client of the scheduler.

The load generator and the ceiling share the machine with the API server, so their CPU time reduces
the measured rates. The scheduler's client needs the least.
"""

import contextlib
import json
from asyncio import TaskGroup
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from scheduler.kube.auth import cluster_access
from scheduler.kube.http.http1 import Http1

__all__ = [
    "Call",
    "Refused",
    "checked",
    "connected",
    "delete",
    "get",
    "merge",
    "post",
    "put",
    "send",
    "send_all",
]

#: Concurrent requests; more are not faster on a few cores.
CONCURRENCY: Final = 64

_JSON: Final = {"Content-Type": "application/json"}
_STRATEGIC: Final = {"Content-Type": "application/strategic-merge-patch+json"}


class Call(NamedTuple):
    """One request."""

    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = _JSON


class Refused(RuntimeError):
    """The API server responded with an error.

    Attributes:
        status: The HTTP status code.
    """

    def __init__(self, call: Call, status: int, body: bytes) -> None:
        text = body.decode(errors="replace")[:300]
        super().__init__(f"{call.method} {call.path}: {status} {text}")
        self.status = status


def get(path: str) -> Call:
    """Return the read of an object or a list."""
    return Call("GET", path)


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
    """Return the deletion of an object; `body` may be DeleteOptions."""
    return Call("DELETE", path, None if body is None else json.dumps(body).encode())


@contextlib.asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncIterator[Http1]:
    """Provide a client for the length of a `with` block.

    Raises:
        ConnectionSettingsError: The kubeconfig cannot be used.
    """
    access = cluster_access.load(kubeconfig, {})
    headers = {"Accept": "application/json", **await access.credentials.headers()}
    http = Http1(access.server, access.secured, access.tls_server_name, headers)
    try:
        yield http
    finally:
        await http.close()


async def send(http: Http1, call: Call) -> bytes:
    """Send a request and return the body of the response.

    Raises:
        Refused: The API server responded with an error.
        Unreachable: There was no complete response.
    """
    reply = await http.send(call.method, call.path, call.headers, call.body)
    return checked(call, reply.status, reply.body)


def checked(call: Call, status: int, body: bytes) -> bytes:
    """Return the body of a response.

    Raises:
        Refused: The status is an error.
    """
    if status >= 400:
        raise Refused(call, status, body)
    return body


async def send_all(http: Http1, jobs: Iterable[Sequence[Call]]) -> None:
    """Execute many jobs concurrently, the calls of each job in order.

    Raises:
        Refused: A call failed; jobs that have not begun are skipped.
        Unreachable: There was no complete response to a call.
    """
    waiting = iter(jobs)

    async def work() -> None:
        for job in waiting:
            for call in job:
                await send(http, call)

    try:
        async with TaskGroup() as group:
            for _ in range(CONCURRENCY):
                group.create_task(work())
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
