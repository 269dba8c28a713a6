"""What the client raises, against servers that do not behave."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from deploy.tools.controlplane.api import ApiClient, ApiError
from scheduler.kube.auth.cluster_access import ClusterAccess
from scheduler.kube.auth.credentials import FixedHeaders

Answer = Callable[[BaseHTTPRequestHandler], None]


class Server(ThreadingHTTPServer):
    """Answers every request by a function that a test sets."""

    daemon_threads = True
    answer: Answer

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        #: Set when a connection has been closed.
        self.closed = threading.Event()

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self.closed.set()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self.server.answer(self)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def client(port: int) -> ApiClient:
    return ApiClient(ClusterAccess(f"http://127.0.0.1:{port}", FixedHeaders("secret")))


@pytest.fixture
def api(server: Server) -> Iterator[ApiClient]:
    with client(server.server_port) as api:
        yield api


def says(status: int, body: bytes) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def test_the_token_is_sent(server: Server, api: ApiClient):
    seen = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        seen.append(handler.headers["Authorization"])
        says(200, b"{}")(handler)

    server.answer = answer

    assert api.get("/api") == {}
    assert seen == ["Bearer secret"]


def test_a_page_instead_of_a_status_is_quoted(server: Server, api: ApiClient):
    server.answer = says(502, b"<html>Bad Gateway</html>")

    with pytest.raises(ApiError) as refused:
        api.get("/api")

    assert (refused.value.status, refused.value.reason) == (502, "")
    assert refused.value.message == "<html>Bad Gateway</html>"


def test_a_refused_connection_is_no_timeout():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    with client(port) as api, pytest.raises(ConnectionError):
        api.get("/api")


def test_a_server_that_does_not_answer_is_a_timeout(server: Server, api: ApiClient):
    server.answer = lambda _: time.sleep(0.5)

    with pytest.raises(TimeoutError):
        api.request("GET", "/api", timeout=0.05)


def test_half_an_answer_is_an_error(server: Server, api: ApiClient):
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b"{")
        handler.close_connection = True

    server.answer = answer

    with pytest.raises(ConnectionError):
        api.get("/api")


def test_a_connection_that_the_server_has_closed_is_not_used_again(server: Server, api: ApiClient):
    def answer(handler: BaseHTTPRequestHandler) -> None:
        says(200, b"{}")(handler)
        handler.close_connection = True

    server.answer = answer

    for _ in range(3):
        assert api.get("/api") == {}
        assert server.closed.wait(5)
        server.closed.clear()


def stream(*events: object, more: bool) -> Answer:
    """Return an answer with the events of a watch, which goes on or ends."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        text = b"".join(json.dumps(event).encode() + b"\n" for event in events)
        for part in (text[:5], text[5:]):
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        if more:
            time.sleep(0.5)
        else:
            handler.wfile.write(b"0\r\n\r\n")

    return answer


ADDED = {"type": "ADDED", "object": {"metadata": {"name": "a"}}}


def test_a_watch_that_the_server_ends_has_an_end(server: Server, api: ApiClient):
    server.answer = stream(ADDED, more=False)

    assert list(api.watch("/api/v1/pods", timeout=5)) == [("ADDED", {"metadata": {"name": "a"}})]


def test_a_watch_ends_with_its_time(server: Server, api: ApiClient):
    server.answer = stream(ADDED, more=True)
    events = api.watch("/api/v1/pods", timeout=0.1)

    assert next(events)[0] == "ADDED"
    with pytest.raises(TimeoutError):
        next(events)


def test_an_error_in_a_watch_is_an_error_of_the_server(server: Server, api: ApiClient):
    status = {"code": 410, "reason": "Expired", "message": "too old resource version"}
    server.answer = stream({"type": "ERROR", "object": status}, more=False)

    with pytest.raises(ApiError) as refused:
        list(api.watch("/api/v1/pods", timeout=5))

    assert (refused.value.status, refused.value.reason) == (410, "Expired")
