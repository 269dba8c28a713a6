"""Closures for lists and maps with optional parts.

Source: cel-go v0.26.0 interpreter/interpretable.go evalList, evalMap.
"""

from scheduler.cel.errors import CelFailure
from scheduler.cel.planning.budget import Environment
from scheduler.cel.planning.calls import Step
from scheduler.cel.values import NONE, Optional, Value, show, to_key

__all__ = ["list_step", "map_step"]


def list_step(elements: list[Step], optional: frozenset[int]) -> Step:
    """Return the closure for `[a, ?b]`; `optional` has the indices with a question mark."""

    def step(environment: Environment) -> Value:
        found = []
        for index, each in enumerate(elements):
            value = each(environment)
            if index in optional:
                if type(value) is not Optional:
                    message = "cannot initialize optional list element from non-optional value"
                    raise CelFailure(f"{message} {show(value)}")
                if value is NONE:
                    continue
                value = value.value
            found.append(value)
        return found

    return step


def map_step(entries: list[tuple[Step, Step, bool]]) -> Step:
    """Return the closure for `{a: b, ?c: d}`, of keys, values and whether they are optional."""

    def step(environment: Environment) -> Value:
        found: dict[Value, Value] = {}
        for key_step, value_step, optional in entries:
            key = key_step(environment)
            value = value_step(environment)
            if optional:
                if type(value) is not Optional:
                    message = (
                        f"cannot initialize optional entry '{show(key)}' from non-optional value"
                    )
                    raise CelFailure(f"{message} {show(value)}")
                if value is NONE:
                    found.pop(to_key(key), None)
                    continue
                value = value.value
            found[to_key(key)] = value
        return found

    return step
