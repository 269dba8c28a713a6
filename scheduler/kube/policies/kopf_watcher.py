"""Watches policies with kopf, and writes their statuses.

kopf runs in a thread of its own, with an event loop and HTTP connections of its own: nothing that
it does delays a decision. Objects are parsed there, and passed to the scheduler's loop as frozen
values. This module is imported when it is needed, and kopf in the thread: that takes half a second
and 25 MiB, which a cluster without policies does not pay.

Every replica watches. kopf writes nothing to the objects: neither finalizers nor annotations, for
which replicas would compete. Only the leader writes the status.
"""

import asyncio
import concurrent.futures
import contextlib
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import aiohttp

from scheduler.kube.auth.cluster_access import ClusterAccess
from scheduler.kube.auth.credentials import Credentials
from scheduler.kube.policies.registry import (
    GROUP,
    RESOURCE,
    VERSION,
    Due,
    Json,
    ParsedPolicy,
    parse_policy,
    version,
)
from scheduler.kube.policies.status_writer import ANSWER_SECONDS, PolicyWriter, error_text
from scheduler.model.times import Seconds

__all__ = ["PolicyListener", "PolicyWatcher"]

#: As in the informers: the server is asked to end a watch after that long, because there may be no
#: bookmark before; a connection without a byte for longer than that is dead.
WATCH_SECONDS: Final = 60
SILENCE_SECONDS: Final = 100.0


class PolicyListener(Protocol):
    """Gets the events of the watcher; always called in the scheduler's event loop."""

    def watched(self) -> None:
        """Handle the start of a watch; earlier changes may have been missed."""

    def observed(self, parsed: ParsedPolicy) -> None:
        """Handle the state of a policy."""

    def gone(self, name: str, uid: str, at: int) -> None:
        """Handle the deletion of a policy."""

    def wrote(self, name: str, uid: str, status: Json, at: int) -> None:
        """Record that a status was written."""

    def not_written(self, name: str, problem: str) -> None:
        """Record that a status could not be written."""

    def statuses_written(self, watcher: "PolicyWatcher") -> None:
        """Record that all requested statuses were written, or could not be."""

    def may_write(self) -> bool:
        """Return whether this process leads now."""

    def ended(self, watcher: "PolicyWatcher", problem: str) -> None:
        """Handle the end of kopf: policies are not watched any more."""


