"""Composes the live scheduler: creates all parts of the process and connects them.

`scheduler.service.process` starts, runs and stops them.
"""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from prometheus_client import CollectorRegistry

from scheduler.core.machine import Machine
from scheduler.framework.extender_protocol import whole_nodes
from scheduler.kube import server_version
from scheduler.kube.auth import cluster_access
from scheduler.kube.client.backoff import Sleeper
from scheduler.kube.client.client import Client
from scheduler.kube.client.rate_limiter import RateLimiter
from scheduler.kube.client.reading_client import ReadingClient
from scheduler.kube.client.transport import HttpTransport
from scheduler.kube.client_ca import ClientCaReader
from scheduler.kube.extenders import Extenders
from scheduler.kube.leader_election import LeaderElectionConfig, LeaderElector, unique_identity
from scheduler.kube.policies.policy_informer import PolicyInformer, PolicySettings
from scheduler.kube.release_owner import ReleaseOwner
from scheduler.kube.server_version import ServerVersion
from scheduler.kube.watch.cache_comparer import CacheComparer, ComparerSettings
from scheduler.kube.watch.informer import Informer
from scheduler.kube.watch.raw_objects import RawNodes, RawPods
from scheduler.kube.watch.resources import RESOURCES
from scheduler.kube.write import history_configmaps
from scheduler.kube.write.ledger_configmap import LedgerStore
from scheduler.kube.write.no_writer import NoWriter
from scheduler.kube.write.writer import Writer, WriterSettings
from scheduler.model.decisions import Detail
from scheduler.model.effects import Evict
from scheduler.model.events import ClockAhead, Event, LedgerLoaded
from scheduler.model.releases import Reference
from scheduler.model.times import Seconds
from scheduler.observe.api.history import History
from scheduler.observe.logs.logs import Logs
from scheduler.observe.metrics.metrics import Metrics
from scheduler.observe.shadow.shadow import Shadow
from scheduler.plugins import registry
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.service import age_gauges, page_access
from scheduler.service.clock import Clock
from scheduler.service.history_keeper import HistoryKeeper
from scheduler.service.loop import Loop
from scheduler.service.options import ProcessOptions
from scheduler.service.recording import Recording
from scheduler.service.release_finder import ReleaseFinder
from scheduler.service.release_watch import ReleaseWatch
from scheduler.service.serving import Serving
from scheduler.service.shadow_loop import ShadowLoop
from scheduler.service.telemetry import (
    ApiTelemetry,
    Telemetry,
    provide,
    provide_agreement,
    provide_certificate,
    provide_costs,
    provide_leadership,
    provide_recording,
    provide_shadow,
)

__all__ = ["USER_AGENT", "Composition", "ProcessResources", "new_sleeper"]

USER_AGENT: Final = "preemptive-scheduler"


@dataclass(frozen=True, slots=True)
class ProcessResources:
    """The resources of a process that exist before the scheduler is wired."""

    clock: Clock
    logs: Logs
    transport: HttpTransport
    #: Used by the lease only.
    renewals: HttpTransport
    #: Used by the comparer, which must not delay other requests.
    metadata: HttpTransport
    where: cluster_access.ClusterAccess
    recording: Recording | None
    release: ReleaseFinder


