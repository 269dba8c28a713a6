"""All functions by name, and the names of types."""

from typing import Final

from scheduler.cel.library import (
    formats,
    lists,
    net,
    optionals,
    patterns,
    quantity,
    semver,
    standard,
    strings,
    times,
    urls,
)
from scheduler.cel.library.overloads import Overload

__all__ = ["FUNCTIONS", "TYPES"]

_MODULES: Final = (
    standard, times, strings, patterns, lists, optionals, quantity, semver, net, urls, formats,
)  # fmt: skip


def _by_name() -> dict[str, tuple[Overload, ...]]:
    found: dict[str, tuple[Overload, ...]] = {}
    for module in _MODULES:
        for overload in module.OVERLOADS:
            found[overload.function] = (*found.get(overload.function, ()), overload)
    return found


#: The overloads of each function, in the order in which they are tried.
FUNCTIONS: Final = _by_name()

#: Names that stand for a type in an expression.
TYPES: Final = frozenset(
    (
        "bool", "bytes", "double", "google.protobuf.Duration", "google.protobuf.Timestamp", "int",
        "list", "map", "null_type", "string", "type", "uint",
    )
)  # fmt: skip
