"""Small integers for the state of devices: a claim gets the same result on nodes with equal ones.

The result of a search depends on the pools of a node in their order, on what selectors and
constraints read of each device, on taints and counters, and on what is taken. It does not depend on
names, which occur in results and errors only. So a search runs once for each signature, and not
once for each node.

Axes: N rows.
"""

from collections.abc import Callable, Hashable
from typing import Final

import numpy as np

from scheduler.model.api.objects import Node
from scheduler.state.columns.arrays import Int, grown
from scheduler.state.columns.change_log import ChangeLog
from scheduler.state.columns.node_columns import NodeColumns
from scheduler.state.columns.row_cursor import RowCursor
from scheduler.state.devices.pools import NodePool, PoolError
from scheduler.state.devices.slices import PoolId
from scheduler.state.devices.usage import Usage

__all__ = ["UNDETERMINED", "Signatures"]

#: The signature of nodes whose pools cannot be determined; the first one that is assigned.
UNDETERMINED: Final = 0
#: If there are more signatures than this, all are assigned again after no row is left to check.
_MOST: Final = 65_536
#: Pools with more devices are compared by identity: that of their state would cost too much.
_LARGE: Final = 512
#: How many rows are checked at once: that takes about a millisecond.
_ROWS_AT_ONCE: Final = 64


class Signatures:
    """The signature of each row, kept up to date from the logs of changes."""

    def __init__(self, columns: NodeColumns, usage: Usage, changes: ChangeLog) -> None:
        self._columns: Final = columns
        self._usage: Final = usage
        #: (N,) by row; rows without a node have any signature.
        self._rows: Int = np.zeros(0, dtype=np.int64)
        self._seen = (RowCursor(changes), RowCursor(columns.node_changes))
        self._version = -1
        #: Rows whose signature is out of date.
        self._pending: list[int] = []
        self._codes: dict[Hashable, int] = {}
        self._parts: dict[Hashable, int] = {}
        #: Grows whenever signatures lose their meaning.
        self.generation = 0
        self._stamps: dict[PoolId, int] = {}
        self._moment = 0

    def __len__(self) -> int:
        return len(self._codes) + 1

    def touch(self, pool: PoolId) -> None:
        """Record that what is taken of a pool has changed."""
        self._moment += 1
        self._stamps[pool] = self._moment

    def forget(self, pool: PoolId) -> None:
        """Forget a pool that has no slices any more."""
        self._stamps.pop(pool, None)

    def refreshed(self, version: int, pools: Callable[[Node], tuple[NodePool, ...]]) -> Int:
        """Return, (N,), the signature of each row; not to be written to.

        Args:
            version: Another one than before if all rows have to be looked at.
            pools: Returns the pools of a node, or raises `PoolError`.
        """
        while self.advance(version, pools):
            pass
        return self._rows[: self._columns.size]

    def advance(self, version: int, pools: Callable[[Node], tuple[NodePool, ...]]) -> bool:
        """Look at some of the rows that have changed; return whether more are left.

        Args:
            version: Another one than before if all rows have to be looked at.
            pools: Returns the pools of a node, or raises `PoolError`.
        """
        self._collect(version)
        for row in self._pending[:_ROWS_AT_ONCE]:
            node = self._columns.nodes[row]
            if node is not None:
                self._rows[row] = self._of_node(node, pools)
        del self._pending[:_ROWS_AT_ONCE]
        return bool(self._pending)

    def _collect(self, version: int) -> None:
        """Find out which rows have changed."""
        size = self._columns.size
        if not self._pending and len(self._codes) + len(self._parts) > _MOST:
            self._codes.clear()
            self._parts.clear()
            self._moment += 1
            self.generation += 1
            self._version = -1
        news = [cursor.take_changed(size) for cursor in self._seen]
        of_devices, of_nodes = news
        is_known = version == self._version and self._rows.shape[0] >= size
        self._version = version
        self._rows = grown(self._rows, size)
        if is_known and of_devices is not None and of_nodes is not None:
            self._pending += [*of_devices.tolist(), *of_nodes.tolist()]
        else:
            self._pending = list(range(size))

    def _of_node(self, node: Node, pools: Callable[[Node], tuple[NodePool, ...]]) -> int:
        try:
            seen = pools(node)
        except PoolError:
            return UNDETERMINED
        key = tuple([self._of_pool(pool) for pool in seen])
        return self._codes.setdefault(key, len(self._codes) + 1)

    def _of_pool(self, pool: NodePool) -> int:
        stamp = (self.generation, self._stamps.get(pool.id, 0))
        known, code = pool.signature
        if known == stamp:
            return code
        code = self._parts.setdefault(self._state(pool, stamp), len(self._parts))
        pool.signature = (stamp, code)
        return code

    def _state(self, pool: NodePool, stamp: tuple[int, int]) -> Hashable:
        """Return what decides about a pool: equal for pools that differ in names only."""
        if len(pool.devices) > _LARGE:
            return (pool, stamp)
        usage, state = self._usage, []
        for entry in pool.devices:
            taken = usage.is_taken(entry.id)
            used = usage.is_used(entry.id) if entry.shared else taken
            consumed = usage.consumed(entry.id) if entry.shared else None
            shares = tuple(sorted(consumed.items())) if consumed else None
            state.append((entry.twin, taken, used, shares, entry.id in pool.unreachable))
        return (
            pool.incomplete,
            pool.invalid,
            tuple(state),
            tuple(sorted(pool.counters.items())),
            tuple(sorted(self.available(pool).items())),
        )

    def available(self, pool: NodePool) -> dict[tuple[str, str], int]:
        """Return what is left of the counters of a pool, in billionths; it may be negative."""
        available = dict(pool.counters)
        for entry in pool.counted:
            if self._usage.is_used(entry.id):
                for counter, amount in entry.counters:
                    available[counter] -= amount
        return available
