"""Which pods would have to leave each candidate node.

Remove every pod of lower priority; if the preemptor fits then, give the pods back, those first
that a budget protects, each group most important first, and keep out those with whom it does not
fit. The loop runs over the rank of the victims, on all candidate rows at once.

Source: kube-scheduler v1.36.3 defaultpreemption.SelectVictimsOnNode.

Axes: V pods that could go, most important first; C candidate rows.
"""

from collections.abc import Iterator, Sequence
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
    #: (V, C) slots of the pods that could go, most important first; -1 pads.
    slots: Int
    #: (V, C) True for the pods that must go.
    chosen: Bool
    #: (V, C) True for the pods whose eviction violates a budget.
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
    runs = []
    for positions, ranked in cluster.pods.ranked(rows):
        slots = _lower(ranked, pod, cluster)
        some = (slots >= 0).any(axis=0)
        at = rows[positions]
        if not some.all():
            runs.append(_hopeless(at[~some], no_victims))
            at, slots = at[some], slots[:, some]
        if at.shape[0]:
            what_if = WhatIf(pod, cluster, predicates, at)
            runs.append(_dry_run(what_if, cluster, at, slots))
    return runs


def _lower(ranked: Int, pod: Pod, cluster: Cluster) -> Int:
    """Return, (V, C), only the pods of lower priority; -1 in the place of the others."""
    lower = cluster.pods.priorities(ranked) < pod.priority
    # Pods of lower priority stand last, so whole ranks may be free of them.
    first = int(lower.any(axis=1).argmax()) if lower.shape[0] else 0
    slots: Int = np.where(lower[first:], ranked[first:], -1)
    return slots


def _hopeless(rows: Rows, no_victims: int) -> DryRun:
    nothing = np.zeros((0, rows.shape[0]), dtype=np.bool_)
    codes = np.full(rows.shape[0], no_victims, dtype=np.uint16)
    return DryRun(rows, codes, nothing.astype(np.int64), nothing, nothing)


def _dry_run(what_if: WhatIf, cluster: Cluster, rows: Rows, slots: Int) -> DryRun:
    for line in slots:
        what_if.change(line, -1)
    codes = what_if.codes()
    candidates = codes == 0
    # A pod that leaves anyway is given back like any other: it is a victim where it is in the way.
    protected = violating(slots, cluster)
    chosen = np.zeros(slots.shape, dtype=np.bool_)
    for rank, given in _in_order(np.where(candidates, slots, -1), protected):
        what_if.change(given, +1)
        must_go = (given >= 0) & ~what_if.fits()
        if must_go.any():
            what_if.change(np.where(must_go, given, -1), -1)
            chosen[rank, np.arange(rows.shape[0])] |= must_go
    return DryRun(rows, codes, slots, chosen, protected & chosen)


def _in_order(slots: Int, protected: Bool) -> Iterator[tuple[Int | int, Int]]:
    """Yield the pods to give back: their ranks, and (C,) their slots.

    First those that a budget protects, then the others, both most important first.
    """
    if not protected.any():
        yield from enumerate(slots)
        return
    order = np.argsort(~protected, axis=0, kind="stable")
    columns = np.arange(slots.shape[1])
    for ranks in order:
        yield ranks, slots[ranks, columns]
