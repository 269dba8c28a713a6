"""Authorization checks: declared in every environment, but no selector has an authorizer.

So a call compiles where types are known only at run time, and fails then.

Source: apiserver v0.36.3 cel/library/authz.go.
"""

import math
from typing import Final, NoReturn

from scheduler.cel.library.overloads import Overload, method, one, size_of
from scheduler.cel.values import Value

__all__ = ["OVERLOADS"]

#: So much that one expression can make two checks.
_CHECK_COST: Final = 350_000
_LIST_COST: Final = 10
#: A list and an object.
_REQUIREMENT_COST: Final = 50


def _unreachable(*_: Value) -> NoReturn:
    """Stand for a call whose types fit, which no value of a selector does."""
    raise AssertionError("an authorizer")


def _check_cost(_arguments: tuple[Value, ...], _result: Value) -> int:
    return _CHECK_COST


def _selector_cost(arguments: tuple[Value, ...], _result: Value) -> int:
    size = size_of(arguments[1])
    return _LIST_COST + math.ceil(size * 0.1) + math.ceil(size * 0.5) * _REQUIREMENT_COST


_COSTS: Final = {
    "check": _check_cost, "fieldSelector": _selector_cost, "labelSelector": _selector_cost,
}  # fmt: skip
_TYPE: Final = "kubernetes.authorization."


def _declare(name: str, of: str, result: str, texts: int = 0) -> Overload:
    """Declare a method of one of the types, with some texts as its arguments."""
    signature = ", ".join((_TYPE + of, *["string"] * texts)) + f" -> {result}"
    return method(name, signature, _unreachable, _COSTS.get(name, one))


_RESOURCE: Final = f"{_TYPE}ResourceCheck"
_DECISION: Final = f"{_TYPE}Decision"

OVERLOADS: Final = (
    _declare("path", "Authorizer", f"{_TYPE}PathCheck", 1),
    _declare("group", "Authorizer", f"{_TYPE}GroupCheck", 1),
    _declare("serviceAccount", "Authorizer", f"{_TYPE}Authorizer", 2),
    _declare("resource", "GroupCheck", _RESOURCE, 1),
    *(
        _declare(name, "ResourceCheck", _RESOURCE, 1)
        for name in ("subresource", "namespace", "name", "fieldSelector", "labelSelector")
    ),
    _declare("check", "PathCheck", _DECISION, 1),
    _declare("check", "ResourceCheck", _DECISION, 1),
    _declare("errored", "Decision", "bool"),
    _declare("error", "Decision", "string"),
    _declare("allowed", "Decision", "bool"),
    _declare("reason", "Decision", "string"),
)
