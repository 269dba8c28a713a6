"""Counters over pods: on each row, and in each domain of a topology.

`PodWeights` says what a pod counts for, by its looks. A `NodeCounter` adds that up on each row, a
`TopologyCounter` over all rows whose nodes share the value of a label. Both catch up when they are
asked, from the journal of the census and from the log of changed nodes, so one placement costs a
counter a few microseconds, whatever the size of the cluster; counters that no class of pods holds
any more are gone.

Axes: N rows, n rows of a view, S slots, A codes of a pool, D values of a label and *absent*.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar

import numpy as np

from scheduler.state.columns.arrays import Bool, Int, Rows, grown
from scheduler.state.columns.labels import ABSENT, LabelColumn
from scheduler.state.columns.node_columns import NodeColumns
from scheduler.state.columns.refcounted_interner import RefcountedInterner
from scheduler.state.columns.row_cursor import RowCursor, few
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

#: Returns what each of some values counts for.
Weigh: TypeAlias = Callable[[Sequence[T]], Sequence[int] | Int]

#: The domain of rows that do not count.
OUTSIDE: Final = -1

#: So few changes of nodes are always picked, however few nodes there are.
_FEW_NODES: Final = 8
#: Fewer entries of the journal than this are added one by one.
_FEW: Final = 8


class PodWeights(Generic[T]):
    """A number for each code of a pool, found out when the code is first met."""

    __slots__ = ("__weakref__", "_pool", "_seen", "_some", "_table", "_weigh", "census", "column")

    def __init__(
        self, census: PodIndex, column: int, pool: RefcountedInterner[T], weigh: Weigh[T]
    ) -> None:
        self.census: Final = census
        #: Which codes of the census it is about.
        self.column: Final = column
        self._pool = pool
        self._weigh = weigh
        self._seen = 0
        self._some = False
        self._table: Int = np.zeros(16, dtype=np.int64)

    def table(self) -> Int:
        """Return, (A,) at least, the number of each code; not to be written to."""
        pool = self._pool
        if self._seen != pool.serial:
            fresh = pool.born_since(self._seen)
            self._seen = pool.serial
            self._table = grown(self._table, len(pool))
            weigh, values = self._weigh, pool.values
            self._table[fresh] = weigh([values[code] for code in fresh.tolist()])
            self._some = bool(self._table.any())
        return self._table

    def anything(self) -> bool:
        """Tell whether any code counts for something."""
        self.table()
        return self._some

    def of(self, slots: Int) -> Int:
        """Return, (n,), the numbers of the pods in some slots, 0 for slots below 0."""
        return np.where(slots >= 0, self.table()[self.census.codes_of(self.column, slots)], 0)

    def placed(self) -> tuple[Rows, Int]:
        """Return the rows of all pods that count for something, and what they count for."""
        rows = self.census.rows()
        numbers = self.table()[self.census.codes(self.column)]
        count = np.flatnonzero((numbers != 0) & (rows >= 0))
        return rows[count], numbers[count]

    def on_row(self, row: int) -> int:
        """Return the sum over the pods on one row."""
        slots = np.flatnonzero(self.census.rows() == row)
        return int(self.table()[self.census.codes(self.column)[slots]].sum())


def of_labels(
    census: PodIndex, key: Hashable, weigh: Callable[[LabelSet], int]
) -> PodWeights[LabelSet]:
    """Return what pods count for by their labels; the same object for equal keys."""
    return of_all_labels(census, key, lambda looks: [weigh(each) for each in looks])


def of_all_labels(census: PodIndex, key: Hashable, weigh: Weigh[LabelSet]) -> PodWeights[LabelSet]:
    """Return what pods count for by their labels, for who weighs many looks at once."""

    def make() -> PodWeights[LabelSet]:
        return PodWeights(census, LABELS, census.label_sets, weigh)

    return census.shared(("labels", key), make)


def of_carried(
    census: PodIndex, key: Hashable, weigh: Callable[[AffinityTerms], int]
) -> PodWeights[AffinityTerms]:
    """Return what pods count for by the terms they carry; the same object for equal keys."""

    def make() -> PodWeights[AffinityTerms]:
        return PodWeights(
            census, CARRIED, census.carried, lambda carried: [weigh(each) for each in carried]
        )

    return census.shared(("carried", key), make)


class NodeCounter:
    """What the pods on each row count for."""

    __slots__ = ("__weakref__", "_read", "_rows", "_weights")

    def __init__(self, weights: PodWeights[Any]) -> None:
        self._weights = weights
        self._rows: Int = np.zeros(0, dtype=np.int64)
        self._read = -1

    def rows(self, size: int) -> Int:
        """Return, (N,), the sum over the pods on each row; not to be written to."""
        census, weights = self._weights.census, self._weights
        table = weights.table()
        news = census.since(self._read)
        self._rows = grown(self._rows, size)
        if news is None:
            rows, numbers = weights.placed()
            self._rows = _summed(rows, numbers, size)
        elif news.shape[0]:
            np.add.at(self._rows, news[:, ROW], table[news[:, weights.column]] * news[:, SIGN])
        self._read = census.position
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
        """Return, (n,), the domains that the pods on the nodes count in, or `OUTSIDE`."""
        values = self.values(nodes)
        return np.where(values == ABSENT, OUTSIDE, values)


class TopologyCounter:
    """What the pods in each domain count for."""

    __slots__ = ("__weakref__", "_columns", "_domain", "_nodes_seen", "_read", "domains",
                 "members", "sums", "version", "weights")  # fmt: skip

    def __init__(self, weights: PodWeights[Any], domains: Domains, columns: NodeColumns) -> None:
        self.weights: Final = weights
        self.domains: Final = domains
        #: (D,) at least: the sum over the pods in each domain.
        self.sums: Int = np.zeros(0, dtype=np.int64)
        #: (D,) at least: how many nodes of each domain count.
        self.members: Int = np.zeros(0, dtype=np.int64)
        #: Grows with every change of the above.
        self.version = 0
        self._columns = columns
        #: (N,) the domain in which the pods of each row have been counted.
        self._domain: Int = np.zeros(0, dtype=np.int64)
        self._read = -1
        self._nodes_seen = RowCursor(columns.node_changes)

    def refresh(self) -> None:
        """Catch up with pods and nodes."""
        census = self.weights.census
        if self._read == census.position and self._nodes_seen.up_to_date:
            return
        news = census.since(self._read)
        rows = self._nodes_seen.news(_FEW_NODES + few(self._columns.size))
        if news is None or rows is None:
            self._count()
        else:
            if rows.shape[0] or self._domain.shape[0] < self._columns.size:
                self._grow()
            # Pods first: they have been counted where their nodes were before they changed.
            if news.shape[0]:
                self._add(news)
            if rows.shape[0]:
                self._move(rows)
        self._read = census.position

    def at(self, nodes: NodeView) -> Int:
        """Return, (n,), the sum in the domain that each node is in; 0 for nodes in none."""
        return self.sums.take(self.domains.values(nodes))

    def counting(self, nodes: NodeView) -> Bool:
        """Return, (n,), on which nodes pods count at all."""
        counting: Bool = self._domain[nodes.rows] >= 0
        return counting

    def shift(self, nodes: NodeView, weights: PodWeights[Any] | None = None) -> Int | None:
        """Return, (n,), how the sum in each node's own domain differs from what is.

        Args:
            nodes: Rows of a hypothesis, each for itself.
            weights: What the pods count for that come and go, if not the same as ever.

        Returns:
            `None` for nodes as they are.
        """
        shift = nodes.shift(self.weights if weights is None else weights)
        return None if shift is None else np.where(self.counting(nodes), shift, 0)

    def _add(self, news: Int) -> None:
        table, column = self.weights.table(), self.weights.column
        if news.shape[0] <= _FEW:
            for entry in news.tolist():
                number = int(table[entry[column]])
                place = int(self._domain[entry[ROW]])
                if number and place >= 0:
                    self.sums[place] += number * entry[SIGN]
                    self.version += 1
            return
        numbers = table[news[:, column]] * news[:, SIGN]
        places = self._domain[news[:, ROW]]
        count = (numbers != 0) & (places >= 0)
        np.add.at(self.sums, places[count], numbers[count])
        self.version += 1

    def _move(self, rows: Rows) -> None:
        """Count the pods of nodes that changed where they belong now."""
        now: Int = self.domains.counted(NodeView(self._columns, rows))
        before: Int = self._domain[rows]
        for place in np.flatnonzero(now != before).tolist():
            row, left, entered = int(rows[place]), int(before[place]), int(now[place])
            number = self.weights.on_row(row)
            for domain, sign in ((left, -1), (entered, +1)):
                if domain >= 0:
                    self.sums[domain] += sign * number
                    self.members[domain] += sign
            self._domain[row] = entered
            self.version += 1

    def _count(self) -> None:
        """Count everything anew."""
        self._domain = self.domains.counted(NodeView(self._columns)).copy()
        size = len(self.domains.column.values)
        self.members = np.bincount(self._domain[self._domain >= 0], minlength=size)
        rows, numbers = self.weights.placed()
        places = self._domain[rows]
        count = places >= 0
        self.sums = _summed(places[count], numbers[count], size)
        self.version += 1

    def _grow(self) -> None:
        size = len(self.domains.column.values)
        if self.sums.shape[0] < size:
            self.sums = grown(self.sums, size)
            self.members = grown(self.members, self.sums.shape[0])
            self.version += 1
        self._domain = grown(self._domain, self._columns.size, OUTSIDE)


def by_row(weights: PodWeights[Any]) -> NodeCounter:
    """Return the sums on each row; the same object for the same weights."""
    return weights.census.shared(("rows", weights), lambda: NodeCounter(weights))


def by_domain(
    weights: PodWeights[Any], key: Hashable, domains: Callable[[], Domains], columns: NodeColumns
) -> TopologyCounter:
    """Return the sums in each domain; the same object for the same weights and equal keys."""
    return weights.census.shared(
        ("domains", weights, key), lambda: TopologyCounter(weights, domains(), columns)
    )


def _summed(places: Int, numbers: Int, size: int) -> Int:
    """Return, (size,), the sum of the numbers at each place; exact below 2**53."""
    if not places.shape[0]:
        return np.zeros(size, dtype=np.int64)
    return np.bincount(places, weights=numbers, minlength=size).astype(np.int64)
