"""The web endpoints: health, metrics, configuration and debug pages.

Everything here only reads. Health paths are open to everybody, as in Kubernetes, and say little.
All other paths are served only to whom `authorize` allows, which by default is nobody (`access`).

Paths: `/healthz`, `/livez`, `/readyz`, each with `?verbose`, `?exclude=<check>` and `/<check>`;
`/metrics`; `/configz`; `/statusz`; and the debug pages that were handed over.

What a stranger can do is bounded: how many connections there are, how long they may take to ask
and to take the answer, and how long lines and headers are. Bodies are not read.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Final, TypeAlias

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from scheduler.model.times import Seconds
from scheduler.observe.access import Authorize, Caller, Judgement, Verdict, nobody, unavailable
from scheduler.observe.health import Health, Report
from scheduler.observe.pages import Listen, Page, Pages
from scheduler.observe.tls import CertificateFiles, self_signed_context

__all__ = ["Web"]

_LOG: Final = logging.getLogger(__name__)

#: More connections than probes and a few Prometheus servers ever need.
_CONNECTIONS: Final = 100

#: The words for verdicts in a Status.
_REASONS: Final[Mapping[Verdict, str]] = {
    Verdict.UNAUTHENTICATED: "Unauthorized",
    Verdict.FORBIDDEN: "Forbidden",
    Verdict.UNAVAILABLE: "ServiceUnavailable",
}


class Web:
    """The web server of one process."""

    def __init__(self, pages: Pages, authorize: Authorize = nobody) -> None:
        self._pages = pages
        self._authorize = authorize
        self._listen = Listen(port=0)
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None
        self._files: CertificateFiles | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def port(self) -> int:
        """The port that is served, 0 when none is."""
        if self._listener is None or not self._listener.sockets:
            return 0
        return int(self._listener.sockets[0].getsockname()[1])

    @property
    def connections(self) -> int:
        """How many connections are open."""
        server = None if self._runner is None else self._runner.server
        return 0 if server is None else len(server.connections)

    async def start(
        self, listen: Listen, wall: Seconds, bound: socket.socket | None = None
    ) -> None:
        """Serve until `close`.

        Args:
            listen: Where and how; nothing happens when its port is 0 and no socket is given.
            wall: The time of day, for the self-signed certificate.
            bound: A socket to serve on instead of the address and port.

        Raises:
            OSError: The port is taken, or a certificate cannot be used.
        """
        if listen.port == 0 and bound is None:
            return
        self._listen = listen
        context = None if listen.plain else self._context(wall)
        self._runner = web.AppRunner(
            self._application(),
            access_log=None,
            logger=_quiet_logger(),
            keepalive_timeout=listen.idle_seconds,
            lingering_time=0.0,
            max_headers=64,
            shutdown_timeout=2.0,
        )
        await self._runner.setup()
        self._listener = await asyncio.get_running_loop().create_server(
            self._connection,
            sock=bound or _listening(listen.address, listen.port),
            ssl=context,
            ssl_handshake_timeout=None if context is None else listen.idle_seconds,
        )

    async def close(self) -> None:
        """Stop listening and close all connections."""
        if self._timer is not None:
            self._timer.cancel()
        if self._listener is not None:
            self._listener.close()
        if self._runner is not None:
            await self._runner.cleanup()
        self._listener = self._runner = None

    def _connection(self) -> asyncio.Protocol:
        server = None if self._runner is None else self._runner.server
        if server is None or self.connections >= _CONNECTIONS:
            return _Refused()
        return server()

    def _context(self, wall: Seconds) -> ssl.SSLContext:
        listen = self._listen
        if not listen.cert_file:
            names = dict.fromkeys((socket.gethostname(), "localhost", "127.0.0.1", listen.address))
            return self_signed_context(tuple(names), wall)
        self._files = CertificateFiles(listen.cert_file, listen.key_file)
        self._refresh_later()
        return self._files.context

    def _refresh_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(
            self._listen.refresh_seconds, self._refresh
        )

    def _refresh(self) -> None:
        self._refresh_later()
        try:
            if self._files is not None and self._files.refresh():
                _LOG.info("serving certificate reloaded")
        except OSError as error:
            _LOG.warning("serving certificate not reloaded: %s", error)

    def _application(self) -> web.Application:
        pages = self._pages
        app = web.Application(client_max_size=1024, middlewares=[self._in_time])
        app.on_response_prepare.append(_add_headers)
        for health in (
            Health("healthz", pages.healthz),
            Health("livez", pages.livez),
            Health("readyz", pages.readyz, reasons=True),
        ):
            app.router.add_get(f"/{health.name}", _all_checks(health))
            app.router.add_get(f"/{health.name}/{{check}}", _one_check(health))
        app.router.add_get("/metrics", self._guarded(self._metrics))
        app.router.add_get("/configz", self._guarded(self._configz))
        app.router.add_get("/statusz", self._guarded(self._statusz))
        for path, page in pages.debug.items():
            app.router.add_get(path, self._guarded(_debug(page)), allow_head=False)
        return app

    @web.middleware
    async def _in_time(self, request: web.Request, handler: "_Respond") -> web.StreamResponse:
        """Cut the connection of a client that does not take its answer."""
        transport = request.transport
        if transport is not None:
            transport.set_write_buffer_limits(high=0)  # what is written has left us, or waits here
        try:
            async with asyncio.timeout(self._listen.answer_seconds):
                return await _written(request, handler)
        except TimeoutError:
            if transport is not None:
                transport.abort()
        except ConnectionError:
            pass  # the client has left
        await asyncio.sleep(0)  # aiohttp learns that the connection is gone, and writes nothing
        return web.Response()

    def _guarded(self, respond: "_Respond") -> "_Respond":
        async def guarded(request: web.Request) -> web.StreamResponse:
            caller = Caller("get", request.path, request.headers, request.remote or "")
            try:
                async with asyncio.timeout(self._listen.review_seconds):
                    judgement = await self._authorize(caller)
            except TimeoutError:
                judgement = unavailable()
            if judgement.verdict is not Verdict.ALLOWED:
                return _refused(judgement)
            return await respond(request)

        return guarded

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        body, content_type = self._pages.metrics(request.headers.get("Accept", ""))
        response = web.Response(body=body, headers={"Content-Type": content_type})
        response.enable_compression()
        return response

    async def _configz(self, _request: web.Request) -> web.StreamResponse:
        return _shown(self._pages.configz())

    async def _statusz(self, _request: web.Request) -> web.StreamResponse:
        return _shown(self._pages.statusz())


_Respond: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _Refused(asyncio.Protocol):
    """Takes the connections that are too many, and closes them."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Close at once."""
        transport.close()


