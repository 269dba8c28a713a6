"""What the machine hands out: effects to carry out, and bindings that were accepted."""

from collections.abc import Iterable

from scheduler.model.base import Record
from scheduler.model.effects import Effect, PodRef
from scheduler.model.times import Seconds

__all__ = ["Bound", "Outbox"]


class Bound(Record, frozen=True):
    """A pod whose binding the API server has accepted."""

    pod: PodRef
    node: str
    scheduler_name: str
    attempts: int
    #: Since the pod first was in the active queue.
    waited_seconds: Seconds
    #: Whether only the periodic flush had released it.
    flushed: bool


class Outbox:
    """Effects and accepted bindings since they were last taken, in order."""

    __slots__ = ("_bindings", "_effects")

    def __init__(self) -> None:
        self._effects: list[Effect] = []
        self._bindings: list[Bound] = []

    def __bool__(self) -> bool:
        return bool(self._effects or self._bindings)

    def emit(self, effect: Effect) -> None:
        """Request an effect."""
        self._effects.append(effect)

    def emit_all(self, effects: Iterable[Effect]) -> None:
        """Request several effects, in this order."""
        self._effects.extend(effects)

    def report_bound(self, bound: Bound) -> None:
        """Report a binding that the API server has accepted."""
        self._bindings.append(bound)

    def take(self) -> tuple[tuple[Effect, ...], tuple[Bound, ...]]:
        """Return and remove everything."""
        taken = tuple(self._effects), tuple(self._bindings)
        self._effects.clear()
        self._bindings.clear()
        return taken