class Composition:
    """All parts of one process, wired; `scheduler.service.process` runs them."""

    #: Keeps the history for the next leader; not in shadow mode.
    _keeper: HistoryKeeper | None = None

    def __init__(self, options: ProcessOptions, shared: ProcessResources) -> None:
        settings, clock, logs = options.settings, shared.clock, shared.logs
        self.options, self.release, self.clock = options, shared.release, clock
        self.log, self.flush, self._where = logs.logger, logs.flush, shared.where
        self._metrics = Metrics(CollectorRegistry())
        self.stopping = asyncio.Event()
        self.machine = Machine(
            registry.profiles(settings),
            PodBackoff(settings.pod_initial_backoff_seconds, settings.pod_max_backoff_seconds),
            evict_only=options.evict_only,
            detail=Detail.COMPARISON,
        )
        self.history = History(self.machine, clock.now())
        sleeper = self._sleeper = new_sleeper()
        api_telemetry = self._api_telemetry = ApiTelemetry(self._metrics, logs, shared.where.host)
        # In shadow mode nothing exists that could write, but for the lease and for reviews.
        reads = ReadingClient if options.shadow else Client
        client = reads(shared.transport, api_telemetry, _limiter(options))
        owner = ReleaseOwner(_state_place(options), options.owner_deployment, clock.elapsed)
        # The lease must not wait behind bindings: its requests are never rate limited, and use a
        # connection of their own.
        self.elector = _elector(
            options, Client(shared.renewals, api_telemetry), clock, sleeper, owner
        )
        nodes = RawNodes()
        self.extenders = Extenders(settings.extenders, RawPods(client), nodes, api_telemetry)
        unlimited = self._unlimited = reads(shared.transport, api_telemetry)
        self.shadow = Shadow(self.machine) if options.shadow else None
        self._ledger: LedgerStore | None = None
        self.writer: Writer | NoWriter = NoWriter()
        self.loop = self._new_loop(client, owner, Telemetry(self._metrics, logs), shared.recording)
        self.informers: list[Informer[Any]] = [
            Informer(resource, client, self.loop.observe, sleeper) for resource in RESOURCES
        ]
        self.policies = PolicyInformer(
            unlimited,
            self.loop.observe,
            sleeper,
            PolicySettings(
                where=shared.where,
                user_agent=USER_AGENT,
                may_write=self._may_write,
                figures=lambda: self.machine.policies.figures(clock.now()),
                wall=clock.wall,
                evicting=lambda: self.writer.evicting,
            ),
        )
        self.comparer = CacheComparer(
            tuple(self.informers),
            Client(shared.metadata, api_telemetry),
            api_telemetry.compared,
            api_telemetry.not_compared,
            sleeper,
            ComparerSettings(period_seconds=options.compare_seconds),
        )
        # The complete nodes for extenders are watched beside the typed ones, under the same name.
        if any(map(whole_nodes, settings.extenders)):
            self.informers.append(Informer(nodes.resource, client, nodes.take, sleeper))
        api_telemetry.informers = self.informers
        # Reviews are not rate limited either: a scrape has seconds, not minutes.
        reviewing = Client(shared.transport, api_telemetry)
        self.authorizer = page_access.page_authorizer(
            options, reviewing, api_telemetry.authorization_unavailable
        )
        self.serving = Serving(
            options=options,
            clock=clock,
            machine=self.machine,
            history=self.history,
            metrics=self._metrics,
            elector=self.elector,
            informers=self.informers,
            policies=self.policies,
            copied=self.loop.copy,
            stopping=self.stopping,
            report=self.log.warning,
            recording=shared.recording,
            shadow=self.shadow,
        )
        self._provide(shared.recording, logs)

    def _new_loop(
        self,
        client: Client,
        owner: ReleaseOwner,
        telemetry: Telemetry,
        recording: Recording | None,
    ) -> Loop:
        """Return the loop; unless in shadow mode, make what writes as well."""
        machine, clock, history = self.machine, self.clock, self.history
        if self.shadow is not None:
            return ShadowLoop(machine, self.shadow, clock, telemetry, history)
        self._ledger = LedgerStore(*_ledger_place(self.options), self.load_ledger, owner)
        self._keeper = HistoryKeeper(
            history,
            machine.cluster,
            history_configmaps.stored_history(*_history_place(self.options), owner),
            self._unlimited,
            self._may_write,
            clock,
            self._sleeper,
            self.log.warning,
        )
        self.writer = writer = self._new_writer(client, self._ledger)
        return Loop(machine, writer.submit, clock, telemetry, recording, history)

    def _new_writer(self, client: Client, ledger: LedgerStore) -> Writer:
        return Writer(
            client,
            self._outcome,
            self._may_write,
            self.clock.wall,
            self._sleeper,
            WriterSettings(
                host=os.uname().nodename,
                extenders=self.extenders,
                ledger=ledger,
                evict_only=self.options.evict_only,
                defect=self._defect,
                still_wanted=self._is_still_planned,
            ),
        )

    def _provide(self, recording: Recording | None, logs: Logs) -> None:
        """Have metrics read the parts."""
        metrics, machine = self._metrics, self.machine
        provide(metrics, machine, self.informers, self.policies, self.writer, logs)
        provide_costs(metrics, self.history.costs)
        age_gauges.provide(metrics, machine, self.clock.now)
        provide_recording(metrics, recording)
        provide_shadow(metrics, self.shadow)
        lease = self.options.settings.leader_election.resource_name
        provide_leadership(metrics, self.elector, lease)

    def served(self, validity: Callable[[], tuple[Seconds, Seconds] | None]) -> None:
        """Have metrics tell whether this process is ready, and its certificate valid."""
        self._metrics.provide("scheduler_ready", lambda: {(): int(self.serving.is_ready())})
        provide_certificate(self._metrics, validity)

    def release_watch(self) -> ReleaseWatch | None:
        """Return what looks at the releases of the API servers; `None` where none is followed."""
        if not self.options.settings.follows_server:
            provide_agreement(self._metrics, None)
            return None
        watch = ReleaseWatch(
            used=self.machine.reference,
            read=self._read_version,
            sleeper=new_sleeper(),
            elapsed=self.clock.elapsed,
            log=self.log,
            leads=lambda: self.elector is None or self.elector.is_leader,
            restart=self._restart_as if self.options.restart_on_change else None,
        )
        provide_agreement(self._metrics, watch.agreement)
        return watch

    async def _read_version(self) -> ServerVersion:
        """Return the version of an API server, over a new connection."""
        async with HttpTransport(self._where, USER_AGENT) as transport:
            return await server_version.read(Client(transport, self._api_telemetry))

    def _restart_as(self, reference: Reference) -> None:
        """End the process gracefully, so that it starts with another release.

        Raises:
            ConfigError: It could not, because that release does not know a setting.
        """
        self.options.decided_as(reference)
        self.stopping.set()

    def client_ca(self, sink: Callable[[str], object]) -> ClientCaReader | None:
        """Return what keeps the client CA up to date; `None` where callers need no credentials."""
        if page_access.needs_no_credentials(self.options):
            return None
        telemetry = self._api_telemetry
        return ClientCaReader(self._unlimited, sink, telemetry.client_ca_unavailable, new_sleeper())

    async def read_ledger(self) -> str:
        """Return the ledger of earlier leaders, as soon as it can be read."""
        if self._ledger is None:
            return ""
        return await self._ledger.load_with_retries(self._unlimited, self._sleeper)

    async def keep_ledger(self) -> None:
        """Keep what is written of the ledger, or remember it while standing by; never return."""
        if self._ledger is None:
            await asyncio.Event().wait()
        else:
            await self._ledger.keep(self._unlimited, self._may_write, self._sleeper)

    async def keep_history(self) -> None:
        """Read the history of earlier leaders, and keep it for the next one."""
        if self._keeper is not None:
            await self._keeper.run()

    async def leave_history(self) -> None:
        """Have the history written for the next leader."""
        if self._keeper is not None:
            await self._keeper.leave()

    async def leave_ledger(self) -> None:
        """Have the ledger written for the next leader."""
        if self._ledger is not None:
            await self._ledger.look_last(self._unlimited, self._may_write)

    def load_ledger(self, text: str) -> None:
        """Hand the ledger of earlier leaders, or of another instance, to the machine."""
        if text:
            self.loop.observe((LedgerLoaded(text),))

    def clock_ahead(self, seconds: Seconds) -> None:
        """Record by how much the host's clock is ahead of the API server's."""
        self.log.info("clock_ahead_of_api_server", seconds=round(seconds, 3))
        self.loop.observe((ClockAhead(seconds),))

    # The writer gets these because it is made before the loop.

    def _outcome(self, event: Event) -> None:
        self.loop.outcome(event)

    def _defect(self, defect: Exception) -> None:
        self.loop.fail(defect)

    def _is_still_planned(self, effect: Evict) -> bool:
        return self.loop.is_still_planned(effect)

    def _may_write(self) -> bool:
        leads = self.elector is None or self.elector.is_leader
        return self.shadow is None and not self.loop.failed and leads


