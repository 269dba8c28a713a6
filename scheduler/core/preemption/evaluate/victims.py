"""Selects the victims on each candidate row.

Remove every pod of lower priority. If the preemptor fits then, reprieve the pods: add them back,
first those whose eviction would violate a disruption budget, then the others, each group most
important first. A pod that does not fit together with the preemptor is a victim. The loop runs over
the rank of the pods, on all candidate rows at once.

Source: kube-scheduler v1.36.3 defaultpreemption.SelectVictimsOnNode.

Axes: V potential victims of a row, most important first; C candidate rows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from scheduler.core.feasibility import nominated_pods
from scheduler.core.feasibility.filters import run_filters
from scheduler.core.preemption.dry_run_result import VETOED, DryRunResult
from scheduler.core.preemption.evaluate.pdb_violations import pdb_violations
from scheduler.core.preemption.policy.rules import PolicyRules
from scheduler.framework.plugin import CompiledFilter, Reads
from scheduler.model.api.device_claims import Allocation
from scheduler.model.api.objects import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Bool, Codes, Int, Rows
from scheduler.state.views.node_view import NOBODY, GonePods, HypotheticalView

__all__ = [
    "Pinned",
    "Sparing",
    "dry_run_preemption",
    "expected_devices",
    "fits_without",
    "still_needed",
]

#: Returns, (V, C), which potential victims to reprieve before others of the same priority. Given
#: are their slots, (V, C), and the rows, (C,).
Pinned: TypeAlias = Callable[[Int, Rows], Bool]


class Sparing(NamedTuple):
    """Which pods of lower priority are no victims, or only if nothing else helps."""

    #: The policies that bind the preemptor, if any do.
    rules: PolicyRules | None = None
    #: Which pods to reprieve first among those of one priority; `None` for none.
    pinned: Pinned | None = None


_NOTHING: Final = Sparing()


def dry_run_preemption(
    pod: Pod,
    cluster: Cluster,
    predicates: Sequence[tuple[str, CompiledFilter]],
    rows: Rows,
    no_victims: int,
    sparing: Sparing = _NOTHING,
) -> list[DryRunResult]:
    """Select victims on every row.

    Args:
        pod: The preemptor.
        cluster: The cluster as it is.
        predicates: The filters that apply to the preemptor in this attempt.
        rows: (C,) rows whose rejection the removal of pods could change.
        no_victims: The verdict on rows without a pod of lower priority.
        sparing: Which pods are spared.

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
            copies = _HypotheticalRows(pod, cluster, predicates, at)
            runs.append(_select_victims(copies, cluster, at, slots, sparing))
    return runs


def still_needed(
    pod: Pod,
    cluster: Cluster,
    predicates: Sequence[tuple[str, CompiledFilter]],
    row: int,
    victims: frozenset[str],
    terminating: frozenset[str] = frozenset(),
    gone: GonePods = NOBODY,
) -> frozenset[str] | None:
    """Return which victims of a plan must still be evicted for the preemptor to fit.

    Args:
        pod: The preemptor.
        cluster: The cluster as it is.
        predicates: The filters that apply to the preemptor in this attempt.
        row: The row of the node.
        victims: The uids of the victims that the plan names.
        terminating: The uids of other pods that will terminate anyway. No pod beside these and the
            victims is removed.
        gone: Pods that are gone, and whose claims are not deallocated yet.

    Returns:
        The uids of the victims that are on the node, are needed and do not terminate yet; empty
        when the pod fits without evicting any of them; `None` when it does not fit even without
        all of them, nominated pods included.
    """
    rows: Rows = np.array([row], dtype=np.int64)
    copies = _HypotheticalRows(pod, cluster, predicates, rows, gone)
    removable = victims | terminating
    slots = [slot for slot in cluster.pods.on_row(row) if cluster.pods.pod(slot).uid in removable]
    for slot in slots:
        copies.change(np.array([slot], dtype=np.int64), -1)
    if copies.codes()[0] != 0:
        return None
    needed = set()
    for slot in sorted(slots, key=lambda slot: -cluster.pods.pod(slot).priority):
        victim = cluster.pods.pod(slot)
        if victim.uid in terminating or cluster.is_being_deleted(victim):
            continue
        given = np.array([slot], dtype=np.int64)
        copies.change(given, +1)
        if not copies.fits()[0]:
            copies.change(given, -1)
            needed.add(victim.uid)
    return frozenset(needed)


def fits_without(
    cluster: Cluster,
    predicates: Sequence[tuple[str, CompiledFilter]],
    row: int,
    victims: frozenset[str],
    gone: GonePods = NOBODY,
) -> bool:
    """Return whether a pod fits on a node without some of its pods; nominations do not count.

    Args:
        cluster: The cluster as it is.
        predicates: The filters that apply to the pod in this attempt.
        row: The row of the node.
        victims: The uids of the pods that do not count.
        gone: Pods that are gone, and whose claims are not deallocated yet.
    """
    return bool(run_filters(_view_without(cluster, row, victims, gone), predicates)[0] == 0)


