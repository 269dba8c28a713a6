"""An API server in this process: as much of one as a scheduler can notice.

Lists in pages, watches with bookmarks and compaction, optimistic locking, bindings, graceful
deletion, status patches, Events and leases behave as on the real one; the contract tests run on
both. Faults are ordered by a test with `inject`, or by the switches of `FakeApi`.
"""

import asyncio
import contextlib
import json
import re
import ssl
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

from tests.support.fake_discovery import discovery
from tests.support.fake_store import (
    LISTS,
    Change,
    Object,
    Refusal,
    Store,
    Target,
    expired,
    selects,
)

__all__ = ["FakeApi", "Fault", "node", "pod"]

VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def pod(name: str, *, namespace: str = "default", node: str = "", **status: Any) -> Object:
    """Return a minimal pod."""
    spec: Object = {"schedulerName": "preemptive-scheduler", "containers": [{"name": "c"}]}
    if node:
        spec["nodeName"] = node
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
        "status": {"phase": "Pending", **status},
    }


def node(name: str, **labels: str) -> Object:
    """Return a minimal node."""
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {"allocatable": {"cpu": "4", "pods": "110"}},
    }


class Unknown(Exception):
    """Of a path that API servers answer in plain text: nothing of its group and version is there.

    A server that has other resources of the group and version answers with a Status instead. This
    one has no such resource.
    """


@dataclass
class Fault:
    """A fault of the next requests that match.

    Attributes:
        method: Of the requests that it hits.
        path: A pattern that their path and query must contain.
        times: How many requests it hits.
        status: Answer with this HTTP status, without executing.
        headers: Of that answer.
        body: Of that answer; a Status without a message where it is not given.
        lose: Execute, then cut the connection without an answer.
        cut: Cut the connection without executing.
        hang: Neither execute nor answer, until the server stops.
    """

    method: str
    path: str
    times: int = 1
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    lose: bool = False
    cut: bool = False
    hang: bool = False


@dataclass(frozen=True)
class Recorded:
    """A request that arrived."""

    verb: str
    resource: str
    path: str
    body: Any
    headers: dict[str, str]


