"""All pods on nodes and all nominated pods, in slots.

A pod on a node has a slot and a row; a nominated pod has a slot and no row. The slots of a row
are kept in the order of kube-scheduler's NodeInfo (an add appends, a removal moves the last one
into the gap), which breaks ties between victims.

Axes: N rows, S slots, V pods on a row, most important first.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.model import times
from scheduler.model.api.objects import Pod
from scheduler.model.api.start_time import runs_since
from scheduler.model.releases import OLDEST, Reference
from scheduler.state.columns.arrays import Bool, Float, Int, Rows, grown
from scheduler.state.columns.change_log import ChangeLog
from scheduler.state.columns.pod_footprints import PodFootprint, PodFootprints
from scheduler.state.pods.pod_index import PodIndex

__all__ = ["NOWHERE", "PodTable"]

#: The row of a pod on no node.
NOWHERE: Final = -1

#: The start time of a pod that has not started: it counts as the latest.
_NOT_STARTED: Final = np.inf

#: The values at slot -1, which means *no pod*: a priority that no pod has, and no footprint.
_NO_PRIORITY: Final = 2**62
_NO_FOOTPRINT: Final = -1

#: Rows with more pods than this are ranked outside of the matrix: one crowded node must not widen
#: the matrix for all nodes.
_WIDEST: Final = 256
#: How many rows are ranked at once in advance: that takes less than a millisecond.
_ROWS_AT_ONCE: Final = 256


class PodTable:
    """Pods by slot; the only place that knows which pods are on a row."""

    def __init__(self, footprints: PodFootprints, reference: Reference = OLDEST) -> None:
        self._reference = reference
        #: The label sets and affinity terms of the pods.
        self.pod_index: Final = PodIndex()
        #: Rows with changes that may affect the importance or protection of their pods.
        self.changes: Final = ChangeLog()
        self._footprints = footprints
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        self._pods: list[Pod | None] = []
        self._on_row: dict[int, list[int]] = {}
        self._rows: Int = np.full(16, NOWHERE, dtype=np.int64)
        # The last element of each array is never given to a pod: it is what index -1 reads.
        self._priority: Int = np.full(16, _NO_PRIORITY, dtype=np.int64)
        self._start: Float = np.full(16, _NOT_STARTED, dtype=np.float64)
        self._since: Float = np.full(16, _NOT_STARTED, dtype=np.float64)
        self._footprint: Int = np.full(16, _NO_FOOTPRINT, dtype=np.int64)
        self._protection: Int = np.zeros(16, dtype=np.int64)
        self._ranked: NDArray[np.int64] = np.full((4, 16), -1, dtype=np.int64)
        self._wide: dict[int, Int] = {}
        self._stale: set[int] = set()
        #: How many pods have each priority.
        self._with_priority: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, uid: str) -> bool:
        return uid in self._slots

    def __iter__(self) -> Iterator[Pod]:
        return filter(None, self._pods)

    @property
    def size(self) -> int:
        """How many slots there are, free ones included."""
        return len(self._pods)

    def slot(self, uid: str) -> int | None:
        """Return the slot of a pod."""
        return self._slots.get(uid)

    def pod(self, slot: int) -> Pod:
        """Return the pod in a slot."""
        pod = self._pods[slot]
        if pod is None:
            raise LookupError(f"slot {slot} is free")
        return pod

    def row(self, slot: int) -> int:
        """Return the row of a slot, `NOWHERE` for a pod on no node."""
        return int(self._rows[slot])

    def footprint(self, slot: int) -> PodFootprint:
        """Return the footprint of the pod in a slot."""
        return self._footprints[int(self._footprint[slot])]

    def add(self, pod: Pod, row: int, footprint: int) -> int:
        """Give a pod a slot, on a row or `NOWHERE`; return the slot.

        The table takes over the reference to the footprint.
        """
        slot = self._free.pop() if self._free else len(self._pods)
        if slot == len(self._pods):
            self._pods.append(None)
            self._grow(slot + 1)
        self._slots[pod.uid] = slot
        self._rows[slot] = row
        self._footprint[slot] = footprint
        if row != NOWHERE:
            self._on_row.setdefault(row, []).append(slot)
        self.pod_index.add(slot, pod, row)
        self._with_priority[pod.priority] += 1
        self._write(slot, pod)
        return slot

    def update(self, slot: int, pod: Pod) -> None:
        """Replace the state of the pod in a slot; its footprint and row stay."""
        before = self.pod(slot)
        self.pod_index.replace(slot, before, pod)
        if before.priority != pod.priority:
            self._with_priority[pod.priority] += 1
            self._forget_priority(before)
        self._write(slot, pod)

    def _write(self, slot: int, pod: Pod) -> None:
        self._pods[slot] = pod
        self._priority[slot] = pod.priority
        started = times.parse(pod.status.start_time)
        self._start[slot] = _NOT_STARTED if started is None else started
        since = runs_since(pod)
        self._since[slot] = _NOT_STARTED if since is None else since
        row = int(self._rows[slot])
        if row != NOWHERE:
            self._stale.add(row)
            self.changes.record(row)

    def remove(self, uid: str) -> None:
        """Free the slot of a pod."""
        slot = self._slots.pop(uid)
        row = int(self._rows[slot])
        if row != NOWHERE:
            on_row = self._on_row[row]
            gap = on_row.index(slot)
            on_row[gap] = on_row[-1]
            on_row.pop()
            if not on_row:
                del self._on_row[row]
            self._stale.add(row)
        self.pod_index.remove(slot)
        self._footprints.release(int(self._footprint[slot]))
        self._footprint[slot] = _NO_FOOTPRINT
        self._protection[slot] = 0
        self._priority[slot] = _NO_PRIORITY
        self._start[slot] = self._since[slot] = _NOT_STARTED
        self._forget_priority(self.pod(slot))
        self._pods[slot] = None
        self._rows[slot] = NOWHERE
        self._free.append(slot)

    def _forget_priority(self, pod: Pod) -> None:
        self._with_priority[pod.priority] -= 1
        if not self._with_priority[pod.priority]:
            del self._with_priority[pod.priority]

    def swap_with_last(self, slot: int, position: int) -> None:
        """Put the last pod of a row at a position, and make the pod there the last one.

        This undoes what a removal does to the order, once the pod was added again.
        """
        on_row = self._on_row[self.row(slot)]
        on_row[position], on_row[-1] = slot, on_row[position]

    def trim(self, size: int) -> None:
        """Drop all slots from `size` on; they are the ones that were freed last."""
        while len(self._pods) > size:
            self._pods.pop()
            self._free.pop()
        self.pod_index.trim(size)

    def lowest_priority(self) -> int:
        """Return the lowest priority of all pods; one that no pod has if there are no pods."""
        return min(self._with_priority, default=_NO_PRIORITY)

    def on_row(self, row: int) -> Sequence[int]:
        """Return the slots of a row, in NodeInfo order."""
        return self._on_row.get(row, ())

    def pods_on(self, row: int) -> Iterator[Pod]:
        """Yield the pods of a row, in NodeInfo order."""
        return map(self.pod, self.on_row(row))

    def by_slot(self) -> list[Pod | None]:
        """Return the pods by slot; `None` for free slots."""
        return [*self._pods]

    def rows(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield the rows that have pods, in order, each with its slots in NodeInfo order."""
        return ((row, tuple(self._on_row[row])) for row in sorted(self._on_row))

    def priorities(self, slots: Int) -> Int:
        """Return the priorities of the pods in some slots; at -1 one that no pod has."""
        return self._priority[slots]

    def starts(self, slots: Int) -> Float:
        """Return the start times of pods in seconds; infinity for those that have not started.

        These are by the kubelet's clock alone, as kube-scheduler compares them.
        """
        return self._start[slots]

    def running_since(self, slots: Int) -> Float:
        """Return since when pods have been running; infinity for those that have not started."""
        return self._since[slots]

    def footprint_code(self, slot: int) -> int:
        """Return the footprint code of the pod in a slot."""
        return int(self._footprint[slot])

    def footprint_codes(self, slots: Int) -> Int:
        """Return the footprint codes of the pods in some slots."""
        return self._footprint[slots]

    def requesting(self, amounts: Int) -> Iterator[tuple[int, int]]:
        """Yield row and amount for each pod on a row with a non-zero request.

        Args:
            amounts: (S + 1,) by footprint, 0 at -1; see `PodFootprints.amounts`.
        """
        requested = amounts[self._footprint]
        slots = np.flatnonzero((requested != 0) & (self._rows != NOWHERE))
        yield from zip(self._rows[slots].tolist(), requested[slots].tolist(), strict=True)

    def protection(self, slots: Int) -> Int:
        """Return the codes of the sets of PDBs that protect the pods in some slots."""
        return self._protection[slots]

    def protect(self, slot: int, code: int) -> None:
        """Set the code of the set of PDBs that protect a pod."""
        if self._protection[slot] != code:
            self._protection[slot] = code
            if self._rows[slot] != NOWHERE:
                self.changes.record(int(self._rows[slot]))

    def protected_by(self, codes: Collection[int]) -> Bool:
        """Return, (S,), which slots have one of some codes of sets of PDBs."""
        return np.isin(self._protection[: len(self._pods)], list(codes))

    def protect_all(self, slots: Int, codes: Int) -> None:
        """Set the codes of the sets of PDBs that protect the pods in some slots."""
        changed = self._protection[slots] != codes
        self._protection[slots] = codes
        self._record_changes(slots[changed])

    def record_protected(self, codes: Collection[int]) -> None:
        """Record that PDBs in some sets allow other disruptions than before."""
        self._record_changes(np.flatnonzero(self.protected_by(codes)))

    def rename_protection(self, rename: Callable[[list[int]], Int]) -> None:
        """Replace the codes of the sets of PDBs; `rename` gets the codes in use."""
        now = self._protection[: len(self._pods)]
        now[:] = rename(np.unique(now).tolist())[now]

    def _record_changes(self, slots: Int) -> None:
        for row in np.unique(self._rows[slots]).tolist():
            if row != NOWHERE:
                self.changes.record(row)

    def occupied(self) -> Iterator[tuple[int, Pod]]:
        """Yield each slot in use with its pod."""
        for slot in self._slots.values():
            yield slot, self.pod(slot)

    def ranked(self, rows: Rows) -> Iterator[tuple[Int, Int]]:
        """Yield the pods of some rows, most important first, in groups of rows.

        Yields:
            (n,) positions in `rows`, and (V, n) slots by falling priority, then rising start time;
            -1 pads rows with fewer pods.

        Source: kube-scheduler v1.36.3 util.MoreImportantPod, on top of an insertion sort: of pods
        equal in priority that have not started, the one added last comes first. v1.37.2
        framework/preemption.NewVictim fixes the start when it visits the pod: the one added first
        comes first.
        """
        if self._stale:
            self._rank(sorted(self._stale))
            self._stale.clear()
        self._ensure_row(int(rows.max(initial=0)))
        positions = np.arange(rows.shape[0])
        if self._wide:
            wide = np.isin(rows, list(self._wide))
            for position in positions[wide]:
                yield positions[position : position + 1], self._wide[int(rows[position])][:, None]
            positions = positions[~wide]
        ranked = self._ranked.take(rows[positions], axis=1)
        filled = np.flatnonzero((ranked >= 0).any(axis=1))
        yield positions, ranked[: filled[-1] + 1 if filled.shape[0] else 0]

    def advance(self) -> bool:
        """Rank the pods of some of the rows that changed; return whether more are left."""
        stale = self._stale
        if stale:
            self._rank(sorted(stale.pop() for _ in range(min(_ROWS_AT_ONCE, len(stale)))))
        return bool(stale)

    def _rank(self, stale: Sequence[int]) -> None:
        """Sort the pods of some rows.

        Args:
            stale: The rows, in order.
        """
        self._ensure_row(stale[-1])
        on_rows = [self._on_row.get(row, ()) for row in stale]
        lengths = np.array([len(on_row) for on_row in on_rows])
        slots = np.fromiter(chain.from_iterable(on_rows), dtype=np.int64)
        rows = np.array(stale).repeat(lengths)
        ranks = np.arange(slots.shape[0]) - (lengths.cumsum() - lengths).repeat(lengths)
        slots = self._by_importance(rows, slots, ranks)
        longest = int(lengths.max())
        if longest > _WIDEST or self._wide:
            for row in self._wide.keys() & stale:
                del self._wide[row]
            for row in np.array(stale)[lengths > _WIDEST].tolist():
                self._wide[row] = slots[rows == row]
            narrow = (lengths <= _WIDEST).repeat(lengths)
            slots, rows, ranks = slots[narrow], rows[narrow], ranks[narrow]
            longest = int(lengths[lengths <= _WIDEST].max(initial=0))
        if longest > self._ranked.shape[0]:
            self._widen(min(_WIDEST, 2 * longest), self._ranked.shape[1])
        self._ranked[:, stale] = -1
        self._ranked[ranks, rows] = slots

    def _by_importance(self, rows: Int, slots: Int, ranks: Int) -> Int:
        """Return the slots of some rows by row, then by importance.

        Args:
            rows: The rows, in order.
            slots: Their slots, in NodeInfo order.
            ranks: The position of each slot on its row.
        """
        starts = self._start[slots]
        if self._reference.latest_unstarted_is_most_important:
            ranks = np.where(starts == _NOT_STARTED, -ranks, ranks)
        order = np.lexsort((ranks, starts, -self._priority[slots], rows))
        sorted_slots: Int = slots[order]
        return sorted_slots

    def _ensure_row(self, row: int) -> None:
        """Extend the ranking to a row; one that never had a pod may lie beyond it."""
        ranks, rows = self._ranked.shape
        if row >= rows:
            self._widen(ranks, max(row + 1, 2 * rows))

    def _widen(self, ranks: int, rows: int) -> None:
        wider = np.full((ranks, rows), -1, dtype=np.int64)
        have = self._ranked
        wider[: have.shape[0], : have.shape[1]] = have
        self._ranked = wider

    def _grow(self, size: int) -> None:
        spare = size + 1
        if spare <= self._rows.shape[0]:
            return  # all arrays have the same length
        self._rows = grown(self._rows, spare, NOWHERE)
        self._priority = grown(self._priority, spare, _NO_PRIORITY)
        self._start = grown(self._start, spare, _NOT_STARTED)
        self._since = grown(self._since, spare, _NOT_STARTED)
        self._footprint = grown(self._footprint, spare, _NO_FOOTPRINT)
        self._protection = grown(self._protection, spare)

    def check(self) -> None:
        """Assert the invariants: each slot is free or has one pod, and is listed for its row."""
        self.pod_index.check()
        listed = [slot for slots in self._on_row.values() for slot in slots]
        assert len(listed) == len(set(listed))
        assert set(listed) == {slot for slot in self._slots.values() if self._rows[slot] != NOWHERE}
        assert len(self._free) + len(self._slots) == len(self._pods)
        assert self._with_priority == Counter(pod.priority for pod in self)
        for row, slots in self._on_row.items():
            assert all(int(self._rows[slot]) == row for slot in slots)
