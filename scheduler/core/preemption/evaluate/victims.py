"""Selects the victims on each candidate row.

Remove every pod of lower priority. If the preemptor fits then, reprieve the pods: add them back,
first those whose eviction would violate a disruption budget, then the others, each group most
important first. A pod that does not fit beside the preemptor is a victim. The loop runs over the
rank of the pods, on all candidate rows at once.

Source: kube-scheduler v1.36.3 defaultpreemption.SelectVictimsOnNode.

Axes: V potential victims of a row, most important first; C candidate rows.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from scheduler.core.feasibility import nominated_pods
from scheduler.core.feasibility.filters import run_filters
from scheduler.core.preemption.dry_run_result import VETOED, DryRunResult
from scheduler.core.preemption.policy.rules import PolicyRules
from scheduler.framework.plugin import CompiledFilter, Reads
from scheduler.model.api.objects import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Bool, Codes, Int, Rows
from scheduler.state.pods.pdb_index import UNPROTECTED

__all__ = ["dry_run_preemption", "fits_without", "pdb_violations", "still_needed"]


def dry_run_preemption(
    pod: Pod,
    cluster: Cluster,
    predicates: Sequence[tuple[str, CompiledFilter]],
    rows: Rows,
    no_victims: int,
    rules: PolicyRules | None = None,
) -> list[DryRunResult]:
    """Select victims on every row.

    Args:
        pod: The preemptor.
        cluster: The cluster as it is.
        predicates: The filters that apply to the preemptor in this attempt.
        rows: (C,) rows whose rejection the removal of pods could change.
        no_victims: The verdict on rows without a pod of lower priority.
        rules: The policies that bind the preemptor, if any do.

    Returns:
        Results that together cover each row once.
    """
    if cluster.pods.lowest_priority() >= pod.priority:
        return [_without_victims(rows, no_victims)]
    runs = []
    for positions, ranked in cluster.pods.ranked(rows):
        slots = _lower(ranked, pod, cluster)
        promising = (slots >= 0).any(axis=0)
        at = rows[positions]
        if not promising.all():
            runs.append(_without_victims(at[~promising], no_victims))
            at, slots = at[promising], slots[:, promising]
        if at.shape[0]:
            what_if = _WhatIf(pod, cluster, predicates, at)
            runs.append(_select_victims(what_if, cluster, at, slots, rules))
    return runs


def still_needed(
    pod: Pod,
    cluster: Cluster,
    predicates: Sequence[tuple[str, CompiledFilter]],
    row: int,
    victims: frozenset[str],
    gone: frozenset[str] = frozenset(),
) -> frozenset[str] | None:
    """Return which victims of a plan must still be evicted for the preemptor to fit.

    Args:
        pod: The preemptor.
        cluster: The cluster as it is.
        predicates: The filters that apply to the preemptor in this attempt.
        row: The row of the node.
        victims: The uids of the victims that the plan names.
        gone: The uids of other pods that will terminate anyway. No pod beside these and the
            victims is removed.

    Returns:
        The uids of the victims that are on the node, are needed and do not terminate yet; empty
        when the pod fits without evicting any of them; `None` when it does not fit even without
        all of them, nominated pods included.
    """
    rows: Rows = np.array([row], dtype=np.int64)
    what_if = _WhatIf(pod, cluster, predicates, rows)
    removable = victims | gone
    slots = [slot for slot in cluster.pods.on_row(row) if cluster.pods.pod(slot).uid in removable]
    for slot in slots:
        what_if.change(np.array([slot], dtype=np.int64), -1)
    if what_if.codes()[0] != 0:
        return None
    needed = set()
    for slot in sorted(slots, key=lambda slot: -cluster.pods.pod(slot).priority):
        victim = cluster.pods.pod(slot)
        if victim.uid in gone or cluster.is_being_deleted(victim):
            continue
        given = np.array([slot], dtype=np.int64)
        what_if.change(given, +1)
        if not what_if.fits()[0]:
            what_if.change(given, -1)
            needed.add(victim.uid)
    return frozenset(needed)


def fits_without(
    cluster: Cluster,
    predicates: Sequence[tuple[str, CompiledFilter]],
    row: int,
    victims: frozenset[str],
) -> bool:
    """Return whether a pod fits on a node without some of its pods; nominations do not count.

    Args:
        cluster: The cluster as it is.
        predicates: The filters that apply to the pod in this attempt.
        row: The row of the node.
        victims: The uids of the pods that do not count.
    """
    copy = cluster.what_if_view(np.array([row], dtype=np.int64))
    for slot in cluster.pods.on_row(row):
        if cluster.pods.pod(slot).uid in victims:
            copy.change(np.array([slot], dtype=np.int64), -1)
    return bool(run_filters(copy, predicates)[0] == 0)


def _lower(ranked: Int, pod: Pod, cluster: Cluster) -> Int:
    """Return, (V, C), the slots of the pods of lower priority; -1 in place of the others."""
    lower = cluster.pods.priorities(ranked) < pod.priority
    # Pods of lower priority come last, so whole ranks may have none.
    first = int(lower.any(axis=1).argmax()) if lower.shape[0] else 0
    slots: Int = np.where(lower[first:], ranked[first:], -1)
    return slots


def _without_victims(rows: Rows, no_victims: int) -> DryRunResult:
    nothing = np.zeros((0, rows.shape[0]), dtype=np.bool_)
    codes = np.full(rows.shape[0], no_victims, dtype=np.uint16)
    return DryRunResult(rows, codes, nothing.astype(np.int64), nothing, nothing)


def _select_victims(
    what_if: "_WhatIf", cluster: Cluster, rows: Rows, slots: Int, rules: PolicyRules | None
) -> DryRunResult:
    for rank in slots:
        what_if.change(rank, -1)
    codes = what_if.codes()
    until = None
    spared = None if rules is None else rules.spared(slots)
    if spared is not None:
        mask, until = spared
        for rank in np.where(mask, slots, -1):
            what_if.change(rank, +1)
        slots = np.where(mask, -1, slots)
        codes = np.where((codes == 0) & ~what_if.fits(), VETOED, codes).astype(np.uint16)
    candidates = codes == 0
    # A terminating pod is reprieved like any other: it is a victim if it is in the way.
    protected = pdb_violations(slots, cluster)
    chosen = np.zeros(slots.shape, dtype=np.bool_)
    for ranks, given in _reprieve_order(np.where(candidates, slots, -1), protected):
        what_if.change(given, +1)
        victims = (given >= 0) & ~what_if.fits()
        if victims.any():
            what_if.change(np.where(victims, given, -1), -1)
            chosen[ranks, np.arange(rows.shape[0])] |= victims
    return DryRunResult(rows, codes, slots, chosen, protected, until)


def _reprieve_order(slots: Int, protected: Bool) -> Iterator[tuple[Int | int, Int]]:
    """Yield the pods to add back: their ranks, and (C,) their slots.

    First those that a disruption budget protects, then the others, both most important first.
    """
    if not protected.any():
        yield from enumerate(slots)
        return
    order = np.argsort(~protected, axis=0, kind="stable")
    columns = np.arange(slots.shape[1])
    for ranks in order:
        yield ranks, slots[ranks, columns]


# Rows as they would be ----------------------------------------------------------------------------


class _WhatIf:
    """What-if copies of the candidate rows: one with the nominated pods, and if needed one without.

    Pods are removed and added back, and the filters say where the preemptor fits then.
    """

    def __init__(
        self,
        pod: Pod,
        cluster: Cluster,
        predicates: Sequence[tuple[str, CompiledFilter]],
        rows: Rows,
    ) -> None:
        self._predicates = predicates
        self._changing = [
            predicate for _, predicate in predicates if predicate.reads is not Reads.NODE
        ]
        self._nominated = nominated_pods.layers_on(rows, pod, cluster)
        self._copies = [cluster.what_if_view(rows)]
        if self._nominated and not all(predicate.monotone for predicate in self._changing):
            # A filter that more pods can satisfy must also pass if the nominated pods never come.
            self._copies.append(cluster.what_if_view(rows))

    def change(self, slots: Int, sign: int) -> None:
        """Add back (+1) or remove (-1) one pod per row; -1 for rows that do not change."""
        for copy in self._copies:
            copy.change(slots, sign)

    def codes(self) -> Codes:
        """Return, (C,), the verdict on each row by all filters.

        Call this first, once all potential victims are removed: it is what adds the nominated pods.
        Host ports are not counted, so removing a pod later would free those of a nominated one.
        """
        for layer in self._nominated:
            self._copies[0].change(layer, +1)
        self._nominated = []
        codes = run_filters(self._copies[0], self._predicates)
        for copy in self._copies[1:]:
            codes = run_filters(copy, self._predicates, codes)
        return codes

    def fits(self) -> Bool:
        """Return, (C,), where the preemptor fits, by the filters that pods can change."""
        fits = np.ones(len(self._copies[0]), dtype=np.bool_)
        for copy in self._copies:
            for predicate in self._changing:
                fits &= predicate.fits(copy)
        return fits


# Disruption budgets -------------------------------------------------------------------------------


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
