"""Responds to requests, in the serving thread.

Health requests are handled here, whatever the scheduler's loop does. For any other page, that loop
authorizes the caller and makes the page, and this module writes it.
"""

import asyncio
import contextlib
import inspect
import logging
import resource
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from typing import Final

from aiohttp import web

from scheduler.model.rest.cluster import LEADER_HEADER
from scheduler.model.rest.shadow import MODE_HEADER, SHADOW
from scheduler.observe.api.requests import ApiPage, ApiRequest, StatusError, Stream
from scheduler.observe.api.watches import is_watch
from scheduler.observe.pages.health import HealthChecks
from scheduler.observe.pages.routes import Page, Routes, ZPage
from scheduler.observe.pages.zpages import rendered
from scheduler.observe.server import what_if_route
from scheduler.observe.server.access import (
    AccessDecision,
    AccessVerdict,
    Authorize,
    Caller,
    unavailable,
)
from scheduler.observe.server.client_certificates import client_of
from scheduler.observe.server.connections import OpenConnection, bounded, peer
from scheduler.observe.server.health_routes import all_checks, one_check
from scheduler.observe.server.listen import Listen
from scheduler.observe.server.page_runner import PageRunner, Relay
from scheduler.observe.server.rates import RatesByPeer
from scheduler.observe.server.responses import SERVER, failed, is_defect, not_served, refused, shown
from scheduler.observe.server.served import ServedConnections
from scheduler.observe.server.watch_places import WatchPlace, WatchPlaces
from scheduler.observe.server.what_if_route import Respond, RespondTo

__all__ = ["WebApp"]

#: The only type of long answers that compression makes smaller.
_JSON: Final = "application/json"
#: Below this path, errors are objects.
_API: Final = "/api/"
_CROWDED: Final = AccessDecision(AccessVerdict.UNAVAILABLE, "too many pages are being served")


