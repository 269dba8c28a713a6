"""The pages of a process, and its health checks.

Checks run in the thread of the web server, while the scheduler's loop may be busy: they read single
values, and change nothing.
"""

import asyncio
import importlib
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from structlog.typing import FilteringBoundLogger

from scheduler.core.machine import Machine
from scheduler.core.snapshot.copying import MachineCopy
from scheduler.kube.leader_election import LeaderElector
from scheduler.kube.policies.policy_informer import PolicyInformer
from scheduler.kube.watch.informer import Informer, WatchHealth
from scheduler.observe.api.api import Api
from scheduler.observe.api.history import History
from scheduler.observe.api.requests import ApiPage, ApiRequest, Stream
from scheduler.observe.metrics.metrics import Metrics
from scheduler.observe.pages.debug import Debug
from scheduler.observe.pages.health import Check
from scheduler.observe.pages.routes import Routes
from scheduler.observe.server.access import Authorize
from scheduler.observe.server.heartbeat import Heartbeat
from scheduler.observe.shadow.shadow import Shadow
from scheduler.service import config_pages
from scheduler.service.clock import Clock
from scheduler.service.options import ProcessOptions
from scheduler.service.recording import Recording
from scheduler.service.what_if import WhatIf
from scheduler.sim.what_if_cluster import State

if TYPE_CHECKING:
    from scheduler.observe.server.web import Web

__all__ = ["Serving", "web"]

#: How long beyond its duration a lease may go without a renewal before the health check fails.
#: Source: kube-scheduler v1.36.3 cmd/kube-scheduler/app/options, NewLeaderHealthzAdaptor.
_TOLERATED_SECONDS: Final = 20.0
#: The path of the recording.
RECORDING: Final = "/api/v1/recording"


@dataclass(eq=False)
class Serving:
    """The pages and checks of one process, with the parts of it that they read."""

    options: ProcessOptions
    clock: Clock
    machine: Machine
    history: History
    metrics: Metrics
    #: The leader elector; `None` where every instance leads.
    elector: LeaderElector | None
    informers: Sequence[Informer[Any]]
    policies: PolicyInformer
    #: Returns a copy of the machine.
    copied: Callable[[], Awaitable[MachineCopy]]
    #: Set when the process is asked to stop.
    stopping: asyncio.Event
    #: Logs a warning with fields.
    report: Callable[..., object] = lambda _event, **_fields: None
    #: The flight recorder; `None` where it is off.
    recording: Recording | None = None
    #: What shadow mode has found; `None` where the process schedules.
    shadow: Shadow | None = None
    #: Whether the process leads, as far as it knows.
    leads: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        """Compose the pages."""
        self._started = self.clock.now()
        #: Updated by the scheduler's loop.
        self.pulse = Heartbeat(self.clock.now)
        self.pages = self._all_pages()

    def _all_pages(self) -> Routes:
        election: dict[str, Check] = (
            {} if self.elector is None else {"leaderElection": self._not_renewed}
        )
        return Routes(
            metrics=self.metrics.exposition,
            configz=lambda: config_pages.configz(self.options.settings),
            flagz=lambda: config_pages.flagz(self.options.flags),
            statusz=lambda: config_pages.statusz(
                self.machine, self.elector, self._started, self.clock.now(), self.pages.paths
            ),
            debug=Debug(self.machine, self.clock.now).pages(),
            api=self._api(),
            what_if=self._what_if(),
            shadow=self.shadow is not None,
            leads=lambda: self.elector is None or self.leads,
            healthz={**election, "loop": self.pulse.stuck},
            livez={"loop": self.pulse.stuck},
            readyz={
                **election,
                "shutdown": self._shutdown,
                "sched-handler-sync": self._not_handled,
                "informer-sync": self._unsynced,
                "api-server": self._api_problem,
            },
        )

    def _what_if(self) -> WhatIf:
        """Return the page of what-ifs, which reads the state when a request needs it."""
        return WhatIf(self._state, self.report, self._unsynced)

    async def _state(self) -> tuple[State, MachineCopy]:
        """Return the state for a what-if, and a copy of the machine."""
        options, copy = self.options, await self.copied()
        return State((), options.settings, self.clock.now(), evict_only=options.evict_only), copy

    def _api(self) -> dict[str, ApiPage]:
        """Return the documents of `/api/v1`; other pages below that path belong here, too."""
        documents = Api(
            machine=self.machine,
            history=self.history,
            now=self.clock.now,
            leads=lambda: self.elector is None or self.elector.is_leader,
            policies=self.policies.states,
            instance=socket.gethostname(),
            profiles=tuple(profile.scheduler_name for profile in self.options.settings.profiles),
            started=self._started,
            shadow=self.shadow,
        )
        return {**documents.pages(), RECORDING: self._recording}

    async def _recording(self, request: ApiRequest) -> Stream:
        """Return the last minutes of the recording.

        Raises:
            ApiError: The caller may not see all that it holds.
            LookupError: There is none.
            ValueError: The query is malformed.
        """
        if self.recording is None:
            raise LookupError("the flight recorder is off; see --recording-dir")
        return await self.recording.page(request)

    def _health(self) -> list[WatchHealth]:
        return [*(informer.health() for informer in self.informers), self.policies.health()]

    def is_ready(self) -> bool:
        """Return whether `/readyz` succeeds."""
        return all(check() is None for check in self.pages.readyz.values())

    def _unsynced(self) -> str | None:
        waiting = [
            f"{health.resource}{f' ({health.problem})' if health.problem else ''}"
            for health in self._health()
            if not health.synced
        ]
        return f"not synced: {', '.join(waiting)}" if waiting else None

    def _not_handled(self) -> str | None:
        """Return the problem of `_unsynced` in the words of kube-scheduler's check."""
        return "handlers are not fully synchronized" if self._unsynced() else None

    def _api_problem(self) -> str | None:
        problems = [health.problem for health in self._health() if health.synced and health.problem]
        return "; ".join(problems) or None

    def _shutdown(self) -> str | None:
        return "shutting down" if self.stopping.is_set() else None

    def _not_renewed(self) -> str | None:
        """Return the problem where the lease could not be renewed for too long.

        While its loop runs, a process that loses the lease ends. So the age of the loop's pulse is
        checked.
        """
        election = self.options.settings.leader_election
        patience = election.lease_duration_seconds + _TOLERATED_SECONDS
        if not self.leads or self.pulse.age <= patience:
            return None
        return f"failed election to renew leadership on lease {election.resource_name}"


async def web(pages: Routes, log: FilteringBoundLogger, authorize: Authorize) -> "Web":
    """Return the web server, whose import takes longer than all others.

    First every task begins its first request, then a thread imports while these are answered.
    """
    await asyncio.sleep(0)
    await asyncio.to_thread(importlib.import_module, "scheduler.observe.server.web")
    from scheduler.observe.server.web import Web  # noqa: PLC0415 - imported by the thread

    return Web(pages, log, authorize)
