"""The server of the console: on the machine of its user, or in a cluster.

It serves the page and forwards `/api/v1` with the permissions of whoever asks. Who that is, a
`SignIn` says: locally the one user who knows the key, in a cluster each user by a token.

* The `Host` of a request must name this server, so requests by a name that an attacker points to it
  (DNS rebinding) are refused.
* The API needs a cookie, or a token. What the user enters to get the cookie is sent in the body of
  a form: it is not in a URL, so it is not in the history, in logs or in the process list.
* The cookie is `HttpOnly` and `SameSite=Strict`, and what changes something needs an `Origin` of
  this server, so pages of other sites cannot send requests on behalf of the user.
* Only `GET` below `/api/v1` and plans are forwarded, with few headers; all other paths are files of
  the page. How many requests are forwarded at a time is limited, also for one user.

The local server listens on 127.0.0.1. Other users of the machine can connect to it, so the command
shows the key in its terminal, and passes it to the browser in a file that only its user can read.
The key has 144 random bits and cannot be guessed. There is no limit on wrong keys, which would let
each process of the machine lock the user out. Browsers do not separate cookies by port, so a server
of another user on the same address would get the cookie if it was opened in the same browser. It
ends with this process.
"""

import asyncio
import contextlib
import html
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final, TypeAlias, TypedDict
from urllib.parse import parse_qsl

from aiohttp import web

from scheduler.kube.errors import Unreachable
from scheduler.model.rest.shadow import MODE_HEADER
from scheduler.observe.pages.statuses import status
from scheduler.observe.server.responses import SERVER, is_defect
from scheduler.web_console.backend import Backend, BackendError
from scheduler.web_console.sign_in import (
    ADDRESS,
    FORM,
    HEAD,
    OPENED,
    KeySignIn,
    SignedIn,
    SignIn,
    SignInRefused,
)  # fmt: skip
from scheduler.web_console.target import Target

__all__ = ["HEALTH", "ConsoleServer", "page_files"]

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src"
    " 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
#: For the page with the form, which has no script.
FORM_POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action %s; base-uri 'none';"
    " frame-ancestors 'none'"
)
#: A year. The page is for https alone, so a browser never again sends a token in the clear.
TRANSPORT: Final = "max-age=31536000"
#: The largest body that is forwarded; the scheduler has a lower limit.
BODY_BYTES: Final = 4 * 2**20
#: How many plans are read and answered at a time, each of another user, and how many of the
#: accounts of one namespace. The scheduler answers two, and one of a user.
PLANS: Final = 6
GROUP_PLANS: Final = 3
#: How many requests are forwarded at a time, of the accounts of one namespace, and of one user. A
#: page has some six. The scheduler has 64 watches; each answer may take 1.5 MiB.
FORWARDS: Final = 80
GROUP_FORWARDS: Final = 64
USER_FORWARDS: Final = 32
#: The largest answers, and how many of them are forwarded at a time.
RECORDING: Final = "/api/v1/recording"
RECORDINGS: Final = 2
#: How long a client may take to send a body, and to read a part of an answer.
BODY_SECONDS: Final = 30.0
READ_SECONDS: Final = 30.0
#: Where the form is sent to: by the page that has it, and by the file. The form is there, too.
SIGN_IN: Final = ("/", "/session")
SIGN_OUT: Final = "/sign-out"
#: Answers whoever asks, by whatever name: a kubelet asks by the address of the pod.
HEALTH: Final = "/healthz"
_FORWARDED: Final = ("Accept", "Content-Type", "Last-Event-ID")
_RETURNED: Final = ("content-type", "retry-after", "content-disposition", MODE_HEADER.lower())
_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "mjs": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "ico": "image/x-icon",
    "json": "application/json",
    "woff2": "font/woff2",
    "txt": "text/plain; charset=utf-8",
}
#: What `Sec-Fetch-Site` says of requests that pages of others cause.
_ELSEWHERE: Final = frozenset({"cross-site", "same-site"})
_REASONS: Final = {
    401: "Unauthorized", 403: "Forbidden", 429: "TooManyRequests", 503: "ServiceUnavailable",
}  # fmt: skip

NOWHERE: Final = Target()
_Answer: TypeAlias = Awaitable[web.StreamResponse]
_Respond: TypeAlias = Callable[[web.Request], _Answer]


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    content_type: str


