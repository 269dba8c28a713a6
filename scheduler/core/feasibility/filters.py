"""The filters of one class of pods, kept up to date by row.

Verdicts that depend on a row alone are kept for all rows and recomputed for rows that changed;
the others are computed for each attempt, on the nodes that are left. The first plugin in order
that rejects a node names the reason, whatever was computed first.

Axes: N rows, n rows looked at.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from scheduler.framework.plugin import SKIP, CompiledFilter, Reads, Rejected
from scheduler.framework.verdicts import NO_NODE, Verdict
from scheduler.model.base import Record
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Codes, Int, Rows
from scheduler.state.columns.row_cursor import RowCursor, few
from scheduler.state.views.node_view import NodeView

__all__ = ["ClassFilters", "Preparation", "fitting", "rejects"]

#: Up to that many rows are judged one by one, where the rules can.
_FEW_ROWS: Final = 8


class Preparation(Record, frozen=True):
    """What the filters say before any node is looked at."""

    #: Rejects the pod as a whole.
    rejected: Verdict | None
    #: Plugins to name as those that rejected it, if it is rejected as a whole.
    blamed: frozenset[str]
    #: The predicates that have something to say in this attempt.
    predicates: tuple[tuple[str, CompiledFilter], ...]
    #: The only nodes that can take the pod, by name; `None` when all can.
    only: frozenset[str] | None
    #: The plugins that said so.
    narrowed_by: tuple[str, ...]


class ClassFilters:
    """The predicates of one class, and the verdicts that they share with its pods."""

    def __init__(self, cluster: Cluster, predicates: Iterable[tuple[str, CompiledFilter]]) -> None:
        self._cluster = cluster
        self._predicates = tuple(predicates)
        #: Plugins that look at nothing of a pod but its spec.
        self.spec_only: Final = frozenset(name for name, each in self._predicates if each.spec_only)
        self._rows = _RowVerdicts(
            cluster, [each for _, each in self._predicates if each.reads is not Reads.CLUSTER]
        )
        # Only where no row-wise rule follows one that looks further are the combined verdicts of
        # the row-wise rules final for the nodes that they reject.
        kinds = [each.reads is Reads.CLUSTER for _, each in self._predicates]
        self._in_order = kinds == sorted(kinds)

    @property
    def size_bytes(self) -> int:
        """How much memory the kept verdicts take."""
        return self._rows.size_bytes

    def prepare(self) -> Preparation:
        """Ask the predicates about the pod as a whole.

        Source: kube-scheduler v1.36.3 framework/runtime.RunPreFilterPlugins.
        """
        rejected: Verdict | None = None
        blamed: set[str] = set()
        kept: list[tuple[str, CompiledFilter]] = []
        only: frozenset[str] | None = None
        narrowed_by: list[str] = []
        for name, predicate in self._predicates:
            said = predicate.prepare()
            if isinstance(said, Rejected):
                blamed.add(name)
                rejected = said.verdict
                if not rejected.resolvable:
                    return Preparation(rejected, frozenset({name}), tuple(kept), None, ())
                continue
            if said is SKIP:
                continue
            kept.append((name, predicate))
            if predicate.node_names is not None:
                narrowed_by.append(name)
                only = predicate.node_names if only is None else only & predicate.node_names
                if not only:
                    reason = _conflict(narrowed_by)
                    shown = ", ".join(narrowed_by)
                    verdict = Verdict("", (reason,), resolvable=False, shown_as=shown)
                    return Preparation(verdict, frozenset(narrowed_by), tuple(kept), None, ())
        blamed.update(narrowed_by)
        return Preparation(rejected, frozenset(blamed), tuple(kept), only, tuple(narrowed_by))

    def judge_all(self, prepared: Preparation) -> Codes:
        """Return, (N,), the verdict on every row, `NO_NODE` for rows without a node.

        The array is the class's own where nothing has to be computed for this attempt: it must not
        be written to.
        """
        if not self._in_order or len(prepared.predicates) < len(self._predicates):
            nodes = self._cluster.nodes()
            exists = self._cluster.columns.exists()
            present = np.where(exists, 0, NO_NODE).astype(np.uint16)
            return judge(nodes, prepared.predicates, present)
        codes = self._rows.refreshed()
        further = [each for _, each in self._predicates if each.reads is Reads.CLUSTER]
        return judge_further(self._cluster.nodes(), further, codes) if further else codes

    def fitting(self, codes: Codes) -> Rows:
        """Return the rows whose verdict is 0; at hand where the codes are the class's own."""
        if codes is self._rows.combined:
            return self._rows.fitting()
        return fitting(codes)

    def judge_rows(self, rows: Rows, prepared: Preparation) -> Codes:
        """Return, (n,), the verdict on some rows that have a node, computed for this attempt."""
        return judge(NodeView(self._cluster.columns, rows), prepared.predicates)


