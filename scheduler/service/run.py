"""The live scheduler: wiring, start, and graceful shutdown.

Start: begin to list, serve health pages, sync all caches, become leader, then decide. Until the
first requests are begun only what they need is imported. Stop, on SIGTERM or SIGINT:
take no further pod, let requests under way end, give the lease back, exit 0. A lost lease ends the
process at once with exit code 1: whoever leads now must not be disturbed.
"""

import asyncio
import contextlib
import gc
import importlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import uvloop
from prometheus_client import CollectorRegistry

from scheduler.core.machine import Machine
from scheduler.framework.extenders import whole_nodes
from scheduler.kube import connection
from scheduler.kube.client import Client
from scheduler.kube.comparer import METADATA_ONLY, Comparer, ComparerSettings
from scheduler.kube.errors import ConnectionSettingsError
from scheduler.kube.extenders import Extenders
from scheduler.kube.informer import Health, Informer
from scheduler.kube.lease import Lease, LeaseSettings, unique_identity
from scheduler.kube.ledger import LedgerStore
from scheduler.kube.limiter import Limiter
from scheduler.kube.pauses import Pauses
from scheduler.kube.policies import Policies, PolicySettings
from scheduler.kube.resources import RESOURCES
from scheduler.kube.transport import HttpTransport
from scheduler.kube.whole import WholeNodes, WholePods
from scheduler.kube.writer import Writer, WriterSettings
from scheduler.model.events import Event, Recalled
from scheduler.observe.access import Authorize
from scheduler.observe.capture import Capture
from scheduler.observe.debug import Debug
from scheduler.observe.logs import Logs
from scheduler.observe.metrics import Metrics
from scheduler.observe.pages import Pages
from scheduler.plugins import registry
from scheduler.service import access, pages
from scheduler.service.clock import Clock
from scheduler.service.loop import Loop
from scheduler.service.memory import Memory
from scheduler.service.options import Options
from scheduler.service.telemetry import ApiTelemetry, Telemetry, provide, provide_leadership
from scheduler.state.backoff import Backoff

if TYPE_CHECKING:
    from scheduler.observe.web import Web

__all__ = ["serve"]

USER_AGENT: Final = "preemptive-scheduler"

#: How long requests under way may take to end when the process stops.
DRAIN_SECONDS: Final = 8.0

GOOD, LOST_LEASE, UNUSABLE = 0, 1, 2


def serve(options: Options) -> int:
    """Run until stopped; return the exit code."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(options))


async def _serve(options: Options) -> int:
    clock = Clock()
    logs = Logs(sys.stderr.buffer, clock.wall, options.logging_format, options.verbosity)
    logs.install()
    try:
        where = connection.load(
            options.kubeconfig or options.settings.client_connection.kubeconfig or None, os.environ
        )
    except ConnectionSettingsError as error:
        logs.logger.error("cannot_connect", problem=str(error))  # noqa: TRY400 - no defect
        logs.close()
        return UNUSABLE
    try:
        async with (
            HttpTransport(where, USER_AGENT) as transport,
            HttpTransport(where, USER_AGENT, METADATA_ONLY) as metadata,
        ):
            with _capture(options) as capture:
                parts = _Surroundings(clock, logs, transport, metadata, where, capture)
                return await _Scheduler(options, parts).run()
    except (OSError, ConnectionSettingsError) as error:
        logs.logger.error("cannot_start", problem=str(error))  # noqa: TRY400 - no defect
        return UNUSABLE
    finally:
        logs.close()


@contextlib.contextmanager
def _capture(options: Options) -> Iterator[Capture | None]:
    """Open the file to which everything is captured, if one is wanted.

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
    """What a process has before the scheduler is put together."""

    clock: Clock
    logs: Logs
    transport: HttpTransport
    #: For the comparer: it must not stand in the way of anything else.
    metadata: HttpTransport
    where: connection.Connection
    capture: Capture | None


