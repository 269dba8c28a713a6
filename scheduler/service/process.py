"""The live scheduler: start, and graceful shutdown. `composition` creates its parts.

Start: begin to list, serve health pages, sync all caches, become leader, then decide. Only the
modules that the first requests need are imported before these are sent. A replica that stood by
first lists again what leaders write. Stop, on SIGTERM or SIGINT: begin no further decision, let
requests end, release the lease, exit 0. A lost lease ends the process at once with exit code 1, so
that it cannot interfere with the new leader.
"""

import asyncio
import contextlib
import gc
import os
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import uvloop

from scheduler.config.field_errors import ConfigError
from scheduler.core.machine import Machine
from scheduler.kube.auth import cluster_access
from scheduler.kube.client.client import Client
from scheduler.kube.client.transport import HttpTransport
from scheduler.kube.errors import ConnectionSettingsError
from scheduler.kube.http.server_time import ServerTime
from scheduler.kube.watch.cache_comparer import METADATA_ONLY
from scheduler.observe.logs.logs import Logs
from scheduler.service import recording, serving, signals
from scheduler.service.clock import Clock
from scheduler.service.composition import USER_AGENT, Composition, ProcessResources, new_sleeper
from scheduler.service.options import ProcessOptions
from scheduler.service.recording import Recording
from scheduler.service.release_finder import ReleaseFinder

__all__ = ["serve"]

#: How long requests may take to end when the process stops.
DRAIN_SECONDS: Final = 8.0

#: The resources that a leader writes and decides by.
WRITTEN: Final = frozenset(
    {"pods", "persistentvolumes", "persistentvolumeclaims", "resourceclaims"}
)
#: How long a new leader waits until they are listed again.
LIST_AGAIN_SECONDS: Final = 10.0

GOOD, LOST_LEASE, UNUSABLE = 0, 1, 2
#: The API server turned out to be of another release before anything was decided.
_OTHER_RELEASE: Final = -1
_OTHER: Final = "api_server_of_other_release"


