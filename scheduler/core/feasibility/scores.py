"""The scores of one class of pods, with raw scores cached by row.

Raw scores that depend on a row alone are cached for all rows and recomputed for rows that changed.
Those that need no normalisation are also cached as one weighted sum. Normalisation runs over the
feasible nodes of each attempt, so the ranking is always that of a full pass.

`core/attempt/scheduling_attempt` adds the scores of extenders, and picks the node by
`tie_breaking`.

Axes: N rows, F feasible nodes.
"""

from collections.abc import Hashable, Iterable, Iterator
from typing import Final

import numpy as np

from scheduler.core.feasibility.tie_breaking import best
from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.plugin import PASS, SKIP, CompiledScore, Reads
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Rows, Scores, grown
from scheduler.state.columns.row_cursor import RowCursor, max_incremental
from scheduler.state.views.node_view import NodeView

__all__ = ["ClassScores"]

_NONE: Final[Rows] = np.zeros(0, dtype=np.int64)


class _CachedScore:
    """The raw scores of one row-wise score for all rows."""

    __slots__ = ("compiled", "flat", "name", "raw", "weight")

    def __init__(self, name: str, weight: int, compiled: CompiledScore) -> None:
        self.name = name
        self.weight = weight
        self.compiled = compiled
        self.raw: Scores = np.zeros(0, dtype=np.int64)
        #: Whether all rows score the same, so that the choice does not depend on it.
        self.flat = False


