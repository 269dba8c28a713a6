"""The live scheduler: wiring, start, and graceful shutdown.

Start: begin to list, serve health pages, sync all caches, become leader, then decide. Only the
modules that the first requests need are imported before these are sent. Stop, on SIGTERM or SIGINT:
begin no further decision, let requests end, release the lease, exit 0. A lost lease ends the
process at once with exit code 1, so that it cannot interfere with the new leader.
"""

import asyncio
import contextlib
import functools
import gc
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import uvloop
from prometheus_client import CollectorRegistry

from scheduler.config.field_errors import ConfigError
from scheduler.core.machine import Machine
from scheduler.framework.extender_protocol import whole_nodes
from scheduler.kube.auth import cluster_access
from scheduler.kube.client.backoff import Sleeper
from scheduler.kube.client.client import Client
from scheduler.kube.client.transport import HttpTransport
from scheduler.kube.errors import ConnectionSettingsError
from scheduler.kube.extenders import Extenders
from scheduler.kube.http.server_time import ServerTime
from scheduler.kube.policies.policy_informer import PolicyInformer, PolicySettings
from scheduler.kube.watch.cache_comparer import METADATA_ONLY, CacheComparer, ComparerSettings
from scheduler.kube.watch.informer import Informer
from scheduler.kube.watch.raw_objects import RawNodes, RawPods
from scheduler.kube.watch.resources import RESOURCES
from scheduler.kube.write.ledger_configmap import LedgerStore
from scheduler.kube.write.writer import Writer, WriterSettings
from scheduler.model.events import ClockAhead, Event, LedgerLoaded
from scheduler.model.times import Seconds
from scheduler.observe.capture import Capture
from scheduler.observe.logs.logs import Logs
from scheduler.observe.metrics.metrics import Metrics
from scheduler.plugins import registry
from scheduler.queue.backoff import PodBackoff
from scheduler.service import ages, election, page_access, serving, signals
from scheduler.service.clock import Clock
from scheduler.service.loop import Loop
from scheduler.service.options import ProcessOptions
from scheduler.service.release import ReleaseFinder
from scheduler.service.serving import Parts, Serving
from scheduler.service.telemetry import ApiTelemetry, Telemetry, provide, provide_leadership

__all__ = ["serve"]

USER_AGENT: Final = "preemptive-scheduler"

#: How long requests may take to end when the process stops.
DRAIN_SECONDS: Final = 8.0

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
            with _capture(options) as capture:
                finder = ReleaseFinder(Client(transport), _sleeper(), clock.elapsed, logs.logger)
                parts = _Surroundings(
                    clock, logs, transport, renewals, metadata, where, capture, finder
                )
                while (code := await _run(options, parts, server_time)) == _OTHER_RELEASE:
                    if capture is not None:
                        # A capture is about one release.
                        return LOST_LEASE
                return code
    except (OSError, ConfigError, ConnectionSettingsError) as error:
        logs.logger.error("cannot_start", problem=str(error))  # noqa: TRY400 - no defect
        return UNUSABLE
    finally:
        logs.close()


async def _run(
    options: ProcessOptions, surroundings: "_Surroundings", server_time: ServerTime
) -> int:
    """Run with the rules of the release that counts; return the exit code.

    Returns:
        `_OTHER_RELEASE` where the API server did not answer at the start and is of another release:
        then nothing was decided, and all parts are to be wired again.
    """
    reference = await surroundings.release.choose(options.settings)
    if surroundings.capture is not None:
        surroundings.capture.followed(reference)
    scheduler = _Scheduler(options.decided_as(reference), surroundings)
    server_time.report_to(scheduler.clock_ahead)
    return await scheduler.run()


@contextlib.contextmanager
def _capture(options: ProcessOptions) -> Iterator[Capture | None]:
    """Open the capture file, if there is one.

    Raises:
        OSError: It cannot be written.
    """
    if not options.capture:
        yield None
        return
    with Path(options.capture).open("wb") as file:
        yield Capture(file)


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """The parts of a process that exist before the scheduler is wired."""

    clock: Clock
    logs: Logs
    transport: HttpTransport
    #: Used by the lease only.
    renewals: HttpTransport
    #: Used by the comparer, which must not delay other requests.
    metadata: HttpTransport
    where: cluster_access.ClusterAccess
    capture: Capture | None
    release: ReleaseFinder


