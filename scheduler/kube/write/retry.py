"""How often, and for how long, a write is tried: what all effects have in common.

Nothing is written any more when we stop or do not lead, except for what finishes what was begun.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from scheduler.kube.client.backoff import ExponentialBackoff, Sleeper
from scheduler.kube.client.client import Client, Request, body_of
from scheduler.kube.client.transport import Reply
from scheduler.kube.errors import ApiError, KubeError, Unreachable
from scheduler.kube.write.answers import Abandoned
from scheduler.kube.write.effect_queue import Job
from scheduler.kube.write.writer_settings import WriterSettings
from scheduler.model.effects import Effect, Evict

__all__ = ["Begun", "RetryAttempt", "RetryPolicy"]


class Begun(NamedTuple):
    """A write that was sent without a task, and whose first answer is no plain yes."""

    request: Request
    answer: Reply | Unreachable


@dataclass(slots=True)
class RetryAttempt:
    """The attempts for one job."""

    job: Job
    backoff: ExponentialBackoff
    #: On the loop's clock; `None` for no end.
    deadline: float | None
    #: Whether something was begun that must be finished, even while we stop.
    finishing: bool = False
    #: What was answered before; it is judged instead of sending the first request.
    begun: Begun | None = None
    #: On the loop's clock: until then the API server may carry out a request that it was sent and
    #: did not answer; `None` where there is no such request.
    unsettled_until: float | None = None


class RetryPolicy:
    """Whether to try, and the pauses between two attempts."""

    def __init__(
        self, client: Client, gate: Callable[[], bool], pauses: Sleeper, settings: WriterSettings
    ) -> None:
        self._client = client
        self._pauses = pauses
        self._gate = gate
        self._still_wanted = settings.still_wanted
        self._patience = settings.patience
        self._stopping = False
        #: By kind of effect, until when the server asked us to leave it alone, on the loop's clock.
        self._quiet: dict[type[Effect], float] = {}
        #: Tasks that wait and write nothing meanwhile; stopping ends them at once.
        self._pausing: set[asyncio.Task[object]] = set()

    def stop(self) -> None:
        """Begin no write any more, but those that finish what was begun."""
        self._stopping = True
        for task in self._pausing:
            task.cancel()

    def may_begin(self, effect: Effect) -> bool:
        """Tell whether a first request for an effect may be sent at this moment."""
        return not self._stopping and not self._must_wait(effect) and self._gate()

    def check(self, effort: RetryAttempt) -> None:
        """Refuse to write when we must not.

        Raises:
            Abandoned: We stop, do not lead, or the eviction is not wanted any more.
        """
        if self._stopping and not effort.finishing:
            raise Abandoned("not sent: the scheduler stops")
        if not self._gate():
            raise Abandoned("not sent: another instance leads")
        effect = effort.job.effect
        if isinstance(effect, Evict) and not effort.finishing and not self._still_wanted(effect):
            raise Abandoned("not sent: the preemptor does not need it any more")

    def effort(self, job: Job, begun: Begun | None) -> RetryAttempt:
        """Return the attempts for a job, which begin now."""
        now = asyncio.get_running_loop().time()
        return RetryAttempt(job, self.backoff(), now + self._patience.seconds, begun=begun)

    async def call(self, request: Request, effort: RetryAttempt) -> bytes:
        """Send a request, or take the answer that it has got already."""
        begun, effort.begun = effort.begun, None
        if begun is not None:
            return body_of(begun.request, begun.answer)
        return await self._client.call(request)

    async def turn(self, effect: Effect) -> None:
        """Wait while the server has asked to be left alone with effects of this kind."""
        if self._must_wait(effect):
            until = self._quiet[type(effect)]
            with self.stoppable():
                await self._pauses.sleep(until - asyncio.get_running_loop().time())
            if self._quiet.get(type(effect)) == until:
                del self._quiet[type(effect)]

    def _must_wait(self, effect: Effect) -> bool:
        if not self._quiet:
            return False
        return asyncio.get_running_loop().time() < self._quiet.get(type(effect), 0.0)

    def unsettle(self, effort: RetryAttempt) -> None:
        """Note that a request was sent, and that it is unknown whether it is carried out."""
        now = asyncio.get_running_loop().time()
        effort.unsettled_until = now + self._patience.unsettled_seconds

    async def pause(self, request: Request, error: KubeError, effort: RetryAttempt) -> None:
        """Wait before the next attempt; raises the error when there is no time for one.

        What the server asked for counts for the next effect of this kind then.
        """
        retry_after = error.retry_after if isinstance(error, ApiError) else None
        delay = effort.backoff.delay(retry_after)
        now = asyncio.get_running_loop().time()
        if effort.deadline is not None and now + delay > effort.deadline:
            if retry_after is not None:
                self._quiet[type(effort.job.effect)] = now + delay
            raise error
        self._client.observer.retried(request.verb, request.resource, str(error))
        with contextlib.nullcontext() if effort.finishing else self.stoppable():
            await self._pauses.sleep(delay)

    @contextlib.contextmanager
    def stoppable(self) -> Iterator[None]:
        """Let the task be cancelled by `stop` while it does what follows."""
        task = asyncio.current_task()
        if task is not None:
            self._pausing.add(task)
        try:
            yield
        finally:
            if task is not None:
                self._pausing.discard(task)

    def backoff(self) -> ExponentialBackoff:
        """Return pauses that begin small."""
        patience = self._patience
        return ExponentialBackoff(
            self._pauses, patience.first_pause_seconds, patience.longest_pause_seconds
        )
