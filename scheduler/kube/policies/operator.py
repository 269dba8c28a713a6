"""Watches policies with kopf, and writes what their status should say.

kopf runs in a thread of its own, with an event loop and HTTP connections of its own: nothing that
it does keeps a decision waiting. What it sees is read there, and handed to the scheduler's loop as
a frozen value. This module is imported when it is needed, and kopf in the thread: that takes half a
second and 25 MiB, which a cluster without policies is spared.

Every replica watches. kopf puts nothing on the objects: neither finalizers nor annotations, which
replicas would contend for. Only the status is written, by the one that leads.
"""

import asyncio
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
    judge,
    version,
)
from scheduler.kube.policies.status_writer import ANSWER_SECONDS, PolicyWriter, said
from scheduler.model.times import Seconds

__all__ = ["Hearer", "PolicyOperator"]

#: As the informers: the server is asked to end a watch after that long, because there may be no
#: bookmark before; without a byte for longer than that the connection is dead.
WATCH_SECONDS: Final = 60
SILENCE_SECONDS: Final = 100.0


class Hearer(Protocol):
    """Hears of what happens; always in the scheduler's event loop."""

    def watched(self) -> None:
        """Hear that a watch was opened; what happened before it may have been missed."""

    def observed(self, judged: ParsedPolicy) -> None:
        """Hear that a policy exists in this state."""

    def gone(self, name: str, uid: str, at: int) -> None:
        """Hear that a policy was deleted."""

    def wrote(self, name: str, uid: str, status: Json, at: int) -> None:
        """Hear that a status was written."""

    def not_written(self, name: str, problem: str) -> None:
        """Hear that a status could not be written."""

    def settled(self, operator: "PolicyOperator") -> None:
        """Hear that all statuses that were to be written have been, or cannot be."""

    def may_write(self) -> bool:
        """Return whether this process leads at this moment."""

    def ended(self, operator: "PolicyOperator", problem: str) -> None:
        """Hear that nothing is watched any more."""


