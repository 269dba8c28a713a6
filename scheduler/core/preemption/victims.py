"""Which pods would have to leave each candidate node.

Remove every pod of lower priority; if the preemptor fits then, give the pods back, those first
that a budget protects, each group most important first, and keep out those with whom it does not
fit. The loop runs over the rank of the victims, on all candidate rows at once.

Source: kube-scheduler v1.36.3 defaultpreemption.SelectVictimsOnNode.

Axes: C candidate rows, V pods that could go, most important first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.core.preemption.budgets import violating
from scheduler.core.preemption.whatif import WhatIf
from scheduler.framework.plugin import Predicate
from scheduler.model.objects import Pod
from scheduler.state.arrays import Bool, Codes, Int, Rows
from scheduler.state.cluster import Cluster

__all__ = ["DryRun", "dry_run"]


@dataclass(frozen=True, slots=True)
class DryRun:
    """What preemption would mean on some rows."""

    #: (C,) the rows.
    rows: Rows
    #: (C,) 0 where evicting the victims makes room, else the verdict on what is left.
    codes: Codes
    #: (C, V) slots of the pods that could go, most important first; -1 pads.
    slots: Int
    #: (C, V) True for the pods that must go.
    chosen: Bool
    #: (C, V) True for the pods whose eviction violates a budget.
    violating: Bool


def dry_run(
    pod: Pod,
    cluster: Cluster,
    predicates: Sequence[tuple[str, Predicate]],
    rows: Rows,
    no_victims: int,
) -> list[DryRun]:
    """Choose victims on every row.

    Args:
        pod: The preemptor.
        cluster: As it is.
        predicates: The filters that have something to say about it.
        rows: (C,) rows whose rejection the removal of pods could change.
        no_victims: The verdict on rows without a pod of lower priority.

    Returns:
        Results that together cover each row once.
    """
    return [
        _dry_run(WhatIf(pod, cluster, predicates, rows[at]), cluster, rows[at], slots)
        if slots.shape[1]
        else _hopeless(rows[at], no_victims)
        for positions, ranked in cluster.pods.ranked(rows)
        for at, slots in _lower(positions, ranked, pod, cluster)
        if at.shape[0]
    ]


def _lower(positions: Int, ranked: Int, pod: Pod, cluster: Cluster) -> list[tuple[Int, Int]]:
    """Return rows with and without pods of lower priority, and those pods at the left."""
    lower = (ranked >= 0) & (cluster.pods.priorities(ranked) < pod.priority)
    count = np.count_nonzero(lower, axis=1)
    some = np.flatnonzero(count)
    longest = int(count.max(initial=0))
    # Pods of lower priority stand last, so they are moved to the left by the number of others.
    others = np.count_nonzero(ranked[some] >= 0, axis=1) - count[some]
    columns = others[:, None] + np.arange(longest)
    present = np.arange(longest) < count[some, None]
    slots = np.take_along_axis(ranked[some], np.where(present, columns, 0), axis=1)
    none = np.flatnonzero(count == 0)
    return [
        (positions[some], np.where(present, slots, -1)),
        (positions[none], np.zeros((none.shape[0], 0), dtype=np.int64)),
    ]


def _hopeless(rows: Rows, no_victims: int) -> DryRun:
    nothing = np.zeros((rows.shape[0], 0), dtype=np.bool_)
    codes = np.full(rows.shape[0], no_victims, dtype=np.uint16)
    return DryRun(rows, codes, nothing.astype(np.int64), nothing, nothing)


def _dry_run(what_if: WhatIf, cluster: Cluster, rows: Rows, slots: Int) -> DryRun:
    for column in slots.T:
        what_if.change(column, -1)
    codes = what_if.codes()
    # A pod that leaves anyway is given back like any other: it is a victim where it is in the way.
    protected = violating(slots, cluster)
    chosen = np.zeros(slots.shape, dtype=np.bool_)
    order = np.argsort(~protected, axis=1, kind="stable")
    lines = np.arange(rows.shape[0])
    for rank in range(slots.shape[1]):
        place = order[:, rank]
        given = np.where(codes == 0, slots[lines, place], -1)
        what_if.change(given, +1)
        must_go = (given >= 0) & ~what_if.fits()
        if must_go.any():
            what_if.change(np.where(must_go, given, -1), -1)
            chosen[lines, place] = must_go
    return DryRun(rows, codes, slots, chosen, protected & chosen)