class PolicyWatcher:
    """kopf in its thread; made and called in the scheduler's event loop."""

    def __init__(
        self,
        where: ClusterAccess,
        user_agent: str,
        wall: Callable[[], Seconds],
        listener: PolicyListener,
    ) -> None:
        self._where = where
        self._wall = wall
        self._user_agent = user_agent
        self._listener = listener
        self._home = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="policies", daemon=True)
        #: Set once the thread has an event loop; calls before that have no effect.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._requested = asyncio.Event()
        self._wanted: dict[str, Due] = {}
        self._stopped = False

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def write(self, statuses: Mapping[str, Due]) -> bool:
        """Write the statuses of policies, by name; return false if the thread is not ready."""
        return self._call_in_thread(lambda: self._request(dict(statuses)))

    async def close(self, patience_seconds: float) -> None:
        """Stop watching, and wait for the thread for at most so many seconds."""
        self._stopped = True
        self._call_in_thread(self._stop.set)
        await asyncio.to_thread(self._thread.join, patience_seconds)

    def _call_in_thread(self, call: Callable[[], object]) -> bool:
        """Call something in the thread's loop; return whether that loop is running."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it is closed by now
                self._loop.call_soon_threadsafe(call)
                return True
        return False

    # Everything below runs in the thread

    def _call_home(self, call: Callable[..., None], *arguments: object) -> None:
        """Call something in the scheduler's loop."""
        with contextlib.suppress(RuntimeError):  # the process ends
            self._home.call_soon_threadsafe(call, *arguments)

    def _request(self, statuses: dict[str, Due]) -> None:
        self._wanted = statuses
        self._requested.set()

    def _run(self) -> None:
        relay = _Relay(self._call_home)
        logger = logging.getLogger("kopf")
        logger.addHandler(relay)
        logger.propagate = False
        problem = "it ended"
        try:
            with asyncio.Runner() as runner:
                runner.run(self._serve())
        except Exception as error:  # noqa: BLE001 - kopf is started again after any error
            problem = error_text(error)
        finally:
            logger.removeHandler(relay)
            self._call_home(self._listener.ended, self, problem)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._stopped:
            return
        async with aiohttp.ClientSession(
            # True checks the certificate against the system's authorities.
            connector=aiohttp.TCPConnector(
                ssl=True if self._where.tls is None else self._where.tls
            ),
            headers={"User-Agent": self._user_agent},
            middlewares=(_Authenticated(self._where), self._detect_watch),
        ) as session:
            writing = asyncio.create_task(self._write(session))
            try:
                await self._watch(session)
            finally:
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)

    async def _detect_watch(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Report each watch that the server opens; kopf itself does not."""
        response = await handler(request)
        if "watch" in request.url.query and response.status == 200:
            self._call_home(self._listener.watched)
        return response

    async def _watch(self, session: aiohttp.ClientSession) -> None:
        import kopf  # noqa: PLC0415 - half a second and 25 MiB, only where there are policies

        registry = kopf.OperatorRegistry()

        @kopf.on.login(registry=registry)
        async def log_in(**_: Any) -> kopf.AiohttpSession:
            return kopf.AiohttpSession(server=self._where.server, aiohttp_session=session)

        @kopf.on.event(GROUP, VERSION, RESOURCE, registry=registry)
        async def changed(event: Mapping[str, Any], **_: Any) -> None:
            self._changed(event)

        await kopf.operator(
            registry=registry,
            settings=_settings(kopf),
            clusterwide=True,
            standalone=True,
            identity=_IDENTITY,
            stop_flag=self._stop,
        )

    def _changed(self, event: Mapping[str, Any]) -> None:
        """Parse a change and pass it on; the first ones are the existing policies."""
        if event["type"] == "DELETED":
            metadata = event["object"]["metadata"]
            gone = (str(metadata["name"]), str(metadata["uid"]), version(metadata))
            self._call_home(self._listener.gone, *gone)
        else:
            self._call_home(self._listener.observed, parse_policy(event["object"]))

    async def _write(self, session: aiohttp.ClientSession) -> None:
        writer = PolicyWriter(self._where, session, self._may_write, self._wall, self)
        while True:
            await self._requested.wait()
            self._requested.clear()
            wanted, self._wanted = self._wanted, {}
            for name, due in wanted.items():
                await writer.write(name, due)
            self._call_home(self._listener.statuses_written, self)

    async def _may_write(self) -> bool:
        """Return whether this process leads, from the scheduler's loop, which owns the lease.

        Once that loop is closed, it does not lead any more.
        """
        answer: concurrent.futures.Future[bool] = concurrent.futures.Future()

        def ask() -> None:
            if answer.set_running_or_notify_cancel():
                answer.set_result(self._listener.may_write())

        try:
            self._home.call_soon_threadsafe(ask)
        except RuntimeError:
            return False
        return await asyncio.wrap_future(answer)

    def wrote(self, name: str, uid: str, status: Json, at: int) -> None:
        """Report that a status was written."""
        self._call_home(self._listener.wrote, name, uid, status, at)

    def not_written(self, name: str, problem: str) -> None:
        """Report that a status could not be written."""
        self._call_home(self._listener.not_written, name, problem)


class _Authenticated:
    """Adds current credentials to each request, as the scheduler's own transport does."""

    def __init__(self, where: ClusterAccess) -> None:
        self._credentials: Credentials = where.credentials
        self._server_name = where.tls_server_name

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        if self._server_name is not None:
            request.server_hostname = self._server_name
        request.headers.update(await self._credentials.headers())
        response = await handler(request)
        if response.status == 401 and self._credentials.on_unauthorized():
            response.close()
            request.headers.update(await self._credentials.headers())
            response = await handler(request)
        return response


def _settings(kopf: Any) -> Any:
    """Return the settings of kopf: it watches, and writes nothing."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True  # the policy informer checks whether the CRD exists
    settings.process.ultimate_exiting_timeout = None  # never kill the process
    settings.peering.standalone = True
    settings.queueing.idle_timeout = 1.0  # of the queue for each policy's next change
    settings.watching.server_timeout = WATCH_SECONDS
    settings.watching.inactivity_timeout = SILENCE_SECONDS
    settings.watching.connect_timeout = ANSWER_SECONDS
    settings.watching.reconnect_backoff = 1.0
    settings.networking.request_timeout = 3 * ANSWER_SECONDS
    settings.networking.connect_timeout = ANSWER_SECONDS
    settings.networking.error_backoffs = (1.0,)
    return settings


class _Relay(logging.Handler):
    """Passes kopf's log records to the scheduler's loop, which owns the log.

    Important problems are reported when kopf ends, or to the listener. So kopf's own warnings and
    errors, one for each request that it retries, are logged as information.
    """

    def __init__(self, call_home: Callable[..., None]) -> None:
        super().__init__()
        self._call_home = call_home

    def emit(self, record: logging.LogRecord) -> None:
        """Pass a record on."""
        level = logging.INFO if record.levelno >= logging.WARNING else logging.DEBUG
        with contextlib.suppress(TypeError, ValueError):  # arguments that do not suit the format
            self._call_home(_RELAYED.log, level, "%s", record.getMessage())


_RELAYED: Final = logging.getLogger("relayed.kopf")

#: kopf would look up the name of our user, and in an image the user has none. The identity is for
#: operators that are peers of each other; this one is standalone.
_IDENTITY: Final[Any] = "preemptive-scheduler"