class PolicyOperator:
    """kopf in its thread; made and called in the scheduler's event loop."""

    def __init__(
        self,
        where: ClusterAccess,
        user_agent: str,
        wall: Callable[[], Seconds],
        hearer: Hearer,
    ) -> None:
        self._where = where
        self._wall = wall
        self._user_agent = user_agent
        self._hearer = hearer
        self._home = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="policies", daemon=True)
        #: Set once the thread has an event loop; what is called before waits for nothing.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._asked = asyncio.Event()
        self._wanted: dict[str, Due] = {}
        self._stopped = False

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def write(self, statuses: Mapping[str, Due]) -> bool:
        """Write the statuses of policies, by name; false where the thread is not ready for it."""
        return self._there(lambda: self._want(dict(statuses)))

    async def close(self, patience_seconds: float) -> None:
        """Stop watching, and wait a little for the end."""
        self._stopped = True
        self._there(self._stop.set)
        await asyncio.to_thread(self._thread.join, patience_seconds)

    def _there(self, call: Callable[[], object]) -> bool:
        """Have something called in the thread's loop; whether that is running."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it is closed by now
                self._loop.call_soon_threadsafe(call)
                return True
        return False

    # From here on in the thread

    def _here(self, call: Callable[..., None], *arguments: object) -> None:
        """Have something called in the scheduler's loop."""
        with contextlib.suppress(RuntimeError):  # the process ends
            self._home.call_soon_threadsafe(call, *arguments)

    def _want(self, statuses: dict[str, Due]) -> None:
        self._wanted = statuses
        self._asked.set()

    def _run(self) -> None:
        relay = _Relay(self._here)
        logger = logging.getLogger("kopf")
        logger.addHandler(relay)
        logger.propagate = False
        problem = "it ended"
        try:
            with asyncio.Runner() as runner:
                runner.run(self._serve())
        except Exception as error:  # noqa: BLE001 - whatever kopf ends with, it is started again
            problem = said(error)
        finally:
            logger.removeHandler(relay)
            self._here(self._hearer.ended, self, problem)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._stopped:
            return
        async with aiohttp.ClientSession(
            # True has the certificate checked against the system's authorities.
            connector=aiohttp.TCPConnector(
                ssl=True if self._where.tls is None else self._where.tls
            ),
            headers={"User-Agent": self._user_agent},
            middlewares=(_Authenticated(self._where), self._listen),
        ) as session:
            writing = asyncio.create_task(self._write(session))
            try:
                await self._watch(session)
            finally:
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)

    async def _listen(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Notice each watch that the server opens; kopf itself does not tell of it."""
        response = await handler(request)
        if "watch" in request.url.query and response.status == 200:
            self._here(self._hearer.watched)
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
        """Read what happened to a policy and hand it over; at first, each one as it is."""
        if event["type"] == "DELETED":
            metadata = event["object"]["metadata"]
            gone = (str(metadata["name"]), str(metadata["uid"]), version(metadata))
            self._here(self._hearer.gone, *gone)
        else:
            self._here(self._hearer.observed, judge(event["object"]))

    async def _write(self, session: aiohttp.ClientSession) -> None:
        writer = PolicyWriter(self._where, session, self._may_write, self._wall, self)
        while True:
            await self._asked.wait()
            self._asked.clear()
            wanted, self._wanted = self._wanted, {}
            for name, due in wanted.items():
                await writer.write(name, due)
            self._here(self._hearer.settled, self)

    async def _may_write(self) -> bool:
        """Ask in the scheduler's loop, which owns the lease, whether this process leads."""

        async def ask() -> bool:
            return self._hearer.may_write()

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(ask(), self._home))

    def wrote(self, name: str, uid: str, status: Json, at: int) -> None:
        """Hand over that a status was written."""
        self._here(self._hearer.wrote, name, uid, status, at)

    def not_written(self, name: str, problem: str) -> None:
        """Hand over that a status could not be written."""
        self._here(self._hearer.not_written, name, problem)


class _Authenticated:
    """Puts our credentials on each request, always fresh, as the scheduler's own transport does."""

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
        if response.status == 401 and self._credentials.refused():
            response.close()
            request.headers.update(await self._credentials.headers())
            response = await handler(request)
        return response


def _settings(kopf: Any) -> Any:
    """Return how kopf behaves: it watches, and touches nothing."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True  # our own probe looks whether the definition is there
    settings.process.ultimate_exiting_timeout = None  # never kill the process
    settings.peering.standalone = True
    settings.queueing.idle_timeout = 1.0  # of what waits for each policy's next change
    settings.watching.server_timeout = WATCH_SECONDS
    settings.watching.inactivity_timeout = SILENCE_SECONDS
    settings.watching.connect_timeout = ANSWER_SECONDS
    settings.watching.reconnect_backoff = 1.0
    settings.networking.request_timeout = 3 * ANSWER_SECONDS
    settings.networking.connect_timeout = ANSWER_SECONDS
    settings.networking.error_backoffs = (1.0,)
    return settings


class _Relay(logging.Handler):
    """Hands what kopf says to the scheduler's loop, where the log is.

    Everything that matters is told when kopf ends, or to the hearer, so its own warnings and
    errors, one for each request that it tries again, are no more than information.
    """

    def __init__(self, here: Callable[..., None]) -> None:
        super().__init__()
        self._tell = here

    def emit(self, record: logging.LogRecord) -> None:
        """Hand a record over."""
        level = logging.INFO if record.levelno >= logging.WARNING else logging.DEBUG
        with contextlib.suppress(TypeError, ValueError):  # arguments that do not suit the format
            self._tell(_RELAYED.log, level, "%s", record.getMessage())


_RELAYED: Final = logging.getLogger("relayed.kopf")

#: kopf would ask for the name of the user that we are, and in an image that user has none. It is
#: for operators that know each other; this one stands alone.
_IDENTITY: Final[Any] = "preemptive-scheduler"
