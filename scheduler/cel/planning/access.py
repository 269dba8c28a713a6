"""Closures for reading: fields, keys, indices, with `.?` and `[?]`, and `has`.

Source: cel-go v0.26.0 interpreter/attributes.go.
"""

from dataclasses import dataclass
from typing import Final

from scheduler.cel.errors import CelFailure
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
    find,
    go_type,
    show,
    type_name,
)

__all__ = ["Path", "attribute_step", "charged", "check_index", "discounted", "has_step"]

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
            raise CelFailure(f"no such key: {name}")
        return found

    return step


@dataclass(frozen=True)
class Path:
    """A chain of lookups, such as `base.a[key].?b`.

    If the base is an optional, or one of the lookups is, those that follow are optional as well,
    and so is the result. An optional within is a value like others, in which nothing is found.

    Attributes:
        base: gives what is looked into.
        keys: give fields, keys and positions; the flag says that a lookup is optional.
        apart: whether an optional base is taken apart: optionals in it and the defaults of a map
            are lost then.
        cost: of a lookup; an optional one that finds nothing costs nothing.
    """

    base: Step
    keys: tuple[tuple[Step, bool], ...]
    apart: bool
    cost: int

    def step(self, environment: Environment) -> Value:
        """Return what is found."""
        value, is_optional = self.walk(environment)
        return Optional(value) if is_optional and value is not NONE else value

    def walk(self, environment: Environment) -> tuple[Value, bool]:
        """Return what is found, NONE if an optional lookup finds nothing, and whether one was."""
        value = self.base(environment)
        is_optional = type(value) is Optional
        if is_optional:
            if value is NONE:
                return NONE, True
            value = _held(value, apart=self.apart)
        for index, optional in self.keys:
            is_optional = is_optional or optional
            if not is_optional:
                charge(environment, self.cost)
            key = index(environment)
            check_index(key)
            if not is_optional:
                value = _required(value, key)
                continue
            found = _present(value, key)
            if found is NONE:
                return NONE, True
            charge(environment, self.cost)
            value = found.value
        return value, is_optional


def _held(optional: Optional, *, apart: bool) -> Value:
    """Return what an optional holds; taken apart, it is what is in all of its optionals."""
    held = optional.value
    while apart and type(held) is Optional:
        held = held.value
    return dict(held) if apart and type(held) is DefaultMap else held


def _required(value: Value, key: Value) -> Value:
    """Return what is under a key."""
    if type(value) is list:
        at = _position(key)
        if 0 <= at < len(value):
            return value[at]
        raise CelFailure(f"index out of bounds: {show(key)}")
    found = find(value, key, _MISSING) if isinstance(value, dict) else _MISSING
    if found is _MISSING:
        raise CelFailure(f"no such key: {show(key)}")
    return found


def check_index(key: Value) -> None:
    """Check that a value can be an index."""
    if not isinstance(key, str | int | float):
        raise CelFailure(f"invalid qualifier type: {go_type(key)}")


def _present(value: Value, key: Value) -> Optional:
    """Return what is under a key, as an optional."""
    if isinstance(value, dict):
        found = find(value, key, _MISSING)
        return NONE if found is _MISSING else Optional(found)
    if type(value) is list:
        at = _position(key)
        return Optional(value[at]) if 0 <= at < len(value) else NONE
    return NONE


def _position(key: Value) -> int:
    if type(key) in (int, Uint):
        if key > INT_MAX:
            raise CelFailure(f"unsupported index value {show(key)} in list")
        return int(key)
    if type(key) is float:
        if key.is_integer() and INT_MIN <= key <= INT_MAX:
            return int(key)
        raise CelFailure(f"unsupported index value {show(key)} in list")
    raise CelFailure(f"unsupported index type '{type_name(key)}' in list")


def has_step(path: Path, field: str) -> Step:
    """Return the closure for `has(path.field)`."""

    def step(environment: Environment) -> bool:
        value, is_optional = path.walk(environment)
        found = _present(value, field) is not NONE
        if is_optional and not found:
            # An optional lookup that finds nothing costs nothing; what it begins with has a cost.
            environment[COST] -= path.cost
        return found

    return step
