"""Keeps an evaluation within limits: the cost that upstream counts, memory, and work.

The work estimates the time that an evaluation takes here; see `work`. Unlike the cost it never
decreases. It is limited only if the caller passes a limit.

Source: cel-go v0.26.0 interpreter/runtimecost.go; api v0.36.3 resource/v1
CELSelectorExpressionMaxCost.
"""

import re
from typing import Any, Final, TypeAlias

from scheduler.cel.errors import Cancelled
from scheduler.cel.language.syntax import (
    BoundVariable,
    Call,
    Expr,
    Fold,
    Ident,
    ListLiteral,
    Literal,
    Select,
    children,
)
from scheduler.cel.planning.work import of_pattern, of_text
from scheduler.cel.values import Value

__all__ = [
    "COST",
    "COST_LIMIT",
    "DEVICE",
    "FIRST_VARIABLE",
    "MOST",
    "SIZE",
    "UNBOUNDED",
    "WORK",
    "Environment",
    "ceiling",
    "charge",
    "charge_size",
    "charge_work",
]

#: Slots of an environment: the fields of the device, what was spent so far; variables follow.
DEVICE: Final = 0
COST: Final = 1
SIZE: Final = 2
WORK: Final = 3
#: What the work may not exceed.
MOST: Final = 4
FIRST_VARIABLE: Final = 5
#: More work than any evaluation does.
UNBOUNDED: Final = 2**62
Environment: TypeAlias = list[Any]

COST_LIMIT: Final = 1_000_000
#: How many characters and elements all results together may have.
_SIZE_LIMIT: Final = 4_000_000

#: Functions whose results are not larger than their arguments.
_CHEAP: Final = frozenset(
    (
        "!_", "-_", "_!=_", "_%_", "_&&_", "_*_", "_-_", "_/_", "_<=_", "_<_", "_==_", "_>=_",
        "_>_",
        "_?_:_", "_[?_]", "_[_]", "_||_", "@in", "add", "asApproximateFloat", "asInteger", "bool",
        "charAt", "compareTo", "contains", "double", "duration", "dyn", "endsWith", "hasValue",
        "includes", "int", "isGreaterThan", "isInteger", "isLessThan", "isQuantity", "isSemver",
        "lowerAscii", "major", "matches", "minor", "or", "orValue", "patch", "quantity", "semver",
        "sign", "size", "startsWith", "string", "sub", "substring", "timestamp", "trim", "type",
        "uint", "upperAscii", "value", "optional.of", "optional.none",
    )
)  # fmt: skip
#: Nodes that are evaluated in a unit of work, where nothing is counted.
_NODES_PER_UNIT: Final = 3
#: How many attributes a device can have, how many values an attribute, how long these are.
_MAX_ATTRIBUTES: Final = 32
_MAX_VALUES: Final = 32
_MAX_TEXT: Final = 64
#: Functions that compare with all values of a list.
_OF_LISTS: Final = frozenset(("@in", "includes", "_==_", "_!=_"))
_PLAIN_QUANTITY: Final = re.compile(r"[+-]?[0-9.]{1,40}[a-zA-Z]{0,2}", re.ASCII)


def charge(environment: Environment, cost: int) -> None:
    """Add to the cost of an evaluation.

    Raises:
        Cancelled: it is too expensive.
    """
    environment[COST] += cost
    if cost > 0:
        environment[WORK] += cost
    # A negative sum is one that wraps around upstream.
    if not 0 <= environment[COST] <= COST_LIMIT or environment[WORK] > environment[MOST]:
        raise Cancelled


def charge_work(environment: Environment, work: int) -> None:
    """Add to the work of an evaluation.

    Raises:
        Cancelled: it is too much.
    """
    environment[WORK] += work
    if environment[WORK] > environment[MOST]:
        raise Cancelled


