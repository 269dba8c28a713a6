"""What the machine raises ends the loop, whichever way it came; and what is kept of attempts."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from scheduler.core.machine import Machine
from scheduler.model.effects import Bind, BindVolumes, Effect, PodRef
from scheduler.model.events import (
    EffectDone,
    EffectFailed,
    Failure,
    FailureKind,
    NodeObserved,
    PodGone,
    PodObserved,
    StorageObserved,
)
from scheduler.service.clock import Clock
from scheduler.service.loop import Loop
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


class Running:
    """A loop around a real machine, and the effects that it submits."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.effects: list[Effect] = []
        self.loop = Loop(machine, self.effects.append, Clock(), Deaf())
        self.loop.start_deciding()
        self.task = asyncio.create_task(self.loop.run())

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(10):
            while not holds():
                await asyncio.sleep(0.001)

    def sent(self, kind: type[Effect]) -> list[Effect]:
        return [each for each in self.effects if isinstance(each, kind)]


class Defective:
    """A machine that fails in one of its methods from some moment on."""

    def __init__(self, machine: Machine, fails: str) -> None:
        self._machine = machine
        self._fails = fails
        self.broken = False
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if self.broken and name in {"observe", "step", "flush"}:
            self.asked.append(name)
            if name == self._fails:
                raise ArithmeticError("a defect")
        return getattr(self._machine, name)


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    made = Running(Cluster().machine)
    yield made
    made.task.cancel()
    await asyncio.wait([made.task])


@pytest.mark.parametrize("how", ["an outcome", "news", "a moment", "an attempt"])
async def test_a_defect_of_the_machine_ends_the_loop(how: str):
    fails = {"a moment": "flush", "an attempt": "step"}.get(how, "observe")
    machine = Defective(Cluster(node("n1").cpu("4")).machine, fails)
    made = Running(machine)  # type: ignore[arg-type]
    made.loop.observe([PodObserved(pod("a").cpu("1").build())])
    await made.until(lambda: made.sent(Bind))

    machine.broken = True
    if how == "an outcome":
        made.loop.outcome(EffectDone(made.sent(Bind)[0]))
    else:
        machine._fails = fails if how != "an attempt" else "step"
        made.loop.observe([PodObserved(pod("b").cpu("1").build())])
    with pytest.raises(ArithmeticError):
        async with asyncio.timeout(10):
            await made.task

    asked = len(machine.asked)
    made.loop.observe([PodObserved(pod("c").cpu("1").build())])
    made.loop.outcome(EffectDone(made.sent(Bind)[0]))
    if how in {"an outcome", "news"}:
        assert len(machine.asked) == asked == 1


async def test_a_failure_of_the_telemetry_is_a_defect_too(running: Running):
    running.loop._telemetry = None  # type: ignore[assignment]

    running.loop.outcome(EffectDone(Bind(PodRef("default", "a", "u"), "n1", "s")))

    with pytest.raises(AttributeError):
        async with asyncio.timeout(10):
            await running.task


async def test_the_first_defect_is_raised(running: Running):
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


@pytest.mark.parametrize("end", ["gone", "refused", "bound"])
async def test_no_attempt_is_kept_after_the_wait_for_a_binding(running: Running, end: str):
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


async def test_an_alarm_that_is_late_after_a_suspension_is_made_up_for():
    class Host:
        uptime = 0.0

    clock = Clock(wall=lambda: 0.0, elapsed=lambda: Host.uptime)
    machine = Cluster(node("n1").cpu("1")).machine
    looks: list[float] = []

    class Due:
        def flush(self, now: float) -> None:
            looks.append(now)

        def next_wakeup(self) -> float | None:
            return 3600.0 if Host.uptime < 3600 else None

        def __getattr__(self, name: str) -> Any:
            return getattr(machine, name)

    loop = Loop(Due(), print, clock, Deaf())  # type: ignore[arg-type]
    loop.start_deciding()
    task = asyncio.create_task(loop.run())
    await asyncio.sleep(0.02)

    Host.uptime = 4000.0
    async with asyncio.timeout(10):
        while not any(each >= 3600 for each in looks):
            await asyncio.sleep(0.01)

    task.cancel()
    await asyncio.wait([task])
