"""The loop around the machine: news in as it comes, decisions in short slices, effects out.

One event loop owns everything. Informers and the writer hand events over by calling `observe`;
deciding runs in slices of two milliseconds and then lets I/O breathe. Nothing is decided before
`go` was called, so a standby keeps its caches warm and does nothing else.

What the machine raises is a defect: from then on it knows half of something. It is asked nothing
any more, and `run` raises the defect, over whichever way it came; that ends the process, and the
next one begins with what the API server knows.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from scheduler.core.machine import Machine
from scheduler.model.decisions import Attempt, Placed
from scheduler.model.effects import Bind, Effect
from scheduler.model.events import Answered, EffectDone, EffectFailed, Event
from scheduler.model.times import Seconds
from scheduler.observe.capture import Capture
from scheduler.observe.metrics.instruments import Histogram
from scheduler.service.clock import Clock
from scheduler.service.telemetry import Telemetry

__all__ = ["Loop"]

#: How long deciding may keep I/O waiting. Shorter slices cost throughput, longer ones gain none.
SLICE_SECONDS: Final = 0.002
#: How often the loop looks at its own lag and writes the log out when it is idle.
HEARTBEAT_SECONDS: Final = 0.25


class _Handling(dict[type[Event], Histogram]):
    """What takes the seconds that events cost, by kind: one look-up for each event."""

    def __init__(self, of_kind: Callable[[type[Event]], Histogram]) -> None:
        super().__init__()
        self._of_kind = of_kind

    def __missing__(self, kind: type[Event]) -> Histogram:
        histogram = self[kind] = self._of_kind(kind)
        return histogram


class Loop:
    """Drives one machine."""

    def __init__(
        self,
        machine: Machine,
        submit: Callable[[Effect], None],
        clock: Clock,
        telemetry: Telemetry,
        capture: Capture | None = None,
    ) -> None:
        self._capture = capture
        self._machine = machine
        self._submit = submit
        self._clock = clock
        self._telemetry = telemetry
        self._going = False
        self._news = asyncio.Event()
        #: What rouses the loop when something is due, and when that is.
        self._alarm: tuple[asyncio.TimerHandle, Seconds] | None = None
        #: Attempts that placed a pod, with the time they began, while the machine waits for the
        #: binding.
        self._placed: dict[str, tuple[Attempt, float]] = {}
        self._defect: Exception | None = None
        self._handling = _Handling(telemetry.handling)

    def go(self) -> None:
        """Begin to decide."""
        self._going = True
        self._news.set()

    def stop(self) -> None:
        """Take no further pod."""
        self._going = False

    @property
    def failed(self) -> bool:
        """Whether a defect was found; then nothing may be written any more."""
        return self._defect is not None

    def fail(self, defect: Exception) -> None:
        """Take no further pod nor event, and have `run` raise this."""
        self._defect = self._defect or defect
        self.stop()
        self._news.set()

    def observe(self, events: Iterable[Event]) -> None:
        """Take note of what informers and the writer report."""
        if self._defect is not None:
            return
        try:
            self._take(events)
        except Exception as defect:  # noqa: BLE001 - `run` raises it
            self.fail(defect)

    def _take(self, events: Iterable[Event]) -> None:
        now, perf = self._clock.now(), self._clock.perf
        begun = perf()
        for event in events:
            if self._capture is not None:
                self._capture.event(event, now)
            reaction = self._machine.observe(event, now)
            if reaction.refused:
                self._telemetry.refused(event, reaction.refused)
            for effect in reaction.effects:
                self._submit(effect)
            for bound in reaction.bound:
                placed = self._placed.pop(bound.pod.uid, None)
                if placed is not None:
                    seconds = self._clock.perf() - placed[1]
                    self._telemetry.bound(placed[0], bound, seconds)
            ended = perf()
            self._handling[type(event)].observe(ended - begun)
            begun = ended
        if len(self._placed) > len(self._machine.binding):
            self._forget_placed()
        self._news.set()

    def _forget_placed(self) -> None:
        """Forget attempts whose pod is gone, or was taken off its node before it was bound."""
        binding = self._machine.binding
        self._placed = {uid: each for uid, each in self._placed.items() if uid in binding}

    def check(self) -> None:
        """Assert the invariants: an attempt is kept for each pod that waits for its binding."""
        assert self._placed.keys() == self._machine.binding.keys()

    def outcome(self, event: Event) -> None:
        """Take note of how an effect ended."""
        if self._defect is not None:
            return
        try:
            self._tell(event)
        except Exception as defect:  # noqa: BLE001 - `run` raises it
            self.fail(defect)
            return
        self.observe((event,))

    def _tell(self, event: Event) -> None:
        if isinstance(event, EffectDone | EffectFailed | Answered):
            self._telemetry.outcome(event)
            if isinstance(event, EffectFailed) and isinstance(event.effect, Bind):
                placed = self._placed.pop(event.effect.pod.uid, None)
                if placed is not None:
                    seconds = self._clock.perf() - placed[1]
                    self._telemetry.not_bound(placed[0], event.effect, event.failure, seconds)

    async def run(self) -> None:
        """Decide whenever a pod waits for its turn, until cancelled.

        Raises:
            Exception: The machine failed, or what hears of it; nothing is known for sure any more.
        """
        heartbeat = asyncio.create_task(self._heartbeat())
        try:
            while True:
                self._news.clear()
                if self._defect is not None:
                    raise self._defect
                self._machine.flush(self._clock.now())
                for effect in self._machine.due():
                    self._submit(effect)
                if len(self._placed) > len(self._machine.binding):
                    self._forget_placed()
                while self._going and self._machine.ready():
                    self._slice()
                    await asyncio.sleep(0)
                await self._pause()
        finally:
            heartbeat.cancel()
            self._silence()

    def _slice(self) -> None:
        """Decide for as many pods as fit into one slice."""
        end = self._clock.perf() + SLICE_SECONDS
        while self._going:
            begun = self._clock.perf()
            if begun >= end:
                return
            now = self._clock.now()
            attempt = self._machine.step(now)
            if attempt is None:
                return
            if self._capture is not None:
                self._capture.decision(attempt, now)
            decided = self._clock.perf()
            begun -= attempt.waited
            if isinstance(attempt.decision, Placed):
                self._placed[attempt.pod.uid] = (attempt, begun)
            for effect in attempt.effects:
                self._submit(effect)
            self._telemetry.attempt(attempt, self._clock.perf() - begun, decided - begun)

    async def _pause(self) -> None:
        """Wait for news, or until something is due."""
        due = self._machine.next_wakeup() if self._going else None
        if due is None:
            self._silence()
        elif self._alarm is None or self._alarm[1] != due:
            self._silence()
            # Kept from pause to pause: there is news many times before something is due.
            delay = max(0.0, due - self._clock.now())
            self._alarm = asyncio.get_running_loop().call_later(delay, self._rouse), due
        await self._news.wait()

    def _rouse(self) -> None:
        self._alarm = None
        self._news.set()

    def _silence(self) -> None:
        if self._alarm is not None:
            self._alarm[0].cancel()
            self._alarm = None

    async def _heartbeat(self) -> None:
        while True:
            before = self._clock.perf()
            await asyncio.sleep(HEARTBEAT_SECONDS)
            self._keep_time()
            self._telemetry.lag(max(0.0, self._clock.perf() - before - HEARTBEAT_SECONDS))

    def _keep_time(self) -> None:
        """Follow the system clock, and rouse the loop where its alarm is late.

        The clock goes on while the host is suspended, timers of the event loop do not.
        """
        self._clock.follow()
        if self._alarm is not None and self._alarm[1] <= self._clock.now():
            self._silence()
            self._news.set()
