"""Queries the scheduler: documents of `/api/v1`, changes of them, and what-if plans.

`Route` is the way to one replica: directly, or by port-forward. The client opens it at the first
request, and a new one when a connection fails, because another replica may lead then.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlencode

import msgspec

from scheduler import __version__
from scheduler.kube.auth.credentials import Credentials
from scheduler.kube.errors import Unreachable, refusal
from scheduler.kube.http.http1 import Http1, Incoming, Reply
from scheduler.kubectl.errors import CommandError, scheduler_error
from scheduler.kubectl.event_stream import EventParser
from scheduler.model.rest.shadow import MODE_HEADER, SHADOW

__all__ = ["Answer", "Route", "SchedulerClient", "Update"]

ROOT: Final = "/api/v1"
#: For an answer; plans may take as long as the scheduler allows.
ANSWER_SECONDS: Final = 60.0
#: The server sends a comment each 15 seconds.
SILENCE_SECONDS: Final = 45.0
#: Between two attempts to reach the scheduler.
PAUSE_SECONDS: Final = 2.0
#: For how long a replica may take to lead after another one has gone.
PATIENCE_SECONDS: Final = 60.0
PAGE: Final = 500

_Document = TypeVar("_Document")


@dataclass(frozen=True, slots=True)
class Route:
    """A way to a replica.

    Args:
        http: Sends requests.
        credentials: Those of the user.
        name: What is reached, for messages.
        close: Ends what it is made of.
    """

    http: Http1
    credentials: Credentials
    name: str
    close: Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Answer(Generic[_Document]):
    """A document, and all that the server sent: a later version may have more fields."""

    document: _Document
    content: Any


@dataclass(frozen=True, slots=True)
class Update(Generic[_Document]):
    """A document of a watch: the whole, or what changed since the last one."""

    document: _Document
    whole: bool


class SchedulerClient:
    """Use it in one event loop, as a context.

    Args:
        open_route: Finds the scheduler.
        direct: Whether the user has given its address; errors then advise otherwise.
    """

    def __init__(self, open_route: Callable[[], Awaitable[Route]], *, direct: bool = False) -> None:
        self._open_route = open_route
        self._direct = direct
        self._route: Route | None = None
        #: Whether the scheduler that answered last runs in shadow mode.
        self.is_shadow = False
        self._opening = asyncio.Lock()

    async def __aenter__(self) -> "SchedulerClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def get(
        self, path: str, kind: type[_Document], **query: str | int | None
    ) -> Answer[_Document]:
        """Return a document.

        Args:
            path: Below `/api/v1`, escaped.
            kind: Its type.
            query: Parameters; those that are `None` or empty are left out.

        Raises:
            PluginError: There is none.
        """
        reply = await self.send("GET", ROOT + path + _query(query))
        return self._answer(reply, kind, "get", ROOT + path)

    async def pages(self, path: str, kind: type[_Document], **query: str | int | None) -> Any:
        """Return a document with the items of all pages.

        Raises:
            PluginError: There is none.
        """
        first = await self.get(path, kind, limit=PAGE, **query)
        content, items = first.content, list(getattr(first.document, "items", ()))
        token = getattr(first.document, "continue_", "")
        while token:
            more = {**query, "limit": PAGE, "continue": token}
            page: Any = await self.get(path, kind, **more)
            items += page.document.items
            content.setdefault("items", []).extend(page.content.get("items", []))
            token = page.document.continue_
        content.pop("continue", None)
        content.pop("remaining", None)
        whole: Any = first.document
        document = msgspec.structs.replace(whole, items=tuple(items), continue_="", remaining=0)
        return Answer(document, content)

    async def plan(self, request: Any, kind: type[_Document]) -> Answer[_Document]:
        """Ask what would happen.

        Raises:
            PluginError: There is no answer.
        """
        path = f"{ROOT}/plan"
        headers = {"Content-Type": "application/json"}
        body = msgspec.json.encode(request)
        reply = await self.send("POST", path, headers, body)
        return self._answer(reply, kind, "post", path)

    async def follow(
        self, path: str, kind: type[_Document], **query: str | int | None
    ) -> AsyncIterator[Update[_Document]]:
        """Yield the whole document, then changes of it, until the caller ends it.

        The whole comes again whenever the connection breaks, because another replica may lead then
        and count its revisions otherwise. That replica has a minute to take the lead.

        Raises:
            PluginError: The scheduler refuses, or cannot be reached.
        """
        answer = await self.pages(path, kind, **query)
        while True:
            yield Update(answer.document, whole=True)
            try:
                changes = self._watch(path, kind, answer.document.revision, query)
                async with contextlib.aclosing(changes) as updates:
                    async for update in updates:
                        yield update
            except (Unreachable, CommandError):
                await self._close()
            answer = await self._again(path, kind, query)

    async def _again(
        self, path: str, kind: type[_Document], query: Mapping[str, str | int | None]
    ) -> Any:
        """Read the whole, as soon as the scheduler answers."""
        loop = asyncio.get_running_loop()
        until = loop.time() + PATIENCE_SECONDS
        while True:
            await asyncio.sleep(PAUSE_SECONDS)
            try:
                return await self.pages(path, kind, **query)
            except CommandError:
                if loop.time() > until:
                    raise

    async def _watch(
        self,
        path: str,
        kind: type[_Document],
        revision: int,
        query: Mapping[str, str | int | None],
    ) -> AsyncGenerator[Update[_Document]]:
        """Yield changes until the whole is needed again; raises Unreachable."""
        full = ROOT + path + _query({**query, "watch": 1, "revision": revision})
        incoming = await self.stream(full)
        try:
            parser = EventParser()
            while part := await incoming.read():
                for event in parser.feed(part):
                    if event.kind == "resync":
                        return
                    if event.kind == "update":
                        yield Update(_decoded(event.data, kind), whole=False)
        finally:
            incoming.close()

    async def send(
        self, method: str, path: str, headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Reply:  # fmt: skip
        """Send a request, a GET a second time if the connection or the login fails.

        Raises:
            PluginError: There is no answer.
        """

        async def ask(route: Route, sent: Mapping[str, str]) -> Reply:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await route.http.send(method, path, sent, body)

        reply: Reply = await self._tried(ask, headers or {}, repeatable=method == "GET")
        return reply

    async def stream(self, path: str) -> Incoming:
        """Begin to read an answer in parts; the caller closes it.

        Raises:
            PluginError: The scheduler refuses, or does not answer.
        """
        incoming = await self.open(path, {})
        if incoming.status < 300:
            return incoming
        try:
            body = b"".join([part async for part in _parts(incoming)])
        finally:
            incoming.close()
        plain = path.partition("?")[0]
        error = refusal(incoming.status, incoming.headers, body, "get", plain)
        raise scheduler_error(error, "get", plain, direct=self._direct)

    async def open(self, path: str, headers: Mapping[str, str]) -> Incoming:
        """Begin to read an answer of any status; the caller closes it.

        Raises:
            PluginError: There is no answer.
        """

        async def ask(route: Route, sent: Mapping[str, str]) -> Incoming:
            return await route.http.stream(path, sent, SILENCE_SECONDS)

        incoming: Incoming = await self._tried(ask, headers, repeatable=True)
        return incoming

    async def _tried(
        self, ask: Callable[[Route, Mapping[str, str]], Awaitable[Any]],
        headers: Mapping[str, str], *, repeatable: bool,
    ) -> Any:  # fmt: skip
        for last in (False, True):
            try:
                route = await self._routed()
                login = await route.credentials.headers()
                answer = await ask(route, {**headers, **login})
            except (Unreachable, TimeoutError) as error:
                await self._close()
                sent = not isinstance(error, Unreachable) or error.sent
                if last or (sent and not repeatable):
                    raise _unreachable(error, direct=self._direct) from error
            else:
                self.is_shadow = answer.headers.get(MODE_HEADER.lower()) == SHADOW
                refused = answer.status == 401
                if not refused or last or not route.credentials.on_unauthorized(login):
                    return answer
                if isinstance(answer, Incoming):
                    answer.close()
        raise AssertionError("the last attempt returns or raises")

    def _answer(
        self, reply: Reply, kind: type[_Document], verb: str, path: str
    ) -> Answer[_Document]:
        if reply.status >= 300:
            error = refusal(reply.status, reply.headers, reply.body, verb, path)
            raise scheduler_error(error, verb, path, direct=self._direct)
        return Answer(_decoded(reply.body, kind), msgspec.json.decode(reply.body))

    async def _routed(self) -> Route:
        async with self._opening:
            if self._route is None:
                self._route = await self._open_route()
            return self._route

    async def _close(self) -> None:
        route, self._route = self._route, None
        if route is not None:
            await route.http.close()
            await route.close()


async def _parts(incoming: Incoming) -> AsyncIterator[bytes]:
    while part := await incoming.read():
        yield part


def _query(query: Mapping[str, str | int | None]) -> str:
    given = {name: value for name, value in query.items() if value not in {None, ""}}
    return f"?{urlencode(given)}" if given else ""


def _decoded(body: bytes, kind: type[_Document]) -> _Document:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise CommandError(
            f"cannot parse the response of the scheduler: {error}",
            f"plugin and scheduler may have versions that differ too much; this is {__version__}:"
            "\n  kubectl preemptive version",
        ) from error


def _unreachable(error: Exception, *, direct: bool) -> CommandError:
    reason = str(error) or f"no response within {ANSWER_SECONDS:g} s"
    pods = (
        "look at its pods, and try again when they are ready:\n"
        "  kubectl get pods -A -l app.kubernetes.io/name=preemptive-scheduler\n"
        "if it runs outside of the cluster, name its address with --server URL"
    )
    address = "check that it runs, and that it serves https at that address"
    return CommandError(f"the scheduler cannot be reached: {reason}", address if direct else pods)
