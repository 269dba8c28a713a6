"""Claims on nodes by pods that are not there yet.

A nominated pod counts on its node for pods of lower or equal priority. Nominations of other
schedulers' pods count as well. Claims on unknown nodes are kept: the node may appear.

Axes: n claims that matter to one pod.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.model.objects import Pod
from scheduler.state.arrays import Int, Rows
from scheduler.state.changes import ChangeLog
from scheduler.state.columns import Columns

__all__ = ["Claim", "Nominations"]


@dataclass(frozen=True, slots=True)
class Claim:
    """One nominated pod."""

    pod: Pod
    node: str
    #: Where the pod stands in the pod table, on no row.
    slot: int


class Nominations:
    """All claims; in nomination order on each node."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        #: Rows on which claims came or went.
        self.changes: Final = ChangeLog()
        self._claims: dict[str, Claim] = {}
        self._arrays: tuple[int, Rows, Int, Int] | None = None

    def __len__(self) -> int:
        return len(self._claims)

    def __iter__(self) -> Iterator[Claim]:
        return iter(self._claims.values())

    def get(self, uid: str) -> Claim | None:
        """Return the claim of a pod."""
        return self._claims.get(uid)

    def node(self, uid: str) -> str | None:
        """Return the node that a pod claims."""
        claim = self._claims.get(uid)
        return None if claim is None else claim.node

    def add(self, claim: Claim) -> None:
        """Add a claim, as the latest one."""
        self.remove(claim.pod.uid)
        self._claims[claim.pod.uid] = claim
        self._changed(claim)

    def remove(self, uid: str) -> Claim | None:
        """Take a claim away and return it."""
        claim = self._claims.pop(uid, None)
        if claim is not None:
            self._changed(claim)
        return claim

    def on_node(self, node: str) -> list[Claim]:
        """Return the claims on a node, oldest first."""
        return [claim for claim in self._claims.values() if claim.node == node]

    def layers(self, priority: int, uid: str) -> tuple[Rows, list[Int]]:
        """Return the claims that a pod of this priority has to respect.

        Returns:
            (n,) rows with such claims, in row order, and layers of (n,) slots: the oldest claim on
            each row, then the second, and so on; -1 where a row has no more.

        Source: kube-scheduler v1.36.3 framework/runtime.addGENominatedPods. Differs: claims of
        other schedulers' pods count.
        """
        rows, slots, priorities = self._tables()
        own = self._claims.get(uid)
        counts = priorities >= priority
        if own is not None:
            counts &= slots != own.slot
        if not counts.any():
            return rows[:0], []
        rows, slots = rows[counts], slots[counts]
        order = np.argsort(rows, kind="stable")
        rows, slots = rows[order], slots[order]
        distinct, first = np.unique(rows, return_index=True)
        depth = np.arange(rows.shape[0]) - np.repeat(first, np.diff([*first, rows.shape[0]]))
        place = np.searchsorted(distinct, rows)
        layers = []
        for level in range(int(depth.max()) + 1):
            layer = np.full(distinct.shape[0], -1, dtype=np.int64)
            here = depth == level
            layer[place[here]] = slots[here]
            layers.append(layer)
        return distinct, layers

    def _changed(self, claim: Claim) -> None:
        self._arrays = None
        row = self._columns.row(claim.node)
        if row is not None:
            self.changes.note(row)

    def _tables(self) -> tuple[Rows, Int, Int]:
        """Return row, slot and priority of each claim on a known node, oldest first."""
        membership = self._columns.membership
        if self._arrays is None or self._arrays[0] != membership:
            found = [
                (row, claim.slot, claim.pod.priority)
                for claim in self._claims.values()
                if (row := self._columns.row(claim.node)) is not None
            ]
            table = np.array(found, dtype=np.int64).reshape(-1, 3)
            self._arrays = (membership, table[:, 0], table[:, 1], table[:, 2])
        return self._arrays[1:]
