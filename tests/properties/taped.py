"""A machine whose calls are written down, with snapshots in between."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from scheduler.core.machine import Machine, Reaction
from scheduler.core.snapshot.copying import MachineCopy, copying
from scheduler.core.snapshot.encoding import encoded, restore
from scheduler.model.decisions import Attempt
from scheduler.model.effects import Effect
from scheduler.model.events import Event
from scheduler.queue.backoff_duration import PodBackoff
from tests.properties.world import PROFILES


@dataclass
class Call:
    """One call of the machine, and what it has returned."""

    method: str
    arguments: tuple[Any, ...]
    result: Any = None


@dataclass
class Snapshot:
    """What was written down before a call."""

    before: int
    lines: list[bytes] = field(default_factory=list)
    lacks: tuple[str, ...] = ()


class TapedMachine(Machine):
    """Writes down what changes it, and copies itself about every so many calls."""

    def __init__(self, every: int, profiles: Any = PROFILES) -> None:
        super().__init__(profiles, PodBackoff())
        self.calls: list[Call] = []
        self.snapshots: list[Snapshot] = []
        self._every = every
        self._next = 0
        #: A step flushes by itself.
        self._inside = False

    def _taped(self, method: Callable[..., Any], *arguments: Any) -> Any:
        if self._inside:
            return method(*arguments)
        # The live scheduler takes the effects of a flush at once.
        if len(self.calls) >= self._next and not self._outbox:
            self._next = len(self.calls) + self._every
            self.snapshots.append(snapshot_of(self, len(self.calls)))
        self._inside = True
        call = Call(method.__name__, arguments)
        self.calls.append(call)
        try:
            call.result = method(*arguments)
        finally:
            self._inside = False
        return call.result

    def observe(self, event: Event, now: float) -> Reaction:
        reaction: Reaction = self._taped(super().observe, event, now)
        return reaction

    def step(self, now: float, *, explain: bool = False) -> Attempt | None:
        attempt: Attempt | None = self._taped(super().step, now)
        return attempt

    def flush(self, now: float) -> None:
        self._taped(super().flush, now)

    def flushed_effects(self) -> tuple[Effect, ...]:
        effects: tuple[Effect, ...] = self._taped(super().flushed_effects)
        return effects


def snapshot_of(machine: Machine, before: int = 0) -> Snapshot:
    """Return a snapshot of a machine."""
    copy = MachineCopy()
    for _ in copying(machine, copy):
        pass
    return Snapshot(before, [*encoded(copy)], copy.lacks)


def restored(snapshot: Snapshot, profiles: Any = PROFILES) -> Machine:
    """Return a fresh machine in the state of a snapshot."""
    machine = Machine(profiles, PodBackoff())
    restore(machine, snapshot.lines)
    return machine


def again(machine: Machine, call: Call) -> Any:
    """Make a call once more."""
    return getattr(machine, call.method)(*call.arguments)
