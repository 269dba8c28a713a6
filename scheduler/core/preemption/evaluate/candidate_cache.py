"""Caches the result of dry runs for a class of equal pods, by row.

Replicas that fit on no node are tried one after the other, and between two of them only a few nodes
change. So the values by which candidates are compared are kept per row, and recomputed only for
rows that changed: in their node, their pods, their nominations or their disruption budgets.

Axes: N rows, C candidate rows, K criteria.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Final

import numpy as np

from scheduler.core.preemption.dry_run_result import DryRunResult
from scheduler.core.preemption.evaluate.objective import Objective, VictimArrays
from scheduler.core.preemption.evaluate.victims import Sparing, dry_run_preemption
from scheduler.core.preemption.policy.rules import PolicyRules
from scheduler.core.preemption.policy.vetoes import VetoCache
from scheduler.framework.plugin import CompiledFilter, Reads
from scheduler.model.api.objects import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Bool, Codes, Float, Rows, grown
from scheduler.state.columns.row_cursor import RowCursor

__all__ = ["CandidateCache"]


class CandidateCache:
    """What preemption by a class of pods would mean on all rows."""

    def __init__(self, cluster: Cluster, objective: Objective) -> None:
        self.objective: Final = objective
        #: The vetoes against the candidates of some rows.
        self.vetoes: Final = VetoCache()
        self._cluster = cluster
        self._known: Bool = np.zeros(0, dtype=np.bool_)
        self._codes: Codes = np.zeros(0, dtype=np.uint16)
        #: (N,) whether a pod would be evicted, and (N, K) the sort keys of the objective.
        self._evicts: Bool = np.zeros(0, dtype=np.bool_)
        self._keys: Float = np.zeros((0, len(objective)))
        self._seen = [
            RowCursor(cluster.columns.node_changes),
            RowCursor(cluster.columns.pod_changes),
            RowCursor(cluster.pods.changes),
            RowCursor(cluster.nominations.changes),
        ]
        self._devices_seen = RowCursor(cluster.held_devices.changes)
        #: What verdicts of cluster-wide filters depend on beside that.
        self._wide_keys: tuple[Hashable, ...] = ()
        #: (N,) when policies spare other pods of a row, and what else that depends on.
        self._until: Float = np.zeros(0)
        self._spared_state: tuple[object, ...] | None = None

    @property
    def size_bytes(self) -> int:
        """The memory that the arrays take."""
        arrays = (self._known, self._codes, self._until, self._evicts, self._keys)
        return sum(array.nbytes for array in arrays) + self.vetoes.size_bytes

    def evaluate(
        self,
        pod: Pod,
        predicates: Sequence[tuple[str, CompiledFilter]],
        rows: Rows,
        no_victims: int,
        rules: PolicyRules | None = None,
    ) -> tuple[Codes, Bool, Float]:
        """Return what preemption by a pod of the class would mean on some rows.

        Args:
            pod: The preemptor.
            predicates: The filters that apply to it in this attempt.
            rows: (C,) rows whose rejection the removal of pods could change.
            no_victims: The verdict on rows without a pod of lower priority.
            rules: The policies that bind the preemptor, if any do.

        Returns:
            (C,) 0 where evicting pods helps, else the verdict. Where it is 0: (C,) whether pods
            would be evicted, and (K, C) the sort keys of the objective, smaller is better.
        """
        self._forget_changes()
        self._forget_spared(rules)
        cacheable = self._is_cacheable(pod, predicates)
        if cacheable and self._wide_keys:
            self._forget_changed_devices()
        self.vetoes.paused = not cacheable
        if not cacheable:
            self._forget_all()
        missing = rows[~self._known[rows]]
        if missing.shape[0]:
            for run in dry_run_preemption(
                pod, self._cluster, predicates, missing, no_victims, Sparing(rules)
            ):
                self._store(run)
        found = self._codes[rows], self._evicts[rows], self._keys[rows].T
        if not cacheable or (self._wide_keys and self._wide_keys != _wide_keys(predicates)):
            self._forget_all()
        return found

    def _is_cacheable(self, pod: Pod, predicates: Sequence[tuple[str, CompiledFilter]]) -> bool:
        """Return whether results for a pod hold for its class and later attempts.

        What a cluster-wide filter reads may change without a change of the row, unless it says what
        that is. And the nomination of a pod counts for all pods of its class but the pod itself.
        """
        keys = _wide_keys(predicates)
        if keys != self._wide_keys:
            self._forget_all()
            self._wide_keys = keys
        return None not in keys and self._cluster.nominations.get(pod.uid) is None

    def _forget_changes(self) -> None:
        """Mark as unknown the rows that changed since the last call."""
        size = self._cluster.columns.size
        if self._known.shape[0] < size:
            self._known = grown(self._known, size)
            self._codes = grown(self._codes, size)
            self._evicts = grown(self._evicts, size)
            more = self._evicts.shape[0] - self._keys.shape[0]
            self._keys = np.pad(self._keys, ((0, more), (0, 0)))
        self._forget_rows(self._seen)

    def _forget_changed_devices(self) -> None:
        """Do the same for what pods hold of devices: only for classes that depend on that."""
        while self._cluster.held_devices.advance():
            pass
        self._forget_rows((self._devices_seen,))

    def _forget_rows(self, cursors: Iterable[RowCursor]) -> None:
        size = self._cluster.columns.size
        for cursor in cursors:
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
        victims = VictimArrays.of_run(run, self._cluster)
        self._evicts[rows] = victims.counts > 0
        if run.slots.shape[0]:
            self._keys[rows] = self.objective.keys(victims).T


def _wide_keys(predicates: Sequence[tuple[str, CompiledFilter]]) -> tuple[Hashable, ...]:
    """Return the keys of the filters that read the cluster."""
    return tuple([each.cache_key() for _, each in predicates if each.reads is Reads.CLUSTER])
