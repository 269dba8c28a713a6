"""A proxy between a client and the API server that can hold, refuse and lose what passes.

    with FaultProxy(folder, cluster.admin_kubeconfig) as proxy:
        held = proxy.hold("DELETE", "/pods/victim")
        ...                        # a client with proxy.kubeconfig deletes the pod
        held.wait(1)
        held.release()

It speaks plain HTTP on loopback, and to the API server as the user of the given kubeconfig. Held
requests whose client has disconnected are never forwarded. All that passed is kept in `seen`.
"""

import asyncio
import contextlib
import enum
import http.client
import json
import re
import select
import socket
import sys
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from scheduler.kube.auth import cluster_access
from scheduler.service.clock import Clock

LOOPBACK = "127.0.0.1"

_CLOCK = Clock()

PATIENCE_SECONDS = 30.0

#: Headers that go on to the API server.
FORWARDED = ("Accept", "Content-Type", "User-Agent")


@dataclass(frozen=True)
class Asked:
    """A request that is forwarded."""

    method: str
    path: str
    body: bytes
    #: When it was forwarded: seconds since the epoch.
    at: float


@dataclass(frozen=True)
class Seen(Asked):
    """A request that was forwarded, with the status of the server's answer."""

    status: int


class Kind(enum.Enum):
    """What happens to a request."""

    HOLD = enum.auto()
    REFUSE = enum.auto()
    LOSE_REQUEST = enum.auto()
    LOSE_REPLY = enum.auto()


@dataclass(eq=False)
class Fault:
    """What happens to requests that match, until it is over."""

    kind: Kind
    method: str
    pattern: re.Pattern[str]
    #: How many requests it still hits; None for all.
    times: int | None
    status: int = 500
    #: How many requests pass before the first that it hits.
    spared: int = 0
    #: The bodies of the requests that it has hit.
    bodies: list[bytes] = field(default_factory=list)
    over: bool = False
    #: Whether what is held goes on when it is over.
    forward: bool = False
    changed: threading.Condition = field(default_factory=threading.Condition)

    def wait(self, hits: int) -> None:
        """Wait until it has hit so many requests."""
        with self.changed:
            if not self.changed.wait_for(lambda: len(self.bodies) >= hits, PATIENCE_SECONDS):
                seen = f"{len(self.bodies)} of {hits}"
                raise TimeoutError(f"{self.method} {self.pattern.pattern}: {seen}")

    def release(self) -> None:
        """End it; what is held goes on."""
        self._end(forward=True)

    def drop(self) -> None:
        """End it; connections of what is held are cut, and nothing goes on."""
        self._end(forward=False)

    def takes(self, method: str, path: str, body: bytes) -> bool:
        """Return whether it hits a request; record the request if so."""
        with self.changed:
            if self.over or self.times == 0 or not re.fullmatch(self.method, method):
                return False
            if not self.pattern.search(path):
                return False
            if self.spared:
                self.spared -= 1
                return False
            self.bodies.append(body)
            if self.times is not None:
                self.times -= 1
            self.changed.notify_all()
            return True

    def held(self) -> bool:
        """Block the calling thread until it is over; return whether the request goes on."""
        with self.changed:
            self.changed.wait_for(lambda: self.over)
            return self.forward

    def _end(self, *, forward: bool) -> None:
        with self.changed:
            self.over, self.forward = True, forward
            self.changed.notify_all()


