"""Closures for reading: fields, keys, indices, with `.?` and `[?]`, and `has`.

Source: cel-go v0.26.0 interpreter/attributes.go.
"""

from typing import Final

from scheduler.cel.errors import Failure
from scheduler.cel.planning.budget import COST, DEVICE, Environment, charge
from scheduler.cel.planning.calls import Step
from scheduler.cel.values import (
    EMPTY,
    INT_MAX,
    INT_MIN,
    NONE,
    DefaultMap,
    Optional,
    Uint,
    Value,
    contains,
    find,
    go_type,
    show,
    type_name,
)

__all__ = ["attribute_step", "charged", "check_index", "discounted", "has_step", "index_step"]

_MISSING: Final = object()


def charged(step: Step, cost: int, *, tracked: bool) -> Step:
    """Return a closure that also counts a constant cost."""
    if not tracked or not cost:
        return step

    def counted(environment: Environment) -> Value:
        charge(environment, cost)
        return step(environment)

    return counted


def discounted(step: Step) -> Step:
    """Return a closure that costs one less, where the cost is counted."""

    def counted(environment: Environment) -> Value:
        # The step begins with a name, which makes up for it before the sum is looked at.
        environment[COST] -= 1
        return step(environment)

    return counted


def attribute_step(kind: str, domain: str, name: str) -> Step:
    """Return the closure for `device.attributes["domain"].name`, or of capacity."""

    def step(environment: Environment) -> Value:
        entries = environment[DEVICE][kind].get(domain, EMPTY)
        found = entries.get(name, _MISSING)
        if found is _MISSING:
            raise Failure(f"no such key: {name}")
        return found

    return step


def index_step(operand: Step, index: Step, *, optional: bool, apart: bool, tracked: bool) -> Step:
    """Return the closure for `operand[index]` or `operand[?index]`.

    An optional lookup that finds nothing costs nothing.

    Args:
        operand: gives what is looked into.
        index: gives the key or position.
        optional: whether the result is an optional.
        apart: whether an optional is taken apart: a map in it has no defaults then.
        tracked: whether the cost is counted.
    """
    cost = 1 if tracked else 0

    def present(environment: Environment, found: Optional) -> Optional:
        if found is not NONE:
            charge(environment, cost)
        return found

    def step(environment: Environment) -> Value:
        value = operand(environment)
        if type(value) is Optional:
            if value is NONE:
                return NONE
            key = index(environment)
            check_index(key)
            return present(environment, _held(value, key, apart=apart))
        if optional:
            key = index(environment)
            check_index(key)
            return present(environment, _present(value, key))
        charge(environment, cost)
        key = index(environment)
        check_index(key)
        return _required(value, key)

    return step


def _required(value: Value, key: Value) -> Value:
    """Return what is under a key."""
    if type(value) is list:
        at = _position(key)
        if 0 <= at < len(value):
            return value[at]
        raise Failure(f"index out of bounds: {show(key)}")
    found = find(value, key, _MISSING) if isinstance(value, dict) else _MISSING
    if found is _MISSING:
        raise Failure(f"no such key: {show(key)}")
    return found


def check_index(key: Value) -> None:
    """Check that a value can be an index."""
    if not isinstance(key, str | int | float):
        raise Failure(f"invalid qualifier type: {go_type(key)}")


def _present(value: Value, key: Value) -> Optional:
    """Return what is under a key, as an optional."""
    if isinstance(value, dict):
        found = find(value, key, _MISSING)
        return NONE if found is _MISSING else Optional(found)
    if type(value) is list:
        at = _position(key)
        return Optional(value[at]) if 0 <= at < len(value) else NONE
    return NONE


def _held(optional: Optional, key: Value, *, apart: bool) -> Optional:
    """Return what is under a key of the value that an optional holds, as an optional."""
    held = optional.value
    if apart and type(held) is DefaultMap and not contains(held, key):
        return NONE
    return _present(held, key)


def _position(key: Value) -> int:
    if type(key) in (int, Uint):
        return int(key)
    if type(key) is float:
        if key.is_integer() and INT_MIN <= key <= INT_MAX:
            return int(key)
        raise Failure(f"unsupported index value {show(key)} in list")
    raise Failure(f"unsupported index type '{type_name(key)}' in list")


def has_step(operand: Step, field: str, *, apart: bool) -> Step:
    """Return the closure for `has(operand.field)`; `apart` as for `index_step`."""

    def step(environment: Environment) -> bool:
        value = operand(environment)
        if type(value) is Optional:
            return _held(value, field, apart=apart) is not NONE
        return _present(value, field) is not NONE

    return step
