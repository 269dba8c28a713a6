"""The loop around the machine: events in as they arrive, decisions in short slices, effects out.

One event loop owns everything. Informers and the writer pass events to `observe`. Decisions run in
slices of two milliseconds, with I/O in between. Nothing is decided before `start_deciding` was
called, so a standby keeps its caches warm and does nothing else.

An exception of the machine is an internal error: its state may be incomplete from then on. The
machine is no longer called, and `run` raises the exception, wherever it occurred. That ends the
process, and the next one begins with the state of the API server.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from scheduler.core.machine import Machine
from scheduler.core.snapshot.copying import MachineCopy
from scheduler.model.decisions import Attempt, AttemptPhase, Placed
from scheduler.model.effects import Bind, Effect, Evict
from scheduler.model.events import (
    Answered,
    EffectDone,
    EffectFailed,
    Event,
    PolicyObserved,
    changes_nothing,
)
from scheduler.model.times import Seconds
from scheduler.observe.api.history import History
from scheduler.observe.metrics.instruments import Histogram
from scheduler.service.clock import Clock
from scheduler.service.recording import CopyError, Recording, copied
from scheduler.service.telemetry import Telemetry

__all__ = ["Loop"]

#: How long decisions may delay I/O. Shorter slices cost throughput, longer ones gain none.
SLICE_SECONDS: Final = 0.002
#: How often the loop measures its own lag and flushes the log when it is idle.
HEARTBEAT_SECONDS: Final = 0.25


class _Handling(dict[type[Event], Histogram]):
    """The histograms of seconds per event, by type: one look-up for each event."""

    def __init__(self, of_kind: Callable[[type[Event]], Histogram]) -> None:
        super().__init__()
        self._of_kind = of_kind

    def __missing__(self, kind: type[Event]) -> Histogram:
        histogram = self[kind] = self._of_kind(kind)
        return histogram


class _PhaseTimes:
    """Measures the phases of one attempt after the other; the machine calls `enter`."""

    def __init__(self, perf: Callable[[], float]) -> None:
        self._perf = perf
        #: When the attempt began; `None` between attempts, when nothing is measured.
        self._began: float | None = None
        #: The phases of the attempt and when each began, in order.
        self._entered: list[tuple[AttemptPhase, float]] = []

    def begin(self, began: float) -> None:
        """Begin with an attempt whose pod was popped at this time."""
        self._began = began
        self._entered.clear()

    def enter(self, phase: AttemptPhase) -> None:
        """Note that a phase begins."""
        if self._began is not None:
            self._entered.append((phase, self._perf()))

    def end(self, ended: float) -> dict[AttemptPhase, Seconds]:
        """Return how long each phase took; the first one began with the attempt."""
        seconds: dict[AttemptPhase, Seconds] = {}
        since, self._began = self._began or ended, None
        following = [*(began for _, began in self._entered[1:]), ended]
        for (phase, _), until in zip(self._entered, following, strict=False):
            seconds[phase] = seconds.get(phase, 0.0) + until - since
            since = until
        return seconds


class Loop:
    """Drives one machine."""

    def __init__(
        self,
        machine: Machine,
        submit: Callable[[Effect], None],
        clock: Clock,
        telemetry: Telemetry,
        recording: Recording | None = None,
        history: History | None = None,
    ) -> None:
        self._recording = recording
        self._append_record = None if recording is None else recording.recorder.record
        #: Events that wait while the machine is copied; `None` at other times.
        self._held: list[Event] | None = None
        #: Those who wait for a copy.
        self._copies: list[asyncio.Future[MachineCopy]] = []
        self._history = history or History(machine, clock.now())
        self._machine = machine
        self._submit = submit
        self._clock = clock
        self._telemetry = telemetry
        self._deciding = False
        self._news = asyncio.Event()
        #: The timer that wakes the loop when something is due, and when that is.
        self._timer: tuple[asyncio.TimerHandle, Seconds] | None = None
        #: Attempts that placed a pod, with the time when they began, while the machine waits for
        #: the binding.
        self._placed: dict[str, tuple[Attempt, float]] = {}
        self._defect: Exception | None = None
        self._handling = _Handling(telemetry.handling)
        self._phases = _PhaseTimes(clock.perf)
        machine.measure(self._phases.enter)

    def start_deciding(self) -> None:
        """Begin to decide."""
        self._deciding = True
        self._history.begin(self._clock.now())
        self._news.set()

    def stop_deciding(self) -> None:
        """Begin no further decision."""
        self._deciding = False

    @property
    def failed(self) -> bool:
        """Whether an internal error has occurred; then nothing may be written any more."""
        return self._defect is not None

    def fail(self, defect: Exception) -> None:
        """Take no further pod or event, and let `run` raise this internal error."""
        self._defect = self._defect or defect
        self.stop_deciding()
        self._news.set()

    def is_still_planned(self, effect: Evict) -> bool:
        """Return whether an eviction that was not sent yet is still part of a plan.

        A stop counts from when it is observed, also while the machine is copied.
        """
        held = (each for each in self._held or () if isinstance(each, PolicyObserved))
        is_stopped = any(each.policy.stop is not None for each in held)
        return not is_stopped and self._machine.preemptions.state.is_still_planned(effect)

    async def copy(self) -> MachineCopy:
        """Return a copy of the machine, which `run` makes between two decisions."""
        wanted: asyncio.Future[MachineCopy] = asyncio.get_running_loop().create_future()
        self._copies.append(wanted)
        self._news.set()
        return await wanted

    def observe(self, events: Iterable[Event]) -> None:
        """Pass events of informers and the writer to the machine."""
        if self._defect is not None:
            return
        if self._held is not None:
            self._held.extend(events)
            return
        try:
            self._observe(events)
        except Exception as defect:  # noqa: BLE001 - `run` raises it
            self.fail(defect)

    def _observe(self, events: Iterable[Event]) -> None:
        now, perf = self._clock.now(), self._clock.perf
        begun = perf()
        for event in events:
            self._record_event(event, now)
            reaction = self._machine.observe(event, now)
            self._history.applied(event, now)
            if reaction.problem:
                self._telemetry.event_rejected(event, reaction.problem)
            for effect in reaction.effects:
                self._submit(effect)
            for bound in reaction.bound:
                placed = self._placed.pop(bound.pod.uid, None)
                if placed is not None:
                    seconds = self._clock.perf() - placed[1]
                    self._telemetry.bound(placed[0], bound, seconds)
            self._report_ended()
            ended = perf()
            self._handling[type(event)].observe(ended - begun)
            begun = ended
        if len(self._placed) > len(self._machine.bindings_in_flight):
            self._forget_placed()
        self._news.set()

    def _record_event(self, event: Event, now: Seconds) -> None:
        """Record an event before the machine receives it."""
        if self._append_record is not None:
            self._append_record(event, now)
        if self._history.awaited:
            self._history.observed(event, now)

    def _report_ended(self) -> None:
        for wait in self._machine.take_device_waits():
            self._telemetry.device_wait(wait)
        durations = self._machine.preemptions.durations
        while durations:
            self._telemetry.preemption_executed(*durations.popleft())
        waits = self._machine.preemptions.devices.waits
        while waits:
            self._telemetry.claims_deallocated(waits.popleft())

    def _forget_placed(self) -> None:
        """Forget attempts whose pod is gone, or was released before it was bound."""
        binding = self._machine.bindings_in_flight
        self._placed = {uid: placed for uid, placed in self._placed.items() if uid in binding}

    def check(self) -> None:
        """Assert the invariants: an attempt is kept for each pod that waits for its binding."""
        assert self._placed.keys() == self._machine.bindings_in_flight.keys()

    def outcome(self, event: Event) -> None:
        """Pass the outcome of an effect to telemetry, and to the machine if it matters to it."""
        if self._defect is not None:
            return
        try:
            self._record(event)
        except Exception as defect:  # noqa: BLE001 - `run` raises it
            self.fail(defect)
            return
        # Most of these are Events that were written, one for each pod.
        if not changes_nothing(event):
            self.observe((event,))

    def _record(self, event: Event) -> None:
        if isinstance(event, EffectDone | EffectFailed | Answered):
            self._telemetry.outcome(event)
            self._history.outcome(event, self._clock.now())
            if isinstance(event, EffectFailed) and isinstance(event.effect, Bind):
                placed = self._placed.pop(event.effect.pod.uid, None)
                if placed is not None:
                    seconds = self._clock.perf() - placed[1]
                    self._telemetry.not_bound(placed[0], event.effect, event.failure, seconds)

    async def run(self) -> None:
        """Decide whenever a pod is ready, until cancelled.

        Raises:
            Exception: An internal error of the machine or of telemetry; the state is no longer
            reliable.
        """
        heartbeat = asyncio.create_task(self._heartbeat())
        try:
            while True:
                self._news.clear()
                if self._defect is not None:
                    raise self._defect
                self._flush()
                await self._copy_if_wanted()
                while self._has_work():
                    self._slice()
                    await asyncio.sleep(0)
                    await self._copy_if_wanted()
                await self._pause()
        finally:
            for wanted in self._copies:
                wanted.cancel()
            heartbeat.cancel()
            self._cancel_timer()

    def _has_work(self) -> bool:
        """Return whether there is something to do in slices."""
        return self._deciding and self._machine.ready()

    def _next_wakeup(self) -> Seconds | None:
        """Return when something is due; `None` for never."""
        return self._machine.next_wakeup() if self._deciding else None

    def _flush(self) -> None:
        """Do what is due."""
        now = self._clock.now()
        if self._append_record is not None:
            self._append_record(None, now)
        self._machine.flush(now)
        for effect in self._machine.flushed_effects():
            self._submit(effect)
        self._report_ended()
        if len(self._placed) > len(self._machine.bindings_in_flight):
            self._forget_placed()

    async def _copy_if_wanted(self) -> None:
        """Copy the machine if a plan or a segment of the recording needs that; events wait."""
        is_due = self._recording is not None and self._recording.is_due(self._machine)
        if not is_due and not self._copies:
            return
        self._held = []
        try:
            if is_due and self._recording is not None:
                await self._recording.begin_segment(self._machine)
            if self._copies:
                await self._copy()
        finally:
            held, self._held = self._held, None
        if held:
            self.observe(held)

    async def _copy(self) -> None:
        """Copy the machine for all that wait for it."""
        waiting, self._copies = self._copies, []
        try:
            copy = await copied(self._machine, self._clock.perf)
        except CopyError as error:
            for wanted in waiting:
                if not wanted.done():
                    wanted.set_exception(error)
            return
        for wanted in waiting:
            if not wanted.done():
                wanted.set_result(copy)

    def _slice(self) -> None:
        """Decide pods until the slice is over."""
        end = self._clock.perf() + SLICE_SECONDS
        while self._deciding:
            begun = self._clock.perf()
            if begun >= end:
                return
            if self._machine.prepare():
                continue
            now = self._clock.now()
            self._phases.begin(begun)
            attempt = self._machine.step(now)
            if attempt is None:
                self._phases.end(begun)
                return
            if self._append_record is not None:
                self._append_record(attempt, now)
            decided = self._clock.perf()
            begun -= attempt.waited
            if isinstance(attempt.decision, Placed):
                self._placed[attempt.pod.uid] = (attempt, begun)
            for effect in attempt.effects:
                self._submit(effect)
            ended = self._clock.perf()
            phases = self._phases.end(ended)
            self._telemetry.attempt(attempt, ended - begun, decided - begun, phases)
            self._history.attempted(attempt, now)

    async def _pause(self) -> None:
        """Wait for events, or until something is due."""
        due = self._next_wakeup()
        if due is None:
            self._cancel_timer()
        elif self._timer is None or self._timer[1] != due:
            self._cancel_timer()
            # Kept from pause to pause: events come many times before something is due.
            delay = max(0.0, due - self._clock.now())
            self._timer = asyncio.get_running_loop().call_later(delay, self._wake), due
        await self._news.wait()

    def _wake(self) -> None:
        self._timer = None
        self._news.set()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer[0].cancel()
            self._timer = None

    async def _heartbeat(self) -> None:
        while True:
            before = self._clock.perf()
            await asyncio.sleep(HEARTBEAT_SECONDS)
            self._follow_clock()
            self._tick(self._clock.now())
            self._poll_recorder()
            self._telemetry.loop_lag(max(0.0, self._clock.perf() - before - HEARTBEAT_SECONDS))

    def _tick(self, now: Seconds) -> None:
        """Do what is done four times a second."""
        self._history.tick(now)

    def _poll_recorder(self) -> None:
        """Tell the recorder the time, report its gaps, and let `run` begin a segment when idle."""
        if self._recording is not None:
            recorder = self._recording.recorder
            recorder.tick(self._clock.now())
            for gap in recorder.take_gaps():
                self._telemetry.recording_gap(gap)
            if recorder.wants_segment:
                self._news.set()

    def _follow_clock(self) -> None:
        """Follow the system clock, and wake the loop where its timer is late.

        The clock counts while the host is suspended, timers of the event loop do not.
        """
        self._clock.adjust()
        if self._timer is not None and self._timer[1] <= self._clock.now():
            self._cancel_timer()
            self._news.set()
