"""The web server: health, metrics, configuration and debug pages.

All pages are read-only. Health paths need no authorization, as in Kubernetes, and reveal little.
All other paths need permission by `authorize`, which by default refuses every request (`access`).

Paths: `/healthz`, `/livez`, `/readyz`, each with `?verbose`, `?exclude=<check>` and `/<check>`;
`/metrics`; `/configz`; `/flagz`; `/statusz`; and the debug pages that are passed in.

The server has a thread and an event loop of its own: neither a decision that takes seconds nor a
flood of handshakes delays a probe (docs/decisions/0009). In that thread `acceptor` accepts
connections and `web_app` responds; this module starts and stops both.

The resources that an unauthenticated client can use are limited: the number of connections in total
and of one address, from the moment they are accepted; the rate of handshakes and requests; the time
for a handshake, for a request, and for reading the response; the length of lines and headers.
Bodies of requests are read for plans only, with a limit.
"""

import asyncio
import concurrent.futures
import contextlib
import functools
import logging
import resource
import socket
import threading
from collections.abc import Callable
from typing import Any, Final

from structlog.typing import FilteringBoundLogger

from scheduler.model.times import Seconds
from scheduler.observe.pages.routes import Routes
from scheduler.observe.server.acceptor import Acceptor
from scheduler.observe.server.access import Authorize, deny_all
from scheduler.observe.server.client_certificates import ClientAuthority, TlsContexts
from scheduler.observe.server.connections import ConnectionTable, bounded
from scheduler.observe.server.listen import Listen, listening
from scheduler.observe.server.page_runner import PageRunner
from scheduler.observe.server.tls import Certificate, CertificateFiles, SelfSigned, validity
from scheduler.observe.server.web_app import WebApp

__all__ = ["Web"]

#: The logger of aiohttp, for errors in requests.
_REQUESTS: Final = logging.getLogger(__name__)

#: How long `stop` waits for the end of the thread.
_END_SECONDS: Final = 5.0


class Web:
    """The web server of one process. Made and called in the scheduler's loop."""

    def __init__(
        self,
        pages: Routes,
        log: FilteringBoundLogger,
        authorize: Authorize = deny_all,
    ) -> None:
        #: The CA of client certificates; unknown at first.
        self.clients: Final = ClientAuthority()
        self._pages = pages
        self._log = log
        self._authorize = authorize
        self._socket: socket.socket | None = None
        self._thread: _Thread | None = None
        self._certificate: Certificate | None = None

    @property
    def port(self) -> int:
        """The port that the server listens on, 0 if it does not listen."""
        return 0 if self._socket is None else int(self._socket.getsockname()[1])

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return 0 if self._thread is None else len(self._thread.table)

    def certificate_validity(self) -> tuple[Seconds, Seconds] | None:
        """Return from when to when the certificate is valid; `None` if nothing is served with TLS.

        Both are seconds since the epoch.
        """
        return None if self._certificate is None else validity(self._certificate.pem)

    async def start(
        self, listen: Listen, wall: Callable[[], Seconds], bound: socket.socket | None = None
    ) -> None:
        """Serve until `close`.

        Args:
            listen: Address and options; nothing happens if its port is 0 and no socket is given.
            wall: Returns the time of day, for the self-signed certificate.
            bound: A socket to serve on instead of the address and port.

        Raises:
            OSError: The port is taken, or a certificate cannot be used.
        """
        if listen.port == 0 and bound is None:
            return
        certificate = self._certificate = None if listen.plain else _certificate(listen, wall())
        self._socket = bound or listening(listen.address, listen.port)
        self._socket.setblocking(False)
        self._thread = _Thread(self._socket, self._pages, self._authorize, listen, self._log)
        await self._thread.start(certificate, wall, self.clients)

    async def ended(self) -> None:
        """Return when the server has ended; at once if it was never started.

        Raises:
            Exception: The error that ended it, if it was not `close`.
        """
        if self._thread is not None:
            await self._thread.wait()

    async def close(self) -> None:
        """Stop listening and close all connections."""
        if self._thread is not None:
            await self._thread.stop()
        if self._socket is not None:
            self._socket.close()
        self._socket = self._thread = None


