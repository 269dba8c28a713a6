"""The scores of one class of pods, kept up to date by row.

Raw scores that depend on a row alone are kept for all rows and recomputed for rows that changed;
those that need no normalisation are kept as one weighted sum. Normalisation runs over the feasible
nodes of each attempt, so the ranking is always that of a full pass.

Axes: N rows, F feasible nodes.
"""

from collections.abc import Hashable, Iterable, Iterator
from typing import Final

import numpy as np

from scheduler.core.feasibility.tie_breaking import best
from scheduler.framework.plugin import SKIP, CompiledScore, Reads
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Rows, Scores, grown
from scheduler.state.columns.row_cursor import RowCursor, few
from scheduler.state.views.node_view import NodeView

__all__ = ["ClassScores"]

_NONE: Final[Rows] = np.zeros(0, dtype=np.int64)


class _CachedScore:
    """Raw scores of one row-wise priority for all rows."""

    __slots__ = ("flat", "name", "priority", "raw", "weight")

    def __init__(self, name: str, weight: int, priority: CompiledScore) -> None:
        self.name = name
        self.weight = weight
        self.priority = priority
        self.raw: Scores = np.zeros(0, dtype=np.int64)
        #: Whether all rows score the same, so that the choice does not depend on it.
        self.flat = False


class ClassScores:
    """The priorities of one class, and the raw scores that they share with its pods."""

    def __init__(
        self, cluster: Cluster, priorities: Iterable[tuple[str, int, CompiledScore]]
    ) -> None:
        self._cluster = cluster
        self._order = tuple(priorities)
        row_wise = [
            _CachedScore(name, weight, priority)
            for name, weight, priority in self._order
            if priority.reads is not Reads.CLUSTER
        ]
        self._plain = [each for each in row_wise if not each.priority.needs_normalising]
        self._scaled = [each for each in row_wise if each.priority.needs_normalising]
        self._live = [each for each in self._order if each[2].reads is Reads.CLUSTER]
        self._sum: Scores = np.zeros(0, dtype=np.int64)
        self._tokens: list[Hashable] = []
        self._nodes_seen = RowCursor(cluster.columns.node_changes)
        self._pods_seen = RowCursor(cluster.columns.pod_changes)
        #: The feasible rows that were asked about last, and the best of them while it is known.
        self._rows: Rows = _NONE
        self._best: Rows = _NONE
        self._most = 0

    @property
    def size_bytes(self) -> int:
        """How much memory the kept scores take."""
        kept = 1 + len(self._plain) + len(self._scaled)
        return self._sum.nbytes * kept + self._rows.nbytes + self._best.nbytes

    def best(self, rows: Rows) -> Rows:
        """Return, in row order, the best of the feasible rows, at least one.

        Args:
            rows: (F,) the feasible rows. To hand in the same array again is to say that nothing
                has changed about it.
        """
        self._refresh()
        said = [*self._said(rows)]
        if said:
            return best(rows, self._total(rows, said))
        if self._rows is not rows or not self._best.shape[0]:
            self._rows, self._best = rows, best(rows, self._sum.take(rows))
            self._most = int(self._sum[self._best[0]])
        return self._best

    def ranking(self, rows: Rows) -> Scores:
        """Return, (F,), the weighted scores of the feasible nodes, less what all have in common."""
        self._refresh()
        return self._total(rows, self._said(rows))

    def _total(self, rows: Rows, said: Iterable[Scores]) -> Scores:
        total = self._sum.take(rows)
        for scores in said:
            total += scores
        return total

    def _said(self, rows: Rows) -> Iterator[Scores]:
        """Yield, (F,), what is weighed beside the sum that is kept."""
        for kept in self._scaled:
            if not kept.flat and kept.priority.prepare() is not SKIP:
                yield kept.weight * kept.priority.normalise(kept.raw[rows])
        for _, weight, scores in self._live_scores(rows):
            yield weight * scores

    def weighted(self, rows: Rows) -> dict[str, Scores]:
        """Return, by plugin, (F,) weighted scores; for those who ask why."""
        self._refresh()
        found = {kept.name: kept.weight * kept.raw[rows] for kept in self._plain}
        for kept in self._scaled:
            if kept.priority.prepare() is not SKIP:
                found[kept.name] = kept.weight * kept.priority.normalise(kept.raw[rows])
        for name, weight, scores in self._live_scores(rows):
            found[name] = weight * scores
        return {name: found[name] for name, _, _ in self._order if name in found}

    def _live_scores(self, rows: Rows) -> Iterator[tuple[str, int, Scores]]:
        nodes = NodeView(self._cluster.columns, rows)
        for name, weight, priority in self._live:
            if priority.prepare() is not SKIP:
                raw = priority.scores(nodes)
                yield name, weight, priority.normalise(raw) if priority.needs_normalising else raw

    def _refresh(self) -> None:
        """Bring the raw scores up to date."""
        tokens = [each.priority.cache_key() for each in (*self._plain, *self._scaled)]
        most = few(self._cluster.columns.size)
        of_nodes, of_pods = self._nodes_seen.news(most), self._pods_seen.news(most)
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
        for kept in (*self._plain, *self._scaled):
            kept.raw = kept.priority.scores(nodes).copy()
            kept.flat = _flat(kept.raw)
        for kept in self._plain:
            self._sum += kept.weight * kept.raw

    def _recompute_rows(self, rows: Rows, changed: Reads) -> None:
        """Recompute some rows for the priorities that read what changed."""
        nodes = NodeView(self._cluster.columns, rows)
        size = self._cluster.columns.size
        self._sum = grown(self._sum, size)
        for kept in (*self._plain, *self._scaled):
            if kept.priority.reads < changed:
                continue
            kept.raw = grown(kept.raw, size)
            if rows.shape[0] == 1 and self._rescored(kept, int(rows[0])):
                continue
            fresh = kept.priority.scores(nodes)
            if not kept.priority.needs_normalising:
                self._sum[rows] += kept.weight * (fresh - kept.raw[rows])
            kept.raw[rows] = fresh
            if kept.priority.needs_normalising:
                kept.flat = _flat(kept.raw)
        self._best = self._still_best(int(rows[0])) if rows.shape[0] == 1 else _NONE

    def _still_best(self, row: int) -> Rows:
        """Return what is known of the best rows when the sum of one row has changed."""
        total = int(self._sum[row])
        others: Rows = self._best[self._best != row]
        if total < self._most:
            return others
        known = total == self._most and others.shape[0] < self._best.shape[0]
        return self._best if known else _NONE

    def _rescored(self, kept: _CachedScore, row: int) -> bool:
        """Recompute one row without arrays; tell whether the priority could."""
        fresh = None if kept.priority.needs_normalising else kept.priority.score_row(row)
        if fresh is None:
            return False
        self._sum[row] += kept.weight * (fresh - int(kept.raw[row]))
        kept.raw[row] = fresh
        return True


def _flat(raw: Scores) -> bool:
    return raw.shape[0] == 0 or bool((raw == raw[0]).all())