def charge_size(environment: Environment, value: Value) -> None:
    """Add the size of a result, nested lists and maps included, to what was made so far.

    Raises:
        Cancelled: it was too much.
    """
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, str | bytes | list | dict):
            environment[SIZE] += len(one)
            if environment[SIZE] > _SIZE_LIMIT:
                raise Cancelled
            if isinstance(one, list):
                pending.extend(each for each in one if isinstance(each, list | dict))
            elif isinstance(one, dict):
                pending.extend(each for each in one.values() if isinstance(each, list | dict))


def ceiling(root: Expr, length: int) -> int | None:
    """Return what an evaluation costs at most where that cannot reach the limits, else `None`.

    Such a cost need not be counted. Whether the limits can be reached is told by an upper bound of
    the cost upstream; what is returned follows the work here instead.

    An upper bound: each call costs at most what its longest literal costs, each loop goes over a
    list that is written out or over the attributes of a device.

    Args:
        root: the expression.
        length: of its text, in characters.
    """
    unit = (2 + length // 8) ** 2 if length < 2000 else 2 + length // 4
    total = _total(root)
    if total is None or sum(total) * unit >= COST_LIMIT:
        return None
    nodes, work = total
    return 1 + nodes // _NODES_PER_UNIT + work


def _total(root: Expr) -> tuple[int, int] | None:
    """Return how many nodes are evaluated at most, and what calls take; None if it is unknown."""
    total, of_calls = 0, 0
    longest = _longest_text(root)
    pending = [(root, 1)]
    while pending:
        node, times = pending.pop()
        work = _call_work(node, longest) if isinstance(node, Call) else 0
        if work is None:
            return None
        total += times
        of_calls += times * work
        if isinstance(node, Fold):
            size = _loop_size(node)
            if size is None or node.kind not in ("all", "exists", "exists_one"):
                return None
            pending.append((node.target, times))
            bodies = (node.condition, node.body)
            pending.extend((each, times * (size + 4)) for each in bodies if each is not None)
            continue
        if isinstance(node, BoundVariable) and node.kind == "sortBy":
            return None
        if isinstance(node, BoundVariable) and node.kind != "bind":
            # Upstream evaluates the optional twice.
            total += times * 4
            pending.append((node.value, times))
        if isinstance(node, ListLiteral):
            total += times * 10
        pending.extend((child, times) for child in children(node))
    return total, of_calls


def _longest_text(root: Expr) -> int:
    """Return how long a text can be in an expression that makes none: one of its own or a value."""
    longest = _MAX_TEXT
    pending = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, Literal) and isinstance(node.value, str | bytes):
            longest = max(longest, len(node.value))
        pending.extend(children(node))
    return longest


def _call_work(node: Call, longest: int) -> int | None:
    """Return the work of a call beyond that of its node; None if it can be anything."""
    if node.function not in _CHEAP:
        return None
    last = node.arguments[-1] if node.arguments else None
    constant = last.value if isinstance(last, Literal) else None
    if node.function == "matches":
        return of_pattern(constant, longest) if isinstance(constant, str) else None
    if node.function in ("quantity", "isQuantity"):
        # Some are numbers of thousands of digits.
        return 0 if isinstance(constant, str) and _PLAIN_QUANTITY.fullmatch(constant) else None
    of_list = node.function in _OF_LISTS and not isinstance(last, Literal | ListLiteral)
    return of_text(longest) + (_MAX_VALUES // 2 if of_list and not _is_map(last) else 0)


def _is_map(node: Expr | None) -> bool:
    return node is not None and node.type.name == "map"


def _loop_size(node: Fold) -> int | None:
    target = node.target
    if isinstance(target, ListLiteral):
        return len(target.elements)
    while isinstance(target, Select | Call) and target.type.name == "map":
        if isinstance(target, Call):
            if target.function != "_[_]":
                return None
            target = target.arguments[0]
        else:
            target = target.operand
    named_device = isinstance(target, Ident) and target.name == "device"
    return _MAX_ATTRIBUTES if named_device else None
