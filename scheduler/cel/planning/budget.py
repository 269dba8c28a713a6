"""Keeps an evaluation within bounds: the cost that upstream counts, and memory.

Source: cel-go v0.26.0 interpreter/runtimecost.go; api v0.36.3 resource/v1
CELSelectorExpressionMaxCost.
"""

from typing import Any, Final, TypeAlias

from scheduler.cel.errors import Cancelled
from scheduler.cel.language.syntax import (
    Bind,
    Call,
    Fold,
    Ident,
    ListLiteral,
    Node,
    Select,
    children,
)
from scheduler.cel.values import Value

__all__ = [
    "COST",
    "COST_LIMIT",
    "DEVICE",
    "SIZE",
    "Environment",
    "ceiling",
    "charge",
    "charge_size",
]

#: Slots of an environment: the fields of the device, what was spent so far; variables follow.
DEVICE: Final = 0
COST: Final = 1
SIZE: Final = 2
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
#: How many attributes a device can have.
_MAX_ATTRIBUTES: Final = 32


def charge(environment: Environment, cost: int) -> None:
    """Add to the cost of an evaluation.

    Raises:
        Cancelled: it is too expensive.
    """
    environment[COST] += cost
    # A negative sum is one that wraps around upstream.
    if not 0 <= environment[COST] <= COST_LIMIT:
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


def ceiling(root: Node, length: int) -> int | None:
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
    if total is None or total * unit >= COST_LIMIT:
        return None
    return total * (2 + length // 4) if _has_pattern(root) else total


def _has_pattern(root: Node) -> bool:
    pending = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, Call) and node.function == "matches":
            return True
        pending.extend(children(node))
    return False


def _total(root: Node) -> int | None:
    """Return how many nodes are evaluated at most; None if that cannot be told."""
    total = 0
    pending = [(root, 1)]
    while pending:
        node, times = pending.pop()
        total += times
        if isinstance(node, Call) and node.function not in _CHEAP:
            return None
        if isinstance(node, Fold):
            size = _loop_size(node)
            if size is None or node.kind not in ("all", "exists", "exists_one"):
                return None
            pending.append((node.target, times))
            bodies = (node.condition, node.body)
            pending.extend((each, times * (size + 4)) for each in bodies if each is not None)
            continue
        if isinstance(node, Bind) and node.kind != "bind":
            if node.kind == "sortBy":
                return None
            # Upstream evaluates the optional twice.
            total += times * 4
            pending.append((node.value, times))
        if isinstance(node, ListLiteral):
            total += times * 10
        pending.extend((child, times) for child in children(node))
    return total


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