def serve(options: ProcessOptions, clock: Clock | None = None) -> int:
    """Run until stopped; return the exit code.

    Args:
        options: What to run.
        clock: The source of time; `None` for the clock of this host.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(options, clock or Clock()))


async def _serve(options: ProcessOptions, clock: Clock) -> int:
    logs = Logs(sys.stderr.buffer, clock.wall, options.logging_format, options.verbosity)
    logs.install()
    try:
        where = cluster_access.load(
            options.kubeconfig or options.settings.client_connection.kubeconfig or None,
            os.environ,
            wall=clock.wall,
        )
    except ConnectionSettingsError as error:
        logs.logger.error("cannot_connect", problem=str(error))  # noqa: TRY400 - no defect
        logs.close()
        return UNUSABLE
    for name in cluster_access.unused_proxies(where, os.environ):
        logs.logger.warning("proxy_not_used", variable=name)
    server_time = ServerTime(clock.now)
    try:
        async with (
            HttpTransport(where, USER_AGENT, server_time=server_time) as transport,
            HttpTransport(where, USER_AGENT, server_time=server_time) as renewals,
            HttpTransport(where, USER_AGENT, METADATA_ONLY, server_time) as metadata,
        ):
            finder = ReleaseFinder(Client(transport), new_sleeper(), clock.elapsed, logs.logger)
            async with _recording(options, clock, logs) as kept:
                shared = ProcessResources(
                    clock, logs, transport, renewals, metadata, where, kept, finder
                )
                code = await _run(options, shared, server_time)
                while code == _OTHER_RELEASE:
                    code = await _run(options, shared, server_time)
                return code
    except (OSError, ConfigError, ConnectionSettingsError) as error:
        logs.logger.error("cannot_start", problem=str(error))  # noqa: TRY400 - no defect
        return UNUSABLE
    finally:
        logs.close()


async def _run(options: ProcessOptions, shared: ProcessResources, server_time: ServerTime) -> int:
    """Run with the rules of the release that counts; return the exit code.

    Returns:
        `_OTHER_RELEASE` where the API server did not answer at the start and is of another release:
        then nothing was decided, and all parts are to be composed again.
    """
    reference = await shared.release.choose(options.settings)
    options = options.decided_as(reference)
    if shared.recording is not None:
        shared.recording.begin(options.settings, evict_only=options.evict_only)
    parts = Composition(options, shared)
    server_time.report_to(parts.clock_ahead)
    return await _Scheduler(parts).run()


@contextlib.asynccontextmanager
async def _recording(
    options: ProcessOptions, clock: Clock, logs: Logs
) -> AsyncIterator[Recording | None]:
    """Record until the end of the context."""
    found = recording.start(options, clock, logs.logger)
    try:
        yield found
    finally:
        if found is not None:
            await asyncio.to_thread(found.recorder.stop)


class _Scheduler:
    """Starts the parts of one process, runs them, and stops them."""

    def __init__(self, parts: Composition) -> None:
        self._parts = parts
        self._options, self._log = parts.options, parts.log
        self._loop, self._writer, self._serving = parts.loop, parts.writer, parts.serving
        self._elector = parts.elector
        self._releases = parts.release_watch()
        #: Set when etcd turns out to be restored: what informers know is of different times.
        self._replaced = asyncio.Event()
        for informer in parts.informers:
            informer.on_replaced = self._replaced.set

    async def run(self) -> int:
        """Run until stopped; return the exit code."""
        loop = asyncio.get_running_loop()
        for number in signals.STOPPING:
            loop.add_signal_handler(number, self._signalled)
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._parts.extenders)
            tasks = [asyncio.create_task(informer.run()) for informer in self._parts.informers]
            tasks.append(asyncio.create_task(self._parts.policies.run()))
            tasks.append(asyncio.create_task(self._parts.keep_ledger()))
            tasks.append(asyncio.create_task(self._loop.run()))
            if self._options.compare_seconds > 0:
                tasks.append(asyncio.create_task(self._parts.comparer.run()))
            if self._releases is not None:
                tasks.append(asyncio.create_task(self._releases.run()))
            stack.push_async_callback(_cancel, tasks)
            tasks.append(asyncio.create_task(self._serving.pulse.keep()))
            web = await serving.web(self._serving.pages, self._log, self._parts.authorizer)
            stack.push_async_callback(web.close)
            try:
                await web.start(self._options.listen, self._parts.clock.wall)
            except OSError as error:
                self._log.error("cannot_serve", problem=str(error))
                return UNUSABLE
            self._log.info("serving", port=web.port)
            self._parts.served(web.certificate_validity)
            if web.port:
                tasks.append(asyncio.create_task(web.ended()))
                client_ca = self._parts.client_ca(web.clients.set)
                if client_ca is not None:
                    tasks.append(asyncio.create_task(client_ca.run()))
            leading = asyncio.create_task(self._lead())
            stack.push_async_callback(_cancel, [leading])
            return await self._until_stopped(tasks, leading)

    async def _until_stopped(
        self, tasks: list[asyncio.Task[None]], leading: asyncio.Task[str]
    ) -> int:
        """Wait for a signal, the loss of the lease, or a defect; then stop gracefully."""
        stopping = asyncio.create_task(self._parts.stopping.wait())
        ended, _ = await asyncio.wait(
            [stopping, leading, *tasks], return_when=asyncio.FIRST_COMPLETED
        )
        stopping.cancel()
        self._loop.stop_deciding()
        for task in ended - {stopping, leading}:
            # None of these ends by itself: its exception is a defect, and is raised with its trace.
            # Our state may be wrong by now, so nothing more is written.
            self._log.error("defect", problem=repr(task.exception()))
            await self._writer.drain(0.0)
            task.result()
        if leading in ended and leading.result() == _OTHER:
            self._log.warning(_OTHER)
            await self._writer.drain(0.0)
            return _OTHER_RELEASE
        if leading in ended:
            self._log.error(
                leading.result(), problem=self._elector.problem if self._elector else ""
            )
            await self._writer.drain(0.0)
            return LOST_LEASE
        self._log.info("stopping")
        await self._writer.drain(DRAIN_SECONDS)
        await self._parts.leave_ledger()
        await self._parts.leave_history()
        await _cancel([leading])
        if self._elector is not None:
            await self._elector.release()
        self._log.info("stopped")
        return GOOD

    def _signalled(self) -> None:
        """Stop gracefully; at the second signal, at once.

        Source: apiserver v1.36.3 pkg/server/signal.go SetupSignalContext.
        """
        if self._parts.stopping.is_set():
            self._log.warning("stopped_at_once")
            self._parts.flush()
            os._exit(LOST_LEASE)
        self._parts.stopping.set()

    async def _lead(self) -> str:
        """Become the leader and decide; return why the process must end."""
        for informer in self._parts.informers:
            await informer.synced.wait()
        await self._parts.policies.synced.wait()
        if await self._parts.release.differs(self._parts.machine.reference):
            return _OTHER
        self._log.info("caches_synced", **sizes(self._parts.machine))
        # The listed objects stay: each full collection would scan them again, which takes some
        # 70 ms with 5,000 nodes and 15,000 pods.
        gc.collect()
        gc.freeze()
        if self._elector is None:
            await self._decide(asyncio.create_task(asyncio.Event().wait()))
            return "lease_lost"
        stood_by = await self._elector.acquire()
        self._serving.leads = True
        self._log.info("became_leader", lease=self._options.settings.leader_election.resource_name)
        if self._releases is not None:
            self._releases.look_soon()
        await self._decide(asyncio.create_task(self._elector.keep_renewing()), stood_by=stood_by)
        return "lease_lost"

    async def _decide(self, holding: asyncio.Task[Any], *, stood_by: bool = False) -> None:
        """Load what earlier leaders have written, then decide as long as we lead."""
        loading = asyncio.create_task(self._load(stood_by))
        listing = asyncio.create_task(self._list_replaced(loading))
        keeping = asyncio.create_task(self._parts.keep_history())
        try:
            ended, _ = await asyncio.wait({loading, holding}, return_when=asyncio.FIRST_COMPLETED)
            if loading in ended:
                self._parts.load_ledger(loading.result())
                self._loop.start_deciding()
                await holding
        finally:
            await _cancel([loading, listing, keeping, holding])

    async def _list_replaced(self, loading: asyncio.Task[str]) -> None:
        """Whenever etcd turns out to be restored, list everything again before deciding on.

        Each resource is listed at another moment. Until all were, a pod that was created after the
        restore could be bound to a node that was created before it, and that does not exist.
        """
        await asyncio.wait({loading})
        replaced, parts = self._replaced, self._parts
        while await replaced.wait():
            self._loop.stop_deciding()
            replaced.clear()  # what is found out from here on may be another restore
            lists = (informer.list_again() for informer in parts.informers)
            await asyncio.gather(parts.policies.list_again(), *lists)
            if not (replaced.is_set() or parts.stopping.is_set()):
                self._loop.start_deciding()

    async def _load(self, stood_by: bool) -> str:
        """Learn what earlier leaders have written last; return their ledger.

        The watches of a replica that stood by may lag behind the last bindings of the former
        leader, so it would use a node twice. One that leads at once has listed right before.
        Without the newest policies nothing is decided: one of them may stop all preemption.
        """
        if stood_by:
            await self._parts.policies.list_again()
            written = [each for each in self._parts.informers if each.resource.name in WRITTEN]
            try:
                async with asyncio.timeout(LIST_AGAIN_SECONDS):
                    await asyncio.gather(*(informer.list_again() for informer in written))
            except TimeoutError:
                self._log.warning("not_listed_again")
        return await self._parts.read_ledger()


def sizes(machine: Machine) -> dict[str, int]:
    """Return the sizes of the caches."""
    numbers = machine.sizes()
    return {"nodes": numbers.nodes, "pods": numbers.pods, "pending": sum(numbers.queue.values())}


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
