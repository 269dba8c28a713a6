"""When a write is tried again, how long, and what the responses to writes mean.

All effects share this. No write begins when this process stops or does not lead, except for one
that finishes what was begun.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from scheduler.kube.client.backoff import ExponentialBackoff, Sleeper
from scheduler.kube.client.client import Client, Request, body_of
from scheduler.kube.client.transport import Reply
from scheduler.kube.errors import (
    ApiError,
    Conflict,
    ConnectionSettingsError,
    Denied,
    KubeError,
    MissingRight,
    NamespaceTerminating,
    NotFound,
    ServerUnavailable,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from scheduler.kube.write.effect_queue import QueuedEffect
from scheduler.kube.write.writer_settings import WriterSettings
from scheduler.model.effects import Effect, Evict
from scheduler.model.events import FailureKind

__all__ = [
    "TRANSIENT",
    "Abandoned",
    "FirstAnswer",
    "Protected",
    "Replaced",
    "RetryAttempt",
    "RetryPolicy",
    "failure_kind",
    "may_have_executed",
    "not_found_is_transient",
    "raise_permanent",
]

#: Errors after which the same request may succeed.
TRANSIENT: Final = (
    Unauthorized,
    TooManyRequests,
    ServerUnavailable,
    Unreachable,
    ConnectionSettingsError,
)

#: Phrases by which API servers say that the pod of this name has another uid, and the statuses. No
#: name has a colon, so the last one is not the name of a pod.
OTHER_IDENTITY: Final = ("UID in precondition", "UID in the precondition", "metadata.uid: ")
_BY_IDENTITY: Final = (409, 422)

#: Phrases of API servers for: disruption budgets do not let the pod be evicted.
#: Source: kube-apiserver v1.36.3 pkg/registry/core/pod/storage/eviction.go.
PROTECTED: Final = (
    "violate the pod's disruption budget",
    "more than one PodDisruptionBudget",
)


class Abandoned(KubeError):
    """The write must not happen any more."""


class Protected(ApiError):
    """A disruption budget keeps a pod from being evicted."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(error.status, error.reason, error.message)


class Replaced(KubeError):
    """The pod is another one of the same name."""


class FirstAnswer(NamedTuple):
    """A request that was sent without a task, and whose answer is not a success.

    Earlier requests of the same effect have succeeded.
    """

    request: Request
    #: `None` where the request could not be sent without a task.
    answer: Reply | Unreachable | None


@dataclass(slots=True)
class RetryAttempt:
    """The state of the attempts for one effect."""

    entry: QueuedEffect
    backoff: ExponentialBackoff
    #: On the loop's clock; `None` for no end.
    deadline: float | None
    #: Whether something was begun that must be finished, even while this process stops.
    finishing: bool = False
    #: The first answer, where there is one already; it takes the place of the first request.
    first_answer: FirstAnswer | None = None
    #: On the loop's clock: until then the API server may carry out a request that it was sent and
    #: did not answer; `None` where there is no such request.
    uncertain_until: float | None = None


