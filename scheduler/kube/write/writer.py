"""The writer: everything that this scheduler writes to the API server goes through here.

Effects come from the machine. Each effect that is submitted comes back as exactly one outcome,
never before `submit` has returned: `EffectDone` or `EffectFailed`, and `Answered` for an `Ask` that
is done. `scheduler.kube.write.effect_queue` defines order and priority,
`scheduler.kube.write.executor` the calls. An exception of the sink is passed to
`WriterSettings.defect`, on every path that an outcome takes.
"""

import asyncio
import contextlib
import functools
from collections.abc import Callable

from scheduler.kube.client.backoff import Sleeper
from scheduler.kube.client.client import Client
from scheduler.kube.write.effect_queue import EffectQueue, Lane, QueuedEffect
from scheduler.kube.write.executor import EffectExecutor, FirstAnswer
from scheduler.kube.write.writer_settings import WriterSettings
from scheduler.model.effects import Ask, Effect, RecordEvent
from scheduler.model.events import (
    Answered,
    ClaimAnswered,
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
        client: Sends the requests.
        sink: Receives the outcomes, on the event loop.
        gate: Returns whether we may write now; called before every write.
        clock: Seconds since the epoch, for the time stamps that are written.
        sleeper: Waits between attempts.
        settings: Limits, timeouts and callbacks.
    """

    def __init__(
        self,
        client: Client,
        sink: Callable[[Event], None],
        gate: Callable[[], bool],
        clock: Callable[[], Seconds],
        sleeper: Sleeper,
        settings: WriterSettings | None = None,
    ) -> None:
        self._settings = settings or WriterSettings()
        self._observer = client.observer
        self._sink = sink
        self._queue = EffectQueue(self._settings.places, clock)
        self._executor = EffectExecutor(client, gate, clock, sleeper, self._settings)
        self._tasks: set[asyncio.Task[Failure | None]] = set()
        #: Jobs that were sent without a task, and are not answered yet.
        self._begun: set[QueuedEffect] = set()
        self._all_answered = asyncio.Event()
        self._stopping = False

    @property
    def sent(self) -> int:
        """How many effects are being sent."""
        return self._queue.sent

    @property
    def evicting(self) -> int:
        """How many evictions are being sent, or may still be carried out without an answer."""
        return self._queue.evicting + self._executor.uncertain_evictions

    def lengths(self) -> dict[str, int]:
        """Return how many effects wait in each lane."""
        return {lane.label: self._queue.length(lane) for lane in Lane}

    def submit(self, effect: Effect) -> None:
        """Execute an effect; the outcome goes to the sink later."""
        if self._stopping:
            self._report_soon(effect, STOPPING)
        elif isinstance(effect, RecordEvent) and self._is_full():
            self._observer.event_dropped()
            self._report_soon(effect, TOO_MANY)
        else:
            for moot in self._queue.add(effect):
                self._report_soon(moot, None)
            self._start()

    async def drain(self, seconds: float) -> None:
        """Stop: abandon effects that were not sent, and give the rest so many seconds to end."""
        self._stopping = True
        for effect in self._queue.clear():
            self._report_soon(effect, STOPPING)
        self._executor.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._until_answered()
        while self._begun:
            self._finish(self._begun.pop(), STOPPING)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await asyncio.sleep(0)  # by now the outcomes of `call_soon` have gone to the sink

    async def _until_answered(self) -> None:
        while self._begun or self._tasks:
            if self._begun:
                self._all_answered.clear()
                await self._all_answered.wait()
            else:
                await asyncio.wait(self._tasks)

    def _is_full(self) -> bool:
        return self._queue.length(Lane.EVENT) >= self._settings.events_waiting

    def _start(self) -> None:
        """Send as many effects as there are places for."""
        while entry := self._queue.take():
            if self._executor.start(entry, functools.partial(self._answered, entry)):
                self._begun.add(entry)
            else:
                self._execute(entry)

    def _execute(self, entry: QueuedEffect, first_answer: FirstAnswer | None = None) -> None:
        task = asyncio.create_task(self._executor.execute(entry, first_answer))
        self._tasks.add(task)
        task.add_done_callback(functools.partial(self._ended, entry))

    def _answered(self, entry: QueuedEffect, first_answer: FirstAnswer | None) -> None:
        """Finish an effect that has no task, or continue it in one."""
        if entry not in self._begun:
            return  # we stop, and its outcome has gone to the sink
        self._begun.remove(entry)
        if first_answer is None:
            self._finish(entry, None)
        else:
            self._execute(entry, first_answer)
        if not self._begun:
            self._all_answered.set()

    def _ended(self, entry: QueuedEffect, task: asyncio.Task[Failure | None]) -> None:
        """Report the outcome of an effect, however its task ended."""
        try:
            self._finish_task(entry, task)
        except Exception as error:  # noqa: BLE001 - the loop would log it and continue
            self._settings.defect(error)

    def _finish_task(self, entry: QueuedEffect, task: asyncio.Task[Failure | None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            failure: Failure | None = STOPPING
        elif error := task.exception():
            failure = Failure(FailureKind.UNAVAILABLE, f"{type(error).__name__}: {error}")
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"could not execute {entry.effect}", "exception": error}
            )
        else:
            failure = task.result()
        self._finish(entry, failure)

    def _finish(self, entry: QueuedEffect, failure: Failure | None) -> None:
        self._queue.done(entry)
        self._start()
        for claim, created in entry.claims:
            self._sink(ClaimAnswered(claim, created))
        if failure is None and isinstance(entry.effect, Ask):
            self._sink(Answered(entry.effect.pod, entry.effect.number, entry.answers))
        else:
            self._report(entry.effect, failure, changed=not entry.unchanged)

    def _report_soon(self, effect: Effect, failure: Failure | None) -> None:
        asyncio.get_running_loop().call_soon(self._report_now, effect, failure)

    def _report_now(self, effect: Effect, failure: Failure | None) -> None:
        try:
            self._report(effect, failure)
        except Exception as error:  # noqa: BLE001 - the loop would log it and continue
            self._settings.defect(error)

    def _report(self, effect: Effect, failure: Failure | None, *, changed: bool = True) -> None:
        if failure is None:
            self._sink(EffectDone(effect, changed))
        else:
            self._sink(EffectFailed(effect, failure))
