"""The state of resource claims, in one form for both sides.

Left out is what is random or depends on the clock, the ids of shares and times, and a field that
v1.36.3 does not know and no release writes by default.
"""

from collections.abc import Mapping
from typing import Any

from scheduler.model.api import quantity

__all__ = ["normal"]

_LEFT_OUT = frozenset({"allocationTimestamp", "shareID", "skipNodeOperations"})
_QUANTITIES = frozenset({"consumedCapacity"})


def normal(claims: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return claims by namespace and name: allocation, uids of consumers, requests."""
    return {key: _without_empty(dict(state)) for key, state in claims.items()}


def _without_empty(value: Any) -> Any:
    """Return a value without what is empty, random, or the default."""
    if isinstance(value, dict):
        found = {
            key: {name: quantity.canonical(amount) for name, amount in each.items()}
            if key in _QUANTITIES
            else _without_empty(each)
            for key, each in value.items()
            if key not in _LEFT_OUT and each is not None
        }
        return {key: each for key, each in found.items() if each not in ({}, [], "", False)}
    if isinstance(value, list):
        return [_without_empty(each) for each in value]
    return value
