"""Which pods would have to leave each candidate node.

Remove every pod of lower priority; if the preemptor fits then, give the pods back, those first
that a budget protects, each group most important first, and keep out those with whom it does not
fit. The loop runs over the rank of the victims, on all candidate rows at once.

Source: kube-scheduler v1.36.3 defaultpreemption.SelectVictimsOnNode.

Axes: V pods that could go, most important first; C candidate rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.core.feasibility.filters import judge
from scheduler.core.preemption.evaluate.pdb_violations import violating
from scheduler.core.preemption.evaluate.what_if import WhatIf
from scheduler.core.preemption.policy.rules import PolicyRules
from scheduler.framework.plugin import CompiledFilter
from scheduler.framework.verdicts import NO_NODE
from scheduler.model.api.objects import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Bool, Codes, Float, Int, Rows

__all__ = ["DENIED", "DryRun", "dry_run", "has_room", "still_needed"]

#: The code of rows where only pods that policies spare are in the way; it is in no table.
DENIED: Final = NO_NODE


@dataclass(frozen=True, slots=True)
class DryRun:
    """What preemption would mean on some rows."""

    #: (C,) the rows.
    rows: Rows
    #: (C,) 0 where evicting the victims makes room, `DENIED` where it would if policies spared
    #: nobody, else the verdict on what is left.
    codes: Codes
    #: (V, C) slots of the pods that could go, most important first; -1 pads.
    slots: Int
    #: (V, C) True for the pods that must go.
    chosen: Bool
    #: (V, C) True for the pods whose eviction would violate a budget.
    protected: Bool
    #: (C,) when policies spare other pods at the earliest; infinity where time changes nothing.
    until: Float | None = None

    @property
    def violating(self) -> Bool:
        """(V, C) True for the pods that must go although that violates a budget."""
        return self.protected & self.chosen


def dry_run(
    pod: Pod,
    cluster: Cluster,
    predicates: Sequence[tuple[str, CompiledFilter]],
    rows: Rows,
    no_victims: int,
    bounds: PolicyRules | None = None,
) -> list[DryRun]:
    """Choose victims on every row.

    Args:
        pod: The preemptor.
        cluster: As it is.
        predicates: The filters that have something to say about it.
        rows: (C,) rows whose rejection the removal of pods could change.
        no_victims: The verdict on rows without a pod of lower priority.
        bounds: The policies that bind the preemptor, if any do.

    Returns:
        Results that together cover each row once.
    """
    if cluster.pods.lowest_priority() >= pod.priority:
        return [_hopeless(rows, no_victims)]
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
            runs.append(_dry_run(what_if, cluster, at, slots, bounds))
    return runs


def still_needed(
    pod: Pod,
    cluster: Cluster,
    predicates: Sequence[tuple[str, CompiledFilter]],
    row: int,
    victims: frozenset[str],
    gone: frozenset[str] = frozenset(),
) -> frozenset[str] | None:
    """Return which victims of a plan must go for a pod to fit, as its node is now.

    Args:
        pod: The preemptor.
        cluster: As it is.
        predicates: The filters that have something to say about it.
        row: Of the node.
        victims: The uids of those that the plan names.
        gone: The uids of others that will leave anyway; nobody else is taken away.

    Returns:
        Those of them that are there and needed, without those that leave already; empty when the
        pod fits when these are gone; `None` when it does not fit even without all of them, given
        what nominated pods claim.
    """
    rows: Rows = np.array([row], dtype=np.int64)
    what_if = WhatIf(pod, cluster, predicates, rows)
    away = victims | gone
    there = [slot for slot in cluster.pods.on_row(row) if cluster.pods.pod(slot).uid in away]
    for slot in there:
        what_if.change(np.array([slot], dtype=np.int64), -1)
    if what_if.codes()[0] != 0:
        return None
    needed = set()
    for slot in sorted(there, key=lambda each: -cluster.pods.pod(each).priority):
        guest = cluster.pods.pod(slot)
        if guest.uid in gone or cluster.leaves(guest):
            continue
        given = np.array([slot], dtype=np.int64)
        what_if.change(given, +1)
        if not what_if.fits()[0]:
            what_if.change(given, -1)
            needed.add(guest.uid)
    return frozenset(needed)


def has_room(
    cluster: Cluster,
    predicates: Sequence[tuple[str, CompiledFilter]],
    row: int,
    victims: frozenset[str],
) -> bool:
    """Tell whether a pod fits on a node without some of its pods, whoever claims room there.

    Args:
        cluster: As it is.
        predicates: The filters that have something to say about the pod.
        row: Of the node.
        victims: The uids of those that do not count.
    """
    copy = cluster.hypothesis(np.array([row], dtype=np.int64))
    for slot in cluster.pods.on_row(row):
        if cluster.pods.pod(slot).uid in victims:
            copy.change(np.array([slot], dtype=np.int64), -1)
    return bool(judge(copy, predicates)[0] == 0)


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


def _dry_run(
    what_if: WhatIf, cluster: Cluster, rows: Rows, slots: Int, bounds: PolicyRules | None
) -> DryRun:
    for line in slots:
        what_if.change(line, -1)
    codes = what_if.codes()
    until = None
    spared = None if bounds is None else bounds.spared(slots)
    if spared is not None:
        mask, until = spared
        for line in np.where(mask, slots, -1):
            what_if.change(line, +1)
        slots = np.where(mask, -1, slots)
        codes = np.where((codes == 0) & ~what_if.fits(), DENIED, codes).astype(np.uint16)
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
    return DryRun(rows, codes, slots, chosen, protected, until)


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
