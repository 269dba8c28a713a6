"""Functions on lists, and sets of their elements.

Source: cel-go v0.26.0 ext/lists.go version 3, ext/sets.go; apiserver v0.36.3 cel/library/lists.go.
"""

from collections.abc import Iterator
from functools import cmp_to_key
from itertools import pairwise
from typing import Final

from scheduler.cel.errors import Cancelled, CelFailure, Crash, no_such_overload
from scheduler.cel.library.overloads import (
    LONGEST_RESULT,
    Cost,
    Implementation,
    Overload,
    contents_cost,
    function,
    method,
    size_of,
)
from scheduler.cel.library.standard import add
from scheduler.cel.values import (
    NONE,
    Duration,
    Optional,
    Timestamp,
    Uint,
    Value,
    compare,
    equal,
    go_type,
    type_name,
)
from scheduler.model.releases import Reference

__all__ = ["overloads", "pairs_cost", "sort_by_keys"]

_COMPARABLE: Final = (
    "int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes",
)  # fmt: skip
_ORDERED: Final = (int, Uint, float, bool, Duration, Timestamp, str, bytes)
_ZEROS: Final = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}
_ADDABLE: Final = (int, Uint, float, str, bytes, Duration, Timestamp)
#: Lists that take more comparisons than this are beyond the cost limit.
_MAX_COMPARISONS: Final = 1_000_000
#: How many values an attribute can have.
_LONGEST_ATTRIBUTE: Final = 48


def _same(left: Value, right: Value) -> bool:
    try:
        return equal(left, right)
    except CelFailure:
        return False


def _sign(left: Value, right: Value) -> int:
    """Compare two elements; those that have no order count as equal."""
    try:
        return compare(left, right)
    except CelFailure:
        return 0


def _check_comparisons(count: int) -> None:
    if count > _MAX_COMPARISONS:
        raise Cancelled


