"""Execute effects: everything that this scheduler writes goes through here.

Before it stands the machine, behind it the API server. Each effect that is submitted comes back
as exactly one outcome, never before `submit` has returned: `EffectDone` or `EffectFailed`, and for
an `Ask` that is done `Answered`. Order and priority are those of `scheduler.kube.outbox`, the calls
those of `scheduler.kube.execution`.
"""

import asyncio
import functools
from collections.abc import Callable

from scheduler.kube.client import Client
from scheduler.kube.execution import Execution
from scheduler.kube.outbox import Job, Lane, Outbox
from scheduler.kube.pauses import Pauses
from scheduler.kube.writer_settings import WriterSettings
from scheduler.model.effects import Announce, Ask, Effect
from scheduler.model.events import (
    Answered,
    EffectDone,
    EffectFailed,
    Event,
    Failure,
    FailureKind,
)
from scheduler.model.times import Seconds

__all__ = ["Writer", "WriterSettings"]

STOPPING = Failure(FailureKind.ABANDONED, "not sent: the scheduler stops")
TOO_MANY = Failure(FailureKind.UNAVAILABLE, "not sent: too many Events wait")


class Writer:
    """Sends effects to the API server.

    Args:
        client: How requests travel.
        sink: Receives the outcomes, on the event loop.
        gate: Whether we may write at this moment; asked before every write.
        clock: Seconds since the epoch, for the time stamps that are written.
        pauses: Where waiting comes from.
        settings: How much at a time, and how patiently.
    """

    def __init__(
        self,
        client: Client,
        sink: Callable[[Event], None],
        gate: Callable[[], bool],
        clock: Callable[[], Seconds],
        pauses: Pauses,
        settings: WriterSettings | None = None,
    ) -> None:
        self._settings = settings or WriterSettings()
        self._observer = client.observer
        self._sink = sink
        self._outbox = Outbox(self._settings.places)
        self._execution = Execution(client, gate, clock, pauses, self._settings)
        self._tasks: set[asyncio.Task[Failure | None]] = set()
        self._stopping = False

    @property
    def sent(self) -> int:
        """How many effects are on their way."""
        return self._outbox.sent

    def waiting(self) -> dict[str, int]:
        """Return how many effects wait in each lane."""
        return {lane.name.lower(): self._outbox.waiting(lane) for lane in Lane}

    def submit(self, effect: Effect) -> None:
        """Have an effect executed; the outcome goes to the sink later."""
        if self._stopping:
            self._tell_soon(effect, STOPPING)
        elif isinstance(effect, Announce) and self._is_full():
            self._observer.event_dropped()
            self._tell_soon(effect, TOO_MANY)
        else:
            for moot in self._outbox.add(effect):
                self._tell_soon(moot, None)
            self._start()

    async def drain(self, seconds: float) -> None:
        """Stop: abandon what was not sent, and give the rest so many seconds to end."""
        self._stopping = True
        for effect in self._outbox.clear():
            self._tell_soon(effect, STOPPING)
        self._execution.stop()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await asyncio.sleep(0)  # outcomes that were told "soon" are told by now

    def _is_full(self) -> bool:
        return self._outbox.waiting(Lane.ANNOUNCE) >= self._settings.events_waiting

    def _start(self) -> None:
        """Send as many effects as there are places for."""
        while job := self._outbox.take():
            task = asyncio.create_task(self._execution.execute(job))
            self._tasks.add(task)
            task.add_done_callback(functools.partial(self._ended, job))

    def _ended(self, job: Job, task: asyncio.Task[Failure | None]) -> None:
        """Tell the outcome of a job, whichever way its task ended."""
        self._tasks.discard(task)
        self._outbox.done(job)
        if task.cancelled():
            failure: Failure | None = STOPPING
        elif error := task.exception():
            failure = Failure(FailureKind.UNAVAILABLE, f"{type(error).__name__}: {error}")
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"could not execute {job.effect}", "exception": error}
            )
        else:
            failure = task.result()
        self._start()
        if failure is None and isinstance(job.effect, Ask):
            self._sink(Answered(job.effect.pod, job.effect.number, job.answers))
        else:
            self._tell(job.effect, failure, changed=not job.unchanged)

    def _tell_soon(self, effect: Effect, failure: Failure | None) -> None:
        asyncio.get_running_loop().call_soon(self._tell, effect, failure)

    def _tell(self, effect: Effect, failure: Failure | None, *, changed: bool = True) -> None:
        if failure is None:
            self._sink(EffectDone(effect, changed))
        else:
            self._sink(EffectFailed(effect, failure))
