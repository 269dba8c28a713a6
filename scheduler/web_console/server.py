"""The server of the console, on this machine alone.

It serves the page and forwards `/api/v1` with the permissions of its user, so it must not serve
other users:

* It listens on 127.0.0.1. The `Host` of a request must name that address, so requests by a name
  that an attacker points to it (DNS rebinding) are refused.
* Other users of the machine can connect to the port, so the API needs a cookie. The browser gets it
  for a key that the command shows in its terminal, and passes to the browser in a file that only
  its user can read. The key is sent in the body of a form: it is not in a URL, so it is not in the
  history, in logs or in the process list. It has 144 random bits, so it cannot be guessed, and
  there is no limit on wrong keys: a limit would let each process of the machine lock the user out.
* The cookie is `HttpOnly` and `SameSite=Strict`, and what changes something needs an `Origin` of
  this server, so pages of other sites cannot send requests on behalf of the user.
* Only `/api/v1` is forwarded, with few headers; all other paths are files of the page.

Browsers do not separate cookies by port, so a server of another user on the same address would get
the cookie if it was opened in the same browser. It ends with this process.
"""

import contextlib
import hmac
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final, Protocol, TypeAlias
from urllib.parse import parse_qsl

from aiohttp import web

from scheduler.kube.errors import Unreachable
from scheduler.kube.http.http1 import Incoming, Reply
from scheduler.model.rest.shadow import MODE_HEADER
from scheduler.observe.pages.statuses import status
from scheduler.observe.server.responses import is_defect
from scheduler.web_console.target import Target

__all__ = ["Backend", "BackendError", "ConsoleServer", "page_files"]

ADDRESS: Final = "127.0.0.1"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src"
    " 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
#: For the page that asks for the key: it has a form and no script.
FORM_POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'none'"
)
#: The length of the key. Wrong keys are not limited, so it must be too long to be guessed.
KEY_BYTES: Final = 18
#: The largest form of a key; it comes from clients that have not signed in.
FORM_BYTES: Final = 4096
#: The largest body that is forwarded; the scheduler has a lower limit.
BODY_BYTES: Final = 16 * 2**20
#: Where the key is sent to: by the page that asks for it, and by the file. Only the key is checked:
#: under `no-referrer` browsers send no origin with a form.
SIGN_IN: Final = ("/", "/session")
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
<label for="key">Key</label>
<input id="key" name="key" type="password" aria-describedby="message" autocomplete="off" autofocus
 required>
