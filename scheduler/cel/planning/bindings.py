"""Closures for variables: `cel.bind`, `optMap`, `optFlatMap`, `sortBy`.

Source: cel-go v0.26.0 and v0.29.2 ext/bindings.go, cel/library.go, ext/lists.go,
interpreter/attributes.go applyQualifiers.
"""

from collections.abc import Callable
from typing import TypeAlias

from scheduler.cel.errors import CelFailure
from scheduler.cel.library.lists import sort_by_keys
from scheduler.cel.library.optionals import value_of
from scheduler.cel.library.overloads import Cost
from scheduler.cel.planning.budget import COST, Environment, charge, charge_size
from scheduler.cel.planning.calls import Step
from scheduler.cel.values import NONE, Opaque, Optional, Value, type_name

__all__ = [
    "Resolve",
    "as_it_is",
    "lazy_reader",
    "lazy_step",
    "mapped_reader",
    "mapped_step",
    "reader",
    "sorted_step",
    "taken_apart",
]

#: Returns what reading a value gives.
Resolve: TypeAlias = Callable[[Value], Value]


def as_it_is(value: Value) -> Value:
    """Return a value."""
    return value


def taken_apart(value: Value) -> Value:
    """Return the value of a variable or of `?:`, where upstream takes optionals apart.

    It puts what they hold together again. With most types of Kubernetes the optional holds a
    failure then, and optionals in an optional are lost.
    """
    if type(value) is not Optional or value is NONE:
        return value
    held = value.value
    if type(held) is Optional:
        while type(held) is Optional:
            held = held.value
        value = Optional(held)
    if isinstance(held, Opaque) and held.name != "kubernetes.NamedFormat":
        return Optional(CelFailure("unsupported conversion to ref.Val"))
    return value


def reader(slot: int, resolve: Resolve) -> Step:
    """Return the closure that reads a variable."""
    return lambda environment: resolve(environment[slot])


def lazy_reader(value: Step, slot: int, resolve: Resolve) -> Step:
    """Return the closure that reads a variable of `cel.bind`, computed when it is first read."""

    def read(environment: Environment) -> Value:
        known = environment[slot]
        if type(known) is not tuple:
            known = environment[slot] = _outcome(value, environment)
        succeeded, result = known
        if succeeded:
            return resolve(result)
        raise result

    return read


def lazy_step(body: Step, slot: int) -> Step:
    """Return the closure for `cel.bind`."""

    def step(environment: Environment) -> Value:
        environment[slot] = None
        return body(environment)

    return step


def _outcome(value: Step, environment: Environment) -> tuple[bool, Value]:
    """Return whether a value could be computed, and the value or the failure."""
    try:
        return True, value(environment)
    except CelFailure as error:
        return False, error


class _Unread:
    """An optional before the variable with what it holds is read, which costs something."""

    __slots__ = ("cost", "optional")

    def __init__(self, optional: Optional, cost: int) -> None:
        self.optional = optional
        self.cost = cost


def mapped_reader(slot: int, resolve: Resolve) -> Step:
    """Return the closure that reads a variable of `optMap`."""

    def read(environment: Environment) -> Value:
        held = environment[slot]
        if type(held) is _Unread:
            charge(environment, held.cost)
            held = environment[slot] = value_of(held.optional)
        return resolve(held)

    return read


def mapped_step(value: Step, body: Step, slot: int, *, wrap: bool, resolve: Resolve) -> Step:
    """Return the closure for `optMap`, which wraps its result, and `optFlatMap`.

    Upstream evaluates the optional for `hasValue`, and again when the variable is first read.
    """

    def step(environment: Environment) -> Value:
        before = environment[COST]
        try:
            optional = value(environment)
        finally:
            environment[COST] += 1
        if type(optional) is not Optional:
            raise CelFailure(f"no such overload: hasValue({type_name(optional)})")
        if optional is NONE:
            environment[COST] += 1
            return NONE
        environment[slot] = _Unread(optional, environment[COST] - before)
        if not wrap:
            return resolve(body(environment))
        environment[COST] += 1
        return resolve(Optional(body(environment)))

    return step


def sorted_step(value: Step, keys: Step, held: int, cost: Cost) -> Step:
    """Return the closure for `sortBy`, which is never cheap: its cost is always counted.

    Args:
        value: gives the list.
        keys: gives the keys of its elements.
        held: where the list is in the environment.
        cost: cost of sorting by keys.
    """

    def step(environment: Environment) -> Value:
        charge(environment, 2)
        try:
            elements = environment[held] = value(environment)
            found = keys(environment)
        except CelFailure as failure:
            charge(environment, cost((failure,), failure))
            raise
        charge(environment, cost((found,), elements))
        if type(elements) is not list:
            shown = f"@sortByAssociatedKeys({type_name(elements)}, list)"
            raise CelFailure(f"no such overload: {shown}")
        charge_size(environment, elements)
        return sort_by_keys(elements, found)

    return step