class ClassScores:
    """The scores of one class, and the cached raw scores that its pods share."""

    def __init__(self, cluster: Cluster, scores: Iterable[tuple[str, int, CompiledScore]]) -> None:
        self._cluster = cluster
        self._order = tuple(scores)
        row_wise = [
            _CachedScore(name, weight, compiled)
            for name, weight, compiled in self._order
            if compiled.reads is not Reads.CLUSTER
        ]
        #: Row-wise scores without and with normalisation, and those computed in each attempt.
        self._plain = [cached for cached in row_wise if not cached.compiled.needs_normalising]
        self._normalised = [cached for cached in row_wise if cached.compiled.needs_normalising]
        self._cluster_wide = [
            weighted for weighted in self._order if weighted[2].reads is Reads.CLUSTER
        ]
        #: (N,) the weighted sum of the plain scores.
        self._sum: Scores = np.zeros(0, dtype=np.int64)
        self._tokens: list[Hashable] = []
        self._nodes_seen = RowCursor(cluster.columns.node_changes)
        self._pods_seen = RowCursor(cluster.columns.pod_changes)
        #: The feasible rows of the last call of `best`, the best of them by the sum, as long as
        #: they are known, and their sum.
        self._rows: Rows = _NONE
        self._best: Rows = _NONE
        self._highest = 0

    @property
    def size_bytes(self) -> int:
        """The memory that the cached scores take."""
        arrays = 1 + len(self._plain) + len(self._normalised)
        return self._sum.nbytes * arrays + self._rows.nbytes + self._best.nbytes

    def best(self, rows: Rows, state: AttemptState) -> Rows:
        """Return, in row order, the best of the feasible rows, at least one.

        Args:
            rows: (F,) the feasible rows. The same array object means the same rows, so a caller
                must not change an array that it passes again.
            state: The attempt.
        """
        self._refresh()
        further = [*self._further(rows, state)]
        if further:
            return best(rows, self._total(rows, further))
        if self._rows is not rows or not self._best.shape[0]:
            self._rows, self._best = rows, best(rows, self._sum.take(rows))
            self._highest = int(self._sum[self._best[0]])
        return self._best

    def ranking(self, rows: Rows, state: AttemptState) -> Scores:
        """Return, (F,), the weighted scores of the feasible nodes, less what all have in common."""
        self._refresh()
        return self._total(rows, self._further(rows, state))

    def _total(self, rows: Rows, further: Iterable[Scores]) -> Scores:
        total = self._sum.take(rows)
        for scores in further:
            total += scores
        return total

    def _further(self, rows: Rows, state: AttemptState) -> Iterator[Scores]:
        """Yield, (F,), the weighted scores that come on top of the cached sum."""
        for cached in self._normalised:
            if not cached.flat and cached.compiled.prepare(state) is not SKIP:
                yield cached.weight * cached.compiled.normalise(cached.raw[rows])
        for _, weight, scores in self._cluster_wide_scores(rows, state):
            yield weight * scores

    def weighted(self, rows: Rows, state: AttemptState) -> dict[str, Scores]:
        """Return, by plugin, (F,) weighted scores, for the trace of an attempt."""
        self._refresh()
        by_plugin = {cached.name: cached.weight * cached.raw[rows] for cached in self._plain}
        for cached in self._normalised:
            if cached.compiled.prepare(state) is not SKIP:
                scores = cached.compiled.normalise(cached.raw[rows])
                by_plugin[cached.name] = cached.weight * scores
        for name, weight, scores in self._cluster_wide_scores(rows, state):
            by_plugin[name] = weight * scores
        return {name: by_plugin[name] for name, _, _ in self._order if name in by_plugin}

    def _cluster_wide_scores(
        self, rows: Rows, state: AttemptState
    ) -> Iterator[tuple[str, int, Scores]]:
        nodes = NodeView(self._cluster.columns, rows)
        for name, weight, shared in self._cluster_wide:
            prepared = shared.prepare(state)
            if prepared is not SKIP:
                compiled = shared if prepared is PASS else prepared
                raw = compiled.scores(nodes)
                yield name, weight, compiled.normalise(raw) if compiled.needs_normalising else raw

    def _refresh(self) -> None:
        """Bring the raw scores up to date."""
        tokens = [cached.compiled.cache_key() for cached in (*self._plain, *self._normalised)]
        most = max_incremental(self._cluster.columns.size)
        of_nodes, of_pods = self._nodes_seen.take_changed(most), self._pods_seen.take_changed(most)
        if of_nodes is None or of_pods is None or tokens != self._tokens:
            self._recompute()
        else:
            if of_nodes.shape[0]:
                self._recompute_rows(of_nodes, Reads.NODE)
            if of_pods.shape[0]:
                self._recompute_rows(of_pods, Reads.PODS)
        self._tokens = tokens

    def _recompute(self) -> None:
        nodes = self._cluster.nodes()
        self._best = _NONE
        self._sum = np.zeros(len(nodes), dtype=np.int64)
        for cached in (*self._plain, *self._normalised):
            cached.raw = cached.compiled.scores(nodes).copy()
            cached.flat = _is_flat(cached.raw)
        for cached in self._plain:
            self._sum += cached.weight * cached.raw

    def _recompute_rows(self, rows: Rows, changed: Reads) -> None:
        """Recompute some rows for the scores that read what changed."""
        nodes = NodeView(self._cluster.columns, rows)
        size = self._cluster.columns.size
        self._sum = grown(self._sum, size)
        for cached in (*self._plain, *self._normalised):
            if cached.compiled.reads < changed:
                continue
            cached.raw = grown(cached.raw, size)
            if rows.shape[0] == 1 and self._recompute_row(cached, int(rows[0])):
                continue
            fresh = cached.compiled.scores(nodes)
            if not cached.compiled.needs_normalising:
                self._sum[rows] += cached.weight * (fresh - cached.raw[rows])
            cached.raw[rows] = fresh
            if cached.compiled.needs_normalising:
                cached.flat = _is_flat(cached.raw)
        self._best = self._still_best(int(rows[0])) if rows.shape[0] == 1 else _NONE

    def _recompute_row(self, cached: _CachedScore, row: int) -> bool:
        """Recompute one row without arrays; return whether the score has a way to do that."""
        fresh = None if cached.compiled.needs_normalising else cached.compiled.score_row(row)
        if fresh is None:
            return False
        self._sum[row] += cached.weight * (fresh - int(cached.raw[row]))
        cached.raw[row] = fresh
        return True

    def _still_best(self, row: int) -> Rows:
        """Return the best rows after the sum of one row changed; empty if they are not known.

        A row that got worse is removed from them. Of a row that is as good as they are it is not
        known whether it is feasible, unless it was one of them before.
        """
        total = int(self._sum[row])
        others: Rows = self._best[self._best != row]
        if total < self._highest:
            return others
        known = total == self._highest and others.shape[0] < self._best.shape[0]
        return self._best if known else _NONE


def _is_flat(raw: Scores) -> bool:
    return raw.shape[0] == 0 or bool((raw == raw[0]).all())
