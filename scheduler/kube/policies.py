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

from scheduler.kube.client import Client, Request
from scheduler.kube.connection import Connection
from scheduler.kube.decoding import UNREADABLE
from scheduler.kube.errors import Forbidden, KubeError, NotFound, Unreachable
from scheduler.kube.informer import Health
from scheduler.kube.pauses import Backoff, Pauses
from scheduler.kube.policy_book import (
    GROUP,
    PATH,
    RESOURCE,
    Book,
    Json,
    Judged,
    Listed,
    judge,
    version,
)
from scheduler.model.events import Event, PolicyGone, PolicyObserved
from scheduler.model.policies import PolicyFigures
from scheduler.model.times import Seconds

if TYPE_CHECKING:
    from scheduler.kube.policy_operator import PolicyOperator

__all__ = ["Policies", "PolicySettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySettings:
    """Who asks, who may write, and how often."""

    where: Connection
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


class Policies:
    """Tells a sink about the policies in force, for ever."""

    def __init__(
        self,
        client: Client,
        sink: Callable[[list[Event]], None],
        pauses: Pauses,
        settings: PolicySettings,
    ) -> None:
        #: Set once all policies were handed over, or it is known that there can be none.
        self.synced = asyncio.Event()
        self._client = client
        self._sink = sink
        self._pauses = pauses
        self._settings = settings
        self._observer = client.observer
        self._book = Book(settings.wall)
        self._operator: PolicyOperator | None = None
        self._backoff = Backoff(pauses, 0.5, settings.period_seconds)
        self._restarts = Backoff(pauses, 1.0, settings.period_seconds)
        self._changed = asyncio.Event()
        #: Set when a list is wanted sooner.
        self._doubt = asyncio.Event()
        self._refused: dict[str, str] = {}
        #: Why policies cannot be listed, watched, or written to; by what failed.
        self._problems: dict[str, str] = {}
        self._contact_at: float | None = None
        #: What the sink raised when it was called from outside of `run`.
        self._defect: Exception | None = None

    def health(self) -> Health:
        """Return how it does now; a status that cannot be written is no matter of health."""
        silent = None
        if self._contact_at is not None:
            silent = asyncio.get_running_loop().time() - self._contact_at
        return Health(
            resource=RESOURCE,
            synced=self.synced.is_set(),
            silent_seconds=silent,
            problem=self._problems.get("list") or self._problems.get("watch") or "",
            undecodable=len(self._refused),
            objects=len(self._book),
        )

    def standing(self) -> dict[str, int]:
        """Return how many policies there are by what is in force of each; see `Book.standing`."""
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
        period = self._settings.period_seconds * (1 - self._pauses.jitter() / 2)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(period):
                await self._doubt.wait()
        self._doubt.clear()

    # Whether there can be policies, and which there are

    async def _look(self) -> bool:
        """List once; whether it is known now which policies there are."""
        try:
            listed = await self._list()
        except KubeError as error:
            self._problem("list", str(error))
            return False
        self._contact_at = asyncio.get_running_loop().time()
        self._problem("list", "")
        if listed is None:
            await self._close()
            self._problem("watch", "")
            self._hand_over(self._book.clear())
        else:
            self._hand_over(self._book.take_list(listed))
            self._open()
        self.synced.set()
        return True

    async def _list(self) -> Listed | None:
        """Return all policies, `None` where there can be none.

        Raises:
            KubeError: That cannot be told now.
        """
        request = Request("list", RESOURCE, "GET", PATH)
        try:
            body = await self._client.call(request)
        except NotFound:
            return None
        except Forbidden:
            # The server judges the right before it looks for the resource.
            if await self._is_defined():
                raise
            return None
        try:
            page = _PAGE.decode(body)
            items = tuple(judge(each) for each in page.items or ())
        except UNREADABLE as error:
            raise Unreachable(f"cannot {request}: {error}") from error
        return Listed(version(page.metadata), items)

    async def _is_defined(self) -> bool:
        path = PATH.removesuffix(f"/{RESOURCE}")
        try:
            body = await self._client.call(Request("get", GROUP, "GET", path))
        except NotFound:
            return False
        return f'"{RESOURCE}"'.encode() in body

    def _open(self) -> None:
        # It brings aiohttp, which the first requests must not wait for.
        from scheduler.kube.policy_operator import PolicyOperator  # noqa: PLC0415

        if self._operator is None:
            settings = self._settings
            self._operator = PolicyOperator(settings.where, settings.user_agent, self)
            self._operator.start()

    async def _close(self) -> None:
        operator, self._operator = self._operator, None
        if operator is not None:
            await operator.close(self._settings.patience_seconds)

    # What kopf tells

    def watched(self) -> None:
        """Hear that a watch was opened: what was deleted before it is told by a list only."""
        self._problem("watch", "")
        self._restarts.reset()
        self._doubt.set()

    def observed(self, judged: Judged) -> None:
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

    def ended(self, operator: "PolicyOperator", problem: str) -> None:
        """Hear that nothing is watched any more; the next list, soon, starts it again."""
        if operator is self._operator:
            self._operator = None
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
            self._observer.interrupted(RESOURCE, problem)
        self._problems[what] = problem

    async def _tell(self) -> NoReturn:
        """Have statuses written that say something else than they should."""
        while True:
            waiting = self._settings.figures_seconds if len(self._book) else None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(waiting):
                    await self._changed.wait()
            await self._pauses.sleep(SETTLE_SECONDS)
            self._changed.clear()
            if self._operator is not None and self._settings.may_write():
                due = self._book.due(self._settings.figures())
                if due:
                    self._operator.write(due)


class _Page(msgspec.Struct):
    metadata: dict[str, Any] = {}
    items: list[dict[str, Any]] | None = None


_PAGE: Final = msgspec.json.Decoder(_Page)
