"""A real extender on a free port of this machine, whose answers the tests say.

    with ExtenderServer() as extender:
        extender.answers["filter"] = {"NodeNames": ["n1"]}

An answer is JSON, a status, bytes as they are, or a function of the request that returns one.
"""

import http.server
import json
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.support.live import LOOPBACK, PATIENCE_SECONDS

__all__ = ["Call", "ExtenderServer"]


@dataclass(frozen=True)
class Call:
    """One request."""

    verb: str
    content_type: str | None
    body: Any


class ExtenderServer:
    """An HTTP server that remembers what it was asked."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        #: By verb: JSON, a status, bytes, or a function of the request.
        self.answers: dict[str, Any] = {}
        self.calls: list[Call] = []
        self._changed = threading.Condition()
        self._open = threading.Event()
        self._open.set()
        self._server = http.server.ThreadingHTTPServer((LOOPBACK, 0), self._handler())
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://{LOOPBACK}:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )

    def __enter__(self) -> "ExtenderServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def hold(self) -> None:
        """Answer nothing from now on."""
        self._open.clear()

    def let_go(self) -> None:
        """Answer again, also what was asked meanwhile."""
        self._open.set()

    def asked(self, verb: str) -> list[Any]:
        """Return the bodies of the requests for a verb."""
        return [call.body for call in self.calls if call.verb == verb]

    def wait_asked(self, verb: str) -> Any:
        """Wait until something is asked for; return the body of the last such request."""
        with self._changed:
            assert self._changed.wait_for(lambda: bool(self.asked(verb)), PATIENCE_SECONDS), verb
        return self.asked(verb)[-1]

    def _answer(self, call: Call) -> tuple[int, bytes]:
        with self._changed:
            self.calls.append(call)
            self._changed.notify_all()
        self._open.wait(PATIENCE_SECONDS)
        answer = self.answers.get(call.verb, 404)
        if isinstance(answer, Callable):  # type: ignore[arg-type]
            answer = answer(call.body)
        if isinstance(answer, int):
            return answer, b""
        return 200, answer if isinstance(answer, bytes) else json.dumps(answer).encode()

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                verb = self.path.removeprefix("/")
                call = Call(verb, self.headers["Content-Type"], json.loads(body))
                status, answer = owner._answer(call)
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(answer)))
                    self.end_headers()
                    self.wfile.write(answer)
                except OSError:
                    return  # the client did not wait so long

            def log_message(self, *_: object) -> None:
                pass

        return Handler