class WebApp:
    """The web application with all pages. Made in the loop of the serving thread.

    Args:
        pages: The pages.
        authorize: Authorizes callers; called in the scheduler's loop.
        listen: The timeouts and limits on clients.
        page_runner: Runs pages in the scheduler's loop.
        log: Logs errors of the server, in the scheduler's loop.
    """

    def __init__(
        self,
        pages: Routes,
        authorize: Authorize,
        listen: Listen,
        page_runner: PageRunner,
        log: logging.Logger,
    ) -> None:
        self._pages = pages
        self._authorize = authorize
        self._listen = listen
        self._page_runner = page_runner
        self._loop = asyncio.get_running_loop()
        self._requests = RatesByPeer(listen.limits.peer_requests)
        #: How many connections are busy, without those that serve watches.
        self._busy = 0
        #: The timeouts of watches, by connection.
        self._watches: dict[OpenConnection, asyncio.Timeout] = {}
        self._places = WatchPlaces(self._max_watches, listen.limits.user_watches)
        #: The timeouts of the responses, by identity of the request.
        self._response_timeouts: dict[int, asyncio.Timeout] = {}
        self._runner = web.AppRunner(
            self._application(),
            access_log=None,
            logger=_logger(page_runner, log),
            keepalive_timeout=listen.idle_seconds,
            lingering_time=0.0,
            max_headers=64,
            shutdown_timeout=2.0,
        )
        self._connections = ServedConnections(self._runner)

    async def setup(self) -> None:
        """Prepare to serve."""
        await self._runner.setup()

    async def cleanup(self) -> None:
        """Close all connections."""
        await self._runner.cleanup()

    def protocol(self, connection: OpenConnection) -> asyncio.Protocol:
        """Return the protocol of a connection."""
        return self._connections.protocol(connection)

    def forget(self, connection: OpenConnection) -> None:
        """Forget a connection that is lost."""
        watch = self._watches.get(connection)
        if watch is not None:
            # Its place is free at once, not only when the next event cannot be written.
            watch.reschedule(self._loop.time())
        self._set_idle(connection)
        self._connections.forget(connection)

    def _application(self) -> web.Application:
        pages = self._pages
        app = web.Application(client_max_size=1024, middlewares=[self._in_time])
        app.on_response_prepare.append(_add_headers)
        app.on_response_prepare.append(self._add_leader)
        if pages.shadow:
            app.on_response_prepare.append(_add_mode)
        for health in (
            HealthChecks("healthz", pages.healthz),
            HealthChecks("livez", pages.livez, reasons=True),
            HealthChecks("readyz", pages.readyz, reasons=True),
        ):
            app.router.add_get(f"/{health.name}", all_checks(health))
            app.router.add_get(f"/{health.name}/{{check}}", one_check(health))
        app.router.add_get("/metrics", self._guarded(self._metrics))
        app.router.add_get("/configz", self._guarded(self._configz))
        app.router.add_get("/flagz", self._guarded(self._document(pages.flagz)))
        app.router.add_get("/statusz", self._guarded(self._document(pages.statusz)))
        for path, page in pages.debug.items():
            app.router.add_get(path, self._guarded(self._debug(page)), allow_head=False)
        for path, answer in pages.api.items():
            app.router.add_get(path, self._authorized(self._api(answer)), allow_head=False)
        if pages.what_if is not None:
            what_if_route.add(app, pages.what_if, self._page_runner, self._authorized)
        return app

    async def _add_leader(self, request: web.Request, response: web.StreamResponse) -> None:
        """Say whether this replica leads: who looks for the leader needs no credentials for it."""
        if request.path.startswith(_API):
            response.headers[LEADER_HEADER] = str(self._pages.leads()).lower()

    @web.middleware
    async def _in_time(self, request: web.Request, handler: Respond) -> web.StreamResponse:
        """Delay a client that exceeds its rate; close its connection if a response times out."""
        await asyncio.sleep(self._pause(request))
        transport = request.transport
        if transport is not None:
            # With this limit a write returns only when all of it is sent. With a limit of 0,
            # asyncio takes an empty buffer for a full one.
            transport.set_write_buffer_limits(high=1)
        try:
            async with asyncio.timeout(self._listen.answer_seconds) as timeout:
                self._response_timeouts[id(request)] = timeout
                return await _written(request, handler)
        except TimeoutError:
            if transport is not None:
                transport.abort()
        except ConnectionError:
            pass  # the client has closed the connection
        finally:
            self._response_timeouts.pop(id(request), None)
            self._end(request)
        await asyncio.sleep(0)  # aiohttp notices that the connection is gone, and writes nothing
        return web.Response()

    def _pause(self, request: web.Request) -> float:
        """Return how long a request has to wait because of earlier requests of its peer."""
        now = self._loop.time()
        return self._requests.of(peer(request.remote or ""), now).reserve(now)

    def _guarded(self, respond: Respond) -> Respond:
        return self._authorized(lambda request, _: respond(request))

    def _authorized(self, respond: RespondTo) -> Respond:
        """Return a handler that authorizes the caller first."""

        async def guarded(request: web.Request) -> web.StreamResponse:
            decision = await self._review(request)
            if decision.verdict is not AccessVerdict.ALLOWED:
                return refused(decision)
            if self._busy >= self._listen.limits.pages:
                return refused(_CROWDED)
            self._begin(request)
            return await respond(request, decision)

        return guarded

    async def _review(self, request: web.Request) -> AccessDecision:
        verb, transport = request.method.lower(), request.transport
        client = None if transport is None else client_of(transport.get_extra_info("ssl_object"))
        caller = Caller(verb, request.path, request.headers, request.remote or "", client)
        try:
            async with asyncio.timeout(self._listen.review_seconds):
                return await self._page_runner.run(lambda: self._authorize(caller))
        except TimeoutError:
            return unavailable()

    def _begin(self, request: web.Request) -> None:
        """Mark a connection as busy, so that it is kept until its response is written."""
        connection = self._connections.of(request.protocol)
        if connection is not None and not connection.busy:
            connection.busy = True
            self._busy += 1

    def _end(self, request: web.Request) -> None:
        """Mark a connection as idle from now on."""
        connection = self._connections.of(request.protocol)
        if connection is not None:
            connection.answered(self._loop.time())
            self._set_idle(connection)

    def _set_idle(self, connection: OpenConnection) -> None:
        if connection in self._watches:
            del self._watches[connection]
        else:
            self._busy -= connection.busy
        connection.busy = False

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        accept = request.headers.get("Accept", "")
        body, content_type = await self._page_runner.call(lambda: self._pages.metrics(accept))
        response = web.Response(body=body, headers={"Content-Type": content_type})
        response.enable_compression()
        return response

    async def _configz(self, _request: web.Request) -> web.StreamResponse:
        return shown(await self._page_runner.call(self._pages.configz))

    def _document(self, page: Callable[[], ZPage]) -> Respond:
        async def respond(request: web.Request) -> web.StreamResponse:
            document = await self._page_runner.call(page)
            headers = request.headers
            answer = rendered(
                document,
                headers.get("Accept", ""),
                headers.get("User-Agent", ""),
                request.query.get("pretty", ""),
            )
            return web.Response(
                status=answer.code,
                body=answer.body,
                content_type=answer.content_type,
                charset="utf-8" if answer.content_type.startswith("text/") else None,
                headers=answer.headers,
            )

        return respond

    def _debug(self, page: Page) -> Respond:
        async def respond(request: web.Request) -> web.StreamResponse:
            query = {**request.query, **request.match_info}
            try:
                content = await self._page_runner.run(lambda: _made(page, query))
            except LookupError as error:
                return web.Response(status=404, text=f"{error.args[0] if error.args else ''}\n")
            except ValueError as error:
                return web.Response(status=400, text=f"{error}\n")
            return await self._answered(request, content)

        return respond

    def _api(self, page: ApiPage) -> RespondTo:
        async def respond(request: web.Request, access: AccessDecision) -> web.StreamResponse:
            asked = ApiRequest(_query(request), access.names, access.user)
            try:
                if not is_watch(asked):
                    return await self._answered(request, await self._asked(page, asked))
                with self._places.held(access.user) as place:
                    content = await self._asked(page, asked)
                    if isinstance(content, Stream) and content.endless:
                        return await self._watched(request, content, place, access)
                    return await self._answered(request, content)
            except StatusError as error:
                return failed(error)

        return respond

    async def _answered(self, request: web.Request, content: object) -> web.StreamResponse:
        if isinstance(content, AsyncGenerator):
            content = Stream(content)
        if isinstance(content, Stream):
            return await self._streamed(request, content)
        return shown(content)

    async def _asked(self, page: ApiPage, asked: ApiRequest) -> object:
        """Return the document for a request.

        Raises:
            ApiError: The request is malformed, or cannot be answered now.
        """
        try:
            return await self._page_runner.run(lambda: page(asked))
        except LookupError as error:
            text = str(error.args[0]) if error.args else ""
            raise StatusError(404, "NotFound", text) from error
        except ValueError as error:
            raise StatusError(400, "BadRequest", str(error)) from error

    def _max_watches(self) -> int:
        """Return how many watches may be open: enough connections are left for all others."""
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        limits = self._listen.limits
        return min(limits.watches, bounded(limits.connections, descriptors) // 4)

    async def _watched(
        self, request: web.Request, stream: Stream, place: WatchPlace, access: AccessDecision
    ) -> web.StreamResponse:
        """Write events as they come; a client that does not read them is cut off."""
        timeout, limits = self._response_timeouts[id(request)], self._listen.limits
        connection = self._connections.of(request.protocol)
        if connection is not None and connection not in self._watches:
            self._busy -= connection.busy
            self._watches[connection] = timeout
        response = web.StreamResponse(headers={"Content-Type": stream.content_type})
        response.force_close()
        async with (
            place.kept(access, partial(self._review, request), limits.rights_seconds),
            contextlib.aclosing(self._page_runner.iterate(stream.parts)) as relayed,
        ):
            await response.prepare(request)
            timeout.reschedule(None)
            async for part in relayed:
                timeout.reschedule(self._loop.time() + limits.event_seconds)
                await response.write(part)
                timeout.reschedule(None)
        timeout.reschedule(self._loop.time() + limits.event_seconds)
        return response

    async def _streamed(self, request: web.Request, stream: Stream) -> web.StreamResponse:
        """Write parts of a page as they come."""
        response = web.StreamResponse(headers={"Content-Type": stream.content_type})
        if stream.filename:
            disposition = f'attachment; filename="{stream.filename}"'
            response.headers["Content-Disposition"] = disposition
        if stream.content_type == _JSON:
            response.enable_compression()
        async with contextlib.aclosing(self._page_runner.iterate(stream.parts)) as relayed:
            await response.prepare(request)
            async for part in relayed:
                await response.write(part)
        return response


async def _made(page: Page, query: Mapping[str, str]) -> object:
    content = page(query)
    return await content if inspect.isawaitable(content) else content


def _query(request: web.Request) -> dict[str, str]:
    """Return the query of a request for a document, and the variable parts of its path.

    A browser that comes again for events says in a header which one it has read last.
    """
    query = {**request.query, **request.match_info}
    last = request.headers.get("Last-Event-ID", "")
    return {**query, "revision": last} if last else query


async def _written(request: web.Request, respond: Respond) -> web.StreamResponse:
    """Respond, and wait until all of it is written."""
    try:
        response = await respond(request)
    except web.HTTPException as refusal:
        if request.path.startswith(_API):
            response = not_served(refusal, request.method, request.path)
        else:
            await refusal.prepare(request)
            await refusal.write_eof()
            raise
    await response.prepare(request)
    await response.write_eof()
    return response


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = SERVER
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Cache-Control"] = "no-cache, private"


async def _add_mode(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers[MODE_HEADER] = SHADOW


def _logger(page_runner: PageRunner, log: logging.Logger) -> logging.Logger:
    """Return a logger for the server that skips errors about malformed requests."""
    name = f"{log.name}.requests"
    logger = logging.Logger(name, logging.WARNING)  # noqa: LOG001 - of this server alone
    logger.addHandler(Relay(page_runner, log))
    logger.addFilter(is_defect)
    return logger