class FakeApi:
    """The server; start it inside a running event loop."""

    def __init__(self) -> None:
        self.url = ""
        #: What exists; tests change it as controllers and users would.
        self.store = Store()
        self.store.listeners.append(self._changed)
        #: Everything that arrived, in order.
        self.requests: list[Recorded] = []
        #: Pairs of verb and resource that are refused with 403.
        self.forbidden: set[tuple[str, str]] = set()
        #: Major and minor version; `None` answers as a server that has no such page.
        self.version: tuple[str, str] | None = ("1", "36")
        #: Kinds that this server does not know.
        self.absent: set[str] = set()
        #: What stands between the clients and this server, and answers in its place: the
        #: status and body of its answer, by a pattern of path and query.
        self.proxied: dict[str, tuple[int, bytes]] = {}
        #: Tokens that are accepted; `None` accepts every client.
        self.tokens: set[str] | None = None
        #: Whether a watch may begin with all objects, as with the feature gate `WatchList`.
        self.streams_lists = True
        #: While set, lists by a stream begin and say nothing.
        self.hangs_lists = False
        #: While set, watches stay open and say nothing.
        self.frozen = False
        #: Whether an expired watch gets an ERROR event instead of an HTTP status.
        self.expired_in_stream = False
        #: How lines of a watch are cut into pieces; 0 leaves them whole.
        self.piece_bytes = 0
        self._faults: list[Fault] = []
        self._watches: dict[asyncio.Queue[bytes | None], tuple[str, str]] = {}
        self._stopped = asyncio.Event()
        self._runner: web.AppRunner | None = None

    # Faults

    def inject(self, fault: Fault) -> None:
        """Let something go wrong with later requests."""
        self._faults.append(fault)

    def clear_faults(self) -> None:
        """Let nothing go wrong any more."""
        self._faults.clear()

    def bookmark(self) -> None:
        """Send a bookmark to every watch, of the odd shape that real ones have."""
        for queue, (kind, _) in self._watches.items():
            queue.put_nowait(self._bookmark(kind))

    def say(self, line: bytes) -> None:
        """Send bytes to every watch."""
        for queue in self._watches:
            queue.put_nowait(line)

    def expire_watches(self) -> None:
        """Compact, and tell every watch that it is too old."""
        self.store.compact()
        self.say(_expired_line())
        self.close_watches()

    def close_watches(self) -> None:
        """End every watch as a server does that restarts."""
        for queue in self._watches:
            queue.put_nowait(None)

    def lists(self, kind: str = "pods") -> int:
        """Return how many lists of a kind have begun, in pages or by a stream."""
        begins = re.compile(r"sendInitialEvents=|/\w+$|limit=(?!1&)(?!.*continue=)")
        return sum(
            each.resource == kind and bool(begins.search(each.path)) for each in self.requests
        )

    @property
    def watches(self) -> int:
        """How many watches are open."""
        return len(self._watches)

    # Server

    async def start(self, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        """Listen on the loopback interface, where no port is given on a free one."""
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.05)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port, ssl_context=tls).start()
        port = self._runner.addresses[0][1]
        self.url = f"{'https' if tls else 'http'}://localhost:{port}"

    async def stop(self) -> None:
        """End everything."""
        self._stopped.set()
        self.close_watches()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        for pattern, (status, body) in self.proxied.items():
            if re.search(pattern, request.path_qs):
                return web.Response(status=status, body=body)
        if request.path == "/version" and self.version is not None:
            major, minor = self.version
            return web.json_response({"major": major, "minor": minor, "gitVersion": "v0"})
        page = discovery(request.path, self.absent)
        if page is None:
            return await self._serve_objects(request)
        if not _accepts_json(request.headers.get("Accept", "")):
            # Discovery pages have no form with metadata alone.
            return web.json_response({"kind": "Status", "code": 406}, status=406)
        return web.json_response(page)

    async def _serve_objects(self, request: web.Request) -> web.StreamResponse:
        target = _target(request.path)
        body = await request.read()
        verb = _verb(request, target)
        resource = "/".join(filter(None, (target.kind, target.sub)))
        self.requests.append(
            Recorded(
                verb,
                resource,
                request.path_qs,
                json.loads(body) if body else None,
                dict(request.headers),
            )
        )
        fault = self._fault(request)
        if fault is not None and not fault.lose:
            return await self._go_wrong(request, fault)
        try:
            self._admit(request, verb, resource, target)
            if verb == "watch":
                return await self._watch(request, target)
            sent = json.loads(body) if body else {}
            status, answer = self.store.execute(verb, target, request.query, sent)
            if "PartialObjectMetadataList" in request.headers.get("Accept", ""):
                answer = metadata_only(answer)
        except Unknown:
            return web.Response(status=404, text="404 page not found\n")
        except Refusal as refusal:
            status, answer = refusal.code, refusal.body
        if fault is not None:
            return await self._go_wrong(request, Fault("", "", cut=True))
        return web.json_response(answer, status=status)

    def _fault(self, request: web.Request) -> Fault | None:
        for fault in self._faults:
            if fault.method == request.method and re.search(fault.path, request.path_qs):
                fault.times -= 1
                if fault.times <= 0:
                    self._faults.remove(fault)
                return fault
        return None

    async def _go_wrong(self, request: web.Request, fault: Fault) -> web.Response:
        if fault.hang:
            await self._stopped.wait()
        elif fault.status:
            body = b'{"kind":"Status"}' if fault.body is None else fault.body
            return web.Response(status=fault.status, headers=fault.headers, body=body)
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    def _admit(self, request: web.Request, verb: str, resource: str, target: Target) -> None:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.tokens is not None and token not in self.tokens:
            raise Refusal(401, "Unauthorized", "Unauthorized")
        if target.kind not in LISTS or target.kind in self.absent:
            raise Unknown
        if (verb, resource) in self.forbidden:
            group = LISTS[target.kind][0].rpartition("/")[0]
            message = (
                f'{target.kind} is forbidden: User "test" cannot {verb} resource "{resource}"'
                f' in API group "{group}" at the cluster scope'
            )
            raise Refusal(403, "Forbidden", message)

    # List and watch

    async def _watch(self, request: web.Request, target: Target) -> web.StreamResponse:
        selector = request.query.get("fieldSelector", "")
        if "sendInitialEvents" in request.query:
            return await self._stream_list(request, target.kind, selector)
        queue = self._missed(target.kind, int(request.query.get("resourceVersion", "0")), selector)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        self._watches[queue] = (target.kind, selector)
        if seconds := int(request.query.get("timeoutSeconds", "0")):
            asyncio.get_running_loop().call_later(seconds, queue.put_nowait, None)
        try:
            while (line := await queue.get()) is not None:
                if self.frozen:
                    await self._stopped.wait()
                for piece in _pieces(line, self.piece_bytes):
                    await response.write(piece)
        except ConnectionResetError:
            pass
        finally:
            del self._watches[queue]
        return response

    async def _stream_list(
        self, request: web.Request, kind: str, selector: str
    ) -> web.StreamResponse:
        if not self.streams_lists:
            message = "sendInitialEvents is forbidden for watch unless the WatchList feature gate"
            raise Refusal(422, "Invalid", f"{message} is enabled")
        lines = [
            _line(Change(int(each["metadata"]["resourceVersion"]), kind, None, each), selector)
            for each in self.store.all(kind)
        ]
        lines.append(self._bookmark(kind, annotations={"k8s.io/initial-events-end": "true"}))
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        with contextlib.suppress(ConnectionResetError):
            if self.hangs_lists:
                await self._stopped.wait()
            await response.write(b"".join(filter(None, lines)))
        return response

    def _missed(self, kind: str, version: int, selector: str) -> asyncio.Queue[bytes | None]:
        """Return the queue of a watch, with what happened since a version."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        if version < self.store.oldest:
            if not self.expired_in_stream:
                raise expired()
            queue.put_nowait(_expired_line())
            queue.put_nowait(None)
        for change in self.store.changes:
            line = _line(change, selector)
            if line and change.version > version and change.kind == kind:
                queue.put_nowait(line)
        return queue

    def _changed(self, change: Change) -> None:
        for queue, (kind, selector) in self._watches.items():
            if change.kind == kind and (line := _line(change, selector)):
                queue.put_nowait(line)

    def _bookmark(self, kind: str, **metadata: Any) -> bytes:
        api_version, name = LISTS[kind]
        metadata |= {"resourceVersion": str(self.store.version), "creationTimestamp": None}
        body: Object = {"kind": name, "apiVersion": api_version, "metadata": metadata}
        if kind == "pods":
            body |= {"spec": {"containers": None}, "status": {}}
        return json.dumps({"type": "BOOKMARK", "object": body}).encode() + b"\n"


def _accepts_json(accept: str) -> bool:
    """Return whether a plain JSON object is acceptable, by the `Accept` header of a request."""
    kinds = [kind.strip() for kind in accept.split(",") if kind.strip()]
    return not kinds or any(kind in ("application/json", "*/*") for kind in kinds)


def metadata_only(page: Object) -> Object:
    """Return a list with nothing but the metadata of its objects."""
    kind = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
    return {**page, **kind, "items": [{"metadata": each["metadata"]} for each in page["items"]]}


def _target(path: str) -> Target:
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if len(parts) > 2 and parts[0] == "namespaces":
        namespace, parts = parts[1], parts[2:]
    kind, name, sub = (*parts, "", "", "")[:3]
    return Target(kind, namespace, name, sub)


def _verb(request: web.Request, target: Target) -> str:
    if request.method != "GET":
        return VERBS[request.method]
    if "watch" in request.query:
        return "watch"
    return "get" if target.name else "list"


def _line(change: Change, selector: str) -> bytes | None:
    before = change.old is not None and selects(selector, change.old)
    after = change.new is not None and selects(selector, change.new)
    if not before and not after:
        return None
    each = dict(change.new or change.old or {})
    each["metadata"] = {**each["metadata"], "resourceVersion": str(change.version)}
    kind = {(False, True): "ADDED", (True, True): "MODIFIED"}.get((before, after), "DELETED")
    return json.dumps({"type": kind, "object": each}).encode() + b"\n"


def _expired_line() -> bytes:
    return json.dumps({"type": "ERROR", "object": expired().body}).encode() + b"\n"


def _pieces(line: bytes, size: int) -> list[bytes]:
    if not size:
        return [line]
    return [line[at : at + size] for at in range(0, len(line), size)]
