"""What preemption would mean on each node, kept for a class of equal pods.

Replicas that fit nowhere come one after the other, and between two of them only a few nodes
change. So the criteria by which candidates are compared are kept per row and worked out again only
for rows that changed: in their node, their pods, the claims on them or the budgets.

Axes: N rows, C candidate rows.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.core.preemption.dry_run import DryRun
from scheduler.core.preemption.evaluate.victims import dry_run
from scheduler.core.preemption.policy.rules import PolicyRules
from scheduler.core.preemption.policy.vetoes import VetoCache
from scheduler.framework.plugin import CompiledFilter, Reads
from scheduler.model.api.objects import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Bool, Codes, Float, Int, Rows, grown
from scheduler.state.columns.row_cursor import RowCursor

__all__ = ["SHIFT", "CandidateCache", "Criteria"]

#: Shifts priorities, which are 32-bit integers, so that none is negative in a sum.
SHIFT = 2**31


class Criteria(NamedTuple):
    """How candidates compare: the first that differs decides; each (C,), smaller is better.

    Source: kube-scheduler v1.36.3 framework/preemption.pickOneNodeForPreemption.
    """

    violations: Int
    highest_priority: Int
    sum_of_priorities: Int
    victims: Int
    #: The earliest start among the most important victims, negated: the younger, the better.
    age: Float

    @classmethod
    def empty(cls) -> "Criteria":
        """Return criteria of no rows."""
        counts = [np.zeros(0, dtype=np.int64) for _ in range(4)]
        return cls(counts[0], counts[1], counts[2], counts[3], np.zeros(0))

    def each(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> "Criteria":
        """Return the criteria with a function applied to each array."""
        return Criteria._make(change(key) for key in self)


class CandidateCache:
    """The criteria of all rows for one class of pods."""

    def __init__(self, cluster: Cluster) -> None:
        #: What was said against the candidates of some rows.
        self.objections: Final = VetoCache()
        self._cluster = cluster
        self._known: Bool = np.zeros(0, dtype=np.bool_)
        self._codes: Codes = np.zeros(0, dtype=np.uint16)
        self._criteria = Criteria.empty()
        self._seen = [
            RowCursor(cluster.columns.node_changes),
            RowCursor(cluster.columns.pod_changes),
            RowCursor(cluster.pods.changes),
            RowCursor(cluster.nominations.changes),
        ]
        #: When policies spare other pods of a row, and what else that depends on.
        self._until: Float = np.zeros(0)
        self._sparing: tuple[object, ...] | None = None

    @property
    def size_bytes(self) -> int:
        """How much memory the arrays take."""
        arrays = (self._known, self._codes, self._until, *self._criteria)
        return sum(each.nbytes for each in arrays) + self.objections.size_bytes

    def look(
        self,
        pod: Pod,
        predicates: Sequence[tuple[str, CompiledFilter]],
        rows: Rows,
        no_victims: int,
        bounds: PolicyRules | None = None,
    ) -> tuple[Codes, Criteria]:
        """Return what preemption by a pod of the class would mean on some rows.

        Args:
            pod: The preemptor.
            predicates: The filters that have something to say about it.
            rows: (C,) rows whose rejection the removal of pods could change.
            no_victims: The verdict on rows without a pod of lower priority.
            bounds: The policies that bind the preemptor, if any do.

        Returns:
            (C,) 0 where evicting pods makes room, else the verdict; and the criteria, which mean
            something only there.
        """
        self._forget_changes()
        self._forget_spared(bounds)
        # What lies beyond the row may have changed unseen, and a claim of its own is in the way of
        # all pods of the class but this one.
        kept = all(each.reads is not Reads.CLUSTER for _, each in predicates)
        kept = kept and self._cluster.nominations.get(pod.uid) is None
        if not kept:
            self._forget_all()
        self.objections.paused = not kept
        missing = rows[~self._known[rows]]
        if missing.shape[0]:
            for run in dry_run(pod, self._cluster, predicates, missing, no_victims, bounds):
                self._note(run)
        codes, criteria = self._codes[rows], self._criteria.each(lambda key: key[rows])
        if not kept:
            self._forget_all()
        return codes, criteria

    def _forget_changes(self) -> None:
        """Mark as unknown whatever changed since the last look."""
        size = self._cluster.columns.size
        if self._known.shape[0] < size:
            self._known = grown(self._known, size)
            self._codes = grown(self._codes, size)
            self._criteria = self._criteria.each(lambda key: grown(key, size))
        for cursor in self._seen:
            changed = cursor.news(size)
            if changed is None:
                self._forget_all()
            else:
                self._known[changed] = False
                self.objections.forget(changed)

    def _forget_spared(self, bounds: PolicyRules | None) -> None:
        """Mark as unknown where policies may spare other pods now."""
        sparing = None if bounds is None else bounds.sparing
        if sparing != self._sparing:
            self._forget_all()
            self._sparing = sparing
        elif bounds is not None and sparing is not None:
            self._until = grown(self._until, self._known.shape[0])
            over = self._known & (self._until[: self._known.shape[0]] <= bounds.now)
            self._known[over] = False
            self.objections.forget(np.flatnonzero(over))

    def _forget_all(self) -> None:
        self._known[:] = False
        self.objections.clear()

    def _note(self, run: DryRun) -> None:
        """Remember the outcome of a dry run."""
        rows = run.rows
        self._codes[rows] = run.codes
        self._known[rows] = True
        if self._sparing is not None:
            self._until = grown(self._until, self._known.shape[0])
            self._until[rows] = np.inf if run.until is None else run.until
        if run.slots.shape[0]:
            for kept, fresh in zip(self._criteria, _criteria(run, self._cluster), strict=True):
                kept[rows] = fresh


def _criteria(run: DryRun, cluster: Cluster) -> Criteria:
    """Return the criteria of each row of a dry run."""
    slots, chosen = run.slots, run.chosen
    priorities = cluster.pods.priorities(slots)
    # The most important victim stands first.
    highest = priorities[chosen.argmax(axis=0), np.arange(slots.shape[1])]
    starts = cluster.pods.starts(slots)
    earliest = np.where(chosen & (priorities == highest), starts, np.inf).min(axis=0)
    return Criteria(
        violations=np.count_nonzero(run.violating, axis=0),
        highest_priority=highest,
        sum_of_priorities=np.where(chosen, priorities + SHIFT, 0).sum(axis=0),
        victims=np.count_nonzero(chosen, axis=0),
        age=-earliest,
    )
