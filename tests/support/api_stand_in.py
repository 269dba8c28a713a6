"""A server that answers `/api/v1` with believable documents, for tests of its clients.

    python -m tests.support.api_stand_in --size large --port 8080 --tick 1

serves 5,000 nodes with 150,000 pods, and changes some of them every second. A test starts it with
`serving`, and makes it fail with the fields of `Switches`. A line of JSON on standard input of the
program, such as `{"hide_names": true}`, sets switches, too.
"""

import argparse
import asyncio
import contextlib
import json
import re
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec
import yaml
from aiohttp import web

from scheduler.model.rest.cluster import (
    LEADER_HEADER,
    ApiIndex,
    LabelsDocument,
    LabelView,
    NodesDocument,
    NodeUsage,
    PendingPodsDocument,
    PendingPodView,
    ReasonCount,
    Summary,
)
from scheduler.model.rest.common import PodView
from scheduler.model.rest.explanations import FoundPod, FoundPodsDocument
from scheduler.model.rest.preemptions import PoliciesDocument, PreemptionsDocument
from scheduler.model.rest.shadow import MODE_HEADER, SHADOW
from scheduler.model.rest.what_if import WhatIfRequest
from scheduler.observe.api.shadow import ABSENT
from scheduler.observe.pages.statuses import status
from scheduler.sim.manifests import ManifestError
from tests.support import stand_in_shadow
from tests.support.api_what_if import answer_what_if, what_if_request
from tests.support.stand_in_documents import LARGE, SMALL, Shape, World, at
from tests.support.stand_in_report import REPORT

__all__ = ["StandIn", "Switches", "serving"]

PATHS: Final = (
    "/api/v1", "/api/v1/summary", "/api/v1/nodes", "/api/v1/nodes/{name}", "/api/v1/labels",
    "/api/v1/pods", "/api/v1/pods/{namespace}/{name}", "/api/v1/find", "/api/v1/preemptions",
    "/api/v1/policies", "/api/v1/shadow", "/api/v1/report", "/api/v1/recording",
    "/api/v1/openapi.json",
    "/api/v1/plan",
)  # fmt: skip
RECORDING: Final = b"recording\x00" * 4096
_REASONS: Final = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound",
    413: "RequestEntityTooLarge", 429: "TooManyRequests", 503: "ServiceUnavailable",
}  # fmt: skip
_Item = TypeVar("_Item")


@dataclass
class Switches:
    """What goes wrong. A test may change it at any time."""

    #: The status of answers by the beginning of the path; the longest one counts.
    failures: dict[str, int] = field(default_factory=dict)
    #: What a refusal says, by the beginning of the path, in place of a message for its status.
    forbidden: dict[str, str] = field(default_factory=dict)
    #: How long each answer takes.
    delay_seconds: float = 0.0
    #: Whether names of pods are hidden, as from a caller who may not `get` pods.
    hide_names: bool = False
    #: Whether this replica leads.
    leader: bool = True
    #: The token that callers need; empty for none. Further ones, each with its user.
    token: str = ""
    users: dict[str, str] = field(default_factory=dict)
    #: Whether watches end at once, as when the connection breaks.
    break_watches: bool = False
    #: The oldest revision that watches can continue from.
    oldest_revision: int = 0
    #: Whether it runs in shadow mode.
    shadow: bool = False