def judge(
    nodes: NodeView, predicates: Sequence[tuple[str, CompiledFilter]], codes: Codes | None = None
) -> Codes:
    """Return, (n,), the first rejection of each node in the order of the predicates."""
    codes = np.zeros(len(nodes), dtype=np.uint16) if codes is None else codes
    for _, predicate in predicates:
        codes = np.where(codes == 0, predicate.codes(nodes), codes)
    return codes


def rejects(predicates: Iterable[tuple[str, CompiledFilter]], row: int) -> bool:
    """Tell whether a rule says without arrays that the pod does not fit a row as it is."""
    return any(each.fits_row(row) is False for _, each in predicates)


def fitting(codes: Codes) -> Rows:
    """Return the rows whose verdict is 0."""
    rows: Rows = (codes == 0).nonzero()[0]
    return rows


def judge_further(nodes: NodeView, predicates: Sequence[CompiledFilter], codes: Codes) -> Codes:
    """Return, (n,), the verdicts with those of predicates that run on survivors only."""
    codes = codes.copy()
    for predicate in predicates:
        left: Int = np.flatnonzero(codes == 0)
        if not left.shape[0]:
            break
        codes[left] = predicate.codes(nodes.take(left))
    return codes


def _conflict(plugins: Sequence[str]) -> str:
    if len(plugins) == 1:
        return f"node(s) didn't satisfy plugin {plugins[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(plugins)}] simultaneously"


class _RowVerdicts:
    """Verdicts of row-wise predicates for all rows, refreshed where rows changed."""

    def __init__(self, cluster: Cluster, predicates: Sequence[CompiledFilter]) -> None:
        self._cluster = cluster
        self._predicates = predicates
        self._codes: list[Codes] = []
        #: (N,) the first rejection of each row, as of the last refresh; not to be written to.
        self.combined: Codes = np.zeros(0, dtype=np.uint16)
        self._fitting: Rows | None = None
        self._nodes_seen = RowCursor(cluster.columns.node_changes)
        self._pods_seen = RowCursor(cluster.columns.pod_changes)

    @property
    def size_bytes(self) -> int:
        """How much memory the arrays take."""
        fitting = 0 if self._fitting is None else self._fitting.nbytes
        return self.combined.nbytes * (1 + len(self._codes)) + fitting

    def refreshed(self) -> Codes:
        """Return, (N,), the first rejection of each row; not to be written to."""
        columns = self._cluster.columns
        most = few(columns.size)
        node_rows, pod_rows = self._nodes_seen.news(most), self._pods_seen.news(most)
        if node_rows is None or pod_rows is None or self.combined.shape[0] != columns.size:
            self._recompute()
        else:
            if node_rows.shape[0]:
                self._refresh(node_rows, Reads.NODE)
            if pod_rows.shape[0]:
                self._refresh(pod_rows, Reads.PODS)
        return self.combined

    def fitting(self) -> Rows:
        """Return the rows that nothing rejected at the last refresh; not to be written to."""
        if self._fitting is None:
            self._fitting = fitting(self.combined)
        return self._fitting

    def _recompute(self) -> None:
        self._fitting = None
        nodes = self._cluster.nodes()
        exists = self._cluster.columns.exists()
        present = np.where(exists, 0, NO_NODE).astype(np.uint16)
        self._codes = [present, *(each.codes(nodes).copy() for each in self._predicates)]
        self.combined = _first(self._codes)

    def _refresh(self, rows: Rows, changed: Reads) -> None:
        """Recompute some rows for the predicates that read what changed."""
        if changed is Reads.PODS and rows.shape[0] <= _FEW_ROWS:
            rows = self._refresh_fitting(rows)
            if not rows.shape[0]:
                return
        nodes = NodeView(self._cluster.columns, rows)
        self._fitting = None
        if changed is Reads.NODE:
            self._codes[0][rows] = np.where(self._cluster.columns.exists()[rows], 0, NO_NODE)
        for predicate, codes in zip(self._predicates, self._codes[1:], strict=True):
            if predicate.reads >= changed:
                codes[rows] = predicate.codes(nodes)
        self.combined[rows] = _first([codes[rows] for codes in self._codes])

    def _refresh_fitting(self, rows: Rows) -> Rows:
        """Recompute rows that still fit all that reads pods, one by one; return the others."""
        left = []
        for row in rows.tolist():
            if all(each.fits_row(row) for each in self._predicates if each.reads is Reads.PODS):
                first = 0
                for predicate, codes in zip(self._predicates, self._codes[1:], strict=True):
                    if predicate.reads is Reads.PODS:
                        codes[row] = 0
                    elif not first:
                        first = int(codes[row])
                verdict = int(self._codes[0][row]) or first
                if self.combined[row] != verdict:
                    self.combined[row] = verdict
                    self._fitting = None
            else:
                left.append(row)
        return np.array(left, dtype=np.int64)


def _first(all_codes: Sequence[Codes]) -> Codes:
    """Return the first code of each row that is not 0; always a new array."""
    combined = all_codes[0].copy()
    for codes in all_codes[1:]:
        np.copyto(combined, codes, where=combined == 0)
    return combined