def page_files(folder: Traversable | None = None) -> dict[str, _File]:
    """Return the files of the page by path; those of the package by default."""
    found: dict[str, _File] = {}

    def collect(place: Traversable, path: str) -> None:
        for each in place.iterdir():
            name = f"{path}/{each.name}"
            if each.is_dir():
                collect(each, name)
            elif (content_type := _TYPES.get(each.name.rpartition(".")[2])) is not None:
                found[name] = _File(each.read_bytes(), content_type)

    collect(folder or resources.files("scheduler.web_console") / "static", "")
    return found


class _Flags(TypedDict):
    """Those of the cookie."""

    httponly: bool
    secure: bool
    samesite: str
    path: str


class ConsoleServer:
    """Serves the console while it is open.

    Args:
        backend: The way to the scheduler.
        files: Those of the page.
        users: How users enter; by default the one who knows a new key.
        target: Which cluster it is, for the page.
    """

    def __init__(
        self,
        backend: Backend,
        files: Mapping[str, _File],
        users: SignIn | None = None,
        target: Target = NOWHERE,
    ) -> None:
        self._backend = backend
        self._files = files
        self._target = target
        self._users: SignIn = users or KeySignIn()
        #: How many requests of a kind are forwarded, by whom they count for.
        self._forwards: Counter[tuple[str, str]] = Counter()
        self.port = 0

    @property
    def key(self) -> str:
        """What the user of a local server enters; empty where users have tokens."""
        return self._users.key

    @property
    def url(self) -> str:
        """The address of the page on this machine, without a secret."""
        return f"http://{ADDRESS}:{self.port}/"

    @contextlib.asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncIterator[None]:
        """Serve; a port of 0 is any free one.

        Raises:
            OSError: The port is taken.
        """
        # Any process of this machine may connect. It must not scroll the key out of the terminal.
        logger = logging.getLogger(__name__)
        logger.addFilter(is_defect)
        runner = web.AppRunner(
            self.application(),
            access_log=None,
            logger=logger,
            handler_cancellation=True,
            shutdown_timeout=0.5,
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, ADDRESS, port).start()
            self.port = int(runner.addresses[0][1])
            yield
        finally:
            await runner.cleanup()

    def application(self) -> web.Application:
        """Return the aiohttp application."""
        app = web.Application(middlewares=[self._checked], client_max_size=BODY_BYTES)
        app.on_response_prepare.append(self._add_headers)
        for path in SIGN_IN:
            app.router.add_post(path, self._sign_in)
        app.router.add_post(SIGN_OUT, self._sign_out)
        app.router.add_post("/api/v1/plan", self._guarded(self._plan))
        app.router.add_get("/api/v1", self._guarded(self._forward), allow_head=False)
        app.router.add_get("/api/v1/{rest:.*}", self._guarded(self._forward), allow_head=False)
        app.router.add_get(HEALTH, _healthy)
        app.router.add_get("/{path:.*}", self._file)
        return app

    @web.middleware
    async def _checked(self, request: web.Request, handler: _Respond) -> web.StreamResponse:
        users = self._users
        hosts = users.hosts(self.port)
        given = request.headers.getall("Host", [])
        if request.path != HEALTH and given not in [[host] for host in hosts]:
            return refusal(403, "Forbidden", "this host is not served")
        if request.method == "POST" and (users.is_public or request.path not in SIGN_IN):
            origins = {f"{users.scheme}://{host}" for host in hosts}
            if request.headers.get("Origin") not in origins:
                return refusal(403, "Forbidden", "requests of other origins are not served")
        if request.headers.get("Sec-Fetch-Site") in _ELSEWHERE and not _navigates(request):
            return refusal(403, "Forbidden", "requests of other sites are not served")
        try:
            return await handler(request)
        except web.HTTPException as error:
            return refusal(error.status, error.reason.replace(" ", ""), error.reason)
        except web.RequestPayloadError:
            return refusal(400, "BadRequest", "the body cannot be read")

    def _guarded(self, respond: Callable[[web.Request, SignedIn], _Answer]) -> _Respond:
        async def guarded(request: web.Request) -> web.StreamResponse:
            try:
                login = await self._login(request)
            except SignInRefused as error:
                return refusal(error.code, _REASONS[error.code], str(error))
            if login is None:
                return refusal(401, "Unauthorized", self._message(request))
            if not _plain(request):
                return refusal(400, "BadRequest", "the path or a header is not valid")
            try:
                with self._forwarding(login, request):
                    return await respond(request, login)
            except BackendError as error:
                return refusal(503, "ServiceUnavailable", str(error))

        return guarded

    @contextlib.contextmanager
    def _forwarding(self, login: SignedIn, request: web.Request) -> Iterator[None]:
        """Count a request that is forwarded, and cut it off when the login ends.

        Raises:
            web.HTTPTooManyRequests: There are too many.
            ConnectionError: The browser has closed the connection.
        """
        places, connection = _places(login, request), request.transport
        if connection is None:
            raise ConnectionResetError
        if any(self._forwards[place] >= most for place, most in places.items()):
            raise web.HTTPTooManyRequests
        self._forwards.update(places.keys())
        login.connections.add(connection)
        try:
            yield
        finally:
            login.connections.discard(connection)
            self._forwards.subtract(places.keys())
            self._forwards += Counter()  # without those that are zero

    async def _login(self, request: web.Request) -> SignedIn | None:
        return await self._users.login(request, self._given(request))

    def _given(self, request: web.Request) -> str:
        """Return the value of the cookie; nothing if there are two.

        Cookies of other hosts of the domain must not look like it. Browsers separate cookies by
        semicolons alone; aiohttp also finds them after a space within the value of another one.
        """
        pairs = ";".join(request.headers.getall("Cookie", [])).split(";")
        named = (pair.strip(" ").partition("=") for pair in pairs)
        values = [value for name, _, value in named if name == self._cookie]
        return values[0] if len(values) == 1 else ""

    def _message(self, request: web.Request) -> str:
        return self._users.message(had_cookie=self._given(request) != "")

    @property
    def _cookie(self) -> str:
        return self._users.cookie(self.port)

    async def _sign_in(self, request: web.Request) -> web.StreamResponse:
        # Of another type, a form may be of any size, or text that cannot be decoded.
        form = self._users.form
        is_form = request.content_type == "application/x-www-form-urlencoded"
        if request.content_length is None:  # further headers may follow such a body
            return refusal(411, "LengthRequired", "the form has no length")
        try:
            async with asyncio.timeout(BODY_SECONDS):
                most = request.clone(client_max_size=form.most_bytes)
                body = await most.read() if is_form else b""
        except TimeoutError:
            return refusal(408, "Timeout", "the form does not arrive")
        # Not in the encoding that the client names: it may be one that cannot be read.
        given = dict(parse_qsl(body.decode(errors="replace"))).get(form.field, "").strip()
        try:
            session = await self._users.enter(request, given)
        except SignInRefused as error:
            return self._form(str(error), error.code)
        if request.path == "/" or self._users.is_public:
            # The browser keeps the fragment: the link that was followed is not lost.
            response = web.Response(status=303, headers={"Location": "/"})
        else:
            response = web.Response(text=OPENED, content_type="text/html")
        response.set_cookie(self._cookie, session, **self._flags())
        return response

    async def _sign_out(self, request: web.Request) -> web.StreamResponse:
        login = self._users.session(self._given(request))
        if login is not None:
            self._users.end(login, "by the user")
        response = web.Response(status=204)
        response.del_cookie(self._cookie, **self._flags())
        return response

    def _flags(self) -> _Flags:
        return {
            "httponly": True,
            "secure": self._users.is_public,
            "samesite": "Strict",
            "path": "/",
        }

    async def _file(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        if path in SIGN_IN and (path == "/" or self._users.is_public):
            return await self._page(request)
        found = self._files.get(path)
        if found is None:
            return refusal(404, "NotFound", "there is no such page")
        return web.Response(body=found.content, headers={"Content-Type": found.content_type})

    async def _page(self, request: web.Request) -> web.StreamResponse:
        """Return the page, or the form for users who have not entered."""
        try:
            login = await self._login(request)
        except SignInRefused as error:
            if error.code == 401:
                return self._form(str(error), 401)
            login = SignedIn(kind="proxy")  # the page says what is wrong, and tries again
        # A browser that follows a link from another site sends no cookie. The page has no data: its
        # requests have the cookie, and it goes to the form if they are refused.
        from_elsewhere = self._users.is_public and _is_from_elsewhere(request)
        if login is None and from_elsewhere and request.path == "/":
            login = SignedIn(kind="token")
        index = self._files.get("/index.html")
        if login is None or request.path != "/":
            return self._form(self._message(request), 200)
        if index is None:
            return refusal(404, "NotFound", "there is no such page")
        body = self._target.within(index.content, login.user, login.kind)
        return web.Response(body=body, headers={"Content-Type": index.content_type})

    def _form(self, message: str, code: int) -> web.Response:
        form = self._users.form
        text = FORM.format(
            head=HEAD,
            target=self._target.heading(),
            message=html.escape(message),
            alert=' role="alert"' if code >= 400 else "",
            field=form.field,
            label=form.label,
            hint=form.hint,
        )
        response = web.Response(status=code, text=text, content_type="text/html")
        response.headers["Content-Security-Policy"] = FORM_POLICY % form.sent_to
        return response

    async def _plan(self, request: web.Request, login: SignedIn) -> web.StreamResponse:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await request.read()
            headers = {**_forwarded(request), **login.headers}
            reply = await self._backend.send("POST", request.raw_path, headers, body)
        except TimeoutError:
            return refusal(408, "Timeout", "the body does not arrive")
        self._look(reply.status, login, request)
        headers = _returned(reply.headers)
        return web.Response(status=reply.status, body=reply.body, headers=headers)

    async def _forward(self, request: web.Request, login: SignedIn) -> web.StreamResponse:
        headers = {**_forwarded(request), **login.headers}
        incoming = await self._backend.open(request.raw_path, headers)
        response = web.StreamResponse(status=incoming.status, headers=_returned(incoming.headers))
        try:
            self._look(incoming.status, login, request)
            await response.prepare(request)
            while part := await incoming.read():
                async with asyncio.timeout(READ_SECONDS):
                    await response.write(part)
            await response.write_eof()
        except (Unreachable, TimeoutError):
            # The answer has begun, so its end must be missing: an end would make it complete.
            if request.transport is not None:
                request.transport.abort()
        except ConnectionError:
            pass  # the browser has closed the connection
        finally:
            incoming.close()
        return response

    async def _add_headers(self, _request: web.Request, response: web.StreamResponse) -> None:
        headers = response.headers
        # Not with a port: it would count for all ports of the host, of which others are others'.
        if self._users.scheme == "https" and ":" not in "".join(self._users.hosts(self.port)):
            headers["Strict-Transport-Security"] = TRANSPORT
        headers.setdefault("Content-Security-Policy", POLICY)
        headers["X-Content-Type-Options"] = "nosniff"
        # Under `no-referrer`, browsers send forms without an origin.
        headers["Referrer-Policy"] = "same-origin"
        headers["Cross-Origin-Opener-Policy"] = "same-origin"
        headers["Cross-Origin-Resource-Policy"] = "same-origin"
        headers["Cache-Control"] = "no-store"
        headers["Server"] = SERVER
        headers["X-Accel-Buffering"] = "no"  # else a proxy such as nginx may hold events back

    def _look(self, status: int, login: SignedIn, request: web.Request) -> None:
        """End a login that the scheduler does not know any more."""
        if status == 401:
            if request.transport is not None:
                login.connections.discard(request.transport)  # this answer says so
            self._users.end(login, "its token is not valid any more")


async def _healthy(_request: web.Request) -> web.StreamResponse:
    return web.Response(text="ok")


def _is_from_elsewhere(request: web.Request) -> bool:
    return request.headers.get("Sec-Fetch-Site") in _ELSEWHERE


def _navigates(request: web.Request) -> bool:
    """Return whether the user follows a link, or the file with the key is opened."""
    return request.headers.get("Sec-Fetch-Mode") == "navigate" and request.path in SIGN_IN


def _places(login: SignedIn, request: web.Request) -> dict[tuple[str, str], int]:
    """Return what a request takes one place of, and how many of these there are."""
    user, group = login.user, login.group
    places = {
        ("all", ""): FORWARDS,
        ("group", group): GROUP_FORWARDS,
        ("user", user): USER_FORWARDS,
    }
    if request.path == RECORDING:
        places["recordings", ""] = RECORDINGS
    elif request.method == "POST":
        places |= {("plans", ""): PLANS, ("plans of", group): GROUP_PLANS, ("plan of", user): 1}
    return places


def _plain(request: web.Request) -> bool:
    """Return whether path and headers mean the same to each server on the way."""
    if not all(value.isascii() for value in _forwarded(request).values()):
        return False
    raw = request.raw_path.partition("?")[0].lower()
    return not any(part in raw for part in ("/..", "/.", "//", "%2e", "%2f", "%5c", "\\"))


def _forwarded(request: web.Request) -> dict[str, str]:
    return {name: request.headers[name] for name in _FORWARDED if name in request.headers}


def _returned(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.title(): headers[name] for name in _RETURNED if name in headers}


def refusal(code: int, reason: str, message: str) -> web.Response:
    """Return a Status."""
    headers = {"Retry-After": "1"} if code == 429 else None
    body = status(code, reason, message)
    return web.Response(status=code, body=body, content_type="application/json", headers=headers)