def _all_checks(health: Health) -> _Respond:
    async def respond(request: web.Request) -> web.Response:
        query = request.query
        return _told(
            health.report(verbose="verbose" in query, excluded=query.getall("exclude", []))
        )

    return respond


def _one_check(health: Health) -> _Respond:
    async def respond(request: web.Request) -> web.Response:
        report = health.single(request.match_info["check"])
        if report is None:
            raise web.HTTPNotFound
        return _told(report)

    return respond


def _told(report: Report) -> web.Response:
    return web.Response(status=200 if report.healthy else 500, text=report.text)


def _refused(judgement: Judgement) -> web.Response:
    """Return a refusal as the API server words it."""
    verdict = judgement.verdict
    status: dict[str, object] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": judgement.message,
        "reason": _REASONS[verdict],
        "code": verdict.value,
    }
    return web.Response(
        status=verdict.value, body=msgspec.json.encode(status), content_type="application/json"
    )


async def _written(request: web.Request, respond: _Respond) -> web.StreamResponse:
    """Respond, and wait until all of it is written."""
    try:
        response = await respond(request)
    except web.HTTPException as refusal:
        await refusal.prepare(request)
        await refusal.write_eof()
        raise
    await response.prepare(request)
    await response.write_eof()
    return response


def _debug(page: Page) -> _Respond:
    async def respond(request: web.Request) -> web.StreamResponse:
        try:
            content = page({**request.query, **request.match_info})
        except LookupError as error:
            return web.Response(status=404, text=f"{error.args[0] if error.args else ''}\n")
        except ValueError as error:
            return web.Response(status=400, text=f"{error}\n")
        if isinstance(content, AsyncGenerator):
            return await _streamed(request, content)
        return _shown(content)

    return respond


async def _streamed(request: web.Request, parts: AsyncGenerator[bytes]) -> web.StreamResponse:
    """Write parts of JSON as they come."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    async with contextlib.aclosing(parts):
        await response.prepare(request)
        async for part in parts:
            await response.write(part)
    return response


def _shown(content: object) -> web.Response:
    if isinstance(content, str):
        return web.Response(text=content)
    return web.Response(body=msgspec.json.encode(content), content_type="application/json")


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = "preemptive-scheduler"
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Cache-Control"] = "no-cache, private"


def _listening(address: str, port: int) -> socket.socket:
    """Return a listening socket; an unspecified address means all, of both families."""
    if address in ("", "0.0.0.0", "::") and socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, port), family=family)


def _quiet_logger() -> logging.Logger:
    """Return a logger for the server that does not take malformed requests for errors of ours."""
    logger = logging.getLogger(f"{__name__}.requests")
    logger.addFilter(_ours)
    return logger


def _ours(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))
