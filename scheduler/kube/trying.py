"""How often, and for how long, a write is tried: what all effects have in common.

Nothing is written any more when we stop or do not lead, except for what finishes what was begun.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from scheduler.kube.client import Client, Request
from scheduler.kube.errors import ApiError, KubeError, Unreachable
from scheduler.kube.meaning import Abandoned
from scheduler.kube.outbox import Job
from scheduler.kube.pauses import Backoff, Pauses
from scheduler.kube.transport import Reply
from scheduler.kube.writer_settings import Patience

__all__ = ["Begun", "Effort", "Trying"]


class Begun(NamedTuple):
    """A write that was sent without a task, and whose first answer is no plain yes."""

    request: Request
    answer: Reply | Unreachable


@dataclass(slots=True)
class Effort:
    """The attempts for one job."""

    job: Job
    backoff: Backoff
    #: On the loop's clock; `None` for no end.
    deadline: float | None
    #: Whether something was begun that must be finished, even while we stop.
    finishing: bool = False
    #: What was answered before; it is judged instead of sending the first request.
    begun: Begun | None = None


class Trying:
    """Whether to try, and the pauses between two attempts."""

    def __init__(
        self, client: Client, gate: Callable[[], bool], pauses: Pauses, patience: Patience
    ) -> None:
        self._client = client
        self._pauses = pauses
        #: Tells whether we may write at this moment.
        self.gate: Final = gate
        self.patience: Final = patience
        self.stopping = False
        #: Tasks that wait and write nothing meanwhile; stopping ends them at once.
        self._pausing: set[asyncio.Task[object]] = set()

    def stop(self) -> None:
        """Begin no write any more, but those that finish what was begun."""
        self.stopping = True
        for task in self._pausing:
            task.cancel()

    def check(self, effort: Effort) -> None:
        """Refuse to write when we must not."""
        if self.stopping and not effort.finishing:
            raise Abandoned("not sent: the scheduler stops")
        if not self.gate():
            raise Abandoned("not sent: another instance leads")

    async def pause(self, request: Request, error: KubeError, effort: Effort) -> None:
        """Wait before the next attempt; raises the error when there is no time for one."""
        retry_after = error.retry_after if isinstance(error, ApiError) else None
        delay = effort.backoff.delay(retry_after)
        now = asyncio.get_running_loop().time()
        if effort.deadline is not None and now + delay > effort.deadline:
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

    def backoff(self) -> Backoff:
        """Return pauses that begin small."""
        patience = self.patience
        return Backoff(self._pauses, patience.first_pause_seconds, patience.longest_pause_seconds)
