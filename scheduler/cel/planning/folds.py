"""Closures for comprehensions.

Source: cel-go v0.26.0 interpreter/interpretable.go evalFold, parser/macro.go. `all` and `exists`
absorb failures as `&&` and `||` do; the others do not.
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from scheduler.cel.errors import Failure, no_such_overload
from scheduler.cel.planning.budget import Environment, charge, charge_size
from scheduler.cel.planning.calls import Step
from scheduler.cel.values import Value, from_key, go_type, show, to_key, type_name

__all__ = ["fold_step"]

#: What upstream spends on the accumulator: for each element, for one that is left out, at the end.
_COSTS: Final = {
    "all": (3, 0, 1),
    "exists": (4, 0, 1),
    "exists_one": (2, 1, 2),
    "map": (12, 1, 1),
    "transformMap": (3, 1, 1),
    "transformMapEntry": (2, 1, 1),
}
#: Evaluates the body for each element.
_Loop: TypeAlias = Callable[[Environment, "_Fold", Iterable[Value]], Value]


class _Fold:
    """The parts of a comprehension, compiled."""

    __slots__ = ("body", "condition", "costs", "slots", "tracked")

    def __init__(
        self, slots: tuple[int, ...], condition: Step | None, body: Step, kind: str, tracked: bool
    ) -> None:
        self.slots = slots
        self.condition = condition
        self.body = body
        self.costs = _COSTS[kind]
        self.tracked = tracked

    def assign(self, environment: Environment, element: Value) -> None:
        """Set the variables to an element, or to a pair."""
        if len(self.slots) == 1:
            environment[self.slots[0]] = element
        else:
            environment[self.slots[0]], environment[self.slots[1]] = element
        if self.tracked:
            charge(environment, 0)

    def wanted(self, environment: Environment) -> bool:
        """Return whether an element is to be transformed."""
        if self.condition is None:
            return True
        answer = self.condition(environment)
        if answer is True or answer is False:
            return answer
        raise no_such_overload()

    def spend(self, environment: Environment, which: int) -> None:
        """Charge for the accumulator."""
        if self.tracked:
            charge(environment, self.costs[which])


def fold_step(
    kind: str,
    target: Step,
    slots: tuple[int, ...],
    condition: Step | None,
    body: Step,
    *,
    tracked: bool,
) -> Step:
    """Return the closure for a comprehension.

    Args:
        kind: as `Fold.kind`.
        target: gives what is iterated.
        slots: where the variables are in the environment.
        condition: which elements are transformed; None for all.
        body: the predicate or transformation.
        tracked: whether the cost is counted.
    """
    loop = _LOOPS[kind]
    fold = _Fold(slots, condition, body, kind, tracked)
    two = len(slots) == 2

    def step(environment: Environment) -> Value:
        over = target(environment)
        elements = _pairs(over) if two else _elements(over)
        return loop(environment, fold, elements)

    return step


def _elements(over: Value) -> Iterable[Value]:
    if type(over) is list:
        return over
    if isinstance(over, dict):
        return [from_key(key) for key in over]
    raise Failure(f"got '{go_type(over)}', expected iterable type")


def _pairs(over: Value) -> Iterable[Value]:
    if type(over) is list:
        return list(enumerate(over))
    if isinstance(over, dict):
        return [(from_key(key), value) for key, value in over.items()]
    raise Failure(f"unsupported comprehension range type: {go_type(over)}")


def _quantified(absorbing: bool) -> _Loop:
    """Return the loop of `all` (absorbing False) or `exists` (absorbing True)."""

    def loop(environment: Environment, fold: _Fold, elements: Iterable[Value]) -> Value:
        failure: Failure | None = None
        for element in elements:
            fold.assign(environment, element)
            fold.spend(environment, 0)
            try:
                answer = fold.body(environment)
            except Failure as error:
                failure = failure or error
                continue
            if answer is absorbing:
                return absorbing
            if answer is not (not absorbing) and failure is None:
                failure = no_such_overload()
        fold.spend(environment, 2)
        if failure is not None:
            raise failure
        return not absorbing

    return loop


def _exists_one(environment: Environment, fold: _Fold, elements: Iterable[Value]) -> Value:
    count = 0
    for element in elements:
        fold.assign(environment, element)
        answer = fold.body(environment)
        if answer is not True and answer is not False:
            raise no_such_overload()
        fold.spend(environment, 0 if answer else 1)
        count += answer
    fold.spend(environment, 2)
    return count == 1


def _map(environment: Environment, fold: _Fold, elements: Iterable[Value]) -> Value:
    found: list[Value] = []
    for element in elements:
        fold.assign(environment, element)
        if fold.wanted(environment):
            found.append(fold.body(environment))
            fold.spend(environment, 0)
        else:
            fold.spend(environment, 1)
    fold.spend(environment, 2)
    if fold.tracked:
        charge_size(environment, found)
    return found


def _insert(into: dict[Value, Value], key: Value, value: Value) -> None:
    stored = to_key(key)
    if stored in into:
        raise Failure(f"insert failed: key {show(key)} already exists")
    into[stored] = value


def _transform_map(environment: Environment, fold: _Fold, elements: Iterable[Value]) -> Value:
    found: dict[Value, Value] = {}
    for element in elements:
        fold.assign(environment, element)
        if fold.wanted(environment):
            key = environment[fold.slots[0]]
            _insert(found, key, fold.body(environment))
            fold.spend(environment, 0)
        else:
            fold.spend(environment, 1)
    fold.spend(environment, 2)
    if fold.tracked:
        charge_size(environment, found)
    return found


def _transform_entries(environment: Environment, fold: _Fold, elements: Iterable[Value]) -> Value:
    found: dict[Value, Value] = {}
    for element in elements:
        fold.assign(environment, element)
        if not fold.wanted(environment):
            fold.spend(environment, 1)
            continue
        entries = fold.body(environment)
        if not isinstance(entries, dict):
            types = f"map, {type_name(entries)}"
            raise Failure(f"no such overload: cel.@mapInsert({types})")
        for key, value in entries.items():
            _insert(found, from_key(key), value)
        fold.spend(environment, 0)
    fold.spend(environment, 2)
    if fold.tracked:
        charge_size(environment, found)
    return found


_LOOPS: Final[dict[str, _Loop]] = {
    "all": _quantified(False),
    "exists": _quantified(True),
    "exists_one": _exists_one,
    "map": _map,
    "transformMap": _transform_map,
    "transformMapEntry": _transform_entries,
}
