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
from scheduler.web_console.sign_in import ADDRESS, KeySignIn, SignedIn, SignIn, SignInRefused
from scheduler.web_console.target import Target

__all__ = ["HEALTH", "ConsoleServer", "page_files"]

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src"
    " 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
#: For the page with the form, which has no script.
FORM_POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'none'"
)
#: The largest body that is forwarded; the scheduler has a lower limit.
BODY_BYTES: Final = 4 * 2**20
#: How many plans are read and answered at a time, each of another user. The scheduler answers two,
#: and one of a user.
PLANS: Final = 6
#: How many requests are forwarded at a time, and of one user. A page has some six.
FORWARDS: Final = 128
USER_FORWARDS: Final = 32
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
_HEAD: Final = """\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="dark light"><title>preemptive-scheduler</title>
<link rel="icon" href="/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/style/target.css">
<link rel="stylesheet" href="/style/sign_in.css">\
"""
#: Without an action it is sent to the address that it is shown at, with its fragment.
FORM: Final = """\
{head}</head><body><main>
<h1><img src="/icon.svg" alt="" width="24" height="24">preemptive-scheduler{target}</h1>
<form method="post">
<p id="message"{alert}>{message}</p>
<label for="{field}">{label}</label>
<input id="{field}" name="{field}" type="password" aria-describedby="message" autocomplete="off"
 autofocus required>
<button>Open the console</button>
{hint}
</form></main></body></html>
"""
#: For a key that comes from a file. It is a page of this server, so that the browser sends the
#: cookie: after a redirect of a request that came from elsewhere it would not.
OPENED: Final = f"""\
{_HEAD}<meta http-equiv="refresh" content="0;url=/"></head>
<body><main><p><a href="/">Open the console</a></p></main></body></html>
"""
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
        self._forwards: Counter[str] = Counter()
        self._plans = set[str]()
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
        app.on_response_prepare.append(_add_headers)
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
                had_cookie = self._cookie in request.cookies
                return refusal(401, "Unauthorized", self._users.message(had_cookie=had_cookie))
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
        """Count a request that is forwarded.

        Raises:
            web.HTTPTooManyRequests: There are too many.
            ConnectionError: The browser has closed the connection.
        """
        name, connection = login.name, request.transport
        if connection is None:
            raise ConnectionResetError
        if self._forwards[name] >= USER_FORWARDS or self._forwards.total() >= FORWARDS:
            raise web.HTTPTooManyRequests
        self._forwards[name] += 1
        login.connections.add(connection)
        try:
            yield
        finally:
            login.connections.discard(connection)
            self._forwards[name] -= 1
            if not self._forwards[name]:
                del self._forwards[name]

    async def _login(self, request: web.Request) -> SignedIn | None:
        return await self._users.login(request, request.cookies.get(self._cookie, ""))

    @property
    def _cookie(self) -> str:
        return self._users.cookie(self.port)

    async def _sign_in(self, request: web.Request) -> web.StreamResponse:
        # Of another type, a form may be of any size, or text that cannot be decoded.
        form = self._users.form
        is_form = request.content_type == "application/x-www-form-urlencoded"
        try:
            async with asyncio.timeout(BODY_SECONDS):
                most = request.clone(client_max_size=form.most_bytes)
                body = await most.read() if is_form else b""
        except TimeoutError:
            return refusal(408, "Timeout", "the form does not arrive")
        # Not in the encoding that the client names: it may be one that cannot be read.
        given = dict(parse_qsl(body.decode(errors="replace"))).get(form.field, "").strip()
        try:
            session = await self._users.enter(given)
        except SignInRefused as error:
            return self._form(str(error), error.code)
        if request.path == "/" or self._users.is_public:
            # The browser keeps the fragment: the link that was followed is not lost.
            response = web.Response(status=303, headers={"Location": "/"})
        else:
            response = web.Response(text=OPENED, content_type="text/html")
        response.headers["Content-Security-Policy"] = FORM_POLICY
        response.set_cookie(self._cookie, session, **self._flags())
        return response

    async def _sign_out(self, request: web.Request) -> web.StreamResponse:
        with contextlib.suppress(SignInRefused):
            login = await self._login(request)
            if login is not None:
                self._users.end(login)
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
            message = self._users.message(had_cookie=self._cookie in request.cookies)
            return self._form(message, 200)
        if index is None:
            return refusal(404, "NotFound", "there is no such page")
        body = self._target.within(index.content, login.user, login.kind)
        return web.Response(body=body, headers={"Content-Type": index.content_type})

    def _form(self, message: str, code: int) -> web.Response:
        form = self._users.form
        text = FORM.format(
            head=_HEAD,
            target=self._target.heading(),
            message=html.escape(message),
            alert=' role="alert"' if code >= 400 else "",
            field=form.field,
            label=form.label,
            hint=form.hint,
        )
        response = web.Response(status=code, text=text, content_type="text/html")
        response.headers["Content-Security-Policy"] = FORM_POLICY
        return response

    async def _plan(self, request: web.Request, login: SignedIn) -> web.StreamResponse:
        name = login.name
        if name in self._plans or len(self._plans) >= PLANS:
            raise web.HTTPTooManyRequests
        self._plans.add(name)
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await request.read()
            headers = {**_forwarded(request), **login.headers}
            reply = await self._backend.send("POST", request.raw_path, headers, body)
        except TimeoutError:
            return refusal(408, "Timeout", "the body does not arrive")
        finally:
            self._plans.remove(name)
        self._look(reply.status, login)
        headers = _returned(reply.headers)
        return web.Response(status=reply.status, body=reply.body, headers=headers)

    async def _forward(self, request: web.Request, login: SignedIn) -> web.StreamResponse:
        headers = {**_forwarded(request), **login.headers}
        incoming = await self._backend.open(request.raw_path, headers)
        response = web.StreamResponse(status=incoming.status, headers=_returned(incoming.headers))
        try:
            self._look(incoming.status, login)
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

    def _look(self, status: int, login: SignedIn) -> None:
        """End a login that the scheduler does not know any more."""
        if status == 401:
            login.connections.clear()  # not this answer, which says so
            self._users.end(login)


async def _healthy(_request: web.Request) -> web.StreamResponse:
    return web.Response(text="ok")


def _is_from_elsewhere(request: web.Request) -> bool:
    return request.headers.get("Sec-Fetch-Site") in _ELSEWHERE


def _navigates(request: web.Request) -> bool:
    """Return whether the user follows a link, or the file with the key is opened."""
    return request.headers.get("Sec-Fetch-Mode") == "navigate" and request.path in SIGN_IN


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


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    headers = response.headers
    headers.setdefault("Content-Security-Policy", POLICY)
    headers["X-Content-Type-Options"] = "nosniff"
    # Under `no-referrer`, browsers send forms without an origin.
    headers["Referrer-Policy"] = "same-origin"
    headers["Cross-Origin-Opener-Policy"] = "same-origin"
    headers["Cross-Origin-Resource-Policy"] = "same-origin"
    headers["Cache-Control"] = "no-store"
    headers["Server"] = SERVER
    headers["X-Accel-Buffering"] = "no"  # else a proxy such as nginx may hold events back
