"""What pods hold of the devices of their node, and what evictions there free of it.

The allocation of a claim falls if every consumer in its `status.reservedFor` is a pod that is
evicted from one node. So a claim of one pod is freed with the pod, a shared one with the last of
its pods, and one that nobody reserves is not freed by evictions at all.

What a pod holds is a pattern, by position: pool and device in the pools of the node. Nodes of equal
signatures are in equal states once equal patterns are freed; see `state/devices/signatures`. Where
all pods of a row have whole devices for themselves, patterns are sets of devices, too: integers
with a bit for each by its position in all pools of the node.

Axes: S slots, n rows.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np

from scheduler.model.api import quantity
from scheduler.model.api.devices import Allocation, ResourceClaim
from scheduler.state.columns.arrays import Bool, Int, Rows
from scheduler.state.columns.change_log import ChangeLog
from scheduler.state.columns.node_columns import NodeColumns
from scheduler.state.columns.row_cursor import RowCursor
from scheduler.state.devices.devices import Devices
from scheduler.state.devices.pools import GatherPoolsError, Pool
from scheduler.state.pods.pod_table import NOWHERE, PodTable
from scheduler.state.views.node_view import NOBODY, GonePods

__all__ = ["HeldDevices", "Holders", "Pattern", "Share", "as_set"]

#: If there are more patterns, or changes, than this, all patterns are found again.
_MOST: Final = 65_536
_NOTHING: Final = 0
#: How many rows are looked at at once: that takes less than a millisecond.
_ROWS_AT_ONCE: Final = 16
#: How many bits numbers in arrays have.
_MOST_BITS: Final = 63


class _Result(NamedTuple):
    """One device of an allocation, by position."""

    #: The index of the pool, and the position of the device in it.
    pool: int
    device: int
    is_share: bool
    #: How many claims have the device alone, how many shares there are, and what this one consumes.
    counts: tuple[int, int]
    consumed: tuple[tuple[str, int], ...]
    #: What it consumes of shared counters, where the node sees nothing else of the device.
    counters: tuple[tuple[tuple[str, str], int], ...]


class Share(NamedTuple):
    """The part of a pod in a claim."""

    #: How many pods must be evicted to free the claim.
    pods: int
    #: Tells claims of several pods on the node apart.
    number: int
    #: What is freed then.
    results: tuple[_Result, ...]


#: Of one pod: its part in each of its claims that evictions on its node may free.
Pattern = tuple[Share, ...]


class Holders(NamedTuple):
    """For whom a claim is reserved, as seen from one row."""

    #: The slots of the pods that are on the row.
    slots: frozenset[int]
    #: Whether others are pods: those on other nodes, or on none.
    elsewhere: bool
    #: Whether others are no pods.
    others: bool

    @classmethod
    def of(
        cls, claim: ResourceClaim, row: int, pods: PodTable, gone: GonePods = NOBODY
    ) -> "Holders":
        """Return the holders of a claim, without pods that are gone."""
        slots = set()
        elsewhere = others = False
        for consumer in claim.status.reserved_for:
            slot = pods.slot(consumer.uid) if consumer.is_pod else None
            if slot is not None and pods.row(slot) == row:
                slots.add(slot)
            elif consumer.is_pod:
                elsewhere = elsewhere or consumer.uid not in gone.pods
            else:
                others = True
        return cls(frozenset(slots), elsewhere, others)

    @property
    def are_evictable(self) -> bool:
        """Whether evictions on the row free the claim, if all of them may be evicted."""
        return bool(self.slots) and not self.elsewhere and not self.others

    @property
    def are_gone(self) -> bool:
        """Whether nobody holds the claim any more."""
        return not self.slots and not self.elsewhere and not self.others


class HeldDevices:
    """The pattern of each pod, kept up to date."""

    def __init__(self, columns: NodeColumns, pods: PodTable, devices: Devices) -> None:
        self._columns: Final = columns
        self._pods: Final = pods
        self._devices: Final = devices
        #: Whether preemption frees devices in some profile, so that patterns are prepared.
        self.is_used = False
        #: (S + 1,) by slot; the last one is that of no pod.
        self._patterns: Int = np.zeros(1, dtype=np.int64)
        #: (S + 1,) by slot, the pattern as a set of devices; empty where it is not known as one.
        self._whole: Int = np.zeros(1, dtype=np.int64)
        #: The patterns by code.
        self.known: list[Pattern] = [()]
        self._codes: dict[Pattern, int] = {(): _NOTHING}
        #: Grows whenever codes lose their meaning.
        self.generation = 0
        #: The slots of each row that have patterns.
        self._on_row: dict[int, list[int]] = {}
        logs = (columns.node_changes, columns.pod_changes, devices.changes)
        self._seen = [RowCursor(log) for log in logs]
        #: Rows on which what pods hold may have changed, as of the last call of `advance`. What is
        #: allocated for others is not recorded where it is of pools that several nodes see: then
        #: `Devices.version` grows.
        self.changes: Final = ChangeLog()
        self._version = -1
        self._consumers_seen = -1
        #: The rows to look at, and whether they have changed, or only what other nodes see, too.
        self._pending: dict[int, bool] = {}
        #: The pools of each row when it was looked at last.
        self._seen_pools: dict[int, tuple[Pool, ...]] = {}
        #: The rows whose pods have devices of pools that other nodes see, too.
        self._on_shared: set[int] = set()

    def patterns(self, kept: Collection[str]) -> Int:
        """Return, (S + 1,), the code of the pattern of each pod; the last one is that of no pod.

        Args:
            kept: The keys of claims that nothing frees.
        """
        while self.advance():
            pass
        if not kept:
            return self._patterns
        patterns = self._patterns.copy()
        for row in self._rows_with(kept):
            patterns[self._on_row.get(row, [])] = _NOTHING
            for slot, pattern in self._find(row, self.pools_of(row), kept):
                patterns[slot] = self._code(pattern)
        return patterns

    def whole(self, kept: Collection[str]) -> Int:
        """Return, (S + 1,), the patterns as sets of devices, as `patterns` has found them.

        On each row those of all pods are known as sets, or of none: these are empty.

        Args:
            kept: The keys of claims that nothing frees.
        """
        if not kept:
            return self._whole
        whole = self._whole.copy()
        for row in self._rows_with(kept):
            whole[self._on_row.get(row, [])] = _NOTHING
        return whole

    def may_be_freed(self, rows: Rows, priority: int, kept: Collection[str]) -> Bool:
        """Return, (n,), on which rows a pod of lower priority has a device that may be freed."""
        freed = np.zeros(rows.shape[0], dtype=np.bool_)
        patterns, pods = self.patterns(kept), self._pods
        if self._on_row:
            for positions, ranked in pods.ranked(rows):
                lower = pods.priorities(ranked) < priority
                freed[positions] = (lower & (patterns[ranked] != _NOTHING)).any(axis=0)
        return freed

    def fallen(
        self,
        row: int,
        evicted: Collection[int],
        kept: Collection[str],
        gone: GonePods = NOBODY,
    ) -> list[Allocation]:
        """Return the allocations that fall once some pods of a row are evicted.

        Args:
            row: The row.
            evicted: The slots of the pods.
            kept: The keys of claims that nothing frees.
            gone: Pods that are gone already, while their claims are allocated.
        """
        claims = self._claims_on(row, evicted, kept, gone)
        return [allocation for allocation, slots in claims if slots.issubset(evicted)]

    def _claims_on(
        self, row: int, slots: Iterable[int], kept: Collection[str], gone: GonePods = NOBODY
    ) -> Iterator[tuple[Allocation, frozenset[int]]]:
        """Yield the allocations of pods of a row that evictions there may free, in a fixed order.

        Each comes with the slots of the pods that have to be evicted.
        """
        claims, pods = self._devices.claims, self._pods
        keys = {key for slot in slots for key in claims.consumers.of(pods.pod(slot).uid)}
        for key in sorted((keys | gone.claims).difference(kept)):
            claim = claims.get(key)
            allocation = None if claim is None else claim.status.allocation
            if claim is not None and allocation is not None:
                holders = Holders.of(claim, row, self._pods, gone)
                if holders.are_evictable or (key in gone.claims and holders.are_gone):
                    yield allocation, holders.slots

    def advance(self) -> bool:
        """Find the patterns on some of the rows that changed; return whether more are left."""
        self._collect()
        shared = self._devices.slices.shared
        for _ in range(min(_ROWS_AT_ONCE, len(self._pending))):
            row, has_changed = self._pending.popitem()
            pools = self.pools_of(row)
            if has_changed or row in self._on_shared or pools != self._seen_pools.get(row):
                self._forget(row)
                self._seen_pools[row] = pools
                found = self._find(row, pools, ())
                if found:
                    self._on_row[row] = [slot for slot, _ in found]
                for slot, whole in _as_sets(found, pools):
                    self._whole[slot] = whole
                for slot, pattern in found:
                    self._patterns[slot] = self._code(pattern)
                    if any(
                        pools[each.pool].id in shared for part in pattern for each in part.results
                    ):
                        self._on_shared.add(row)
        return bool(self._pending)

    def _collect(self) -> None:
        """Find out on which rows patterns may have changed.

        What such rows had is forgotten at once: their slots may be those of pods on other rows now.
        """
        devices, pods, size = self._devices, self._pods, self._columns.size
        if pods.size >= self._patterns.shape[0]:
            self._patterns = np.pad(self._patterns, (0, pods.size + 1))
            self._whole = np.pad(self._whole, (0, pods.size + 1))
        uids = devices.claims.consumers.since(self._consumers_seen)
        self._consumers_seen = devices.claims.consumers.position
        news = [cursor.take_changed(_MOST) for cursor in self._seen]
        if devices.version != self._version:
            self._version = devices.version
            self._pending = dict.fromkeys(range(size), False) | self._pending
        if len(self.known) > _MOST:
            self.known, self._codes = [()], {(): _NOTHING}
            self.generation += 1
        elif uids is not None and all(rows is not None for rows in news):
            of_pods = [pods.row(slot) for slot in map(pods.slot, uids) if slot is not None]
            of_logs = [row for rows in news if rows is not None for row in rows.tolist()]
            for row in {*of_pods, *of_logs} - {NOWHERE}:
                self._forget(row)
                self._pending[row] = True
                self.changes.record(row)
            return
        self._patterns[:] = self._whole[:] = _NOTHING
        self._on_row.clear()
        self._on_shared.clear()
        self._pending = dict.fromkeys(range(size), True)
        for row in range(size):
            self.changes.record(row)

    def _forget(self, row: int) -> None:
        self._on_shared.discard(row)
        for slot in self._on_row.pop(row, ()):
            self._patterns[slot] = self._whole[slot] = _NOTHING

    def pools_of(self, row: int) -> tuple[Pool, ...]:
        """Return the pools of a row; none if they cannot be determined."""
        node = self._columns.nodes[row]
        try:
            return () if node is None else self._devices.pools(node)
        except GatherPoolsError:
            return ()

    def _rows_with(self, keys: Iterable[str]) -> set[int]:
        """Return the rows of the pods that claims are reserved for."""
        claims, pods = self._devices.claims, self._pods
        known = filter(None, map(claims.get, keys))
        uids = (each.uid for claim in known for each in claim.status.reserved_for)
        rows = {pods.row(slot) for slot in map(pods.slot, uids) if slot is not None}
        return rows - {NOWHERE}

    def _code(self, pattern: Pattern) -> int:
        code = self._codes.get(pattern)
        if code is None:
            code = self._codes[pattern] = len(self.known)
            self.known.append(pattern)
        return code

    def pattern(self, row: int, allocations: Iterable[Allocation]) -> Pattern:
        """Return the pattern of allocations, each as that of one pod of a row."""
        pools = self.pools_of(row)
        found = (tuple(self._results(each, pools)) for each in allocations)
        return tuple(sorted(Share(1, 0, results) for results in found if results))

    def _find(
        self, row: int, pools: Sequence[Pool], kept: Collection[str]
    ) -> list[tuple[int, Pattern]]:
        """Return the pods of a row that hold devices of its pools, by slot; claims may be kept."""
        shares: dict[int, list[Share]] = {}
        number = 0
        for allocation, slots in self._claims_on(row, self._pods.on_row(row), kept):
            results = tuple(self._results(allocation, pools))
            if results:
                number += 1
                share = Share(len(slots), number if len(slots) > 1 else 0, results)
                for slot in slots:
                    shares.setdefault(slot, []).append(share)
        return [(slot, tuple(sorted(of_slot))) for slot, of_slot in shares.items()]

    def _results(self, allocation: Allocation, pools: Sequence[Pool]) -> Iterator[_Result]:
        """Yield the devices of an allocation that matter on a node."""
        allocated_state = self._devices.allocated_state
        for result in allocation.devices.results:
            for index, pool in enumerate(() if result.admin_access else pools):
                if pool.id != (result.driver, result.pool):
                    continue
                at = pool.position(result.id)
                if at is not None:
                    yield _Result(
                        index,
                        at,
                        result.share_id is not None,
                        allocated_state.counts(result.id),
                        tuple(
                            (name, quantity.exact(amount))
                            for name, amount in sorted(result.consumed_capacity.items())
                        ),
                        () if at >= 0 else pool.counter_consumers[-at - 1].consumes_counters,
                    )


def as_set(shares: Iterable[Share], pools: Sequence[Pool]) -> int | None:
    """Return the devices of some shares as a set, a bit for each by its position in all pools.

    Returns:
        `None` if one of them is not a whole device that one claim has, or if there are counters.
    """
    if any(pool.counter_consumers for pool in pools):
        return None
    starts = (0, *accumulate(len(pool.devices) for pool in pools))
    devices = 0
    for share in shares:
        for pool, device, is_share, counts, *_ in share.results:
            if is_share or counts != (1, 0):
                return None
            devices |= 1 << starts[pool] + device
    return devices


def _as_sets(
    found: Sequence[tuple[int, Pattern]], pools: Sequence[Pool]
) -> Sequence[tuple[int, int]]:
    """Return the patterns of a row as sets of devices, by slot; none if one of them is no set."""
    sets = []
    for slot, pattern in found:
        devices = as_set(pattern, pools)
        if (
            devices is None
            or devices.bit_length() > _MOST_BITS
            or any(share.pods > 1 for share in pattern)
        ):
            return ()
        sets.append((slot, devices))
    return sets