def _limiter(options: ProcessOptions) -> RateLimiter | None:
    """Return the rate limiter of requests; `None` for no limit."""
    wanted = options.settings.client_connection
    return None if wanted.qps is None else RateLimiter(wanted.qps, wanted.burst or 100)


def _elector(
    options: ProcessOptions, client: Client, clock: Clock, sleeper: Sleeper, owner: ReleaseOwner
) -> LeaderElector | None:
    """Return the leader elector; `None` without leader election."""
    election = options.settings.leader_election
    if not election.leader_elect:
        return None
    settings = LeaderElectionConfig(
        namespace=_state_place(options),
        name=election.resource_name,
        identity=unique_identity(),
        duration_seconds=election.lease_duration_seconds,
        renew_deadline_seconds=election.renew_deadline_seconds,
        retry_seconds=election.retry_period_seconds,
    )
    return LeaderElector(client, settings, clock.wall, sleeper, clock.elapsed, owner)


def _ledger_place(options: ProcessOptions) -> tuple[str, str]:
    """Return namespace and name of the ConfigMap beside the lease."""
    return _state_place(options), f"{options.settings.leader_election.resource_name}-ledger"


def _history_place(options: ProcessOptions) -> tuple[str, str]:
    """Return the namespace of the history, and what the names of its ConfigMaps begin with."""
    return _state_place(options), f"{options.settings.leader_election.resource_name}-history"


def _state_place(options: ProcessOptions) -> str:
    """Return the namespace of lease, ledger and history."""
    return options.settings.leader_election.resource_namespace or _own_namespace()


def _own_namespace() -> str:
    """Return the namespace in which this process runs, `kube-system` outside of a cluster."""
    try:
        return (cluster_access.SERVICE_ACCOUNT / "namespace").read_text(encoding="utf-8").strip()
    except OSError:
        return "kube-system"


def new_sleeper() -> Sleeper:
    """Return what waits between attempts, with jitter."""
    return Sleeper(jitter=np.random.default_rng().random)
