"""How functions are declared, and what a call of one costs.

Source: cel-go v0.26.0 common/decls, interpreter.CostTracker; apiserver v0.36.3 cel/library/cost.go.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from scheduler.cel.language.types import Type, parse_types
from scheduler.cel.values import NONE, Optional, Value

__all__ = [
    "LONGEST_RESULT",
    "Cost",
    "Implementation",
    "Overload",
    "contents_cost",
    "function",
    "method",
    "one",
    "regex_cost",
    "size_of",
    "traversal",
]

Implementation: TypeAlias = Callable[..., Value]
#: Takes the arguments and the result, returns the cost of the call.
Cost: TypeAlias = Callable[[tuple[Value, ...], Value], int]

#: A string or list that a function makes may not be longer: whatever was done with it would exceed
#: the cost limit, and it must not fill the memory before that is found out.
LONGEST_RESULT: Final = 1_000_000

_SIZED: Final = (str, bytes, list, dict)


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function.

    Attributes:
        function: the name.
        member: whether it is called as `target.name(...)`; the target is the first argument.
        arguments: types of the arguments.
        result: type of the result.
        implementation: takes the values.
        cost: cost of a call.
        guarded: whether the types of values have to be checked where they are not known statically;
            the implementations of operators do that themselves.
    """

    function: str
    member: bool
    arguments: tuple[Type, ...]
    result: Type
    implementation: Implementation
    cost: Cost
    guarded: bool = True


def one(_arguments: tuple[Value, ...], _result: Value) -> int:
    """Cost 1, as most functions have."""
    return 1


def function(
    name: str,
    signature: str,
    implementation: Implementation,
    cost: Cost = one,
    *,
    guarded: bool = True,
) -> Overload:
    """Declare a function by a signature such as "string, int -> list(A)"."""
    return _declared(name, False, signature, implementation, cost, guarded)


def method(
    name: str,
    signature: str,
    implementation: Implementation,
    cost: Cost = one,
    *,
    guarded: bool = True,
) -> Overload:
    """Declare a method; the first type of the signature is that of its target."""
    return _declared(name, True, signature, implementation, cost, guarded)


def _declared(
    name: str,
    is_method: bool,
    signature: str,
    implementation: Implementation,
    cost: Cost,
    guarded: bool,
) -> Overload:
    arguments, _, result = signature.partition("->")
    (result_type,) = parse_types(result)
    types = parse_types(arguments)
    return Overload(name, is_method, types, result_type, implementation, cost, guarded)


def size_of(value: Value) -> int:
    """Return the size that costs are computed from."""
    if isinstance(value, _SIZED):
        return len(value)
    if isinstance(value, Optional) and value is not NONE:
        return size_of(value.value)
    octets: Any = getattr(value, "octets", 1)
    return int(octets)


def traversal(factor: float = 1) -> Cost:
    """Return the cost of reading the first argument: a tenth of its size, times a factor."""

    def cost(arguments: tuple[Value, ...], _result: Value) -> int:
        return math.ceil(size_of(arguments[0]) * factor * 0.1)

    return cost


def _traversed(value: Value) -> int:
    if isinstance(value, str):
        return int(len(value.encode("utf-8", "replace")) * 0.1)
    if isinstance(value, bytes):
        return int(len(value) * 0.1)
    if isinstance(value, list):
        return sum(map(_traversed, value))
    if isinstance(value, dict):
        return sum(_traversed(key) + _traversed(each) for key, each in value.items())
    return 1


def contents_cost(arguments: tuple[Value, ...], _result: Value) -> int:
    """Cost of reading all that the first argument consists of."""
    return _traversed(arguments[0])


def regex_cost(arguments: tuple[Value, ...], _result: Value) -> int:
    """Cost of matching the first argument with the pattern in the second one."""
    text = math.ceil((1.0 + size_of(arguments[0])) * 0.1)
    return text * math.ceil(size_of(arguments[1]) * 0.25)
