"""The scores of one class of pods, kept up to date by row.

Raw scores that depend on a row alone are kept for all rows; normalisation runs over the feasible
nodes of each attempt, so the total is always that of a full pass.

Axes: N rows, F feasible nodes.
"""

from collections.abc import Hashable, Iterable
from typing import Final

import numpy as np

from scheduler.framework.plugin import SKIP, Priority, Reads
from scheduler.state.arrays import Rows, Scores, grown
from scheduler.state.cluster import Cluster
from scheduler.state.nodes import Nodes

__all__ = ["Scoring"]

_REFRESH_SHARE: Final = 8


class Scoring:
    """The priorities of one class, and the raw scores that they share with its pods."""

    def __init__(self, cluster: Cluster, priorities: Iterable[tuple[str, int, Priority]]) -> None:
        self._cluster = cluster
        self._kept: list[_RawScores] = []
        self._order: list[tuple[str, int, Priority, _RawScores | None]] = []
        for name, weight, priority in priorities:
            kept = None
            if priority.reads is not Reads.CLUSTER:
                kept = _RawScores(cluster, priority)
                self._kept.append(kept)
            self._order.append((name, weight, priority, kept))

    def totals(self, rows: Rows) -> Scores:
        """Return, (F,), the weighted sum of all scores of the feasible nodes."""
        total = np.zeros(rows.shape[0], dtype=np.int64)
        for _, weight, scores in self._each(rows):
            total += weight * scores
        return total

    def weighted(self, rows: Rows) -> dict[str, Scores]:
        """Return, by plugin, (F,) weighted scores; for those who ask why."""
        return {name: weight * scores for name, weight, scores in self._each(rows)}

    def _each(self, rows: Rows) -> Iterable[tuple[str, int, Scores]]:
        nodes = Nodes(self._cluster.columns, rows)
        for name, weight, priority, kept in self._order:
            if priority.prepare() is SKIP:
                continue
            raw = priority.scores(nodes) if kept is None else kept.refreshed()[rows]
            yield name, weight, priority.normalise(raw) if priority.normalised else raw


class _RawScores:
    """Raw scores of one row-wise priority for all rows, refreshed where rows changed."""

    def __init__(self, cluster: Cluster, priority: Priority) -> None:
        self._cluster = cluster
        self._priority = priority
        self._raw: Scores = np.zeros(0, dtype=np.int64)
        self._token: Hashable = None
        self._seen_nodes = -1
        self._seen_pods = -1

    def refreshed(self) -> Scores:
        """Return, (N,), the raw score of each row; not to be written to."""
        columns, priority = self._cluster.columns, self._priority
        most = columns.size // _REFRESH_SHARE
        token = priority.token()
        rows = columns.node_changes.since(self._seen_nodes, most)
        if rows is None or token != self._token:
            self._recompute()
        elif rows.shape[0]:
            self._refresh(rows)
        if priority.reads is Reads.PODS and rows is not None:
            rows = columns.pod_changes.since(self._seen_pods, most)
            if rows is None:
                self._recompute()
            elif rows.shape[0]:
                self._refresh(rows)
        self._token = token
        self._seen_nodes = columns.node_changes.position
        self._seen_pods = columns.pod_changes.position
        return self._raw

    def _recompute(self) -> None:
        self._raw = self._priority.scores(self._cluster.nodes()).copy()

    def _refresh(self, rows: Rows) -> None:
        self._raw = grown(self._raw, self._cluster.columns.size)
        self._raw[rows] = self._priority.scores(Nodes(self._cluster.columns, rows))
