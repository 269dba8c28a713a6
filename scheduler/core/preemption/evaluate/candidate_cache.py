"""Caches the result of dry runs for a class of equal pods, by row.

Replicas that fit on no node are tried one after the other, and between two of them only a few nodes
change. So the criteria by which candidates are compared are kept per row, and recomputed only for
rows that changed: in their node, their pods, their nominations or their disruption budgets.

Axes: N rows, C candidate rows.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.core.preemption.dry_run_result import DryRunResult
from scheduler.core.preemption.evaluate.victims import Sparing, dry_run_preemption
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
    """The criteria in order: the first that differs decides; (C,) each, smaller is better.

    Source: kube-scheduler v1.36.3 framework/preemption.pickOneNodeForPreemption.
    """

    violations: Int
    highest_priority: Int
    sum_of_priorities: Int
    victims: Int
    #: The earliest start among the most important victims, negated: the later, the better.
    age: Float

    @classmethod
    def empty(cls) -> "Criteria":
        """Return the criteria of no rows."""
        counts = [np.zeros(0, dtype=np.int64) for _ in range(4)]
        return cls(counts[0], counts[1], counts[2], counts[3], np.zeros(0))

    def apply(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> "Criteria":
        """Return the criteria with a function applied to each array."""
        return Criteria._make(change(key) for key in self)


class CandidateCache:
    """The criteria of all rows for one class of pods."""

    def __init__(self, cluster: Cluster) -> None:
        #: The vetoes against the candidates of some rows.
        self.vetoes: Final = VetoCache()
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
        #: (N,) when policies spare other pods of a row, and what else that depends on.
        self._until: Float = np.zeros(0)
        self._spared_state: tuple[object, ...] | None = None

    @property
    def size_bytes(self) -> int:
        """The memory that the arrays take."""
        arrays = (self._known, self._codes, self._until, *self._criteria)
        return sum(array.nbytes for array in arrays) + self.vetoes.size_bytes

    def evaluate(
        self,
        pod: Pod,
        predicates: Sequence[tuple[str, CompiledFilter]],
        rows: Rows,
        no_victims: int,
        rules: PolicyRules | None = None,
    ) -> tuple[Codes, Criteria]:
        """Return what preemption by a pod of the class would mean on some rows.

        Args:
            pod: The preemptor.
            predicates: The filters that apply to it in this attempt.
            rows: (C,) rows whose rejection the removal of pods could change.
            no_victims: The verdict on rows without a pod of lower priority.
            rules: The policies that bind the preemptor, if any do.

        Returns:
            (C,) 0 where evicting pods helps, else the verdict; and the criteria, which are valid
            only where it is 0.
        """
        self._forget_changes()
        self._forget_spared(rules)
        cacheable = self._is_cacheable(pod, predicates)
        self.vetoes.paused = not cacheable
        if not cacheable:
            self._forget_all()
        missing = rows[~self._known[rows]]
        if missing.shape[0]:
            for run in dry_run_preemption(
                pod, self._cluster, predicates, missing, no_victims, Sparing(rules)
            ):
                self._store(run)
        codes, criteria = self._codes[rows], self._criteria.apply(lambda key: key[rows])
        if not cacheable:
            self._forget_all()
        return codes, criteria

    def _is_cacheable(self, pod: Pod, predicates: Sequence[tuple[str, CompiledFilter]]) -> bool:
        """Return whether results for a pod hold for its class and later attempts.

        What a cluster-wide filter reads may change without a change of the row. And the nomination
        of a pod counts for all pods of its class but the pod itself.
        """
        if any(predicate.reads is Reads.CLUSTER for _, predicate in predicates):
            return False
        return self._cluster.nominations.get(pod.uid) is None

    def _forget_changes(self) -> None:
        """Mark as unknown the rows that changed since the last call."""
        size = self._cluster.columns.size
        if self._known.shape[0] < size:
            self._known = grown(self._known, size)
            self._codes = grown(self._codes, size)
            self._criteria = self._criteria.apply(lambda key: grown(key, size))
        for cursor in self._seen:
            changed = cursor.take_changed(size)
            if changed is None:
                self._forget_all()
            else:
                self._known[changed] = False
                self.vetoes.forget(changed)

    def _forget_spared(self, rules: PolicyRules | None) -> None:
        """Mark as unknown the rows on which policies may spare other pods now."""
        state = None if rules is None else rules.spared_state
        if state != self._spared_state:
            self._forget_all()
            self._spared_state = state
        elif rules is not None and state is not None:
            self._until = grown(self._until, self._known.shape[0])
            over = self._known & (self._until[: self._known.shape[0]] <= rules.now)
            self._known[over] = False
            self.vetoes.forget(np.flatnonzero(over))

    def _forget_all(self) -> None:
        self._known[:] = False
        self.vetoes.clear()

    def _store(self, run: DryRunResult) -> None:
        """Store the result of a dry run."""
        rows = run.rows
        self._codes[rows] = run.codes
        self._known[rows] = True
        if self._spared_state is not None:
            self._until = grown(self._until, self._known.shape[0])
            self._until[rows] = np.inf if run.until is None else run.until
        if run.slots.shape[0]:
            for cached, fresh in zip(self._criteria, _criteria(run, self._cluster), strict=True):
                cached[rows] = fresh


def _criteria(run: DryRunResult, cluster: Cluster) -> Criteria:
    """Return the criteria of each row of a dry run."""
    slots, chosen = run.slots, run.chosen
    priorities = cluster.pods.priorities(slots)
    # The most important victim comes first.
    highest = priorities[chosen.argmax(axis=0), np.arange(slots.shape[1])]
    starts = cluster.pods.starts(slots)
    earliest = np.where(chosen & (priorities == highest), starts, np.inf).min(axis=0)
    return Criteria(
        violations=np.count_nonzero(run.pdb_violations, axis=0),
        highest_priority=highest,
        sum_of_priorities=np.where(chosen, priorities + SHIFT, 0).sum(axis=0),
        victims=np.count_nonzero(chosen, axis=0),
        age=-earliest,
    )