<button>Open the console</button>
</form></main></body></html>
"""
#: For a key that comes from a file. It is a page of this server, so that the browser sends the
#: cookie: after a redirect of a request that came from elsewhere it would not.
OPENED: Final = f"""\
{_HEAD}<meta http-equiv="refresh" content="0;url=/"></head>
<body><main><p><a href="/">Open the console</a></p></main></body></html>
"""
ENTER: Final = "Enter the key that kubectl preemptive console shows in its terminal."
WRONG: Final = (
    "Wrong key. Enter the key that kubectl preemptive console shows in its terminal. Each start of"
    " the command creates a new key."
)
#: For a browser with the cookie of an earlier server on the same port.
STARTED_AGAIN: Final = (
    "kubectl preemptive console was started again, with a new key. Enter the one that it shows in"
    " its terminal."
)

NOWHERE: Final = Target()
_Respond: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


class BackendError(Exception):
    """The scheduler cannot be asked; the message is for the user."""


class Backend(Protocol):
    """The way to the scheduler; both methods raise BackendError."""

    async def send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> Reply:
        """Send a request and return the answer, whatever its status."""

    async def open(self, path: str, headers: Mapping[str, str]) -> Incoming:
        """Begin to read an answer in parts; the caller closes it."""


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


class ConsoleServer:
    """Serves the console while it is open.

    Args:
        backend: The way to the scheduler.
        files: Those of the page.
        key: What the browser must send to get the cookie.
        target: Which cluster it is, for the page.
    """

    def __init__(
        self,
        backend: Backend,
        files: Mapping[str, _File],
        key: str = "",
        target: Target = NOWHERE,
    ) -> None:
        self._backend = backend
        self._files = files
        self._target = target
        self.key = key or secrets.token_urlsafe(KEY_BYTES)
        self._session = secrets.token_urlsafe(32)
        self.port = 0

    @property
    def url(self) -> str:
        """The address of the page, without a secret."""
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
        app.router.add_post("/api/v1/plan", self._guarded(self._plan))
        app.router.add_get("/api/v1", self._guarded(self._forward), allow_head=False)
        app.router.add_get("/api/v1/{rest:.*}", self._guarded(self._forward), allow_head=False)
        app.router.add_get("/{path:.*}", self._file)
        return app

    @web.middleware
    async def _checked(self, request: web.Request, handler: _Respond) -> web.StreamResponse:
        hosts = {f"{ADDRESS}:{self.port}", f"localhost:{self.port}"}
        if request.headers.getall("Host", []) not in [[host] for host in hosts]:
            return refusal(403, "Forbidden", "this host is not served")
        sign_in = request.path in SIGN_IN
        if request.method == "POST" and not sign_in:
            origins = {f"http://{host}" for host in hosts}
            if request.headers.get("Origin") not in origins:
                return refusal(403, "Forbidden", "requests of other origins are not served")
        if request.headers.get("Sec-Fetch-Site") == "cross-site" and not _navigates(request):
            return refusal(403, "Forbidden", "requests of other sites are not served")
        try:
            return await handler(request)
        except web.HTTPException as error:
            return refusal(error.status, error.reason.replace(" ", ""), error.reason)
        except web.RequestPayloadError:
            return refusal(400, "BadRequest", "the body cannot be read")

    def _guarded(self, respond: _Respond) -> _Respond:
        async def guarded(request: web.Request) -> web.StreamResponse:
            if not self._signed_in(request):
                return refusal(401, "Unauthorized", ENTER)
            if not _plain(request):
                return refusal(400, "BadRequest", "the path is not valid")
            try:
                return await respond(request)
            except BackendError as error:
                return refusal(503, "ServiceUnavailable", str(error))

        return guarded

    def _signed_in(self, request: web.Request) -> bool:
        given = request.cookies.get(self._cookie, "")
        return hmac.compare_digest(_bytes(given), self._session.encode())

    @property
    def _cookie(self) -> str:
        return f"preemptive-console-{self.port}"

    async def _sign_in(self, request: web.Request) -> web.StreamResponse:
        # Of another type, a form may be of any size, or text that cannot be decoded.
        is_form = request.content_type == "application/x-www-form-urlencoded"
        body = await request.clone(client_max_size=FORM_BYTES).read() if is_form else b""
        # Not in the encoding that the client names: it may be one that cannot be read.
        given = dict(parse_qsl(body.decode(errors="replace"))).get("key", "").strip()
        if not hmac.compare_digest(_bytes(given), self.key.encode()):
            return self._form(WRONG, 403)
        if request.path == "/":
            # The browser keeps the fragment: the link that was followed is not lost.
            response = web.Response(status=303, headers={"Location": "/"})
        else:
            response = web.Response(text=OPENED, content_type="text/html")
        response.headers["Content-Security-Policy"] = FORM_POLICY
        response.set_cookie(self._cookie, self._session, httponly=True, samesite="Strict", path="/")
        return response

    async def _file(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        if path == "/":
            if not self._signed_in(request):
                return self._form(STARTED_AGAIN if self._cookie in request.cookies else ENTER, 200)
            path = "/index.html"
        found = self._files.get(path)
        if found is None:
            return refusal(404, "NotFound", "there is no such page")
        body = self._target.within(found.content) if path == "/index.html" else found.content
        return web.Response(body=body, headers={"Content-Type": found.content_type})

    def _form(self, message: str, code: int) -> web.Response:
        alert = ' role="alert"' if code >= 400 else ""
        target = self._target.heading()
        text = FORM.format(head=_HEAD, target=target, message=message, alert=alert)
        response = web.Response(status=code, text=text, content_type="text/html")
        response.headers["Content-Security-Policy"] = FORM_POLICY
        return response

    async def _plan(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        reply = await self._backend.send("POST", request.raw_path, _forwarded(request), body)
        headers = _returned(reply.headers)
        return web.Response(status=reply.status, body=reply.body, headers=headers)

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        incoming = await self._backend.open(request.raw_path, _forwarded(request))
        headers = _returned(incoming.headers)
        response = web.StreamResponse(status=incoming.status, headers=headers)
        try:
            await response.prepare(request)
            while part := await incoming.read():
                await response.write(part)
            await response.write_eof()
        except Unreachable:
            # The answer has begun, so its end must be missing: an end would make it complete.
            if request.transport is not None:
                request.transport.abort()
        except ConnectionError:
            pass  # the browser has closed the connection
        finally:
            incoming.close()
        return response


def _bytes(given: str) -> bytes:
    """Return what a client has sent, also where that is not UTF-8."""
    return given.encode(errors="surrogateescape")


def _navigates(request: web.Request) -> bool:
    """Return whether the user follows a link, or the file with the key is opened."""
    return request.headers.get("Sec-Fetch-Mode") == "navigate" and request.path in SIGN_IN


def _plain(request: web.Request) -> bool:
    """Return whether a path means the same to each server on the way."""
    raw = request.raw_path.partition("?")[0].lower()
    return not any(part in raw for part in ("/..", "/.", "//", "%2e", "%2f", "%5c", "\\"))


def _forwarded(request: web.Request) -> dict[str, str]:
    return {name: request.headers[name] for name in _FORWARDED if name in request.headers}


def _returned(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.title(): headers[name] for name in _RETURNED if name in headers}


def refusal(code: int, reason: str, message: str) -> web.Response:
    """Return a Status."""
    body = status(code, reason, message)
    return web.Response(status=code, body=body, content_type="application/json")


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    headers = response.headers
    headers.setdefault("Content-Security-Policy", POLICY)
    headers["X-Content-Type-Options"] = "nosniff"
    headers["Referrer-Policy"] = "no-referrer"
    headers["Cross-Origin-Opener-Policy"] = "same-origin"
    headers["Cross-Origin-Resource-Policy"] = "same-origin"
    headers["Cache-Control"] = "no-store"
    headers["Server"] = "preemptive-scheduler"
