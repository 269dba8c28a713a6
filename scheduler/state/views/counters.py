"""Counters over pods: on each row, and in each domain of a topology.

`PodWeights` gives a pod a weight, by its label set or affinity terms. A `NodeCounter` sums the
weights on each row, a `TopologyCounter` over all rows whose nodes share the value of a label. Both
are updated on demand, from the journal of the pod index and from the log of changed nodes, so one
placement costs a counter a few microseconds, whatever the size of the cluster. Counters that no
class of pods refers to any more are dropped.

Axes: N rows, n rows of a view, S slots, A codes of an interner, D values of a label and *absent*.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar

import numpy as np

from scheduler.state.columns.arrays import Bool, Int, Rows, grown
from scheduler.state.columns.labels import ABSENT, LabelColumn
from scheduler.state.columns.node_columns import NodeColumns
from scheduler.state.columns.refcounted_interner import RefcountedInterner
from scheduler.state.columns.row_cursor import RowCursor, max_incremental
from scheduler.state.pods.affinity_terms import AffinityTerms
from scheduler.state.pods.pod_index import CARRIED, LABELS, ROW, SIGN, LabelSet, PodIndex
from scheduler.state.views.node_view import NodeView

__all__ = [
    "OUTSIDE",
    "Domains",
    "NodeCounter",
    "PodWeights",
    "TopologyCounter",
    "by_domain",
    "by_row",
    "of_all_labels",
    "of_carried",
    "of_labels",
]

T = TypeVar("T")

#: Returns the weight of each of some values.
Weigh: TypeAlias = Callable[[Sequence[T]], Sequence[int] | Int]

#: The domain of rows that do not count.
OUTSIDE: Final = -1

#: Up to so many changes of nodes are always picked, even in a small cluster.
_FEW_NODES: Final = 8
#: Up to so many entries of the journal are added one by one.
_FEW: Final = 8


class PodWeights(Generic[T]):
    """A weight for each code of an interner, computed when the code is new."""

    __slots__ = (
        "__weakref__",
        "_any_weight",
        "_interner",
        "_seen",
        "_table",
        "_weigh",
        "column",
        "pod_index",
    )

    def __init__(
        self, pod_index: PodIndex, column: int, interner: RefcountedInterner[T], weigh: Weigh[T]
    ) -> None:
        self.pod_index: Final = pod_index
        #: Which codes of the pod index have weights: `LABELS` or `CARRIED`.
        self.column: Final = column
        self._interner = interner
        self._weigh = weigh
        self._seen = 0
        self._any_weight = False
        self._table: Int = np.zeros(16, dtype=np.int64)

    def table(self) -> Int:
        """Return, (A,) at least, the weight of each code; not to be written to."""
        interner = self._interner
        if self._seen != interner.serial:
            fresh = interner.assigned_since(self._seen)
            self._seen = interner.serial
            self._table = grown(self._table, len(interner))
            weigh, values = self._weigh, interner.values
            self._table[fresh] = weigh([values[code] for code in fresh.tolist()])
            self._any_weight = bool(self._table.any())
        return self._table

    def anything(self) -> bool:
        """Return whether any code has a non-zero weight."""
        self.table()
        return self._any_weight

    def of(self, slots: Int) -> Int:
        """Return, (n,), the weights of the pods in some slots, 0 for slots below 0."""
        return np.where(slots >= 0, self.table()[self.pod_index.codes_of(self.column, slots)], 0)

    def placed(self) -> tuple[Rows, Int]:
        """Return the rows of all pods with a non-zero weight, and their weights."""
        rows = self.pod_index.rows()
        numbers = self.table()[self.pod_index.codes(self.column)]
        count = np.flatnonzero((numbers != 0) & (rows >= 0))
        return rows[count], numbers[count]

    def on_row(self, row: int) -> int:
        """Return the sum of the weights on one row."""
        slots = np.flatnonzero(self.pod_index.rows() == row)
        return int(self.table()[self.pod_index.codes(self.column)[slots]].sum())


def of_labels(
    pod_index: PodIndex, key: Hashable, weigh: Callable[[LabelSet], int]
) -> PodWeights[LabelSet]:
    """Return the weights of pods by their label set; the same object for equal keys."""
    return of_all_labels(pod_index, key, lambda label_sets: [weigh(item) for item in label_sets])


def of_all_labels(
    pod_index: PodIndex, key: Hashable, weigh: Weigh[LabelSet]
) -> PodWeights[LabelSet]:
    """Return the weights of pods by their label set; `weigh` gets many label sets at once."""

    def make() -> PodWeights[LabelSet]:
        return PodWeights(pod_index, LABELS, pod_index.label_sets, weigh)

    return pod_index.shared(("labels", key), make)


def of_carried(
    pod_index: PodIndex, key: Hashable, weigh: Callable[[AffinityTerms], int]
) -> PodWeights[AffinityTerms]:
    """Return the weights of pods by their affinity terms; the same object for equal keys."""

    def make() -> PodWeights[AffinityTerms]:
        return PodWeights(
            pod_index,
            CARRIED,
            pod_index.carried,
            lambda carried: [weigh(terms) for terms in carried],
        )

    return pod_index.shared(("carried", key), make)


class NodeCounter:
    """The sum of the weights of the pods on each row."""

    __slots__ = ("__weakref__", "_read", "_rows", "_weights")

    def __init__(self, weights: PodWeights[Any]) -> None:
        self._weights = weights
        self._rows: Int = np.zeros(0, dtype=np.int64)
        self._read = -1

    def rows(self, size: int) -> Int:
        """Return, (N,), the sum of the weights on each row; not to be written to."""
        pod_index, weights = self._weights.pod_index, self._weights
        table = weights.table()
        news = pod_index.since(self._read)
        self._rows = grown(self._rows, size)
        if news is None:
            rows, numbers = weights.placed()
            self._rows = _summed(rows, numbers, size)
        elif news.shape[0]:
            np.add.at(self._rows, news[:, ROW], table[news[:, weights.column]] * news[:, SIGN])
        self._read = pod_index.position
        return self._rows[:size]


class Domains:
    """The domain of each node: the value of one label; nodes without it are outside."""

    __slots__ = ("column",)

    def __init__(self, column: LabelColumn) -> None:
        self.column: Final = column

    def of(self, codes: Int) -> Int:
        """Return the domains of nodes with these codes in the label column."""
        return codes

    def values(self, nodes: NodeView) -> Int:
        """Return, (n,), the domains of the nodes, counted or not; not to be written to."""
        return self.of(nodes.label_codes(self.column))

    def counted(self, nodes: NodeView) -> Int:
        """Return, (n,), the domains in which pods on the nodes are counted, or `OUTSIDE`."""
        values = self.values(nodes)
        return np.where(values == ABSENT, OUTSIDE, values)


class TopologyCounter:
    """The sum of the weights of the pods in each domain."""

    __slots__ = ("__weakref__", "_columns", "_domain", "_nodes_seen", "_read", "domains",
                 "members", "sums", "version", "weights")  # fmt: skip

    def __init__(self, weights: PodWeights[Any], domains: Domains, columns: NodeColumns) -> None:
        self.weights: Final = weights
        self.domains: Final = domains
        #: (D,) at least: the sum of the weights in each domain.
        self.sums: Int = np.zeros(0, dtype=np.int64)
        #: (D,) at least: the number of counted nodes of each domain.
        self.members: Int = np.zeros(0, dtype=np.int64)
        #: Grows with every change of `sums` and `members`.
        self.version = 0
        self._columns = columns
        #: (N,) the domain in which the pods of each row are counted.
        self._domain: Int = np.zeros(0, dtype=np.int64)
        self._read = -1
        self._nodes_seen = RowCursor(columns.node_changes)

    def refresh(self) -> None:
        """Apply the changes of pods and nodes."""
        pod_index = self.weights.pod_index
        if self._read == pod_index.position and self._nodes_seen.up_to_date:
            return
        news = pod_index.since(self._read)
        rows = self._nodes_seen.take_changed(_FEW_NODES + max_incremental(self._columns.size))
        if news is None or rows is None:
            self._count()
        else:
            if rows.shape[0] or self._domain.shape[0] < self._columns.size:
                self._grow()
            # Pods first: they are counted in the domains that their nodes had before the change.
            if news.shape[0]:
                self._add(news)
            if rows.shape[0]:
                self._move(rows)
        self._read = pod_index.position

    def at(self, nodes: NodeView) -> Int:
        """Return, (n,), the sum in the domain of each node; 0 for nodes in none."""
        return self.sums.take(self.domains.values(nodes))

    def counting(self, nodes: NodeView) -> Bool:
        """Return, (n,), on which nodes pods are counted at all."""
        counting: Bool = self._domain[nodes.rows] >= 0
        return counting

    def shift(self, nodes: NodeView, weights: PodWeights[Any] | None = None) -> Int | None:
        """Return, (n,), how the sum in each node's own domain differs from the present one.

        Args:
            nodes: A hypothetical view, each row by itself.
            weights: Of the pods that are added and removed, if other than those of the counter.

        Returns:
            `None` for a view of the present state.
        """
        shift = nodes.shift(self.weights if weights is None else weights)
        return None if shift is None else np.where(self.counting(nodes), shift, 0)

    def _add(self, news: Int) -> None:
        table, column = self.weights.table(), self.weights.column
        if news.shape[0] <= _FEW:
            for entry in news.tolist():
                number = int(table[entry[column]])
                domain = int(self._domain[entry[ROW]])
                if number and domain >= 0:
                    self.sums[domain] += number * entry[SIGN]
                    self.version += 1
            return
        numbers = table[news[:, column]] * news[:, SIGN]
        domains = self._domain[news[:, ROW]]
        count = (numbers != 0) & (domains >= 0)
        np.add.at(self.sums, domains[count], numbers[count])
        self.version += 1

    def _move(self, rows: Rows) -> None:
        """Move the pods of changed nodes to the domains that the nodes have now."""
        now: Int = self.domains.counted(NodeView(self._columns, rows))
        before: Int = self._domain[rows]
        for index in np.flatnonzero(now != before).tolist():
            row, left, entered = int(rows[index]), int(before[index]), int(now[index])
            number = self.weights.on_row(row)
            for domain, sign in ((left, -1), (entered, +1)):
                if domain >= 0:
                    self.sums[domain] += sign * number
                    self.members[domain] += sign
            self._domain[row] = entered
            self.version += 1

    def _count(self) -> None:
        """Count all pods and nodes."""
        self._domain = self.domains.counted(NodeView(self._columns)).copy()
        size = len(self.domains.column.values)
        self.members = np.bincount(self._domain[self._domain >= 0], minlength=size)
        rows, numbers = self.weights.placed()
        domains = self._domain[rows]
        count = domains >= 0
        self.sums = _summed(domains[count], numbers[count], size)
        self.version += 1

    def _grow(self) -> None:
        size = len(self.domains.column.values)
        if self.sums.shape[0] < size:
            self.sums = grown(self.sums, size)
            self.members = grown(self.members, self.sums.shape[0])
            self.version += 1
        self._domain = grown(self._domain, self._columns.size, OUTSIDE)


def by_row(weights: PodWeights[Any]) -> NodeCounter:
    """Return the counter of each row; the same object for the same weights."""
    return weights.pod_index.shared(("rows", weights), lambda: NodeCounter(weights))


def by_domain(
    weights: PodWeights[Any], key: Hashable, domains: Callable[[], Domains], columns: NodeColumns
) -> TopologyCounter:
    """Return the counter of each domain; the same object for the same weights and equal keys."""
    return weights.pod_index.shared(
        ("domains", weights, key), lambda: TopologyCounter(weights, domains(), columns)
    )


def _summed(indices: Int, numbers: Int, size: int) -> Int:
    """Return, (size,), the sum of the numbers at each index; exact below 2**53."""
    if not indices.shape[0]:
        return np.zeros(size, dtype=np.int64)
    return np.bincount(indices, weights=numbers, minlength=size).astype(np.int64)
