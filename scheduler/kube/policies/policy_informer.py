"""Keep up with preemption policies: whether there can be any, which there are, what they say.

The definition of policies may be missing, come later, and go again. So the policies are listed now
and then with the scheduler's own client: a cheap request that tells whether the definition is
there, that gives the first policies before anything is decided, and that makes up for what a watch
can miss. While the definition is there kopf watches (`policy_operator`), so that changes take
effect at once.
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
    Listed,
    ParsedPolicy,
    PolicyRegistry,
    judge,
    version,
)
from scheduler.kube.watch.decoding import UNREADABLE, check_list, without_depths
from scheduler.kube.watch.discovery import is_served
from scheduler.kube.watch.informer import WatchHealth
from scheduler.model.events import Event, PolicyGone, PolicyObserved
from scheduler.model.policies import PolicyFigures
from scheduler.model.times import Seconds

if TYPE_CHECKING:
    from scheduler.kube.policies.operator import PolicyOperator

__all__ = ["PolicyInformer", "PolicySettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySettings:
    """Who asks, who may write, and how often."""

    where: ClusterAccess
    user_agent: str
    #: Whether this process leads: only the leader writes statuses.
    may_write: Callable[[], bool]
    #: What each policy in force has done, by name.
    figures: Callable[[], Mapping[str, PolicyFigures]]
    #: The time of day.
    wall: Callable[[], Seconds]
    #: Between two lists.
    period_seconds: float = 10.0
    #: Between two looks at the figures.
    figures_seconds: float = 5.0
    #: For kopf to end.
    patience_seconds: float = 1.0


#: How long changes collect before statuses are written.
SETTLE_SECONDS: Final = 0.1


class PolicyInformer:
    """Tells a sink about the policies in force, for ever."""

    def __init__(
        self,
        client: Client,
        sink: Callable[[list[Event]], None],
        sleeper: Sleeper,
        settings: PolicySettings,
    ) -> None:
        #: Set once all policies were handed over, or it is known that there can be none.
        self.synced = asyncio.Event()
        self._client = client
        self._sink = sink
        self._sleeper = sleeper
        self._settings = settings
        self._observer = client.observer
        self._book = PolicyRegistry(settings.wall)
        self._operator: PolicyOperator | None = None
        self._backoff = ExponentialBackoff(sleeper, 0.5, settings.period_seconds)
        self._restarts = ExponentialBackoff(sleeper, 1.0, settings.period_seconds)
        self._changed = asyncio.Event()
        #: Whether statuses are on their way; until then it is not known which are due.
        self._writing = False
        #: Whether others may have become due meanwhile.
        self._overtaken = False
        #: Set when a list is wanted sooner.
        self._doubt = asyncio.Event()
        self._refused: dict[str, str] = {}
        #: Times in a row that the definition was found to be missing.
        self._absences = 0
        #: Why policies cannot be listed, watched, or written to; by what failed.
        self._problems: dict[str, str] = {}
        self._contact_at: float | None = None
        #: What the sink raised when it was called from outside of `run`.
        self._defect: Exception | None = None

    def health(self) -> WatchHealth:
        """Return how it does now; a status that cannot be written is no matter of health."""
        silent = None
        if self._contact_at is not None:
            silent = asyncio.get_running_loop().time() - self._contact_at
        return WatchHealth(
            resource=RESOURCE,
            synced=self.synced.is_set(),
            silent_seconds=silent,
            problem=self._problems.get("list") or self._problems.get("watch") or "",
            undecodable=len(self._refused),
            objects=len(self._book),
        )

    def standing(self) -> dict[str, int]:
        """Return the number of policies by what is in force: see `PolicyRegistry.standing`."""
        return self._book.standing()

    async def run(self) -> NoReturn:
        """List, watch and write statuses until cancelled. What the sink raises ends it."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._tell())
                await self._keep_up()
        finally:
            await self._close()

    async def _keep_up(self) -> NoReturn:
        while True:
            if await self._look():
                self._backoff.reset()
                await self._rest()
            else:
                await self._backoff.wait()
            if self._defect is not None:
                raise self._defect

    async def _rest(self) -> None:
        """Wait for the time of the next list, or for a reason to ask sooner."""
        period = self._settings.period_seconds * (1 - self._sleeper.jitter() / 2)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(period):
                await self._doubt.wait()
        self._doubt.clear()

    # Whether there can be policies, and which there are

    async def _look(self) -> bool:
        """List once; whether it is known now which policies there are."""
        asked_at = self._book.newest
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
        elif not await self._is_without():
            return True
        self.synced.set()
        return True

    async def _take_over(self, listed: Listed, asked_at: int) -> None:
        if listed.version < asked_at:
            # kopf's watch would keep silent until the server has counted up to where it began.
            versions = f"from {asked_at} to {listed.version}"
            self._observer.restarted(RESOURCE)
            self._observer.interrupted(RESOURCE, f"the versions of {RESOURCE} went back {versions}")
            await self._close()
        self._hand_over(self._book.take_list(listed, asked_at))
        self._open()

    async def _is_without(self) -> bool:
        """Record that there can be no policies; false where that has to be found once more.

        Where there are policies in force, they are given up only when the definition is missing
        twice, apart: preemption is unbounded without them.
        """
        self._absences += 1
        if self._absences == 1 and len(self._book):
            return False
        await self._close()
        self._problem("watch", "")
        self._hand_over(self._book.clear())
        return True

    async def _list(self) -> Listed | None:
        """Return all policies, `None` where there can be none.

        Raises:
            KubeError: That cannot be told now.
        """
        request = Request("list", RESOURCE, "GET", PATH)
        try:
            body = await self._client.call(request)
        except (NotFound, NotServed, Forbidden):
            # The server judges the right before it looks for the resource.
            if await is_served(self._client, PATH):
                raise
            return None
        try:
            page = _decoded(body)
        except UNREADABLE as error:
            raise Unreachable(f"cannot {request}: {error}") from error
        at = version(page.metadata)
        check_list(page.kind, f"{KIND}List", str(at or ""))
        return Listed(at, tuple(judge(each) for each in page.items or ()))

    def _open(self) -> None:
        # It brings aiohttp, which the first requests must not wait for.
        from scheduler.kube.policies.operator import PolicyOperator  # noqa: PLC0415

        if self._operator is None:
            settings = self._settings
            self._operator = PolicyOperator(
                settings.where, settings.user_agent, settings.wall, self
            )
            self._operator.start()

    async def _close(self) -> None:
        operator, self._operator = self._operator, None
        self._writing = False
        if operator is not None:
            await operator.close(self._settings.patience_seconds)

    # What kopf tells

    def watched(self) -> None:
        """Hear that a watch was opened: what was deleted before it is told by a list only."""
        self._problem("watch", "")
        self._restarts.reset()
        self._doubt.set()

    def observed(self, judged: ParsedPolicy) -> None:
        """Hear that a policy exists in this state."""
        self._hand_over(self._book.take(judged))

    def gone(self, name: str, uid: str, at: int) -> None:
        """Hear that a policy was deleted."""
        self._hand_over(self._book.take_gone(name, uid, at))

    def wrote(self, name: str, uid: str, status: Json, at: int) -> None:
        """Hear that a status was written."""
        self._problem("status", "")
        self._book.wrote(name, uid, status, at)

    def not_written(self, name: str, problem: str) -> None:
        """Hear that a status could not be written."""
        self._problem("status", f"status of {name}: {problem}")

    def settled(self, operator: "PolicyOperator") -> None:
        """Hear that all statuses that were to be written have been, or cannot be."""
        if operator is self._operator:
            self._writing = False
            if self._overtaken:
                self._changed.set()

    def may_write(self) -> bool:
        """Return whether this process leads at this moment."""
        return self._settings.may_write()

    def ended(self, operator: "PolicyOperator", problem: str) -> None:
        """Hear that nothing is watched any more; the next list, soon, starts it again."""
        if operator is self._operator:
            self._operator, self._writing = None, False
            self._problem("watch", f"cannot watch {RESOURCE}: {problem}")
            asyncio.get_running_loop().call_later(self._restarts.delay(), self._doubt.set)

    # What is told

    def _hand_over(self, events: list[Event]) -> None:
        try:
            if events:
                self._sink(events)
        except Exception as error:
            self._defect = error
            self._doubt.set()
            raise
        for event in events:
            if isinstance(event, PolicyObserved):
                policy = event.policy
                self._observer.policy_told(policy.name, "accepted", f"{policy.generation}")
            elif isinstance(event, PolicyGone):
                self._observer.policy_told(event.name, "gone", "")
        refused = self._book.refused()
        for name, problem in refused.items() - self._refused.items():
            self._observer.policy_told(name, "refused", problem)
        self._refused = refused
        self._changed.set()

    def _problem(self, what: str, problem: str) -> None:
        """Take note of what fails, and tell of it once."""
        if problem and problem != self._problems.get(what):
            self._observer.restarted(RESOURCE)
            self._observer.interrupted(RESOURCE, problem)
        self._problems[what] = problem

    async def _tell(self) -> NoReturn:
        """Have statuses written that say something else than they should."""
        while True:
            waiting = self._settings.figures_seconds if len(self._book) else None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(waiting):
                    await self._changed.wait()
            await self._sleeper.sleep(SETTLE_SECONDS)
            self._changed.clear()
            if self._operator is None or not self._settings.may_write():
                continue
            self._overtaken = self._writing
            if not self._writing and (due := self._book.due(self._settings.figures())):
                self._writing = self._operator.write(due)


class _Page(msgspec.Struct):
    kind: str
    metadata: dict[str, Any] = {}
    items: list[dict[str, Any]] | None = None


_PAGE: Final = msgspec.json.Decoder(_Page)


def _decoded(body: bytes) -> _Page:
    """Read a list, also where one policy in it is nested too deeply to be read."""
    try:
        return _PAGE.decode(body)
    except RecursionError:
        return _PAGE.decode(without_depths(body))