class RetryPolicy:
    """Decides whether a write may be sent, and waits between two attempts."""

    def __init__(
        self, client: Client, gate: Callable[[], bool], sleeper: Sleeper, settings: WriterSettings
    ) -> None:
        self._client = client
        self._sleeper = sleeper
        self._gate = gate
        self._still_wanted = settings.still_wanted
        self._patience = settings.patience
        self._stopping = False
        #: The end of the server's `Retry-After` by kind of effect, on the loop's clock.
        self._quiet: dict[type[Effect], float] = {}
        #: Tasks that wait and write nothing meanwhile; stopping ends them at once.
        self._pausing: set[asyncio.Task[object]] = set()

    def stop(self) -> None:
        """Begin no more writes, except for those that finish what was begun."""
        self._stopping = True
        for task in self._pausing:
            task.cancel()

    def may_start(self, effect: Effect) -> bool:
        """Return whether the first request for an effect may be sent now."""
        return not self._stopping and not self._must_wait(effect) and self._gate()

    def check(self, attempt: RetryAttempt) -> None:
        """Make sure that the effect may be written now.

        Raises:
            Abandoned: This process stops or does not lead, or the eviction is not wanted any more.
        """
        if self._stopping and not attempt.finishing:
            raise Abandoned("not sent: the scheduler stops")
        if not self._gate():
            raise Abandoned("not sent: another instance leads")
        effect = attempt.entry.effect
        if isinstance(effect, Evict) and not attempt.finishing and not self._still_wanted(effect):
            raise Abandoned("not sent: the preemptor no longer needs it")

    def start(self, entry: QueuedEffect, first_answer: FirstAnswer | None) -> RetryAttempt:
        """Return the state of an effect whose attempts begin now."""
        now = asyncio.get_running_loop().time()
        return RetryAttempt(
            entry, self.backoff(), now + self._patience.seconds, first_answer=first_answer
        )

    async def call(self, request: Request, attempt: RetryAttempt) -> bytes:
        """Send a request, or take the answer that has come already."""
        begun, attempt.first_answer = attempt.first_answer, None
        if begun is not None and begun.answer is not None:
            return body_of(begun.request, begun.answer)
        return await self._client.call(request)

    async def write(
        self, request: Request, attempt: RetryAttempt, *, decides: bool = False
    ) -> None:
        """Send a request until it succeeds, fails permanently, or becomes unnecessary.

        Args:
            request: The request.
            attempt: The attempt.
            decides: Whether the effect may have happened when this request got no answer, which
                the attempt then remembers.

        Raises:
            KubeError: It failed permanently, or there is no time for another attempt.
        """
        while not attempt.entry.obsolete:
            self.check(attempt)
            try:
                await self.call(request, attempt)
            except (ApiError, *TRANSIENT) as error:
                if isinstance(error, ApiError):
                    if isinstance(error, Conflict) and error.reason == "AlreadyExists":
                        return  # made by an earlier attempt whose answer was lost
                    raise_permanent(error)
                    if not isinstance(error, (Conflict, *TRANSIENT)):
                        raise
                if decides and may_have_executed(error):
                    self.mark_uncertain(attempt)
                await self.pause(request, error, attempt)
            else:
                return

    async def wait_turn(self, effect: Effect) -> None:
        """Wait until a `Retry-After` that the server sent for this kind of effect is over."""
        if self._must_wait(effect):
            until = self._quiet[type(effect)]
            with self.stoppable():
                await self._sleeper.sleep(until - asyncio.get_running_loop().time())
            if self._quiet.get(type(effect)) == until:
                del self._quiet[type(effect)]

    def _must_wait(self, effect: Effect) -> bool:
        if not self._quiet:
            return False
        return asyncio.get_running_loop().time() < self._quiet.get(type(effect), 0.0)

    def mark_uncertain(self, attempt: RetryAttempt) -> None:
        """Record that a request was sent and that it is unknown whether it is carried out."""
        now = asyncio.get_running_loop().time()
        attempt.uncertain_until = now + self._patience.uncertain_seconds

    async def pause(self, request: Request, error: KubeError, attempt: RetryAttempt) -> None:
        """Wait before the next attempt.

        Raises:
            KubeError: `error`, when there is no time for another attempt. A `Retry-After` of the
                server then applies to the next effect of this kind.
        """
        retry_after = error.retry_after if isinstance(error, ApiError) else None
        delay = attempt.backoff.delay(retry_after)
        now = asyncio.get_running_loop().time()
        if attempt.deadline is not None and now + delay > attempt.deadline:
            if retry_after is not None:
                self._quiet[type(attempt.entry.effect)] = now + delay
            raise error
        self._client.observer.retried(request.verb, request.resource, str(error))
        with contextlib.nullcontext() if attempt.finishing else self.stoppable():
            await self._sleeper.sleep(delay)

    @contextlib.contextmanager
    def stoppable(self) -> Iterator[None]:
        """Let `stop` cancel the task while it is in this context."""
        task = asyncio.current_task()
        if task is not None:
            self._pausing.add(task)
        try:
            yield
        finally:
            if task is not None:
                self._pausing.discard(task)

    async def await_outcome(
        self, attempt: RetryAttempt, is_done: Callable[[], Awaitable[bool]]
    ) -> bool:
        """Look up until no request that was sent can be carried out; return whether one was.

        Nothing is written meanwhile, so this ends at once when the process stops.
        """
        backoff, loop = self.backoff(), asyncio.get_running_loop()
        with self.stoppable():
            while attempt.uncertain_until is not None and loop.time() < attempt.uncertain_until:
                await backoff.wait()
                if await is_done():
                    return True
            return await is_done()

    def backoff(self) -> ExponentialBackoff:
        """Return a new backoff, which begins with the shortest pause."""
        patience = self._patience
        return ExponentialBackoff(
            self._sleeper, patience.first_pause_seconds, patience.longest_pause_seconds
        )


def may_have_executed(error: KubeError) -> bool:
    """Return whether the server may have carried out the request.

    "Not found" leaves it open: a binding that was executed, and whose pod is gone by now, gets it.
    """
    if isinstance(error, Unreachable):
        return error.sent
    return isinstance(error, ServerUnavailable | NotFound)


def not_found_is_transient(error: KubeError) -> KubeError:
    """Return the error for a pod that a look-up has just found: "not found" cannot be true."""
    return Unreachable(str(error)) if isinstance(error, NotFound) else error


def raise_permanent(error: ApiError) -> None:
    """Raise the error for an answer that stays the same, although its status may be transient.

    Raises:
        Replaced: There is another pod of that name.
        Protected: A disruption budget refuses the eviction.
        Denied: Admission denies it, perhaps with a message that has one of these phrases.
    """
    if isinstance(error, Denied):
        raise error
    is_identity = error.status in _BY_IDENTITY
    if is_identity and any(phrase in error.message for phrase in OTHER_IDENTITY):
        raise Replaced(str(error)) from error
    if any(phrase in error.message for phrase in PROTECTED):
        raise Protected(error) from error


def failure_kind(error: KubeError) -> FailureKind:
    """Return what an error means to the machine."""
    match error:
        case Abandoned():
            return FailureKind.ABANDONED
        case NotFound() | Replaced() | NamespaceTerminating():
            return FailureKind.GONE
        case Conflict():
            return FailureKind.CONFLICT
        case MissingRight():
            return FailureKind.FORBIDDEN
        case ApiError() if not isinstance(error, TRANSIENT):
            return FailureKind.REFUSED
        case _:
            return FailureKind.UNAVAILABLE
