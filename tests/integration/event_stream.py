"""A client that follows documents of `/api/v1` by server-sent events, with plain HTTP."""

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

from tests.support.live import PATIENCE_SECONDS, Scheduler, connect

__all__ = ["Follower", "NodeList"]


class NodeList:
    """The nodes as a list and the events after it describe them."""

    def __init__(self, listed: dict[str, Any] | None = None) -> None:
        found = listed or {}
        self.revision: int = found.get("revision", 0)
        self.nodes = {item["name"]: item for item in found.get("items", ())}
        #: The kind of each event.
        self.events: list[str] = []
        #: What went wrong while events were applied.
        self.problem: BaseException | None = None

    def apply(self, kind: str, revision: int, content: dict[str, Any] | None) -> None:
        """Apply an event."""
        self.events.append(kind)
        if content is None:
            return
        assert revision == content["revision"] > self.revision
        self.revision = revision
        for name in content.get("removed", ()):
            self.nodes.pop(name, None)  # it may have come and gone since the event before
        self.nodes |= {item["name"]: item for item in content.get("items", ())}


class Follower:
    """Reads events in a thread of its own, until it is closed; it can stop reading for a while."""

    def __init__(
        self,
        scheduler: Scheduler,
        path: str,
        followed: NodeList,
        last_event_id: str = "",
        token: str = "",
    ) -> None:
        scheduler.wait_log("serving")
        self._connection = connect(scheduler.port, PATIENCE_SECONDS)
        self._connection.connect()
        # The response takes it from the connection if it lasts as long as the stream.
        self._socket = self._connection.sock
        headers = {"Last-Event-ID": last_event_id} if last_event_id else {}
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        self._connection.request("GET", path, headers=headers)
        self._response = self._connection.getresponse()
        assert self._response.status == 200
        assert self._response.headers["Content-Type"] == "text/event-stream"
        self._followed = followed
        self.reads = threading.Event()
        self.reads.set()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            for lines in self._events():
                fields = dict(line.split(":", 1) for line in lines)
                data = fields["data"].strip()
                content = json.loads(data) if data else None
                self._followed.apply(fields["event"].strip(), int(fields.get("id", "0")), content)
        except (OSError, http.client.HTTPException, ValueError):
            return  # the connection was closed
        except Exception as problem:  # noqa: BLE001 - the test asserts that there is none
            self._followed.problem = problem

    def _events(self) -> Iterator[list[str]]:
        lines: list[str] = []
        while line := self._response.readline().decode():
            self.reads.wait()
            if line.strip():
                lines += [] if line.startswith(":") else [line.strip()]
            elif lines:
                yield lines
                lines = []

    def ended(self) -> bool:
        """Wait for the end of the stream; return whether it came."""
        self._thread.join(PATIENCE_SECONDS)
        return not self._thread.is_alive()

    def close(self) -> None:
        """Close the connection."""
        self.reads.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # unless the server has closed it
        assert self.ended()
        self._connection.close()