class FaultProxy:
    """Passes requests on to one API server, except for the faults that are ordered.

    Attributes:
        kubeconfig: for clients.
        seen: what was forwarded and answered, in the order of the answers.
    """

    def __init__(self, folder: Path, upstream: Path) -> None:
        where = cluster_access.load(upstream, {})
        address = urllib.parse.urlsplit(where.server)
        self._upstream = (address.hostname or LOOPBACK, address.port or 443, where.tls)
        self._headers = dict(asyncio.run(where.credentials.headers()))
        self._faults: list[Fault] = []
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._asked: list[Asked] = []
        self._answered = threading.Condition()
        self.seen: list[Seen] = []
        self._server = _Server((LOOPBACK, 0), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self.kubeconfig = folder / f"proxy-{self._server.server_port}.yaml"
        self.kubeconfig.write_text(_kubeconfig(self._server.server_port))

    def __enter__(self) -> "FaultProxy":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for fault in self._faults:
            fault.drop()
        self._server.shutdown()
        self._thread.join()
        self.cut()
        self._server.server_close()  # waits for all threads

    def hold(self, method: str, pattern: str, after: int = 0) -> Fault:
        """Hold requests whose method and path match these patterns, until released or dropped.

        So many of them pass before the first one is held.
        """
        fault = Fault(Kind.HOLD, method, re.compile(pattern), None, spared=after)
        self._faults.append(fault)
        return fault

    def refuse(self, method: str, pattern: str, status: int, times: int | None = None) -> Fault:
        """Answer requests with an error, without asking the server."""
        return self._order(Kind.REFUSE, method, pattern, times, status)

    def lose_request(self, method: str, pattern: str, times: int | None = 1) -> Fault:
        """Cut the connection of requests instead of passing them on."""
        return self._order(Kind.LOSE_REQUEST, method, pattern, times)

    def lose_reply(self, method: str, pattern: str, times: int | None = 1) -> Fault:
        """Pass requests on and cut the connection instead of answering."""
        return self._order(Kind.LOSE_REPLY, method, pattern, times)

    def passed(self, method: str, pattern: str) -> list[Seen]:
        """Return what was forwarded so far and matches, in the order in which it was.

        What a request does can be seen before the server has answered it: the answers of
        those that are under way are awaited.
        """

        def matches(each: Asked | Seen) -> bool:
            return bool(re.fullmatch(method, each.method) and re.search(pattern, each.path))

        with self._answered:
            if not self._answered.wait_for(
                lambda: not any(map(matches, self._asked)), PATIENCE_SECONDS
            ):
                raise TimeoutError(f"{method} {pattern}: not all were answered")
            return sorted(filter(matches, self.seen), key=lambda each: each.at)

    @contextlib.contextmanager
    def under_way(self, asked: Asked) -> Iterator[Callable[[int], None]]:
        """Keep a request as under way; give what takes the status of its answer."""

        def answer(status: int) -> None:
            with self._answered:
                self.seen.append(Seen(asked.method, asked.path, asked.body, asked.at, status))

        with self._answered:
            self._asked.append(asked)
        try:
            yield answer
        finally:
            with self._answered:
                self._asked.remove(asked)
                self._answered.notify_all()

    def cut(self) -> None:
        """Cut all connections; watches break."""
        with self._lock:
            for sock in self._sockets:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def fault(self, method: str, path: str, body: bytes) -> Fault | None:
        """Return what happens to a request."""
        return next((fault for fault in self._faults if fault.takes(method, path, body)), None)

    @contextlib.contextmanager
    def upstream(self) -> Iterator[tuple[http.client.HTTPConnection, dict[str, str]]]:
        """Give a connection to the server, and the headers that let us in."""
        host, port, tls = self._upstream
        server = (
            http.client.HTTPConnection(host, port)
            if tls is None
            else http.client.HTTPSConnection(host, port, context=tls)
        )
        with contextlib.closing(server):
            server.connect()
            with self.tracked(server.sock):
                yield server, self._headers

    @contextlib.contextmanager
    def tracked(self, sock: socket.socket) -> Iterator[None]:
        """Let `cut` reach a socket."""
        with self._lock:
            self._sockets.add(sock)
        try:
            yield
        finally:
            with self._lock:
                self._sockets.discard(sock)

    def _order(
        self, kind: Kind, method: str, pattern: str, times: int | None, status: int = 500
    ) -> Fault:
        fault = Fault(kind, method, re.compile(pattern), times, status)
        self._faults.append(fault)
        return fault


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], proxy: FaultProxy) -> None:
        self.proxy = proxy
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet about connections that broke: that is what this is for."""
        if not isinstance(sys.exception(), OSError | http.client.HTTPException):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """One connection of a client, with its own connection to the server."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def handle(self) -> None:
        proxy = self.server.proxy
        with proxy.tracked(self.connection), proxy.upstream() as (self._upstream, self._headers):
            super().handle()

    def do_GET(self) -> None:
        self._relay()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _relay(self) -> None:
        length = int(self.headers.get("Content-Length", "0"))
        body = self.rfile.read(length)
        fault = self.server.proxy.fault(self.command, self.path, body)
        if fault is not None and not self._goes_on(fault):
            return
        asked = Asked(self.command, self.path, body, _CLOCK.wall())
        with self.server.proxy.under_way(asked) as answer:
            response = self._ask(body)
            answer(response.status)
        if fault is not None and fault.kind is Kind.LOSE_REPLY:
            response.read()
            self._hang_up()
        elif "watch=true" in self.path and response.status == 200:
            self._stream(response)
        else:
            self._answer(response.status, response.read())

    def _goes_on(self, fault: Fault) -> bool:
        """Return whether a request that is hit by a fault is passed on."""
        if fault.kind is Kind.LOSE_REPLY:
            return True
        if fault.kind is Kind.REFUSE:
            self._answer(fault.status, _refusal(fault.status, self.command, self.path))
            return False
        if fault.kind is Kind.HOLD and fault.held() and not _is_closed(self.connection):
            return True
        self._hang_up()
        return False

    def _ask(self, body: bytes) -> http.client.HTTPResponse:
        headers = {name: self.headers[name] for name in FORWARDED if name in self.headers}
        self._upstream.request(self.command, self.path, body or None, headers | self._headers)
        return self._upstream.getresponse()

    def _answer(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _stream(self, response: http.client.HTTPResponse) -> None:
        self.send_response(response.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while chunk := response.read1(1 << 16):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        self.wfile.write(b"0\r\n\r\n")

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)


def _is_closed(sock: socket.socket) -> bool:
    """Return whether the other side has hung up: then there is an end to read."""
    readable, _, _ = select.select([sock], [], [], 0)
    try:
        return bool(readable) and not sock.recv(1, socket.MSG_PEEK)
    except OSError:
        return True


def _refusal(status: int, method: str, path: str) -> bytes:
    reason = {403: "Forbidden", 409: "Conflict", 429: "TooManyRequests"}.get(status, "")
    message = f"{method} {urllib.parse.urlsplit(path).path} is refused by the proxy"
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status}
    return json.dumps({**body, "reason": reason, "message": message}).encode()


def _kubeconfig(port: int) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "proxy", "cluster": {"server": f"http://{LOOPBACK}:{port}"}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": ""}}],
            "current-context": "proxy",
        }
    )
