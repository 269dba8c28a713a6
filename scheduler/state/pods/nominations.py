"""The nominated pods, by node.

A nominated pod counts on its node for pods of lower or equal priority. Nominations of other
schedulers' pods count as well. Nominations for unknown nodes are kept: the node may be added later.

Axes: n nominations that count for one pod, m entries of the table, removed ones included.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.model.api.objects import Pod
from scheduler.state.columns.arrays import Int, Rows
from scheduler.state.columns.change_log import ChangeLog
from scheduler.state.columns.node_columns import NodeColumns

__all__ = ["Nomination", "Nominations"]

#: The priority of a removed entry, which is below that of every pod.
_REMOVED: Final = np.iinfo(np.int64).min
#: A table with more entries than this, more than half of them removed, is rebuilt.
_LONG: Final = 64


@dataclass(frozen=True, slots=True)
class Nomination:
    """One nominated pod."""

    pod: Pod
    node: str
    #: Of the pod in the pod table, on no row.
    slot: int


class Nominations:
    """All nominations; on each node in the order in which they were added."""

    def __init__(self, columns: NodeColumns) -> None:
        self._columns = columns
        #: Rows whose nominations changed.
        self.changes: Final = ChangeLog()
        self._nominations: dict[str, Nomination] = {}
        self._by_node: dict[str, dict[str, Nomination]] = {}
        #: (m, 3) row, slot and priority of each nomination for a known node, oldest first.
        self._table: Int = np.zeros((0, 3), dtype=np.int64)
        #: By uid, the index of a nomination in the table.
        self._indices: dict[str, int] = {}
        self._length = 0
        #: `NodeColumns.membership` when the table was built; -1 if it must be rebuilt.
        self._membership = -1

    def __len__(self) -> int:
        return len(self._nominations)

    def __iter__(self) -> Iterator[Nomination]:
        return iter(self._nominations.values())

    def get(self, uid: str) -> Nomination | None:
        """Return the nomination of a pod."""
        return self._nominations.get(uid)

    def node(self, uid: str) -> str | None:
        """Return the nominated node of a pod."""
        nomination = self._nominations.get(uid)
        return None if nomination is None else nomination.node

    def add(self, nomination: Nomination) -> None:
        """Add a nomination, as the latest one."""
        self.remove(nomination.pod.uid)
        self._nominations[nomination.pod.uid] = nomination
        self._by_node.setdefault(nomination.node, {})[nomination.pod.uid] = nomination
        self._record_change(nomination)
        if self._membership == self._columns.membership:
            self._append(nomination)

    def remove(self, uid: str) -> Nomination | None:
        """Remove and return a nomination."""
        nomination = self._nominations.pop(uid, None)
        if nomination is None:
            return None
        on_node = self._by_node[nomination.node]
        del on_node[uid]
        if not on_node:
            del self._by_node[nomination.node]
        self._record_change(nomination)
        index = self._indices.pop(uid, None)
        if index is not None:
            self._table[index, 2] = _REMOVED
        return nomination

    def later_than(self, uid: str) -> list[str]:
        """Return the uids of the pods that were nominated after a nominated pod, oldest first."""
        uids = list(self._nominations)
        return uids[uids.index(uid) + 1 :]

    def make_latest(self, uids: Iterable[str]) -> None:
        """Make some nominations the latest ones, in their order."""
        for uid in uids:
            nomination = self._nominations[uid] = self._nominations.pop(uid)
            on_node = self._by_node[nomination.node]
            on_node[uid] = on_node.pop(uid)
        self._membership = -1

    def on_node(self, node: str) -> list[Nomination]:
        """Return the nominations for a node, oldest first."""
        return list(self._by_node.get(node, {}).values())

    def layers(self, priority: int, uid: str) -> tuple[Rows, list[Int]]:
        """Return the nominations that count for a pod of this priority.

        Returns:
            (n,) rows with such nominations, in row order, and layers of (n,) slots: the oldest
            nomination for each row, then the second, and so on; -1 if a row has no more.

        Source: kube-scheduler v1.36.3 framework/runtime.addGENominatedPods. Differs:
        nominations of other schedulers' pods count.
        """
        rows, slots, priorities = self._columns_of_table()
        own = self._nominations.get(uid)
        counts = priorities >= priority
        if own is not None:
            counts &= slots != own.slot
        if not counts.any():
            return rows[:0], []
        rows, slots = rows[counts], slots[counts]
        return _layered(rows, slots)

    def layers_on(self, row: int, priority: int, uid: str) -> list[Int]:
        """Return the nominations for one row that count for a pod, as `layers` does; (1,) slots."""
        nominations = self._by_node.get(self._columns.names[row], {}).values()
        return [
            np.array([nomination.slot], dtype=np.int64)
            for nomination in nominations
            if nomination.pod.priority >= priority and nomination.pod.uid != uid
        ]

    def _record_change(self, nomination: Nomination) -> None:
        row = self._columns.row(nomination.node)
        if row is not None:
            self.changes.record(row)

    def _columns_of_table(self) -> tuple[Rows, Int, Int]:
        """Return, each (m,), row, slot and priority of the table's entries, oldest first."""
        stale = self._length > _LONG and self._length > 2 * len(self._indices)
        if stale or self._membership != self._columns.membership:
            self._length = 0
            self._indices.clear()
            self._membership = self._columns.membership
            for nomination in self._nominations.values():
                self._append(nomination)
        table = self._table[: self._length]
        return table[:, 0], table[:, 1], table[:, 2]

    def _append(self, nomination: Nomination) -> None:
        row = self._columns.row(nomination.node)
        if row is None:
            return
        if self._length == self._table.shape[0]:
            self._table = np.resize(self._table, (max(16, 2 * self._length), 3))
        self._table[self._length] = (row, nomination.slot, nomination.pod.priority)
        self._indices[nomination.pod.uid] = self._length
        self._length += 1


def _layered(rows: Rows, slots: Int) -> tuple[Rows, list[Int]]:
    """Return distinct rows in order, and layers of their slots; see `Nominations.layers`."""
    order = np.argsort(rows, kind="stable")
    rows, slots = rows[order], slots[order]
    distinct, first = np.unique(rows, return_index=True)
    if distinct.shape[0] == rows.shape[0]:
        return rows, [slots]
    depth = np.arange(rows.shape[0]) - np.repeat(first, np.diff(first, append=rows.shape[0]))
    index = np.searchsorted(distinct, rows)
    layers = []
    for level in range(int(depth.max()) + 1):
        layer = np.full(distinct.shape[0], -1, dtype=np.int64)
        here = depth == level
        layer[index[here]] = slots[here]
        layers.append(layer)
    return distinct, layers
