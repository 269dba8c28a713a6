"""Which victims would violate a disruption budget.

Source: kube-scheduler v1.36.3 defaultpreemption.filterPodsWithPDBViolation.

Axes: V pods on a row, most important first; C candidate rows.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Bool, Int
from scheduler.state.pods.disruption_budgets import UNPROTECTED

__all__ = ["violating"]


def violating(slots: Int, cluster: Cluster) -> Bool:
    """Tell which pods could not be evicted within their budgets.

    Each row is for itself: its pods are charged in order to every budget that protects them, and a
    pod that overdraws one violates. A pod that was evicted before is not charged.

    Args:
        slots: (V, C) pods that could go, most important first; -1 pads.
        cluster: Whose budgets count.

    Returns:
        (V, C) True where evicting the pod violates a budget.
    """
    found = np.zeros(slots.shape, dtype=np.bool_)
    # Column by column, so that what lies between two places of one row is what is charged before.
    codes = (cluster.pods.protection(slots) * (slots >= 0)).T.ravel()
    if not codes.any():
        return found
    flat, by_column = np.zeros(codes.shape[0], dtype=np.bool_), slots.T.ravel()
    at = _places(codes)
    for budgets in _alike(at, by_column[codes != UNPROTECTED], cluster):
        places = np.sort(np.concatenate([at[code] for code in budgets.codes]))
        if budgets.charged:
            places = places[~np.isin(by_column[places], list(budgets.charged))]
        flat[places[_rank(places // slots.shape[0]) >= budgets.allowed]] = True
    found[:] = flat.reshape(slots.shape[1], slots.shape[0]).T
    return found


class _Alike(NamedTuple):
    """Budgets that protect the same pods, as the one among them that allows least."""

    codes: tuple[int, ...]
    #: The slots of the pods whose eviction is charged already.
    charged: frozenset[int]
    allowed: int


def _places(codes: Int) -> dict[int, Int]:
    """Return where each code is that stands for budgets, in order."""
    some = np.flatnonzero(codes != UNPROTECTED)
    order = some[np.argsort(codes[some], kind="stable")]
    distinct, first = np.unique(codes[order], return_index=True)
    return dict(zip(distinct.tolist(), np.split(order, first[1:]), strict=True))


def _alike(codes: Iterable[int], slots: Int, cluster: Cluster) -> Iterable[_Alike]:
    """Return the budgets in some sets, those together that charge the same pods.

    Args:
        codes: Of the sets.
        slots: All pods that have one of them.
        cluster: Whose budgets count.
    """
    budgets = cluster.budgets
    codes_of: dict[str, list[int]] = {}
    for code in codes:
        for key in budgets.sets.values[code]:
            codes_of.setdefault(key, []).append(code)
    disrupted = {key: names for key in codes_of if (names := budgets.disrupted(key))}
    charged_by = _charged(disrupted, slots, cluster) if disrupted else {}
    found: dict[tuple[object, ...], _Alike] = {}
    for key, among in codes_of.items():
        charged = charged_by.get(key, frozenset())
        same = (*among, charged)
        allowed = budgets.allowed(key)
        before = found.get(same)
        if before is None or allowed < before.allowed:
            found[same] = _Alike(tuple(among), charged, allowed)
    return found.values()


def _charged(
    disrupted: Mapping[str, Collection[str]], slots: Int, cluster: Cluster
) -> dict[str, frozenset[int]]:
    """Return, by budget, which slots have pods that are charged to it already, by their names."""
    wanted = frozenset[str]().union(*disrupted.values())
    found: dict[str, list[int]] = {}
    for slot in np.unique(slots).tolist():
        name = cluster.pods.pod(slot).metadata.name
        if name in wanted:
            found.setdefault(name, []).append(slot)
    return {
        key: frozenset(slot for name in names for slot in found.get(name, ()))
        for key, names in disrupted.items()
    }


def _rank(groups: Int) -> Int:
    """Return the place of each element among equal ones; they are in order."""
    start = np.flatnonzero(np.diff(groups, prepend=-1))
    return np.arange(groups.shape[0]) - np.repeat(start, np.diff(start, append=groups.shape[0]))