class _Scheduler:
    """All parts of one process, put together."""

    def __init__(self, options: Options, around: _Surroundings) -> None:
        settings = options.settings
        clock, logs = around.clock, around.logs
        self._options = options
        self._clock = clock
        self._started = clock.now()
        self._log = logs.logger
        self._metrics = Metrics(CollectorRegistry())
        self._stopping = asyncio.Event()
        self._machine = Machine(
            registry.profiles(settings),
            Backoff(settings.pod_initial_backoff_seconds, settings.pod_max_backoff_seconds),
        )
        pauses = Pauses(jitter=np.random.default_rng().random)
        heard = ApiTelemetry(self._metrics, logs, around.where.server)
        client = Client(around.transport, heard, _limiter(options))
        # The lease must not stand in line behind bindings: its requests are never limited.
        self._lease = _lease(options, Client(around.transport, heard), clock.wall, pauses)
        nodes = WholeNodes()
        self._extenders = Extenders(settings.extenders, WholePods(client), nodes, heard)
        ledger = LedgerStore(*_ledger_place(options), self._recalled)
        self._memory = Memory(ledger, Client(around.transport, heard), pauses, self._log)
        self._writer = Writer(
            client,
            self._outcome,
            self._may_write,
            clock.wall,
            pauses,
            WriterSettings(
                host=os.uname().nodename,
                extenders=self._extenders,
                ledger=ledger,
                evict_only=options.evict_only,
            ),
        )
        self._loop = Loop(
            self._machine,
            self._writer.submit,
            clock,
            Telemetry(self._metrics, logs),
            around.capture,
        )
        self._informers: list[Informer[Any]] = [
            Informer(resource, client, self._loop.observe, pauses) for resource in RESOURCES
        ]
        self._policies = Policies(
            Client(around.transport, heard),
            self._loop.observe,
            pauses,
            PolicySettings(
                where=around.where,
                user_agent=USER_AGENT,
                may_write=self._may_write,
                figures=lambda: self._machine.policing.figures(clock.now()),
                wall=clock.wall,
            ),
        )
        self._comparer = Comparer(
            tuple(self._informers),
            Client(around.metadata, heard),
            heard.compared,
            heard.not_compared,
            pauses,
            ComparerSettings(period_seconds=options.compare_seconds),
        )
        # The nodes that extenders read stand beside those that rules read, under the same name.
        if any(map(whole_nodes, settings.extenders)):
            self._informers.append(Informer(nodes.resource, client, nodes.take, pauses))
        heard.informers = self._informers
        # Reviews are not limited either: who asks for metrics has seconds, not minutes.
        self._gate = access.gate(options, Client(around.transport, heard))
        self._pages = self._all_pages()
        provide(self._metrics, self._machine, self._informers, self._policies, self._writer, logs)
        provide_leadership(self._metrics, self._lease, settings.leader_election.resource_name)

    async def run(self) -> int:
        """Run until stopped; return the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._extenders)
            tasks = [asyncio.create_task(informer.run()) for informer in self._informers]
            tasks.append(asyncio.create_task(self._policies.run()))
            tasks.append(asyncio.create_task(self._loop.run()))
            if self._options.compare_seconds > 0:
                tasks.append(asyncio.create_task(self._comparer.run()))
            stack.push_async_callback(_cancel, tasks)
            web = await _web(self._pages, self._gate)
            stack.push_async_callback(web.close)
            try:
                await web.start(self._options.listen, self._clock.wall())
            except OSError as error:
                self._log.error("cannot_serve", problem=str(error))
                return UNUSABLE
            self._log.info("serving", port=web.port)
            leading = asyncio.create_task(self._lead())
            stack.push_async_callback(_cancel, [leading])
            return await self._until_stopped(tasks, leading)

    async def _until_stopped(
        self, tasks: list[asyncio.Task[None]], leading: asyncio.Task[None]
    ) -> int:
        """Wait for a signal, the loss of the lease, or a defect; then stop in order."""
        stopping = asyncio.create_task(self._stopping.wait())
        ended, _ = await asyncio.wait(
            [stopping, leading, *tasks], return_when=asyncio.FIRST_COMPLETED
        )
        stopping.cancel()
        self._loop.stop()
        for task in ended - {stopping, leading}:
            # None of these ends by itself: whatever stopped it is a defect worth a trace.
            task.result()
        if leading in ended:
            leading.result()
            self._log.error("lease_lost", problem=self._lease.problem if self._lease else "")
            await self._writer.drain(0.0)
            return LOST_LEASE
        self._log.info("stopping")
        await self._writer.drain(DRAIN_SECONDS)
        await _cancel([leading])
        if self._lease is not None:
            await self._lease.release()
        self._log.info("stopped")
        return GOOD

    async def _lead(self) -> None:
        """Decide as long as we lead; return when the lease is lost."""
        for informer in self._informers:
            await informer.synced.wait()
        await self._policies.synced.wait()
        self._log.info("caches_synced", **vars_of(self._machine))
        # What was listed stays: each full collection would look through it again, which takes some
        # 70 ms with 5,000 nodes and 15,000 pods.
        gc.collect()
        gc.freeze()
        if self._lease is None:
            await self._decide(asyncio.create_task(asyncio.Event().wait()))
            return
        await self._lease.acquire()
        self._log.info("became_leader", lease=self._options.settings.leader_election.resource_name)
        await self._decide(asyncio.create_task(self._lease.hold()))

    async def _decide(self, holding: asyncio.Task[Any]) -> None:
        """Read what earlier leaders have written down, then decide as long as we lead."""
        recalling = asyncio.create_task(self._memory.recall())
        try:
            ended, _ = await asyncio.wait({recalling, holding}, return_when=asyncio.FIRST_COMPLETED)
            if recalling in ended:
                self._recalled(recalling.result())
                self._loop.go()
                await holding
        finally:
            await _cancel([recalling, holding])

    def _recalled(self, text: str) -> None:
        if text:
            self._loop.observe((Recalled(text),))

    def _outcome(self, event: Event) -> None:
        self._loop.outcome(event)

    def _may_write(self) -> bool:
        return self._lease is None or self._lease.is_leader

    def _all_pages(self) -> Pages:
        return Pages(
            metrics=self._metrics.exposition,
            configz=lambda: pages.configz(self._options.settings),
            statusz=lambda: pages.statusz(
                self._machine, self._lease, self._started, self._clock.now(), self._pages.paths
            ),
            debug=Debug(self._machine, self._clock.now).pages(),
            healthz={"ping": _fine},
            livez={"ping": _fine},
            readyz={
                "ping": _fine,
                "informer-sync": self._unsynced,
                "api-server": self._api_problem,
                "shutdown": self._shutdown,
            },
        )

    def _health(self) -> list[Health]:
        return [*(informer.health() for informer in self._informers), self._policies.health()]

    def _unsynced(self) -> str | None:
        waiting = [
            f"{health.resource}{f' ({health.problem})' if health.problem else ''}"
            for health in self._health()
            if not health.synced
        ]
        return f"not synced: {', '.join(waiting)}" if waiting else None

    def _api_problem(self) -> str | None:
        problems = [health.problem for health in self._health() if health.synced and health.problem]
        return "; ".join(problems) or None

    def _shutdown(self) -> str | None:
        return "shutting down" if self._stopping.is_set() else None


async def _web(pages: Pages, authorize: Authorize) -> "Web":
    """Return what serves; it takes longer to import than all the rest.

    First every task begins its first request, then a thread imports while those are answered.
    """
    await asyncio.sleep(0)
    await asyncio.to_thread(importlib.import_module, "scheduler.observe.web")
    from scheduler.observe.web import Web  # noqa: PLC0415 - it is there by now

    return Web(pages, authorize)


def _fine() -> str | None:
    return None


def vars_of(machine: Machine) -> dict[str, int]:
    """Return the sizes of the caches."""
    numbers = machine.numbers()
    return {"nodes": numbers.nodes, "pods": numbers.pods, "pending": sum(numbers.queue.values())}


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _limiter(options: Options) -> Limiter | None:
    wanted = options.settings.client_connection
    return None if wanted.qps is None else Limiter(wanted.qps, wanted.burst or 100)


def _lease(
    options: Options, client: Client, wall: Callable[[], float], pauses: Pauses
) -> Lease | None:
    election = options.settings.leader_election
    if not election.leader_elect:
        return None
    settings = LeaseSettings(
        namespace=election.resource_namespace or _own_namespace(),
        name=election.resource_name,
        identity=unique_identity(),
        duration_seconds=election.lease_duration_seconds,
        renew_deadline_seconds=election.renew_deadline_seconds,
        retry_seconds=election.retry_period_seconds,
    )
    return Lease(client, settings, wall, pauses)


def _ledger_place(options: Options) -> tuple[str, str]:
    """Return namespace and name of the ConfigMap beside the lease."""
    election = options.settings.leader_election
    return election.resource_namespace or _own_namespace(), f"{election.resource_name}-ledger"


def _own_namespace() -> str:
    """Return the namespace that this process runs in, `kube-system` outside of a cluster."""
    try:
        return (connection.SERVICE_ACCOUNT / "namespace").read_text(encoding="utf-8").strip()
    except OSError:
        return "kube-system"
