"""Serves the console to browsers of others: a limited number of connections, without TLS.

What is in front of it serves https: an ingress, a Gateway, or a mesh.

Connections are accepted and limited as those of the scheduler's own pages. At the limit an idle one
is closed for a new one; one is busy while a request of it is being forwarded.
"""

import asyncio
import logging
import resource
import socket
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from scheduler.observe.server.acceptor import Acceptor
from scheduler.observe.server.connections import ConnectionTable, bounded
from scheduler.observe.server.listen import Limits
from scheduler.observe.server.responses import is_defect
from scheduler.observe.server.served import ServedConnections

__all__ = ["PublicSite"]

#: Behind a proxy, which has few addresses, the limits on one address are those on all. As many as
#: the memory of the pod is enough for, whatever they send.
LIMITS: Final = Limits(connections=192)
#: How long a connection may be idle before its first request and between requests: longer than
#: proxies keep theirs.
IDLE_SECONDS: Final = 75.0
_API: Final = "/api/"


class PublicSite:
    """Serves an application. Made in a running loop.

    Args:
        application: What is served.
        listener: A listening socket, non-blocking.
    """

    def __init__(self, application: web.Application, listener: socket.socket) -> None:
        application.middlewares.append(self._busy)
        logger = logging.getLogger(__name__)
        logger.addFilter(is_defect)
        self._runner = web.AppRunner(
            application,
            access_log=None,
            logger=logger,
            handler_cancellation=True,
            keepalive_timeout=IDLE_SECONDS,
            lingering_time=0.0,
            max_headers=64,
            shutdown_timeout=0.5,
        )
        self._listener = listener
        self._connections = ServedConnections(self._runner)

    async def run(self) -> None:
        """Serve until cancelled."""
        await self._runner.setup()
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        table = ConnectionTable(bounded(LIMITS.connections, descriptors))
        try:
            await Acceptor(self._listener, self._connections, None, table, LIMITS).run()
        finally:
            await self._runner.cleanup()

    @web.middleware
    async def _busy(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        """Keep a connection while a request of it is being forwarded."""
        connection = self._connections.of(request.protocol)
        if connection is None:
            return await handler(request)
        connection.busy = request.path.startswith(_API)
        if request.transport is not None:
            # A write returns when all of it is sent, so what is not read is not kept. With a limit
            # of 0, asyncio takes an empty buffer for a full one.
            request.transport.set_write_buffer_limits(high=1)
        try:
            return await handler(request)
        finally:
            connection.busy = False
            connection.answered(asyncio.get_running_loop().time())
