"""When the loop rests, and what rouses it."""

import asyncio
from types import SimpleNamespace

from scheduler.core.machine import Reaction
from scheduler.model.effects import Bind, PodRef, RecordEvent, SetCondition
from scheduler.model.events import (
    EffectDone,
    EffectFailed,
    Event,
    Failure,
    FailureKind,
    NodeGone,
)
from scheduler.model.times import Seconds
from scheduler.observe.metrics.instruments import Histogram
from scheduler.service.clock import Clock
from scheduler.service.loop import SLICE_SECONDS, Loop

CLOCK = Clock()
PATIENCE = 30.0


class Waiting:
    """A machine without pods, that has something to do at some time; any event brings it near."""

    def __init__(self, seconds: float) -> None:
        self.binding: dict[str, object] = {}
        self.moment: Seconds | None = CLOCK.now() + seconds
        self.reached = asyncio.Event()
        self.preemptions = SimpleNamespace(listeners=[], durations=())
        self.looks = 0

    def observe(self, _: Event, now: Seconds) -> Reaction:
        self.moment = now + 0.01
        return Reaction()

    def flush(self, now: Seconds) -> None:
        self.looks += 1
        if self.moment is not None and now >= self.moment:
            self.moment = None
            self.reached.set()

    def flushed_effects(self) -> tuple[()]:
        return ()

    def ready(self) -> bool:
        return False

    def measure(self, enter_phase: object) -> None:
        """Enter no phase."""

    def take_device_waits(self) -> tuple[()]:
        return ()

    def next_wakeup(self) -> Seconds | None:
        return self.moment


class Preparing(Waiting):
    """A machine that has a lot to prepare before it can decide."""

    def __init__(self) -> None:
        super().__init__(0.0)
        self.left = 5
        self.done: list[str] = []

    def flush(self, now: Seconds) -> None:
        """Do nothing at any time."""

    def ready(self) -> bool:
        return "decide" not in self.done

    def prepare(self) -> bool:
        self.left -= 1
        self.done.append("prepare")
        return self.left > 0

    def step(self, _: Seconds) -> None:
        self.done.append("decide")
        self.reached.set()


class Silent:
    """Telemetry that ignores everything."""

    def loop_lag(self, _: Seconds) -> None: ...

    def handling(self, _: type[Event]) -> Histogram:
        return Histogram((1.0,))


class Slow(Clock):
    """A clock by which a slice is over after two looks at it."""

    def __init__(self) -> None:
        super().__init__()
        self._looks = 0

    def perf(self) -> float:
        self._looks += 1
        return self._looks * SLICE_SECONDS / 2


async def running(machine: Waiting, news: int = 0, clock: Clock = CLOCK) -> None:
    """Run a loop until its machine has reached its moment, with events when it rests."""
    loop = Loop(machine, lambda _: None, clock, Silent())
    loop.start_deciding()
    task = asyncio.create_task(loop.run())
    for looks in range(1, news + 1):
        while machine.looks < looks:
            await asyncio.sleep(0)
        loop.observe([NodeGone("n1")])
    async with asyncio.timeout(PATIENCE / 2):
        await machine.reached.wait()
    task.cancel()
    await asyncio.wait([task])


async def test_it_looks_again_when_something_is_due():
    machine = Waiting(0.01)

    await running(machine)

    assert machine.moment is None


async def test_an_event_can_make_the_next_wakeup_earlier():
    machine = Waiting(PATIENCE)

    await running(machine, news=3)

    assert machine.moment is None


async def test_it_does_not_look_before_something_is_due():
    machine = Waiting(0.2)

    await running(machine)

    assert machine.looks < 10


async def test_it_prepares_a_decision_in_slices_with_io_in_between():
    machine = Preparing()
    between: list[int] = []

    async def io() -> None:
        while "decide" not in machine.done:
            between.append(len(machine.done))
            await asyncio.sleep(0)

    beside = asyncio.create_task(io())
    await running(machine, clock=Slow())
    await beside

    assert machine.done == ["prepare"] * 5 + ["decide"]
    assert len(set(between)) > 3


class Asked(Waiting):
    """Keeps the events that it observes."""

    def __init__(self) -> None:
        super().__init__(PATIENCE)
        self.events: list[Event] = []

    def observe(self, event: Event, _: Seconds) -> Reaction:
        self.events.append(event)
        return Reaction()


class Told(Silent):
    """Keeps the outcomes that it is told."""

    def __init__(self) -> None:
        self.outcomes: list[Event] = []

    def outcome(self, outcome: Event) -> None:
        self.outcomes.append(outcome)


def test_the_machine_gets_only_outcomes_that_matter_to_it():
    ref, failure = PodRef("d", "p", "p"), Failure(FailureKind.GONE, "no")
    event = RecordEvent(ref, "Normal", "Scheduled", "Binding", "note", "ours")
    condition = SetCondition(ref, "a", "b", 1)
    matter = [EffectDone(Bind(ref, "n", "ours")), EffectFailed(condition, failure)]
    others = [EffectDone(event), EffectFailed(event, failure), EffectDone(condition)]
    machine, told = Asked(), Told()
    loop = Loop(machine, lambda _: None, CLOCK, told)

    for outcome in (*others, *matter):
        loop.outcome(outcome)

    assert machine.events == matter
    assert told.outcomes == [*others, *matter]