class StandIn:
    """The application. `requests` has what was asked, as method and path with query."""

    def __init__(self, shape: Shape = SMALL) -> None:
        self.world = World(shape)
        self.report = REPORT
        self.shadow = stand_in_shadow.document(at(172_800), [at(125), at(9_000)])
        self.switches = Switches()
        self.requests: list[str] = []
        #: The plans that were asked for.
        self.plans: list[WhatIfRequest] = []
        self.authorizations: list[str] = []
        #: The names in the client certificates of requests; empty without one.
        self.certificates: list[str] = []
        self._changed = asyncio.Event()

    def tick(self) -> None:
        """Change the state; watches send the changes."""
        self.world.tick()
        self.wake()

    def wake(self) -> None:
        """Let the watches send what has changed."""
        self._changed.set()
        self._changed = asyncio.Event()

    def application(self) -> web.Application:
        """Return the aiohttp application."""
        app = web.Application(middlewares=[self._switched], client_max_size=2**20)
        app.on_response_prepare.append(self._say_leader)
        for path, respond in {
            "": self._index,
            "/summary": self._watched(lambda request, since: self._summary()),
            "/nodes": self._watched(self._nodes),
            "/nodes/{name}": self._node,
            "/labels": self._labels,
            "/pods": self._pods,
            "/pods/{namespace}/{name}": self._explanation,
            "/find": self._find,
            "/preemptions": self._watched(self._preemptions),
            "/policies": self._watched(lambda request, since: self._policies()),
            "/shadow": self._shadow,
            "/report": self._report,
            "/recording": self._recording,
            "/openapi.json": self._openapi,
        }.items():
            app.router.add_get(f"/api/v1{path}", respond)
        app.router.add_post("/api/v1/plan", self._plan)
        return app

    async def _say_leader(self, _: web.Request, answer: web.StreamResponse) -> None:
        answer.headers[LEADER_HEADER] = str(self.switches.leader).lower()

    @web.middleware
    async def _switched(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path_qs}")
        self.authorizations.append(request.headers.get("Authorization", ""))
        self.certificates.append(_certified(request))
        switches = self.switches
        await asyncio.sleep(switches.delay_seconds)
        if switches.token and self._user(request) is None:
            return refusal(401, "Unauthorized")
        for path, message in switches.forbidden.items():
            if request.path.startswith(path):
                return refusal(403, f"forbidden: {message}")
        failing = [path for path in switches.failures if request.path.startswith(path)]
        if failing:
            code = switches.failures[max(failing, key=len)]
            return refusal(code, _message(code, request))
        try:
            answer: web.StreamResponse = await handler(request)
        except web.HTTPException as error:
            if request.match_info.http_exception is not None:
                raise  # a path that it does not have, in plain text
            return refusal(error.status, error.text or error.reason)
        if switches.shadow:
            answer.headers[MODE_HEADER] = SHADOW
        return answer

    async def _shadow(self, _: web.Request) -> web.Response:
        if not self.switches.shadow:
            raise web.HTTPNotFound(text=ABSENT)
        return self._answer(self.shadow)

    def _user(self, request: web.Request) -> str | None:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        return {self.switches.token: "", **self.switches.users}.get(token)

    async def _index(self, request: web.Request) -> web.Response:
        return shown(
            ApiIndex(
                version="0.1.0",
                reference="v1.37",
                instance="preemptive-scheduler-0",
                leader=self.switches.leader,
                profiles=("preemptive-scheduler",),
                started=at(86_400),
                now=at(0),
                paths=PATHS,
                user=self._user(request) or "",
            )
        )

    def _summary(self) -> Summary:
        world, phases = self.world, {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 0}
        reasons: dict[str, int] = {}
        for each in world.pending.values():
            phases[each.phase] = phases.get(each.phase, 0) + 1
            reason = re.sub(r"^0/\d+ nodes are available: \d+ ", "", each.message).rstrip(".")
            reasons[reason] = reasons.get(reason, 0) + 1
        views = world.nodes.values()
        return Summary(
            now=at(0),
            reference="v1.37",
            leader=self.switches.leader,
            revision=world.revision,
            queue=phases if self.switches.leader else {},
            oldest_pending_seconds=15.0 + 41 * len(world.pending),
            reasons=tuple(
                ReasonCount(reason, count)
                for reason, count in sorted(reasons.items(), key=lambda each: -each[1])
            ),
            nodes=len(world.nodes),
            pods=sum(use.pods for view in views for use in view.priorities if not use.nominated),
            preemptions_active=sum(not each.ended_at for each in world.preemptions),
            attempts={"scheduled": 152_311, "unschedulable": 9_120, "error": 3},
            preemptions=418,
            victims=977,
            wasted_victims=12,
        )

    def _nodes(self, request: web.Request, since: int) -> NodesDocument:
        world, keys = self.world, _list(request.query.get("labels", ""))
        if since:
            items = [view for name, view in world.nodes.items() if world.changed[name] > since]
            removed = tuple(name for name, at in world.removed.items() if at > since)
            return NodesDocument(world.revision, self._labelled(items, keys), removed)
        part, token, remaining = page(list(world.nodes.values()), request)
        return NodesDocument(
            world.revision, self._labelled(part, keys), continue_=token, remaining=remaining
        )

    def _labelled(self, views: Sequence[NodeUsage], keys: Sequence[str]) -> tuple[NodeUsage, ...]:
        labels = self.world.labels
        return tuple(
            msgspec.structs.replace(
                view,
                labels={key: labels[view.name][key] for key in keys if key in labels[view.name]},
            )
            for view in views
        )

    async def _node(self, request: web.Request) -> web.Response:
        try:
            document = self.world.node(request.match_info["name"])
        except KeyError:
            raise web.HTTPNotFound(text=f'nodes "{request.match_info["name"]}" not found') from None
        return self._answer(document)

    async def _labels(self, _: web.Request) -> web.Response:
        values: dict[str, set[str]] = {}
        for labels in self.world.labels.values():
            for key, value in labels.items():
                values.setdefault(key, set()).add(value)
        nodes = len(self.world.labels)
        return shown(
            LabelsDocument(
                tuple(LabelView(key, nodes, len(found)) for key, found in values.items())
            )
        )

    async def _pods(self, request: web.Request) -> web.Response:
        if self.switches.hide_names:
            return shown(PendingPodsDocument(hidden=len(self.world.pending)))
        items = [each for each in self.world.pending.values() if _asked(each, request.query)]
        total = {
            name: sum(each.pod.requests.get(name, 0) for each in items)
            for name in ("cpu", "memory")
        }
        part, token, remaining = page(items, request)
        return shown(
            PendingPodsDocument(tuple(part), requests=total, continue_=token, remaining=remaining)
        )

    async def _explanation(self, request: web.Request) -> web.Response:
        key = f"{request.match_info['namespace']}/{request.match_info['name']}"
        try:
            document = self.world.explanation(key, nodes=request.query.get("nodes") == "1")
        except KeyError:
            raise web.HTTPNotFound(text=f'pod "{key}" is not pending') from None
        return self._answer(document)

    async def _find(self, request: web.Request) -> web.Response:
        asked = dict(request.query)
        kind, _, owner = asked.get("owner", "").partition("/")
        found = [
            each
            for each in self.world.pending.values()
            if asked.get("namespace", "") in ("", each.pod.namespace)
            and asked.get("name", "") in ("", each.pod.name)
            and asked.get("uid", "") in ("", each.pod.uid)
            and (not kind or (each.pod.owner is not None and each.pod.owner.name == owner))
        ]
        if not found:
            raise web.HTTPNotFound(text="no pod is known of that")
        first = self.world.explanation(f"{found[0].pod.namespace}/{found[0].pod.name}")
        items = tuple(FoundPod(each.pod, "waiting", since=each.since) for each in found)
        verdict = f"{len(items)} pods wait."
        return self._answer(FoundPodsDocument(at(0), verdict, "none", items, 0, first))

    def _preemptions(self, request: web.Request, since: int) -> PreemptionsDocument:
        state = request.query.get("state", "")
        items = [
            each
            for each in self.world.preemptions
            if (not state or (state == "past") == bool(each.ended_at)) and each.revision > since
        ]
        part, token, remaining = page(items, request)
        if self.switches.hide_names:
            return PreemptionsDocument(self.world.revision, hidden=len(items))
        return PreemptionsDocument(
            self.world.revision, tuple(part), continue_=token, remaining=remaining
        )

    def _policies(self) -> PoliciesDocument:
        return msgspec.structs.replace(self.world.policies, revision=self.world.revision)

    async def _report(self, _: web.Request) -> web.Response:
        return self._answer(self.report)

    async def _recording(self, request: web.Request) -> web.Response:
        if not re.fullmatch(r"\d+[smh]", request.query.get("last", "15m")):
            raise web.HTTPBadRequest(text="last: not a duration like 15m")
        return web.Response(body=RECORDING, content_type="application/octet-stream")

    async def _openapi(self, _: web.Request) -> web.Response:
        info = {"title": "stand-in", "version": "v1"}
        paths: dict[str, Any] = {path: {} for path in PATHS}
        return web.json_response({"openapi": "3.1.0", "info": info, "paths": paths})

    async def _plan(self, request: web.Request) -> web.Response:
        try:
            asked = what_if_request(await request.read(), request.content_type)
            self.plans.append(asked)
            return self._answer(answer_what_if(self.world, asked))
        except (
            ValueError,
            msgspec.MsgspecError,
            yaml.YAMLError,
            RecursionError,
            ManifestError,
        ) as error:
            raise web.HTTPBadRequest(text=" ".join(str(error).split())) from error

    def _watched(self, document: Callable[[web.Request, int], Any]) -> Any:
        async def respond(request: web.Request) -> web.StreamResponse:
            if request.query.get("watch") in {"1", "true"}:
                return await self._stream(request, document)
            return self._answer(document(request, 0))

        return respond

    async def _stream(
        self, request: web.Request, document: Callable[[web.Request, int], Any]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        since = int(request.query.get("revision") or request.headers.get("Last-Event-ID") or 0)
        if since and since < self.switches.oldest_revision:
            await response.write(b"event: resync\ndata: \n\n")
        await response.write(b": ping\n\n")
        with contextlib.suppress(ConnectionError):
            while not self.switches.break_watches:
                changed, revision = self._changed, self.world.revision
                if revision > since:
                    body = self._encoded(document(request, since))
                    event = b"event: update\nid: %d\ndata: %s\n\n" % (revision, body)
                    await response.write(event)
                    since = revision
                await changed.wait()
        return response

    def _answer(self, document: Any) -> web.Response:
        return web.Response(body=self._encoded(document), content_type="application/json")

    def _encoded(self, document: Any) -> bytes:
        encoded = msgspec.json.encode(document)
        return (
            msgspec.json.encode(without_names(msgspec.json.decode(encoded)))
            if self.switches.hide_names
            else encoded
        )


def without_names(part: Any) -> Any:
    """Return a document with the names of all pods hidden."""
    if isinstance(part, list):
        return [without_names(each) for each in part]
    if not isinstance(part, dict):
        return part
    if "uid" in part:
        return msgspec.to_builtins(PodView(hidden=True, priority=part.get("priority", 0)))
    if isinstance(part.get("victims"), list):
        hidden = part.get("hiddenVictims", 0) + len(part.pop("victims"))
        part["hiddenVictims"] = hidden
    return {name: without_names(each) for name, each in part.items()}


def _certified(request: web.Request) -> str:
    transport = request.transport
    certificate = transport.get_extra_info("peercert") if transport else None
    names = dict(field[0] for field in (certificate or {}).get("subject", ()))
    return str(names.get("commonName", ""))


def page(items: Sequence[_Item], request: web.Request) -> tuple[Sequence[_Item], str, int]:
    """Return a page of items, the token of the next one, and how many remain."""
    try:
        limit = min(5_000, int(request.query.get("limit") or 500))
        start = int(request.query.get("continue") or 0)
    except ValueError as error:
        raise web.HTTPBadRequest(text=f"limit or continue: {error}") from error
    end = start + limit
    remaining = max(0, len(items) - end)
    return items[start:end], str(end) if remaining else "", remaining


def _asked(each: PendingPodView, query: Mapping[str, str]) -> bool:
    owner = each.pod.owner
    return (
        query.get("phase", each.phase) == each.phase
        and query.get("namespace", each.pod.namespace) == each.pod.namespace
        and query.get("reason", "") in each.message
        and ("owner" not in query or (owner is not None and owner.name == query["owner"]))
    )


def _list(text: str) -> list[str]:
    return [each for each in text.split(",") if each]


def _message(code: int, request: web.Request) -> str:
    if code == 403:
        verb = request.method.lower()
        path = f"/preemptive-scheduler{request.path}"
        return f'forbidden: User "jane" cannot {verb} path "{path}"'
    return {429: "too many plans at once", 503: "not synced: pods"}.get(
        code, _REASONS.get(code, "")
    )


def shown(document: Any) -> web.Response:
    """Return a document as JSON."""
    return web.Response(body=msgspec.json.encode(document), content_type="application/json")


def refusal(code: int, message: str) -> web.Response:
    """Return a Status."""
    body = status(code, _REASONS.get(code, "InternalError"), message)
    headers = {"Retry-After": "1"} if code == 429 else None
    return web.Response(status=code, body=body, content_type="application/json", headers=headers)


@contextlib.asynccontextmanager
async def serving(
    stand_in: StandIn, port: int = 0, context: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """Serve on loopback, over TLS with a context; give the base URL."""
    runner = web.AppRunner(stand_in.application(), access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=context)
    await site.start()
    try:
        yield f"{'https' if context else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        stand_in.switches.break_watches = True
        stand_in.wake()
        await runner.cleanup()


async def main(arguments: argparse.Namespace) -> None:
    """Serve until standard input ends; a line of JSON there sets switches."""
    stand_in = StandIn(LARGE if arguments.size == "large" else SMALL)
    async with serving(stand_in, arguments.port) as url:
        print(url, flush=True)  # noqa: T201 - the test reads this
        reading = asyncio.create_task(_obey(stand_in))
        while not reading.done():
            await asyncio.wait([reading], timeout=arguments.tick or None)
            if arguments.tick:
                stand_in.tick()


async def _obey(stand_in: StandIn) -> None:
    while line := await asyncio.to_thread(sys.stdin.readline):
        for name, value in json.loads(line).items():
            setattr(stand_in.switches, name, value)
        stand_in.wake()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", choices=("small", "large"), default="small")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--tick", type=float, default=0.0, help="seconds between two changes")
    asyncio.run(main(parser.parse_args()))