def _slice(elements: list[Value], start: int, end: int) -> list[Value]:
    if start < 0 or end < 0:
        raise CelFailure(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        message = "start index must be less than or equal to end index"
        raise CelFailure(f"cannot slice({start}, {end}), {message}")
    if len(elements) < end:
        raise CelFailure(f"cannot slice({start}, {end}), list is length {len(elements)}")
    return elements[start:end]


def _flatten(elements: list[Value], level: int | None = None) -> list[Value]:
    depth = 1 if level is None else level
    if type(elements) is not list:
        shown = "" if level is None else type_name(level)
        raise CelFailure(f"no such overload: {type_name(elements)}.flatten({shown})")
    _check_int(depth)
    if depth < 0:
        raise CelFailure("level must be non-negative")
    while depth > 0 and any(type(each) is list for each in elements):
        longer: list[Value] = []
        for each in elements:
            longer.extend(each if type(each) is list else (each,))
            if len(longer) > LONGEST_RESULT:
                raise Cancelled
        elements, depth = longer, depth - 1
    return elements


def _check_int(value: Value) -> None:
    if type(value) is not int:
        raise Crash(f"interface conversion: ref.Val is {go_type(value)}, not types.Int")


def _check_list(value: Value) -> None:
    """Check that the cost of a call can be computed, which upstream does of lists only."""
    if type(value) is not list:
        missing = "Contains" if type(value) in _ADDABLE else "Add"
        message = f"{go_type(value)} is not traits.Lister: missing method {missing}"
        raise Crash(f"interface conversion: {message}")


def _range(count: int) -> list[Value]:
    if count > LONGEST_RESULT:
        raise Cancelled
    return list(range(count))


def _limited_range(count: int) -> list[Value]:
    if count < 0:
        raise CelFailure(f"lists.range: size must be non-negative, got {count}")
    if count > LONGEST_RESULT:
        message = f"size {count} exceeds maximum allowed ({LONGEST_RESULT})"
        raise CelFailure(f"lists.range: {message}")
    return _range(count)


def sort_by_keys(elements: list[Value], keys: list[Value]) -> list[Value]:
    """Return the elements in the order of their keys."""
    if not elements:
        return elements
    if type(keys[0]) not in _ORDERED:
        raise CelFailure("list elements must be comparable")
    if len(elements) > 1 and any(type_name(key) != type_name(keys[0]) for key in keys):
        raise CelFailure("list elements must have the same type")
    _check_comparisons(len(keys) ** 2)
    by_key = cmp_to_key(_sign)
    return [elements[at] for at in sorted(range(len(elements)), key=lambda at: by_key(keys[at]))]


def _sort(elements: list[Value]) -> list[Value]:
    if type(elements) is not list:
        receiver = isinstance(elements, str | Duration | Timestamp)
        raise CelFailure("no such overload" if receiver else "no such overload: sort")
    return sort_by_keys(elements, elements)


def _distinct(elements: list[Value]) -> list[Value]:
    found: list[Value] = []
    _check_comparisons(len(elements) ** 2)
    for each in elements:
        if not any(_same(each, other) for other in found):
            found.append(each)
    return found


def _comparable(elements: list[Value]) -> Iterator[Value]:
    """Yield the elements up to one that has no order, which is a failure."""
    for each in elements:
        if type(each) not in _ORDERED:
            raise no_such_overload()
        yield each


def _is_sorted(elements: list[Value]) -> bool:
    return all(_sign(left, right) <= 0 for left, right in pairwise(_comparable(elements)))


def _sum_from(zero: Value) -> Implementation:
    def implementation(elements: list[Value]) -> Value:
        total = zero
        for each in elements:
            total = add(total, each)
        return total

    return implementation


def _extreme(name: str, sign: int) -> Implementation:
    """Return the function that finds the least (sign 1) or greatest (sign -1) element."""

    def implementation(elements: list[Value]) -> Value:
        if not elements:
            raise CelFailure(f"{name} called on empty list")
        found = _comparable(elements)
        best = next(found)
        for each in found:
            if _sign(best, each) == sign:
                best = each
        return best

    return implementation


def _index_of(elements: list[Value], element: Value) -> int:
    return next((at for at, each in enumerate(elements) if _same(each, element)), -1)


def _last_index_of(elements: list[Value], element: Value) -> int:
    at = _index_of(elements[::-1], element)
    return -1 if at < 0 else len(elements) - 1 - at


def _contains(whole: list[Value], part: list[Value]) -> bool:
    _check_comparisons(len(whole) * len(part))
    return all(any(_same(each, other) for other in whole) for each in part)


def _intersects(left: list[Value], right: list[Value]) -> bool:
    _check_comparisons(len(left) * len(right))
    return any(_same(each, other) for each in left for other in right)


def _includes(target: Value, element: Value) -> bool:
    """Return whether an attribute has a value: it is the value, or one of a list."""
    if type(target) is not list:
        return _same(target, element)
    return any(_same(each, element) for each in target)


def _limited_includes(target: Value, element: Value) -> bool:
    if type(target) is not list:
        return _same(target, element)
    for at, each in enumerate(target):
        if at >= _LONGEST_ATTRIBUTE:
            message = "'includes' function cannot be applied to lists longer than"
            raise CelFailure(f"{message} {_LONGEST_ATTRIBUTE} values")
        if _same(each, element):
            return True
    return False


# Costs.


def _made(size: float) -> int:
    """Cost of making a list."""
    return int(size) + 11


def _result_cost(_arguments: tuple[Value, ...], result: Value) -> int:
    return _made(size_of(result))


def _flatten_cost(arguments: tuple[Value, ...], _result: Value) -> int:
    """Cost by the level; it is negative for negative levels, as upstream's sum wraps around."""
    depth = 1
    if len(arguments) == 2:
        _check_int(arguments[1])
        depth = arguments[1]
    return _made(float(size_of(arguments[0])) * depth)


def _level_cost(arguments: tuple[Value, ...], result: Value) -> int:
    _check_int(arguments[1])
    return _flatten_cost((arguments[0], arguments[1] if arguments[1] >= 0 else 1), result)


def pairs_cost(arguments: tuple[Value, ...], _result: Value) -> int:
    """Cost of comparing all elements of the first argument with each other."""
    elements = arguments[0]
    _check_list(elements)
    texts = elements and type(elements[0]) in (str, bytes)
    return _made(len(elements) ** 2 * (2.1 if texts else 2.0))


def _sets_cost(factor: int) -> Cost:
    def cost(arguments: tuple[Value, ...], _result: Value) -> int:
        return size_of(arguments[0]) * size_of(arguments[1]) * factor + 1

    return cost


def _each(name: str, types: tuple[str, ...], result: str, call: Implementation) -> list[Overload]:
    """Declare a method of lists for each type of elements; "T" in the result is that type."""
    return [
        method(name, f"list({one}) -> {result.replace('T', one)}", call, contents_cost)
        for one in types
    ]


_OVERLOADS: Final = (
    method("slice", "list(T), int, int -> list(T)", _slice, _result_cost),
    method("flatten", "list(list(T)) -> list(T)", _flatten, _flatten_cost, guarded=False),
    method("reverse", "list(T) -> list(T)", lambda elements: elements[::-1], _result_cost),
    method("distinct", "list(T) -> list(T)", _distinct, pairs_cost),
    *(
        method("sort", f"list({one}) -> list({one})", _sort, pairs_cost, guarded=False)
        for one in _COMPARABLE
    ),
    *_each("isSorted", _COMPARABLE, "bool", _is_sorted),
    *(
        method("sum", f"list({one}) -> {one}", _sum_from(zero), contents_cost)
        for one, zero in _ZEROS.items()
    ),
    *_each("max", _COMPARABLE, "T", _extreme("max", -1)),
    *_each("min", _COMPARABLE, "T", _extreme("min", 1)),
    method("indexOf", "list(A), A -> int", _index_of, contents_cost),
    method("lastIndexOf", "list(A), A -> int", _last_index_of, contents_cost),
    method("first", "list(V) -> optional(V)", lambda all_: Optional(all_[0]) if all_ else NONE),
    method("last", "list(V) -> optional(V)", lambda all_: Optional(all_[-1]) if all_ else NONE),
    function("sets.contains", "list(T), list(T) -> bool", _contains, _sets_cost(1)),
    function("sets.intersects", "list(T), list(T) -> bool", _intersects, _sets_cost(1)),
    function(
        "sets.equivalent",
        "list(T), list(T) -> bool",
        lambda left, right: _contains(left, right) and _contains(right, left),
        _sets_cost(2),
    ),
)


def overloads(reference: Reference) -> tuple[Overload, ...]:
    """Return the functions of a release."""
    level_cost = _level_cost if reference.selectors_charge_negative_levels else _flatten_cost
    ranges = _limited_range if reference.selectors_limit_ranges else _range
    if reference.selectors_limit_includes:
        includes = method("includes", "dyn, dyn -> bool", _limited_includes)
    else:
        includes = method("includes", "dyn, dyn -> bool", _includes, contents_cost)
    return (
        *_OVERLOADS,
        method("flatten", "list(dyn), int -> list(dyn)", _flatten, level_cost, guarded=False),
        function("lists.range", "int -> list(int)", ranges, _result_cost),
        includes,
    )
