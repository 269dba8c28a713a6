"""Which potential victims cannot be evicted without violating a disruption budget.

`state/pods/pdb_index` knows which PDBs protect a pod, and what each of them allows.

Source: kube-scheduler v1.36.3 defaultpreemption.filterPodsWithPDBViolation; v1.37.2
framework/preemption.FilterVictimsWithPDBViolation.

Axes: V potential victims of a row, most important first; C candidate rows.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Bool, Int
from scheduler.state.pods.pdb_index import UNPROTECTED

__all__ = ["pdb_violations"]


def pdb_violations(slots: Int, cluster: Cluster) -> Bool:
    """Return which pods cannot be evicted without violating a disruption budget.

    Each row is on its own: its pods are charged in order to every PDB that protects them, and a
    pod violates a PDB that allows no more. A pod that the PDB has counted as disrupted
    already is not charged.

    Where a release does not charge PDBs after the first one that a pod violates, the PDBs are
    visited by what they allow, the least first; upstream's order is that of a map.

    Source: kube-scheduler v1.36.3 defaultpreemption.filterPodsWithPDBViolation; v1.37.2
    framework/preemption.FilterVictimsWithPDBViolation.

    Args:
        slots: (V, C) potential victims, most important first; -1 pads.
        cluster: The cluster with the PDBs.

    Returns:
        (V, C) True where evicting the pod violates a PDB.
    """
    violates = np.zeros(slots.shape, dtype=np.bool_)
    # Column by column, so that the pods of one row are charged one after the other.
    codes = (cluster.pods.protection(slots) * (slots >= 0)).T.ravel()
    if not codes.any():
        return violates
    flat, by_column = np.zeros(codes.shape[0], dtype=np.bool_), slots.T.ravel()
    positions_of = _positions(codes)
    merged = _merged_pdbs(positions_of, by_column[codes != UNPROTECTED], cluster)
    for pdbs in sorted(merged, key=lambda each: each.allowed):
        positions = np.sort(np.concatenate([positions_of[code] for code in pdbs.codes]))
        if not cluster.reference.charges_every_pdb:
            positions = positions[~flat[positions]]
        if pdbs.charged:
            positions = positions[~np.isin(by_column[positions], list(pdbs.charged))]
        flat[positions[_rank(positions // slots.shape[0]) >= pdbs.allowed]] = True
    violates[:] = flat.reshape(slots.shape[1], slots.shape[0]).T
    return violates


class _MergedPdb(NamedTuple):
    """PDBs that protect the same pods, with the least that any of them allows."""

    #: The codes of the sets that they are in.
    codes: tuple[int, ...]
    #: The slots of the pods whose eviction is charged already.
    charged: frozenset[int]
    allowed: int


def _positions(codes: Int) -> dict[int, Int]:
    """Return, by code of a set of PDBs, the positions of the code, in order."""
    protected = np.flatnonzero(codes != UNPROTECTED)
    order = protected[np.argsort(codes[protected], kind="stable")]
    distinct, first = np.unique(codes[order], return_index=True)
    return dict(zip(distinct.tolist(), np.split(order, first[1:]), strict=True))


def _merged_pdbs(codes: Iterable[int], slots: Int, cluster: Cluster) -> Iterable[_MergedPdb]:
    """Return the PDBs in some sets, merged where they charge the same pods.

    Args:
        codes: The codes of the sets.
        slots: All pods that have one of them.
        cluster: The cluster with the PDBs.
    """
    pdbs = cluster.pdbs
    codes_of: dict[str, list[int]] = {}
    for code in codes:
        for key in pdbs.sets.values[code]:
            codes_of.setdefault(key, []).append(code)
    disrupted = {key: names for key in codes_of if (names := pdbs.disrupted(key))}
    charged_by = _charged(disrupted, slots, cluster) if disrupted else {}
    merged: dict[tuple[object, ...], _MergedPdb] = {}
    for key, sets in codes_of.items():
        charged = charged_by.get(key, frozenset())
        same = (*sets, charged)
        allowed = pdbs.allowed(key)
        known = merged.get(same)
        if known is None or allowed < known.allowed:
            merged[same] = _MergedPdb(tuple(sets), charged, allowed)
    return merged.values()


def _charged(
    disrupted: Mapping[str, Collection[str]], slots: Int, cluster: Cluster
) -> dict[str, frozenset[int]]:
    """Return, by PDB, the slots of the pods that are charged to it already, by their names."""
    wanted = frozenset[str]().union(*disrupted.values())
    slots_of: dict[str, list[int]] = {}
    for slot in np.unique(slots).tolist():
        name = cluster.pods.pod(slot).metadata.name
        if name in wanted:
            slots_of.setdefault(name, []).append(slot)
    return {
        key: frozenset(slot for name in names for slot in slots_of.get(name, ()))
        for key, names in disrupted.items()
    }


def _rank(groups: Int) -> Int:
    """Return the rank of each element within its group; the groups are in order."""
    start = np.flatnonzero(np.diff(groups, prepend=-1))
    return np.arange(groups.shape[0]) - np.repeat(start, np.diff(start, append=groups.shape[0]))
