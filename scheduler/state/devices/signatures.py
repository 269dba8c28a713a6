"""Signatures of nodes: nodes with devices in equal states have equal numbers.

An allocation depends on the pools of a node in their order, on the attributes that selectors and
constraints read of each device, on taints and counters, and on the allocated state. It does not
depend on names, which occur in results and errors only. So the allocator runs once for each
signature, and not once for each node.

Axes: N rows.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np

from scheduler.model.api.objects import Node
from scheduler.state.columns.arrays import Int, grown
from scheduler.state.columns.change_log import ChangeLog
from scheduler.state.columns.node_columns import NodeColumns
from scheduler.state.columns.row_cursor import RowCursor
from scheduler.state.devices.allocated_state import AllocatedState
from scheduler.state.devices.pools import GatherPoolsError, Pool
from scheduler.state.devices.slices import PoolId

__all__ = ["UNDETERMINED", "Signatures"]

#: The signature of nodes whose pools cannot be determined; the first one that is assigned.
UNDETERMINED: Final = 0
#: If there are more signatures than this, all are assigned again after no row is left to check: as
#: an attempt begins, or at twice as many.
_MOST: Final = 65_536
#: Pools with more devices are compared by identity: that of their state would cost too much.
_LARGE: Final = 512
#: How many rows are checked at once: that takes less than a millisecond.
_ROWS_AT_ONCE: Final = 16


class _PoolState(NamedTuple):
    """The state of a pool; sets of devices have a bit for each by its position."""

    #: A code of what is in the pool; for a large one its identity and revision.
    content: Hashable
    #: The devices that a claim has alone, and those of which shares are allocated.
    allocated: int = 0
    shared: int = 0
    #: The consumed capacity of shared devices, and the counters that are left.
    capacity: tuple[Hashable, ...] = ()
    counters: tuple[Hashable, ...] = ()

    def without(self, devices: int) -> "_PoolState":
        """Return the state once devices are free that one claim has alone."""
        allocated = self.allocated & ~devices
        return _PoolState(self.content, allocated, self.shared, self.capacity, self.counters)


class Signatures:
    """The signature of each row, kept up to date from the logs of changes."""

    def __init__(
        self, columns: NodeColumns, allocated_state: AllocatedState, changes: ChangeLog
    ) -> None:
        self._columns: Final = columns
        self._allocated_state: Final = allocated_state
        #: (N,) by row; rows without a node have any signature.
        self._rows: Int = np.zeros(0, dtype=np.int64)
        self._seen = (RowCursor(changes), RowCursor(columns.node_changes))
        self._version = -1
        #: Rows whose signature is out of date.
        self._pending: list[int] = []
        self._codes: dict[Hashable, int] = {}
        self._pool_codes: dict[Hashable, int] = {}
        #: The states of pools by code.
        self._pool_states: list[_PoolState] = []
        #: By what is in pools, whatever is allocated of it.
        self._content_codes: dict[Hashable, int] = {}
        #: Grows whenever signatures lose their meaning.
        self.generation = 0
        self._revisions: dict[PoolId, int] = {}
        self._revision = 0

    def __len__(self) -> int:
        return len(self._codes) + 1

    def allocation_changed(self, pool: PoolId) -> None:
        """Record that devices of a pool were allocated or deallocated."""
        self._revision += 1
        self._revisions[pool] = self._revision

    def forget(self, pool: PoolId) -> None:
        """Forget a pool that has no slices any more."""
        self._revisions.pop(pool, None)

    def refreshed(self, version: int, pools: Callable[[Node], tuple[Pool, ...]]) -> Int:
        """Return, (N,), the signature of each row; not to be written to.

        Args:
            version: Another one than before if all rows have changed.
            pools: Returns the pools of a node, or raises `GatherPoolsError`.
        """
        while self.advance(version, pools):
            pass
        return self._rows[: self._columns.size]

    def advance(self, version: int, pools: Callable[[Node], tuple[Pool, ...]]) -> bool:
        """Look at some of the rows that have changed; return whether more are left.

        Args:
            version: Another one than before if all rows have changed.
            pools: Returns the pools of a node, or raises `GatherPoolsError`.
        """
        self._collect(version)
        for row in self._pending[:_ROWS_AT_ONCE]:
            node = self._columns.nodes[row]
            if node is not None:
                self._rows[row] = self._of_node(node, pools)
        del self._pending[:_ROWS_AT_ONCE]
        return bool(self._pending)

    def begin_attempt(self) -> None:
        """Forget signatures if there are many: none loses its meaning in an attempt."""
        if not self._pending and self._crowd() > _MOST:
            self._forget_all()

    def _crowd(self) -> int:
        return len(self._codes) + len(self._pool_codes) + len(self._content_codes)

    def _forget_all(self) -> None:
        self._codes.clear()
        self._pool_codes.clear()
        self._pool_states.clear()
        self._content_codes.clear()
        self._revision += 1
        self.generation += 1
        self._version = -1

    def _collect(self, version: int) -> None:
        """Find out which rows have changed."""
        size = self._columns.size
        if not self._pending and self._crowd() > 2 * _MOST:
            self._forget_all()
        news = [cursor.take_changed(size) for cursor in self._seen]
        of_devices, of_nodes = news
        is_known = version == self._version and self._rows.shape[0] >= size
        self._version = version
        self._rows = grown(self._rows, size)
        if is_known and of_devices is not None and of_nodes is not None:
            self._pending += [*of_devices.tolist(), *of_nodes.tolist()]
        else:
            self._pending = list(range(size))

    def _of_node(self, node: Node, pools: Callable[[Node], tuple[Pool, ...]]) -> int:
        try:
            seen = pools(node)
        except GatherPoolsError:
            return UNDETERMINED
        key = tuple([self._of_pool(pool) for pool in seen])
        return self._codes.setdefault(key, len(self._codes) + 1)

    def hypothetical(
        self,
        seen: Iterable[Pool],
        allocated_state: AllocatedState,
        freed: Mapping[PoolId, Hashable],
    ) -> int:
        """Return the signature of a node as if some of its devices were freed.

        Args:
            seen: The pools of the node.
            allocated_state: Without what is freed.
            freed: By pool, what is freed of it.
        """
        key = tuple(
            [
                self._of_pool(pool)
                if pool.id not in freed
                else self._code(
                    _PoolState((self._of_pool(pool), freed[pool.id]))
                    if len(pool.devices) > _LARGE
                    else self._state(pool, allocated_state)
                )
                for pool in seen
            ]
        )
        return self._codes.setdefault(key, len(self._codes) + 1)

    def without_whole(self, seen: Iterable[Pool], freed: int) -> int:
        """Return the signature of a node as if whole devices that one claim has were freed.

        Args:
            seen: The pools of the node, all without counters.
            freed: The set of the devices: a bit for each by its position in all pools.
        """
        codes = []
        for pool in seen:
            code, size = self._of_pool(pool), len(pool.devices)
            of_pool, freed = freed & (1 << size) - 1, freed >> size
            codes.append(self._code(self._pool_states[code].without(of_pool)) if of_pool else code)
        return self._codes.setdefault(tuple(codes), len(self._codes) + 1)

    def _of_pool(self, pool: Pool) -> int:
        revision = (self.generation, self._revisions.get(pool.id, 0))
        known, code = pool.signature
        if known == revision:
            return code
        is_large = len(pool.devices) > _LARGE
        state = (
            _PoolState((pool, revision)) if is_large else self._state(pool, self._allocated_state)
        )
        code = self._code(state)
        pool.signature = (revision, code)
        return code

    def _code(self, pool_state: "_PoolState") -> int:
        code = self._pool_codes.setdefault(pool_state, len(self._pool_states))
        if code == len(self._pool_states):
            self._pool_states.append(pool_state)
        return code

    def _content(self, pool: Pool) -> int:
        """Return a code of what is in a pool, whatever is allocated of it."""
        generation, code = pool.content
        if generation != self.generation:
            devices = tuple(
                [
                    (each.equivalence_key, each.id in pool.not_targeting_node)
                    for each in pool.devices
                ]
            )
            counters = tuple(sorted(pool.counter_sets.items()))
            content = (pool.is_incomplete, pool.is_invalid, devices, counters)
            code = self._content_codes.setdefault(content, len(self._content_codes))
            pool.content = (self.generation, code)
        return code

    def _state(self, pool: Pool, allocated_state: AllocatedState) -> "_PoolState":
        """Return the state of a pool without names: equal ones are allocated alike."""
        allocated = shared = 0
        capacity: list[Hashable] = []
        for at, device in enumerate(pool.devices):
            if allocated_state.is_allocated(device.id):
                allocated |= 1 << at
            if device.allow_multiple_allocations:
                if allocated_state.is_shared(device.id):
                    shared |= 1 << at
                if consumed := allocated_state.consumed_capacity(device.id):
                    capacity.append((at, tuple(sorted(consumed.items()))))
        counters: tuple[Hashable, ...] = ()
        if pool.counter_sets:
            counters = tuple(sorted(pool.available_counters(allocated_state).items()))
        return _PoolState(self._content(pool), allocated, shared, tuple(capacity), counters)
