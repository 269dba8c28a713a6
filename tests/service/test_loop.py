"""The loop: when it rests and wakes, what ends it, and what it keeps of attempts."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from scheduler.core.machine import Machine, Reaction
from scheduler.model.effects import Bind, BindVolumes, Effect, PodRef, RecordEvent, SetCondition
from scheduler.model.events import (
    EffectDone,
    EffectFailed,
    Event,
    Failure,
    FailureKind,
    NodeObserved,
    PodGone,
    PodObserved,
    StorageObserved,
)
from scheduler.service import recording
from scheduler.service.clock import Clock
from scheduler.service.loop import SLICE_SECONDS, Loop
from tests.support.builders import node, pod
from tests.support.cluster import Cluster
from tests.support.storage import claim, storage_class, using


class Deaf:
    """Telemetry that ignores everything."""

    def attempt(self, *_: Any) -> None: ...
    def bound(self, *_: Any) -> None: ...
    def not_bound(self, *_: Any) -> None: ...
    def outcome(self, *_: Any) -> None: ...
    def event_rejected(self, *_: Any) -> None: ...
    def loop_lag(self, *_: Any) -> None: ...

    def handling(self, *_: Any) -> "Deaf":
        return self

    def observe(self, *_: Any) -> None: ...


class Proxy:
    """A machine, some of whose methods a test replaces."""

    def __init__(self, machine: Machine, **replaced: Any) -> None:
        self._machine = machine
        self.__dict__.update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._machine, name)


class Host:
    """A host whose time a test sets."""

    def __init__(self) -> None:
        self.uptime = 0.0
        self.clock = Clock(wall=lambda: 0.0, elapsed=lambda: self.uptime)


class Running:
    """A loop around a real machine, and the effects that it submits."""

    def __init__(self, machine: Any, clock: Clock | None = None) -> None:
        self.machine = machine
        self.effects: list[Effect] = []
        self.loop = Loop(machine, self.effects.append, clock or Clock(), Deaf())
        self.loop.start_deciding()
        self.task = asyncio.create_task(self.loop.run())

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(10):
            while not holds():
                await asyncio.sleep(0.001)

    def sent(self, kind: type[Effect]) -> list[Effect]:
        return [each for each in self.effects if isinstance(each, kind)]


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    made = Running(Cluster().machine)
    yield made
    await ended(made)


@pytest.mark.parametrize(
    ("how", "fails"),
    [("an outcome", "observe"), ("news", "observe"), ("a moment", "flush"), ("an attempt", "step")],
)
async def test_a_defect_of_the_machine_ends_the_loop(how, fails):
    asked: list[object] = []

    def defect(*arguments: object) -> None:
        asked.append(arguments)
        raise ArithmeticError("a defect")

    machine = Proxy(Cluster(node("n1").cpu("4")).machine)
    made = Running(machine)
    made.loop.observe([PodObserved(pod("a").cpu("1").build())])
    await made.until(lambda: made.sent(Bind))

    setattr(machine, fails, defect)
    if how == "an outcome":
        made.loop.outcome(EffectDone(made.sent(Bind)[0]))
    else:
        made.loop.observe([PodObserved(pod("b").cpu("1").build())])
    with pytest.raises(ArithmeticError):
        async with asyncio.timeout(10):
            await made.task

    made.loop.observe([PodObserved(pod("c").cpu("1").build())])
    made.loop.outcome(EffectDone(made.sent(Bind)[0]))
    assert len(asked) == 1


async def test_a_failure_of_the_telemetry_is_a_defect_too(running):
    running.loop._telemetry = None  # type: ignore[assignment]

    running.loop.outcome(EffectDone(Bind(PodRef("default", "a", "u"), "n1", "s")))

    with pytest.raises(AttributeError):
        async with asyncio.timeout(10):
            await running.task


async def test_the_first_defect_is_raised(running):
    assert not running.loop.failed
    running.loop.fail(ArithmeticError("first"))
    assert running.loop.failed
    running.loop.fail(KeyError("second"))

    with pytest.raises(ArithmeticError, match="first"):
        async with asyncio.timeout(10):
            await running.task


def waiting_pod(running: Running, name: str = "a") -> Any:
    """Observe a pod that waits for its volume once it is placed."""
    needs = using(pod(name).cpu("1m"), f"c-{name}").build()
    lazy = storage_class("sc").waits().made_by("csi.example.com").build()
    volume = claim(f"c-{name}").of_class("sc").build()
    events = [StorageObserved(lazy), StorageObserved(volume), PodObserved(needs)]
    running.loop.observe([NodeObserved(node("n1").cpu("4").build()), *events])
    return needs


FAILED = Failure(FailureKind.GONE, "gone")
BUSY = Failure(FailureKind.UNAVAILABLE, "later")


@pytest.mark.parametrize("end", ["gone", "refused", "bound"])
async def test_no_attempt_is_kept_after_the_wait_for_a_binding(running, end):
    needs = waiting_pod(running)
    await running.until(lambda: running.sent(BindVolumes))
    running.loop.check()
    assert len(running.loop._placed) == 1

    if end == "gone":
        running.loop.observe([PodGone(needs.key, needs.uid)])
    elif end == "refused":
        running.loop.outcome(EffectFailed(running.sent(BindVolumes)[0], FAILED))
    else:
        other = pod("b").cpu("1m").build()
        running.loop.observe([PodGone(needs.key, needs.uid), PodObserved(other)])
        await running.until(lambda: running.sent(Bind))
        running.loop.outcome(EffectDone(running.sent(Bind)[0]))

    running.loop.check()
    assert running.loop._placed == {}


async def ended(running: Running) -> None:
    running.task.cancel()
    await asyncio.wait([running.task])


async def test_it_rests_until_something_is_due_or_happens():
    host, looks = Host(), []
    machine = Cluster(node("n1").cpu("4")).machine

    def flush(now: float) -> None:
        looks.append(now)
        machine.flush(now)

    running = Running(Proxy(machine, flush=flush), host.clock)
    running.loop.observe([PodObserved(pod("a").cpu("1").build())])
    await running.until(lambda: running.sent(Bind))
    running.loop.outcome(EffectFailed(running.sent(Bind)[0], BUSY))
    begun = len(looks)
    await asyncio.sleep(0.05)
    assert len(looks) - begun < 5
    assert len(running.sent(Bind)) == 1

    host.uptime = 4000.0  # the host was suspended: the alarm is late
    await running.until(lambda: len(running.sent(Bind)) == 2)

    assert looks[-1] >= 4000.0
    await ended(running)


async def test_it_prepares_a_decision_in_slices_with_io_in_between():
    class Slow(Clock):
        """A clock by which a slice is over after two looks at it."""

        looks = 0

        def perf(self) -> float:
            self.looks += 1
            return self.looks * SLICE_SECONDS / 2

    done: list[str] = []

    def prepare() -> bool:
        done.append("prepare")
        return len(done) < 5

    machine = Proxy(
        Cluster().machine,
        ready=lambda: "decide" not in done,
        prepare=prepare,
        step=lambda _: done.append("decide"),
    )
    running = Running(machine, Slow())
    between: list[int] = []
    async with asyncio.timeout(10):
        while "decide" not in done:
            between.append(len(done))
            await asyncio.sleep(0)

    assert done == ["prepare"] * 5 + ["decide"]
    assert len(set(between)) > 3
    await ended(running)


def test_the_machine_gets_only_outcomes_that_matter_to_it():
    ref = PodRef("d", "p", "p")
    event = RecordEvent(ref, "Normal", "Scheduled", "Binding", "note", "ours")
    condition = SetCondition(ref, "a", "b", 1)
    matter = [EffectDone(Bind(ref, "n", "ours")), EffectFailed(condition, FAILED)]
    others = [EffectDone(event), EffectFailed(event, FAILED), EffectDone(condition)]
    seen: list[Event] = []
    told: list[Event] = []
    machine = Proxy(Cluster().machine, observe=lambda event, _: seen.append(event) or Reaction())
    telemetry = Deaf()
    telemetry.outcome = told.append
    loop = Loop(machine, print, Clock(), telemetry)

    for outcome in (*others, *matter):
        loop.outcome(outcome)

    assert seen == matter
    assert told == [*others, *matter]


async def test_a_copy_is_made_between_two_decisions_and_events_wait(monkeypatch):
    monkeypatch.setattr(recording, "STEP_SECONDS", 0.0)  # I/O runs after each step of a copy
    made = Running(Cluster(node("n1").cpu("64")).machine)
    copies = [asyncio.create_task(made.loop.copy()) for _ in range(2)]
    async with asyncio.timeout(10):
        while made.loop._held is None:  # a small machine is copied within a millisecond
            await asyncio.sleep(0)
    made.loop.observe([PodObserved(pod("late").cpu("1").build())])

    first, second = await asyncio.gather(*copies)

    assert first is second
    assert first.fields["queue._pods"] == {}
    await made.until(lambda: made.sent(Bind))
    await ended(made)


async def test_a_copy_that_fails_ends_nothing_but_the_copy(running, monkeypatch):
    monkeypatch.setattr(recording, "copying", lambda *_: 1 / 0)

    with pytest.raises(recording.CopyError, match="ZeroDivisionError"):
        async with asyncio.timeout(10):
            await running.loop.copy()

    assert not running.task.done()
    await ended(running)


async def test_who_waits_for_a_copy_does_not_wait_for_ever(running):
    copy = asyncio.create_task(running.loop.copy())
    running.loop.fail(ArithmeticError("a defect"))

    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(10):
            await copy
    with pytest.raises(ArithmeticError):
        await running.task
