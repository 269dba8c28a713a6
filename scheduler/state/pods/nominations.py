"""Claims on nodes by pods that are not there yet.

A nominated pod counts on its node for pods of lower or equal priority. Nominations of other
schedulers' pods count as well. Claims on unknown nodes are kept: the node may appear.

Axes: n claims that matter to one pod, m claims that are kept, those taken back included.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.model.api.objects import Pod
from scheduler.state.columns.arrays import Int, Rows
from scheduler.state.columns.change_log import ChangeLog
from scheduler.state.columns.node_columns import NodeColumns

__all__ = ["Nomination", "Nominations"]

#: What a claim that was taken back counts for: nothing, since no pod is that unimportant.
_TAKEN_BACK: Final = np.iinfo(np.int64).min
#: With so many claims, of which more than half were taken back, the table is made anew.
_LONG: Final = 64


@dataclass(frozen=True, slots=True)
class Nomination:
    """One nominated pod."""

    pod: Pod
    node: str
    #: Where the pod stands in the pod table, on no row.
    slot: int


class Nominations:
    """All claims; in nomination order on each node."""

    def __init__(self, columns: NodeColumns) -> None:
        self._columns = columns
        #: Rows on which claims came or went.
        self.changes: Final = ChangeLog()
        self._claims: dict[str, Nomination] = {}
        self._by_node: dict[str, dict[str, Nomination]] = {}
        #: (m, 3) row, slot and priority of each claim on a known node, oldest first.
        self._table: Int = np.zeros((0, 3), dtype=np.int64)
        #: Where in the table a claim stands, by uid.
        self._places: dict[str, int] = {}
        self._length = 0
        #: For which nodes the table was made; -1 when it has to be made anew.
        self._membership = -1

    def __len__(self) -> int:
        return len(self._claims)

    def __iter__(self) -> Iterator[Nomination]:
        return iter(self._claims.values())

    def get(self, uid: str) -> Nomination | None:
        """Return the claim of a pod."""
        return self._claims.get(uid)

    def node(self, uid: str) -> str | None:
        """Return the node that a pod claims."""
        claim = self._claims.get(uid)
        return None if claim is None else claim.node

    def add(self, claim: Nomination) -> None:
        """Add a claim, as the latest one."""
        self.remove(claim.pod.uid)
        self._claims[claim.pod.uid] = claim
        self._by_node.setdefault(claim.node, {})[claim.pod.uid] = claim
        self._note(claim)
        if self._membership == self._columns.membership:
            self._append(claim)

    def remove(self, uid: str) -> Nomination | None:
        """Take a claim away and return it."""
        claim = self._claims.pop(uid, None)
        if claim is None:
            return None
        on_node = self._by_node[claim.node]
        del on_node[uid]
        if not on_node:
            del self._by_node[claim.node]
        self._note(claim)
        place = self._places.pop(uid, None)
        if place is not None:
            self._table[place, 2] = _TAKEN_BACK
        return claim

    def on_node(self, node: str) -> list[Nomination]:
        """Return the claims on a node, oldest first."""
        return list(self._by_node.get(node, {}).values())

    def layers(self, priority: int, uid: str) -> tuple[Rows, list[Int]]:
        """Return the claims that a pod of this priority has to respect.

        Returns:
            (n,) rows with such claims, in row order, and layers of (n,) slots: the oldest claim on
            each row, then the second, and so on; -1 where a row has no more.

        Source: kube-scheduler v1.36.3 framework/runtime.addGENominatedPods. Differs: claims of
        other schedulers' pods count.
        """
        rows, slots, priorities = self._columns_of_claims()
        own = self._claims.get(uid)
        counts = priorities >= priority
        if own is not None:
            counts &= slots != own.slot
        if not counts.any():
            return rows[:0], []
        rows, slots = rows[counts], slots[counts]
        return _layered(rows, slots)

    def layers_on(self, row: int, priority: int, uid: str) -> list[Int]:
        """Return the claims on one row that a pod has to respect, as `layers` does; (1,) slots."""
        claims = self._by_node.get(self._columns.names[row], {}).values()
        return [
            np.array([each.slot], dtype=np.int64)
            for each in claims
            if each.pod.priority >= priority and each.pod.uid != uid
        ]

    def _note(self, claim: Nomination) -> None:
        row = self._columns.row(claim.node)
        if row is not None:
            self.changes.note(row)

    def _columns_of_claims(self) -> tuple[Rows, Int, Int]:
        """Return, (m,) each, row, slot and priority of each claim on a known node, oldest first."""
        stale = self._length > _LONG and self._length > 2 * len(self._places)
        if stale or self._membership != self._columns.membership:
            self._length = 0
            self._places.clear()
            self._membership = self._columns.membership
            for claim in self._claims.values():
                self._append(claim)
        table = self._table[: self._length]
        return table[:, 0], table[:, 1], table[:, 2]

    def _append(self, claim: Nomination) -> None:
        row = self._columns.row(claim.node)
        if row is None:
            return
        if self._length == self._table.shape[0]:
            self._table = np.resize(self._table, (max(16, 2 * self._length), 3))
        self._table[self._length] = (row, claim.slot, claim.pod.priority)
        self._places[claim.pod.uid] = self._length
        self._length += 1


def _layered(rows: Rows, slots: Int) -> tuple[Rows, list[Int]]:
    """Return distinct rows in order, and layers of their slots; see `Nominations.layers`."""
    order = np.argsort(rows, kind="stable")
    rows, slots = rows[order], slots[order]
    distinct, first = np.unique(rows, return_index=True)
    if distinct.shape[0] == rows.shape[0]:
        return rows, [slots]
    depth = np.arange(rows.shape[0]) - np.repeat(first, np.diff(first, append=rows.shape[0]))
    place = np.searchsorted(distinct, rows)
    layers = []
    for level in range(int(depth.max()) + 1):
        layer = np.full(distinct.shape[0], -1, dtype=np.int64)
        here = depth == level
        layer[place[here]] = slots[here]
        layers.append(layer)
    return distinct, layers
