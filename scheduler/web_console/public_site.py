"""Serves the console to browsers of others: a limited number of connections, with TLS or without.

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

from scheduler.model.times import Seconds
from scheduler.observe.server.acceptor import Acceptor
from scheduler.observe.server.client_certificates import ClientAuthority, TlsContexts
from scheduler.observe.server.connections import ConnectionTable, OpenConnection, bounded
from scheduler.observe.server.listen import Limits
from scheduler.observe.server.responses import is_defect
from scheduler.observe.server.tls import Certificate

__all__ = ["PublicSite"]

#: Behind a proxy, which has few addresses, the limits on one address are those on all.
LIMITS: Final = Limits()
#: How long a connection may be idle before its first request and between requests: longer than
#: proxies keep theirs.
IDLE_SECONDS: Final = 75.0
#: Between two looks at the files of the certificate.
RENEW_SECONDS: Final = 60.0
_API: Final = "/api/"


class PublicSite:
    """Serves an application. Made in a running loop.

    Args:
        application: What is served.
        listener: A listening socket, non-blocking.
        certificate: The serving certificate; `None` for plain HTTP behind a proxy.
        report: Logs a problem: an event with fields.
    """

    def __init__(
        self,
        application: web.Application,
        listener: socket.socket,
        certificate: Certificate | None,
        report: Callable[..., object],
    ) -> None:
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
        self._certificate = certificate
        self._report = report
        self._connections: dict[asyncio.BaseProtocol, OpenConnection] = {}

    async def run(self, wall: Callable[[], Seconds]) -> None:
        """Serve until cancelled.

        Args:
            wall: Returns the time of day.
        """
        await self._runner.setup()
        contexts, certificate = None, self._certificate
        if certificate is not None:
            contexts = TlsContexts(certificate, ClientAuthority(), wall, self._report)
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        table = ConnectionTable(bounded(LIMITS.connections, descriptors))
        acceptor = Acceptor(self._listener, self, contexts, table, LIMITS)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(acceptor.run())
                if certificate is not None:
                    tasks.create_task(self._renew(certificate, wall))
        finally:
            await self._runner.cleanup()

    def protocol(self, connection: OpenConnection) -> asyncio.Protocol:
        """Return the protocol of a connection."""
        server = self._runner.server
        if server is None:
            raise ConnectionError("the server has stopped")
        protocol = server()
        self._connections[protocol] = connection
        return protocol

    def forget(self, connection: OpenConnection) -> None:
        """Forget a connection that is lost."""
        for protocol in [each for each, own in self._connections.items() if own is connection]:
            del self._connections[protocol]

    @web.middleware
    async def _busy(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        """Keep a connection while a request of it is being forwarded."""
        connection = self._connections.get(request.protocol)
        if connection is None:
            return await handler(request)
        connection.busy = request.path.startswith(_API)
        try:
            return await handler(request)
        finally:
            connection.busy = False
            connection.idle_since = asyncio.get_running_loop().time()

    async def _renew(self, certificate: Certificate, wall: Callable[[], Seconds]) -> None:
        """Read the certificate again when its files change."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                if certificate.refresh(wall()):
                    self._report("certificate_reloaded")
            except OSError as error:
                self._report("certificate_not_reloaded", problem=str(error))
