"""The filters of one class of pods, with verdicts cached by row.

Verdicts that depend on a row alone are cached for all rows and recomputed for rows that changed.
The others are computed in each attempt, on the nodes that passed so far. The reason is always that
of the first plugin in order that rejects the node, whatever was computed first.

Axes: N rows, n rows of a view.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.plugin import PASS, SKIP, CompiledFilter, Reads, Rejected
from scheduler.framework.verdicts import NO_NODE, Verdict
from scheduler.model.base import Record
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Codes, Int, Rows
from scheduler.state.columns.row_cursor import RowCursor, max_incremental
from scheduler.state.views.node_view import NodeView

__all__ = ["ClassFilters", "Preparation", "fitting", "merged", "rejects", "run_filters"]

#: Up to this many changed rows are checked one by one, without arrays, where the filters can.
_FEW_ROWS: Final = 8


class Preparation(Record, frozen=True):
    """The result of PreFilter: what the filters say of the pod before any node is filtered."""

    #: The verdict that rejects the pod as a whole, if it is rejected.
    rejected: Verdict | None
    #: The plugins that count as rejectors if it is rejected as a whole.
    blamed: frozenset[str]
    #: The filters that apply in this attempt, by plugin.
    predicates: tuple[tuple[str, CompiledFilter], ...]
    #: The only nodes that can take the pod, by name; `None` when all can.
    only: frozenset[str] | None
    #: The plugins that restrict the pod to these nodes.
    narrowed_by: tuple[str, ...]


class ClassFilters:
    """The filters of one class, and the cached verdicts that its pods share."""

    def __init__(self, cluster: Cluster, predicates: Iterable[tuple[str, CompiledFilter]]) -> None:
        self._cluster = cluster
        self._predicates = tuple(predicates)
        #: Plugins whose verdict depends on the pod's spec alone.
        self.spec_only: Final = frozenset(
            name for name, predicate in self._predicates if predicate.spec_only
        )
        row_wise = [
            predicate for _, predicate in self._predicates if predicate.reads is not Reads.CLUSTER
        ]
        self._rows = _RowVerdicts(cluster, row_wise)
        self._row_wise = len(row_wise)
        # If a row-wise filter came after a cluster-wide one, the combined verdict of the row-wise
        # filters would not name the first plugin that rejects the node.
        kinds = [predicate.reads is Reads.CLUSTER for _, predicate in self._predicates]
        self._in_order = kinds == sorted(kinds)

    @property
    def size_bytes(self) -> int:
        """The memory that the cached verdicts take."""
        return self._rows.size_bytes

    def has(self, plugin: str) -> bool:
        """Return whether a plugin may filter nodes for pods of the class."""
        return any(name == plugin for name, _ in self._predicates)

    def pre_filter(self, state: AttemptState) -> Preparation:
        """Run PreFilter: evaluate a pod of the class as a whole.

        Source: kube-scheduler v1.36.3 framework/runtime.RunPreFilterPlugins.
        """
        rejected: Verdict | None = None
        blamed: set[str] = set()
        applying: list[tuple[str, CompiledFilter]] = []
        only: frozenset[str] | None = None
        narrowed_by: list[str] = []
        for name, predicate in self._predicates:
            status = predicate.prepare(state)
            if isinstance(status, Rejected):
                blamed.add(name)
                rejected = status.verdict
                if not rejected.resolvable:
                    return Preparation(rejected, frozenset({name}), tuple(applying), None, ())
                continue
            if status is SKIP:
                continue
            applying.append((name, predicate if status is PASS else status))
            if predicate.node_names is not None:
                narrowed_by.append(name)
                only = predicate.node_names if only is None else only & predicate.node_names
                if not only:
                    reason = _conflict(narrowed_by)
                    shown = ", ".join(narrowed_by)
                    verdict = Verdict("", (reason,), resolvable=False, shown_as=shown)
                    return Preparation(verdict, frozenset(narrowed_by), tuple(applying), None, ())
        blamed.update(narrowed_by)
        return Preparation(rejected, frozenset(blamed), tuple(applying), only, tuple(narrowed_by))

    def run_all(
        self, prepared: Preparation, expected: tuple[Rows, Codes] | None = None
    ) -> tuple[Codes, Rows]:
        """Run all filters on all rows.

        Args:
            prepared: The result of PreFilter.
            expected: Some rows, and (n,) the verdicts with the nominated pods there. Cluster-wide
                filters do not run where these reject the pod.

        Returns:
            (N,) the verdict on every row, `NO_NODE` for rows without a node; and the rows on which
            the pod fits. Both may be cached, so they must not be written to.
        """
        further = [each for _, each in prepared.predicates if each.reads is Reads.CLUSTER]
        if not self._in_order or len(prepared.predicates) - len(further) < self._row_wise:
            nodes = self._cluster.nodes()
            exists = self._cluster.columns.exists()
            present = np.where(exists, 0, NO_NODE).astype(np.uint16)
            present = present if expected is None else merged(present, *expected)
            codes = run_filters(nodes, prepared.predicates, present)
            return codes, fitting(codes)
        codes = self._rows.refreshed()
        if not further and expected is None:
            return codes, self._rows.fitting()
        codes = codes if expected is None else merged(codes, *expected)
        if further:
            codes = run_on_survivors(self._cluster.nodes(), further, codes)
        return codes, fitting(codes)

    def run_on_rows(
        self, rows: Rows, prepared: Preparation, expected: tuple[Rows, Codes] | None = None
    ) -> Codes:
        """Return, (n,), the verdict on some rows that have a node; nothing is cached.

        Args:
            rows: (n,) the rows.
            prepared: The result of PreFilter.
            expected: These rows, and (n,) the verdicts with the nominated pods there.
        """
        codes = None if expected is None else expected[1]
        return run_filters(NodeView(self._cluster.columns, rows), prepared.predicates, codes)


def run_filters(
    nodes: NodeView, predicates: Sequence[tuple[str, CompiledFilter]], codes: Codes | None = None
) -> Codes:
    """Return, (n,), the first rejection of each node in the order of the filters."""
    codes = np.zeros(len(nodes), dtype=np.uint16) if codes is None else codes
    for _, predicate in predicates:
        passing = codes == 0
        codes = np.where(passing, predicate.codes_where(nodes, passing), codes)
    return codes


def merged(codes: Codes, rows: Rows, others: Codes) -> Codes:
    """Return, (N,), verdicts in which other rejections of some rows are final.

    Args:
        codes: (N,) the verdicts; not written to.
        rows: The rows.
        others: (n,) the other verdicts on them.
    """
    codes, before = codes.copy(), codes[rows]
    codes[rows] = np.where((others != 0) & (before != NO_NODE), others, before)
    return codes


def rejects(predicates: Iterable[tuple[str, CompiledFilter]], row: int) -> bool:
    """Return whether a filter rejects a row as it is, by those that can tell without arrays."""
    return any(predicate.fits_row(row) is False for _, predicate in predicates)


def fitting(codes: Codes) -> Rows:
    """Return the rows whose verdict is 0."""
    rows: Rows = (codes == 0).nonzero()[0]
    return rows


def run_on_survivors(nodes: NodeView, predicates: Sequence[CompiledFilter], codes: Codes) -> Codes:
    """Return, (n,), some verdicts, completed by filters that see only the nodes that pass so far.

    Args:
        nodes: The view of the nodes.
        predicates: The further filters, in order.
        codes: (n,) the verdicts of the filters before them; not written to.
    """
    codes = codes.copy()
    for predicate in predicates:
        survivors: Int = np.flatnonzero(codes == 0)
        if not survivors.shape[0]:
            break
        if survivors.shape[0] == len(nodes):
            codes = predicate.codes(nodes).copy()  # the filter may keep its array
        else:
            codes[survivors] = predicate.codes(nodes.take(survivors))
    return codes


def _conflict(plugins: Sequence[str]) -> str:
    if len(plugins) == 1:
        return f"node(s) didn't satisfy plugin {plugins[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(plugins)}] simultaneously"


class _RowVerdicts:
    """Cached verdicts of the row-wise filters for all rows, refreshed where rows changed.

    A refresh takes one of three ways: all rows with arrays, the changed rows with arrays, or, for a
    few rows whose pods changed, row by row without arrays.
    """

    def __init__(self, cluster: Cluster, predicates: Sequence[CompiledFilter]) -> None:
        self._cluster = cluster
        self._predicates = predicates
        #: (N,) each: `NO_NODE` for rows without a node else 0, then the verdicts of each filter.
        self._codes: list[Codes] = []
        #: (N,) the first rejection of each row at the last refresh; not to be written to.
        self.combined: Codes = np.zeros(0, dtype=np.uint16)
        self._fitting: Rows | None = None
        self._nodes_seen = RowCursor(cluster.columns.node_changes)
        self._pods_seen = RowCursor(cluster.columns.pod_changes)

    @property
    def size_bytes(self) -> int:
        """The memory that the arrays take."""
        fitting = 0 if self._fitting is None else self._fitting.nbytes
        return self.combined.nbytes * (1 + len(self._codes)) + fitting

    def refreshed(self) -> Codes:
        """Return, (N,), the first rejection of each row; not to be written to."""
        columns = self._cluster.columns
        most = max_incremental(columns.size)
        node_rows, pod_rows = (
            self._nodes_seen.take_changed(most),
            self._pods_seen.take_changed(most),
        )
        if node_rows is None or pod_rows is None or self.combined.shape[0] != columns.size:
            self._recompute()
        else:
            if node_rows.shape[0]:
                self._refresh(node_rows, Reads.NODE)
            if pod_rows.shape[0]:
                self._refresh(pod_rows, Reads.PODS)
        return self.combined

    def fitting(self) -> Rows:
        """Return the rows that no filter rejected at the last refresh; not to be written to."""
        if self._fitting is None:
            self._fitting = fitting(self.combined)
        return self._fitting

    def _recompute(self) -> None:
        self._fitting = None
        nodes = self._cluster.nodes()
        exists = self._cluster.columns.exists()
        present = np.where(exists, 0, NO_NODE).astype(np.uint16)
        self._codes = [present, *(predicate.codes(nodes).copy() for predicate in self._predicates)]
        self.combined = _first(self._codes)

    def _refresh(self, rows: Rows, changed: Reads) -> None:
        """Recompute some rows for the filters that read what changed."""
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
        """Recompute rows one by one where all filters that read pods pass; return the others."""
        others = []
        for row in rows.tolist():
            if all(
                predicate.fits_row(row)
                for predicate in self._predicates
                if predicate.reads is Reads.PODS
            ):
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
                others.append(row)
        return np.array(others, dtype=np.int64)


def _first(all_codes: Sequence[Codes]) -> Codes:
    """Return the first code of each row that is not 0; always a new array."""
    combined = all_codes[0].copy()
    for codes in all_codes[1:]:
        np.copyto(combined, codes, where=combined == 0)
    return combined
