"""Which candidate node: kube-scheduler's criteria in order, over all candidates.

Source: kube-scheduler v1.36.3 framework/preemption.pickOneNodeForPreemption. Differs: all
candidates are compared, none is sampled away, and the last tie is broken by a hash of the
preemptor's uid with the node's name instead of by chance.

Axes: V pods that could go, C candidate rows.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scheduler.core import select
from scheduler.core.preemption.victims import DryRun
from scheduler.model.objects import Pod
from scheduler.state.arrays import Float, Int, Rows
from scheduler.state.cluster import Cluster

__all__ = ["Candidate", "Order", "choose"]

#: Shifts priorities, which are 32-bit integers, so that none is negative in a sum.
_SHIFT = 2**31


class Order(NamedTuple):
    """The criteria, the first decides first; each (C,), smaller is better."""

    violations: Int
    highest_priority: Int
    sum_of_priorities: Int
    victims: Int
    #: The latest start among the earliest ones of the most important victims, negated.
    youngest: Float


class Candidate(NamedTuple):
    """A node, and who has to leave it."""

    row: int
    victims: tuple[Pod, ...]
    violations: int


def choose(pod: Pod, runs: Sequence[DryRun], cluster: Cluster) -> Candidate | None:
    """Return the best candidate, `None` when there is none."""
    parts = [(run, np.flatnonzero((run.codes == 0) & run.chosen.any(axis=0))) for run in runs]
    parts = [(run, at) for run, at in parts if at.shape[0]]
    if not parts:
        return None
    orders = [_order(run, at, cluster) for run, at in parts]
    order = Order(*(np.concatenate(keys) for keys in zip(*orders, strict=True)))
    rows: Rows = np.concatenate([run.rows[at] for run, at in parts])
    best = np.arange(rows.shape[0])
    for key in order:
        best = best[key[best] == key[best].min()]
    row = select.among(rows[best], pod.uid, cluster.columns)
    return _candidate(row, parts, cluster)


def _order(run: DryRun, at: Int, cluster: Cluster) -> Order:
    slots, chosen = run.slots[:, at], run.chosen[:, at]
    priorities = cluster.pods.priorities(slots)
    # The most important victim stands first.
    first = chosen.argmax(axis=0)
    highest = priorities[first, np.arange(at.shape[0])]
    starts = cluster.pods.starts(slots)
    of_highest = chosen & (priorities == highest)
    earliest = np.where(of_highest, starts, np.inf).min(axis=0)
    return Order(
        violations=np.count_nonzero(run.violating[:, at], axis=0),
        highest_priority=highest,
        sum_of_priorities=np.where(chosen, priorities + _SHIFT, 0).sum(axis=0),
        victims=np.count_nonzero(chosen, axis=0),
        youngest=-earliest,
    )


def _candidate(row: int, parts: Sequence[tuple[DryRun, Int]], cluster: Cluster) -> Candidate:
    for run, _ in parts:
        for line in np.flatnonzero(run.rows == row).tolist():
            slots = run.slots[run.chosen[:, line], line].tolist()
            victims = tuple(cluster.pods.pod(slot) for slot in slots)
            return Candidate(row, victims, int(np.count_nonzero(run.violating[:, line])))
    raise LookupError(f"row {row} is no candidate")
