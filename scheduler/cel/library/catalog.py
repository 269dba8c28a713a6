"""All functions by name, and the names of types."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final, TypeAlias

from scheduler.cel.library import (
    authorization,
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
from scheduler.model.releases import Reference

__all__ = ["TYPES", "Functions", "functions"]

#: The overloads of each function, in the order in which they are tried.
Functions: TypeAlias = Mapping[str, tuple[Overload, ...]]

#: Names that stand for a type in an expression.
TYPES: Final = frozenset(
    (
        "bool", "bytes", "double", "google.protobuf.Duration", "google.protobuf.Timestamp", "int",
        "list", "map", "net.CIDR", "net.IP", "null_type", "optional_type", "string", "type", "uint",
    )
)  # fmt: skip


@cache
def functions(reference: Reference) -> Functions:
    """Return the functions that a release knows."""
    found: dict[str, tuple[Overload, ...]] = {}
    for overload in _declared(reference):
        found[overload.function] = (*found.get(overload.function, ()), overload)
    return MappingProxyType(found)


def _declared(reference: Reference) -> tuple[Overload, ...]:
    return (
        *standard.overloads(reference),
        *times.OVERLOADS,
        *strings.overloads(reference),
        *patterns.overloads(reference),
        *lists.overloads(reference),
        *optionals.OVERLOADS,
        *quantity.OVERLOADS,
        *semver.OVERLOADS,
        *net.OVERLOADS,
        *urls.OVERLOADS,
        *formats.OVERLOADS,
        *authorization.OVERLOADS,
    )