class _Thread:
    """The serving thread. Made and called in the scheduler's loop."""

    def __init__(
        self,
        listener: socket.socket,
        pages: Routes,
        authorize: Authorize,
        listen: Listen,
        log: FilteringBoundLogger,
    ) -> None:
        self._listener = listener
        self._pages = pages
        self._authorize = authorize
        self._listen = listen
        self._log = log
        self._home = PageRunner()
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.table = ConnectionTable(bounded(listen.limits.connections, descriptors))
        #: Stops the server when it is called in the thread's loop; set once that runs.
        self._stop: Callable[[], object] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._ended: concurrent.futures.Future[None] = concurrent.futures.Future()

    async def start(
        self,
        certificate: Certificate | None,
        wall: Callable[[], Seconds],
        clients: ClientAuthority,
    ) -> None:
        """Start the thread and wait until it serves."""
        threading.Thread(
            target=self._run, args=(certificate, wall, clients), name="serving", daemon=True
        ).start()
        await asyncio.wrap_future(self._ready)

    async def wait(self) -> None:
        """Return when it has ended; raise the error that ended it."""
        await asyncio.shield(asyncio.wrap_future(self._ended))

    async def stop(self) -> None:
        """Stop serving, and wait a little for the end."""
        if self._loop is not None and self._stop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed already
                self._loop.call_soon_threadsafe(self._stop)
        with contextlib.suppress(Exception):  # `ended` raises it
            async with asyncio.timeout(_END_SECONDS):
                await self.wait()

    # The methods below run in the serving thread

    def _run(
        self,
        certificate: Certificate | None,
        wall: Callable[[], Seconds],
        clients: ClientAuthority,
    ) -> None:
        try:
            with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
                runner.run(self._serve(certificate, wall, clients))
        except BaseException as error:  # noqa: BLE001 - it is passed to the scheduler's loop
            _complete(self._ready, error)
            _complete(self._ended, error)
        else:
            _complete(self._ended)

    async def _serve(
        self,
        certificate: Certificate | None,
        wall: Callable[[], Seconds],
        clients: ClientAuthority,
    ) -> None:
        """Serve until stopped."""
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._defect)
        stopping = asyncio.Event()
        self._stop = stopping.set
        site = WebApp(self._pages, self._authorize, self._listen, self._home, _REQUESTS)
        await site.setup()
        contexts = (
            None
            if certificate is None
            else TlsContexts(certificate, clients, wall, self._not_asking)
        )
        acceptor = Acceptor(self._listener, site, contexts, self.table, self._listen.limits)
        tasks = [asyncio.create_task(acceptor.run()), asyncio.create_task(stopping.wait())]
        if certificate is not None:
            tasks.append(asyncio.create_task(self._renew(certificate, wall)))
        _complete(self._ready)
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await site.cleanup()

    async def _renew(self, certificate: Certificate, wall: Callable[[], Seconds]) -> None:
        while True:
            await asyncio.sleep(self._listen.refresh_seconds)
            try:
                if certificate.refresh(wall()):
                    self._home.call_soon(self._log.info, "certificate_reloaded")
            except OSError as error:
                log = functools.partial(
                    self._log.warning, file=self._listen.cert_file, problem=str(error)
                )
                self._home.call_soon(log, "certificate_not_reloaded")

    def _not_asking(self, problem: str) -> None:
        """Log that client certificates are not asked for."""
        log = functools.partial(self._log.warning, problem=problem)
        self._home.call_soon(log, "client_certificates_not_used")

    def _defect(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log an error that no task has caught; the server continues."""
        log = functools.partial(
            self._log.error, problem=context.get("message"), exc_info=context.get("exception")
        )
        self._home.call_soon(log, "serving_failed")


def _certificate(listen: Listen, now: Seconds) -> Certificate:
    if listen.cert_file:
        return CertificateFiles(
            listen.cert_file, listen.key_file, listen.min_version, listen.ciphers
        )
    names = dict.fromkeys((socket.gethostname(), "localhost", "127.0.0.1", listen.address))
    return SelfSigned(tuple(names), now, listen.min_version, listen.ciphers)


def _complete(
    future: "concurrent.futures.Future[None]", error: BaseException | None = None
) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
