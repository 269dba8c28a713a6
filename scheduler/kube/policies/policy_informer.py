"""The informer of preemption policies: whether their CRD exists, and which policies there are.

The CRD may be missing, be added later, and be removed again. So the policies are listed
periodically with the scheduler's own client: a cheap request that shows whether the CRD exists,
that gives the first policies before any decision, and that finds changes a watch has missed. While
the CRD exists, kopf watches (`kube/policies/kopf_watcher`), so that changes take effect at once.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

import msgspec

from scheduler.config.policies import KIND
from scheduler.kube.auth.cluster_access import ClusterAccess
from scheduler.kube.client.backoff import ExponentialBackoff, Sleeper
from scheduler.kube.client.client import Client, Request
from scheduler.kube.errors import Forbidden, KubeError, NotFound, NotServed, Unreachable
from scheduler.kube.policies.registry import (
    PATH,
    RESOURCE,
    Json,
    ParsedPolicy,
    PolicyList,
    PolicyRegistry,
    parse_policy,
    version,
)
from scheduler.kube.watch.decoding import UNREADABLE, check_list, without_depths
from scheduler.kube.watch.discovery import is_served
from scheduler.kube.watch.informer import WatchHealth
from scheduler.model.events import Event, PolicyGone, PolicyObserved
from scheduler.model.policies import PolicyFigures, PolicyState
from scheduler.model.times import Seconds

if TYPE_CHECKING:
    from scheduler.kube.policies.kopf_watcher import PolicyWatcher

__all__ = ["PolicyInformer", "PolicySettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySettings:
    """Access, callbacks and periods."""

    where: ClusterAccess
    user_agent: str
    #: Whether this process leads: only the leader writes statuses.
    may_write: Callable[[], bool]
    #: Returns the figures of each policy in force, by name.
    figures: Callable[[], Mapping[str, PolicyFigures]]
    #: Seconds since the epoch.
    wall: Callable[[], Seconds]
    #: Returns how many evictions are under way.
    evicting: Callable[[], int] = lambda: 0
    #: Between two lists.
    period_seconds: float = 10.0
    #: Between two checks of the figures.
    figures_seconds: float = 5.0
    #: How long kopf may take to end.
    patience_seconds: float = 1.0


#: How long changes are collected before statuses are written.
DEBOUNCE_SECONDS: Final = 0.1


class PolicyInformer:
    """Reports the policies in force to a sink until cancelled."""

    def __init__(
        self,
        client: Client,
        sink: Callable[[list[Event]], None],
        sleeper: Sleeper,
        settings: PolicySettings,
    ) -> None:
        #: Set once all policies were handed over, or the CRD is known to be missing.
        self.synced = asyncio.Event()
        self._client = client
        self._sink = sink
        self._sleeper = sleeper
        self._settings = settings
        self._observer = client.observer
        self._registry = PolicyRegistry(settings.wall)
        self._watcher: PolicyWatcher | None = None
        self._backoff = ExponentialBackoff(sleeper, 0.5, settings.period_seconds)
        self._restarts = ExponentialBackoff(sleeper, 1.0, settings.period_seconds)
        self._changed = asyncio.Event()
        #: Whether statuses are being written; until that ends it is unknown which are due.
        self._writing = False
        #: Whether more may have become due meanwhile.
        self._overtaken = False
        #: Set to list sooner than after the period.
        self._list_soon = asyncio.Event()
        self._refused: dict[str, str] = {}
        #: Times in a row that the CRD was found to be missing.
        self._absences = 0
        #: The current problems by operation: list, watch, status.
        self._problems: dict[str, str] = {}
        self._contact_at: float | None = None
        #: The exception of the sink when it was called from outside of `run`.
        self._defect: Exception | None = None

    def health(self) -> WatchHealth:
        """Return the current health, which does not depend on writing statuses."""
        silent = None
        if self._contact_at is not None:
            silent = asyncio.get_running_loop().time() - self._contact_at
        return WatchHealth(
            resource=RESOURCE,
            synced=self.synced.is_set(),
            silent_seconds=silent,
            problem=self._problems.get("list") or self._problems.get("watch") or "",
            undecodable=len(self._refused),
            objects=len(self._registry),
        )

    @property
    def stops(self) -> bool:
        """Whether a policy stops all preemption."""
        return self._registry.stops

    def states(self) -> list[PolicyState]:
        """Return the state of each policy, in name order."""
        return self._registry.states()

    def count_by_state(self) -> dict[str, int]:
        """Return the number of policies by state: see `PolicyRegistry.count_by_state`."""
        return self._registry.count_by_state()

    async def run(self) -> NoReturn:
        """List, watch and write statuses until cancelled; an exception of the sink ends it."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._write_statuses())
                await self._list_forever()
        finally:
            await self._close()

    async def _list_forever(self) -> NoReturn:
        while True:
            if await self._list_once():
                self._backoff.reset()
                await self._sleep()
            else:
                await self._backoff.wait()
            if self._defect is not None:
                raise self._defect

    async def _sleep(self) -> None:
        """Wait for the time of the next list, or a reason to list sooner."""
        period = self._settings.period_seconds * (1 - self._sleeper.jitter() / 2)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(period):
                await self._list_soon.wait()
        self._list_soon.clear()

    # List

    async def list_again(self) -> None:
        """List now, and again until that succeeds: the watch may lag behind the last change."""
        while not await self._list_once():
            await self._backoff.wait()

    async def _list_once(self) -> bool:
        """List once; return whether the existing policies are known now."""
        asked_at = self._registry.newest
        try:
            listed = await self._list()
        except KubeError as error:
            self._problem("list", str(error))
            return False
        self._contact_at = asyncio.get_running_loop().time()
        self._problem("list", "")
        if listed is not None:
            self._absences = 0
            await self._take_over(listed, asked_at)
        elif not await self._confirm_absence():
            return True
        self.synced.set()
        return True

    async def _take_over(self, listed: PolicyList, asked_at: int) -> None:
        if listed.version < asked_at:
            # kopf's watch would send nothing until the server has counted up to where it began.
            versions = f"from {asked_at} to {listed.version}"
            self._observer.restarted(RESOURCE)
            self._observer.interrupted(
                RESOURCE, f"the resourceVersion of {RESOURCE} went backwards, {versions}"
            )
            await self._close()
        self._publish(self._registry.take_list(listed, asked_at))
        self._open()

    async def _confirm_absence(self) -> bool:
        """Record that the CRD is missing; return false where that must be confirmed first.

        Policies in force are removed only when the CRD is missing twice, some time apart, because
        preemption is unbounded without them.
        """
        self._absences += 1
        if self._absences == 1 and len(self._registry):
            return False
        await self._close()
        self._problem("watch", "")
        self._publish(self._registry.clear())
        return True

    async def _list(self) -> PolicyList | None:
        """Return all policies, `None` where the CRD is missing.

        Raises:
            KubeError: The server cannot be asked now.
        """
        request = Request("list", RESOURCE, "GET", PATH)
        try:
            body = await self._client.call(request)
        except (NotFound, NotServed, Forbidden):
            # The server checks the right before it looks for the resource.
            if await is_served(self._client, PATH):
                raise
            return None
        try:
            page = _decoded(body)
        except UNREADABLE as error:
            raise Unreachable(f"cannot {request}: {error}") from error
        at = version(page.metadata)
        check_list(page.kind, f"{KIND}List", str(at or ""))
        return PolicyList(at, tuple(parse_policy(item) for item in page.items or ()))

    def _open(self) -> None:
        # It imports aiohttp, for which the first requests must not wait.
        from scheduler.kube.policies.kopf_watcher import PolicyWatcher  # noqa: PLC0415

        if self._watcher is None:
            settings = self._settings
            self._watcher = PolicyWatcher(settings.where, settings.user_agent, settings.wall, self)
            self._watcher.start()

    async def _close(self) -> None:
        watcher, self._watcher = self._watcher, None
        self._writing = False
        if watcher is not None:
            await watcher.close(self._settings.patience_seconds)

    # Called by kopf

    def watched(self) -> None:
        """Handle the start of a watch: earlier deletions are seen only by a list."""
        self._problem("watch", "")
        self._restarts.reset()
        self._list_soon.set()

    def observed(self, parsed: ParsedPolicy) -> None:
        """Handle the state of a policy."""
        self._publish(self._registry.take(parsed))

    def gone(self, name: str, uid: str, at: int) -> None:
        """Handle the deletion of a policy."""
        self._publish(self._registry.take_gone(name, uid, at))

    def wrote(self, name: str, uid: str, status: Json, at: int) -> None:
        """Record that a status was written."""
        self._problem("status", "")
        self._registry.wrote(name, uid, status, at)

    def not_written(self, name: str, problem: str) -> None:
        """Record that a status could not be written."""
        self._problem("status", f"status of {name}: {problem}")

    def statuses_written(self, watcher: "PolicyWatcher") -> None:
        """Record that all requested statuses were written, or could not be."""
        if watcher is self._watcher:
            self._writing = False
            if self._overtaken:
                self._changed.set()

    def may_write(self) -> bool:
        """Return whether this process leads now."""
        return self._settings.may_write()

    def ended(self, watcher: "PolicyWatcher", problem: str) -> None:
        """Handle the end of kopf; the next list, soon, starts it again."""
        if watcher is self._watcher:
            self._watcher, self._writing = None, False
            self._problem("watch", f"cannot watch {RESOURCE}: {problem}")
            asyncio.get_running_loop().call_later(self._restarts.delay(), self._list_soon.set)

    # Events and statuses

    def _publish(self, events: list[Event]) -> None:
        try:
            if events:
                self._sink(events)
        except Exception as error:
            self._defect = error
            self._list_soon.set()
            raise
        for event in events:
            if isinstance(event, PolicyObserved):
                policy = event.policy
                self._observer.policy_changed(policy.name, "accepted", f"{policy.generation}")
            elif isinstance(event, PolicyGone):
                self._observer.policy_changed(event.name, "gone", "")
        refused = self._registry.refused()
        for name, problem in refused.items() - self._refused.items():
            self._observer.policy_changed(name, "refused", problem)
        self._refused = refused
        self._changed.set()

    def _problem(self, what: str, problem: str) -> None:
        """Record the problem of an operation, and report it once; empty for none."""
        if problem and problem != self._problems.get(what):
            self._observer.restarted(RESOURCE)
            self._observer.interrupted(RESOURCE, problem)
        self._problems[what] = problem

    async def _write_statuses(self) -> NoReturn:
        """Write the statuses that are out of date, until cancelled."""
        while True:
            waiting = self._settings.figures_seconds if len(self._registry) else None
            if self._registry.stops and self._settings.evicting():
                waiting = DEBOUNCE_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(waiting):
                    await self._changed.wait()
            await self._sleeper.sleep(DEBOUNCE_SECONDS)
            self._changed.clear()
            if self._watcher is None or not self._settings.may_write():
                continue
            self._overtaken = self._writing
            figures, evicting = self._settings.figures(), self._settings.evicting()
            if not self._writing and (due := self._registry.due(figures, evicting)):
                self._writing = self._watcher.write(due)


class _Page(msgspec.Struct):
    kind: str
    metadata: dict[str, Any] = {}
    items: list[dict[str, Any]] | None = None


_PAGE: Final = msgspec.json.Decoder(_Page)


def _decoded(body: bytes) -> _Page:
    """Decode a list, also where one policy in it is nested too deeply."""
    try:
        return _PAGE.decode(body)
    except RecursionError:
        return _PAGE.decode(without_depths(body))
