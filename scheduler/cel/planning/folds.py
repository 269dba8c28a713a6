"""Closures for comprehensions.

Upstream's accumulator continues when it holds a failure: `all` and `exists` absorb it as `&&` and
`||` do. Of the others, a failing condition replaces an earlier failure, a failing body does not.

Source: cel-go v0.26.0 interpreter/interpretable.go evalFold, parser/macro.go,
ext/comprehensions.go.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from scheduler.cel.errors import CelFailure, no_such_overload
from scheduler.cel.planning.budget import Environment, charge, charge_size, charge_work
from scheduler.cel.planning.calls import Constant, Step
from scheduler.cel.values import Value, from_key, go_type, show, to_key, type_name

__all__ = ["fold_step"]

#: What upstream spends on the accumulator of `all` and `exists` before an element, and within it.
_CONDITION_COSTS: Final = {False: 2, True: 3}
_NAME_COST: Final = 1
_CALL_COST: Final = 1
_LIST_COST: Final = 10
#: Evaluates the body for each element.
_Loop: TypeAlias = Callable[[Environment, "_Fold", Sequence[Value]], Value]


class _Fold:
    """The parts of a comprehension, compiled."""

    __slots__ = ("body", "condition", "slots", "tracked", "work")

    def __init__(
        self, slots: tuple[int, ...], condition: Step | None, body: Step, work: int | None
    ) -> None:
        self.slots = slots
        self.condition = condition
        self.body = body
        self.tracked = work is not None
        self.work = work or 0

    def assign(self, environment: Environment, element: Value) -> None:
        """Set the variables to an element, or to a pair, and charge for the work to come."""
        if self.work:
            charge_work(environment, self.work)
        if len(self.slots) == 1:
            environment[self.slots[0]] = element
        else:
            environment[self.slots[0]], environment[self.slots[1]] = element

    def wanted(self, environment: Environment) -> bool:
        """Return whether an element is to be transformed."""
        return self.condition is None or _bool(self.condition(environment))

    def spend(self, environment: Environment, cost: int) -> None:
        """Charge for the accumulator."""
        if self.tracked:
            charge(environment, cost)

    def made(self, environment: Environment, failure: CelFailure | None, result: Value) -> Value:
        """Return the result, a list or map, unless there was a failure."""
        self.spend(environment, _NAME_COST)
        if failure is not None:
            raise failure
        if self.tracked:
            charge_size(environment, result)
        return result


def fold_step(
    kind: str,
    target: Step,
    slots: tuple[int, ...],
    condition: Step | None,
    body: Step,
    *,
    work: int | None,
) -> Step:
    """Return the closure for a comprehension.

    Args:
        kind: as `Fold.kind`.
        target: gives what is iterated.
        slots: where the variables are in the environment.
        condition: which elements are transformed; None for all.
        body: the predicate or transformation.
        work: of an element; None where the cost is not counted.
    """
    loop = _LOOPS[kind]
    fold = _Fold(slots, condition, body, work)
    two = len(slots) == 2

    def step(environment: Environment) -> Value:
        over = target(environment)
        if work and isinstance(over, list | dict) and (two or type(over) is not list):
            # All of them are listed, also where the first one decides.
            charge_work(environment, len(over) // 4)
        elements = _pairs(over) if two else _elements(over)
        return loop(environment, fold, elements)

    return step


def _bool(answer: Value) -> bool:
    if answer is True or answer is False:
        return answer
    raise no_such_overload()


def _elements(over: Value) -> Sequence[Value]:
    if type(over) is list:
        return over
    if isinstance(over, dict):
        return [from_key(key) for key in over]
    raise CelFailure(f"got '{go_type(over)}', expected iterable type")


def _pairs(over: Value) -> Sequence[Value]:
    if type(over) is list:
        return list(enumerate(over))
    if isinstance(over, dict):
        return [(from_key(key), value) for key, value in over.items()]
    raise CelFailure(f"unsupported comprehension range type: {go_type(over)}")


def _quantified(absorbing: bool) -> _Loop:
    """Return the loop of `all` (absorbing False) or `exists` (absorbing True)."""
    before = _CONDITION_COSTS[absorbing]

    def loop(environment: Environment, fold: _Fold, elements: Sequence[Value]) -> Value:
        failure: CelFailure | None = None
        for at, element in enumerate(elements, 1):
            fold.assign(environment, element)
            fold.spend(environment, before + _NAME_COST)
            try:
                answer = fold.body(environment)
            except CelFailure as error:
                failure = failure or error
                continue
            if answer is absorbing:
                fold.spend(environment, _NAME_COST + (before if at < len(elements) else 0))
                return absorbing
            if answer is not (not absorbing) and failure is None:
                failure = no_such_overload()
        fold.spend(environment, _NAME_COST)
        if failure is not None:
            raise failure
        return not absorbing

    return loop


def _exists_one(environment: Environment, fold: _Fold, elements: Sequence[Value]) -> Value:
    count, failure = 0, None
    for element in elements:
        fold.assign(environment, element)
        try:
            answer = _bool(fold.body(environment))
        except CelFailure as error:
            failure = error
            continue
        if answer:
            fold.spend(environment, _NAME_COST + _CALL_COST)
            count += 1
    fold.spend(environment, _NAME_COST + _CALL_COST)
    if failure is not None:
        raise failure
    return count == 1


def _map(environment: Environment, fold: _Fold, elements: Sequence[Value]) -> Value:
    found: list[Value] = []
    failure: CelFailure | None = None
    cost = _NAME_COST + _CALL_COST + (0 if isinstance(fold.body, Constant) else _LIST_COST)
    for element in elements:
        fold.assign(environment, element)
        try:
            if not fold.wanted(environment):
                continue
        except CelFailure as error:
            failure = error
            continue
        fold.spend(environment, cost)
        try:
            found.append(fold.body(environment))
        except CelFailure as error:
            failure = failure or error
    return fold.made(environment, failure, found)


def _insert(into: dict[Value, Value], key: Value, value: Value) -> None:
    stored = to_key(key)
    if stored in into:
        raise CelFailure(f"insert failed: key {show(key)} already exists")
    into[stored] = value


def _transform_map(environment: Environment, fold: _Fold, elements: Sequence[Value]) -> Value:
    found: dict[Value, Value] = {}
    failure: CelFailure | None = None
    for element in elements:
        fold.assign(environment, element)
        try:
            if not fold.wanted(environment):
                continue
        except CelFailure as error:
            failure = error
            continue
        fold.spend(environment, _NAME_COST)
        if failure is not None:
            # The other arguments of the insertion are not evaluated.
            continue
        fold.spend(environment, _NAME_COST + _CALL_COST)
        try:
            _insert(found, environment[fold.slots[0]], fold.body(environment))
        except CelFailure as error:
            failure = error
    return fold.made(environment, failure, found)


def _insert_all(into: dict[Value, Value], entries: Value) -> None:
    if not isinstance(entries, dict):
        raise CelFailure(f"no such overload: cel.@mapInsert(map, {type_name(entries)})")
    for key, value in entries.items():
        _insert(into, from_key(key), value)


def _transform_entries(environment: Environment, fold: _Fold, elements: Sequence[Value]) -> Value:
    found: dict[Value, Value] = {}
    failure: CelFailure | None = None
    for element in elements:
        fold.assign(environment, element)
        try:
            if not fold.wanted(environment):
                continue
        except CelFailure as error:
            failure = error
            continue
        fold.spend(environment, _NAME_COST + _CALL_COST)
        try:
            entries = fold.body(environment)
            if failure is None:
                _insert_all(found, entries)
        except CelFailure as error:
            failure = failure or error
    return fold.made(environment, failure, found)


_LOOPS: Final[dict[str, _Loop]] = {
    "all": _quantified(False),
    "exists": _quantified(True),
    "exists_one": _exists_one,
    "map": _map,
    "transformMap": _transform_map,
    "transformMapEntry": _transform_entries,
}