def expected_devices(
    cluster: Cluster,
    predicates: Sequence[tuple[str, CompiledFilter]],
    row: int,
    victims: frozenset[str],
    gone: GonePods = NOBODY,
) -> Mapping[str, Allocation]:
    """Return the devices that a preemptor would get on a node, by uid of its claim.

    Args:
        cluster: The cluster as it is.
        predicates: The filters that apply to the pod in this attempt.
        row: The row of the node.
        victims: The uids of the victims.
        gone: Pods that are gone, and whose claims are not deallocated yet.

    Raises:
        PluginError: It would not get its devices there.
    """
    view = _view_without(cluster, row, victims, gone)
    expected: dict[str, Allocation] = {}
    for _, predicate in predicates:
        expected.update(predicate.expected_devices(view))
    return expected


def _view_without(
    cluster: Cluster, row: int, uids: frozenset[str], gone: GonePods = NOBODY
) -> HypotheticalView:
    """Return the view of a row without some of its pods."""
    copy = cluster.hypothetical_view(np.array([row], dtype=np.int64), gone)
    for slot in cluster.pods.on_row(row):
        if cluster.pods.pod(slot).uid in uids:
            copy.change(np.array([slot], dtype=np.int64), -1)
    return copy


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
    copies: "_HypotheticalRows", cluster: Cluster, rows: Rows, slots: Int, sparing: Sparing
) -> DryRunResult:
    rules, pinned = sparing
    for rank in slots:
        copies.change(rank, -1)
    codes = copies.codes()
    until = None
    spared = None if rules is None else rules.spared(slots)
    if spared is not None:
        mask, until = spared
        for rank in np.where(mask, slots, -1):
            copies.change(rank, +1)
        slots = np.where(mask, -1, slots)
        codes = np.where((codes == 0) & ~copies.fits(), VETOED, codes).astype(np.uint16)
    candidates = codes == 0
    # A terminating pod is reprieved like any other: it is a victim if it is in the way.
    protected = pdb_violations(slots, cluster)
    chosen = np.zeros(slots.shape, dtype=np.bool_)
    order = _reprieve_order(np.where(candidates, slots, -1), rows, protected, cluster, pinned)
    for ranks, given in order:
        copies.change(given, +1)
        victims = (given >= 0) & ~copies.fits()
        if victims.any():
            copies.change(np.where(victims, given, -1), -1)
            chosen[ranks, np.arange(rows.shape[0])] |= victims
    codes = copies.without_given_up(codes)
    return DryRunResult(rows, codes, slots, chosen, protected, until)


def _reprieve_order(
    slots: Int, rows: Rows, protected: Bool, cluster: Cluster, pinned: Pinned | None
) -> Iterator[tuple[Int | int, Int]]:
    """Yield the pods to add back: their ranks, and (C,) their slots.

    First those that a disruption budget protects, then the others, both most important first, and
    of one priority first those that are pinned.
    """
    if pinned is not None:
        keys = (~pinned(slots, rows), -cluster.pods.priorities(slots), ~protected)
        order = np.lexsort(keys, axis=0)
    elif protected.any():
        order = np.argsort(~protected, axis=0, kind="stable")
    else:
        yield from enumerate(slots)
        return
    columns = np.arange(slots.shape[1])
    for ranks in order:
        yield ranks, slots[ranks, columns]


# Rows as they would be ----------------------------------------------------------------------------


class _HypotheticalRows:
    """Hypothetical copies of the candidate rows: with the nominated pods, and if needed without.

    Pods are removed and added back, and the filters say where the preemptor fits then.
    """

    def __init__(
        self,
        pod: Pod,
        cluster: Cluster,
        predicates: Sequence[tuple[str, CompiledFilter]],
        rows: Rows,
        gone: GonePods = NOBODY,
    ) -> None:
        self._predicates = predicates
        self._changing = [
            predicate for _, predicate in predicates if predicate.reads is not Reads.NODE
        ]
        self._nominated = nominated_pods.layers_on(rows, pod, cluster)
        self._copies = [cluster.hypothetical_view(rows, gone)]
        if self._nominated and not all(predicate.monotone for predicate in self._changing):
            # A filter that more pods can satisfy must also pass if the nominated pods never come.
            self._copies.append(cluster.hypothetical_view(rows, gone))

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

    def without_given_up(self, codes: Codes) -> Codes:
        """Return, (C,), verdicts that also reject the rows that a filter could not evaluate."""
        for copy in self._copies:
            for predicate in self._changing:
                given_up = predicate.given_up(copy)
                if given_up is not None:
                    codes = np.where(codes == 0, given_up, codes)
        return codes