class _Scheduler:
    """All parts of one process, wired."""

    def __init__(self, options: ProcessOptions, surroundings: _Surroundings) -> None:
        settings, clock, logs = options.settings, surroundings.clock, surroundings.logs
        self._options, self._release, self._clock = options, surroundings.release, clock
        self._log, self._flush = logs.logger, logs.flush
        self._metrics = Metrics(CollectorRegistry())
        self._stopping = asyncio.Event()
        self._machine = Machine(
            registry.profiles(settings),
            PodBackoff(settings.pod_initial_backoff_seconds, settings.pod_max_backoff_seconds),
            evict_only=options.evict_only,
        )
        sleeper = _sleeper()
        api_telemetry = ApiTelemetry(self._metrics, logs, surroundings.where.host)
        client = Client(surroundings.transport, api_telemetry, election.limiter(options))
        # The lease must not wait behind bindings: its requests are never rate limited, and use a
        # connection of their own.
        self._lease = election.lease(
            options, Client(surroundings.renewals, api_telemetry), clock, sleeper
        )
        nodes = RawNodes()
        self._extenders = Extenders(settings.extenders, RawPods(client), nodes, api_telemetry)
        ledger = LedgerStore(*election.ledger_place(options), self._load_ledger)
        unlimited = Client(surroundings.transport, api_telemetry)
        self._read_ledger = functools.partial(ledger.load_with_retries, unlimited, sleeper)
        self._writer = Writer(
            client,
            self._outcome,
            self._may_write,
            clock.wall,
            sleeper,
            WriterSettings(
                host=os.uname().nodename,
                extenders=self._extenders,
                ledger=ledger,
                evict_only=options.evict_only,
                defect=self._defect,
                still_wanted=self._machine.is_still_planned,
            ),
        )
        self._loop = Loop(
            self._machine,
            self._writer.submit,
            clock,
            Telemetry(self._metrics, logs),
            surroundings.capture,
        )
        self._informers: list[Informer[Any]] = [
            Informer(resource, client, self._loop.observe, sleeper) for resource in RESOURCES
        ]
        self._policies = PolicyInformer(
            unlimited,
            self._loop.observe,
            sleeper,
            PolicySettings(
                where=surroundings.where,
                user_agent=USER_AGENT,
                may_write=self._may_write,
                figures=lambda: self._machine.policies.figures(clock.now()),
                wall=clock.wall,
            ),
        )
        self._comparer = CacheComparer(
            tuple(self._informers),
            Client(surroundings.metadata, api_telemetry),
            api_telemetry.compared,
            api_telemetry.not_compared,
            sleeper,
            ComparerSettings(period_seconds=options.compare_seconds),
        )
        # The complete nodes for extenders are watched beside the typed ones, under the same name.
        if any(map(whole_nodes, settings.extenders)):
            self._informers.append(Informer(nodes.resource, client, nodes.take, sleeper))
        api_telemetry.informers = self._informers
        # Reviews are not rate limited either: a scrape has seconds, not minutes.
        self._gate = page_access.page_authorizer(
            options, unlimited, api_telemetry.authorization_unavailable
        )
        self._serving = Serving(
            Parts(
                options=options,
                clock=clock,
                machine=self._machine,
                metrics=self._metrics,
                lease=self._lease,
                informers=self._informers,
                policies=self._policies,
                stopping=self._stopping,
            )
        )
        read = (self._informers, self._policies, self._writer, logs)
        provide(self._metrics, self._machine, *read)
        ages.provide(self._metrics, self._machine, clock.now)
        provide_leadership(self._metrics, self._lease, settings.leader_election.resource_name)

    async def run(self) -> int:
        """Run until stopped; return the exit code."""
        loop = asyncio.get_running_loop()
        for number in signals.STOPPING:
            loop.add_signal_handler(number, self._signalled)
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._extenders)
            tasks = [asyncio.create_task(informer.run()) for informer in self._informers]
            tasks.append(asyncio.create_task(self._policies.run()))
            tasks.append(asyncio.create_task(self._loop.run()))
            if self._options.compare_seconds > 0:
                tasks.append(asyncio.create_task(self._comparer.run()))
            stack.push_async_callback(_cancel, tasks)
            tasks.append(asyncio.create_task(self._serving.pulse.keep()))
            web = await serving.web(self._serving.pages, self._log, self._gate)
            stack.push_async_callback(web.close)
            try:
                await web.start(self._options.listen, self._clock.wall)
            except OSError as error:
                self._log.error("cannot_serve", problem=str(error))
                return UNUSABLE
            self._log.info("serving", port=web.port)
            if web.port:
                tasks.append(asyncio.create_task(web.ended()))
            leading = asyncio.create_task(self._lead())
            stack.push_async_callback(_cancel, [leading])
            return await self._until_stopped(tasks, leading)

    async def _until_stopped(
        self, tasks: list[asyncio.Task[None]], leading: asyncio.Task[str]
    ) -> int:
        """Wait for a signal, the loss of the lease, or a defect; then stop gracefully."""
        stopping = asyncio.create_task(self._stopping.wait())
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
            self._log.error(leading.result(), problem=self._lease.problem if self._lease else "")
            await self._writer.drain(0.0)
            return LOST_LEASE
        self._log.info("stopping")
        await self._writer.drain(DRAIN_SECONDS)
        await _cancel([leading])
        if self._lease is not None:
            await self._lease.release()
        self._log.info("stopped")
        return GOOD

    def _signalled(self) -> None:
        """Stop gracefully; at the second signal, at once.

        Source: apiserver v1.36.3 pkg/server/signal.go SetupSignalContext.
        """
        if self._stopping.is_set():
            self._log.warning("stopped_at_once")
            self._flush()
            os._exit(LOST_LEASE)
        self._stopping.set()

    async def _lead(self) -> str:
        """Become the leader and decide; return why the process must end."""
        for informer in self._informers:
            await informer.synced.wait()
        await self._policies.synced.wait()
        if await self._release.differs(self._machine.reference):
            return _OTHER
        self._log.info("caches_synced", **sizes(self._machine))
        # The listed objects stay: each full collection would scan them again, which takes some
        # 70 ms with 5,000 nodes and 15,000 pods.
        gc.collect()
        gc.freeze()
        if self._lease is None:
            await self._decide(asyncio.create_task(asyncio.Event().wait()))
            return "lease_lost"
        await self._lease.acquire()
        self._serving.leads = True
        self._log.info("became_leader", lease=self._options.settings.leader_election.resource_name)
        await self._decide(asyncio.create_task(self._lease.keep_renewing()))
        return "lease_lost"

    async def _decide(self, holding: asyncio.Task[Any]) -> None:
        """Load the ledger of earlier leaders, then decide as long as we lead."""
        loading = asyncio.create_task(self._read_ledger())
        try:
            ended, _ = await asyncio.wait({loading, holding}, return_when=asyncio.FIRST_COMPLETED)
            if loading in ended:
                self._load_ledger(loading.result())
                self._loop.start_deciding()
                await holding
        finally:
            await _cancel([loading, holding])

    def _load_ledger(self, text: str) -> None:
        if text:
            self._loop.observe((LedgerLoaded(text),))

    def clock_ahead(self, seconds: Seconds) -> None:
        """Record by how much the host's clock is ahead of the API server's."""
        self._log.info("clock_ahead_of_api_server", seconds=round(seconds, 3))
        self._loop.observe((ClockAhead(seconds),))

    def _outcome(self, event: Event) -> None:
        self._loop.outcome(event)

    def _defect(self, defect: Exception) -> None:
        self._loop.fail(defect)

    def _may_write(self) -> bool:
        return not self._loop.failed and (self._lease is None or self._lease.is_leader)


def sizes(machine: Machine) -> dict[str, int]:
    """Return the sizes of the caches."""
    numbers = machine.sizes()
    return {"nodes": numbers.nodes, "pods": numbers.pods, "pending": sum(numbers.queue.values())}


def _sleeper() -> Sleeper:
    return Sleeper(jitter=np.random.default_rng().random)


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
