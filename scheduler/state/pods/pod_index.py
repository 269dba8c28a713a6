"""The label sets and affinity terms of all pods, coded, and their rows.

Plugins that depend on other pods read their namespace and labels, whether they are terminating, and
their affinity terms. Equal ones share a code, so that such a plugin evaluates each label set once
and not each pod. Every change is recorded in a journal: a counter continues at its last position,
and a counter that is not used costs nothing.

Axes: S slots of the pod table, k entries of the journal.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar
from weakref import WeakValueDictionary

import msgspec
import numpy as np

from scheduler.model.api.objects import Pod, PodAffinity
from scheduler.state.columns.arrays import Bool, Int, grown
from scheduler.state.columns.refcounted_interner import RefcountedInterner
from scheduler.state.pods import affinity_terms
from scheduler.state.pods.affinity_terms import NO_TERMS, AffinityTerms

__all__ = ["CARRIED", "LABELS", "ROW", "SIGN", "LabelSet", "PodIndex"]

T = TypeVar("T")

#: Columns of the journal: the row, the code of the label set, the code of the affinity terms, and
#: +1 for a pod that was added or -1 for one that was removed.
ROW: Final = 0
LABELS: Final = 1
CARRIED: Final = 2
SIGN: Final = 3
_WIDTH: Final = 4

#: The least number of journal entries that are kept.
_KEEP: Final = 65_536
#: Reading the journal is cheaper than counting all pods up to this number of entries plus S divided
#: by `_SHARE`.
_SHORT: Final = 64
_SHARE: Final = 4

_OUTSIDE: Final = -1
_NOTHING: Final[Int] = np.zeros((0, _WIDTH), dtype=np.int64)

_encode = msgspec.msgpack.Encoder().encode


class LabelSet(NamedTuple):
    """What a selector can match of a pod."""

    namespace: str
    labels: Mapping[str, str]
    #: Whether the pod is being deleted.
    terminating: bool


class CarriedTerms(RefcountedInterner[AffinityTerms]):
    """The affinity terms of pods, with the topology keys that occur in them."""

    __slots__ = ("anti_keys", "other_keys")

    def __init__(self) -> None:
        super().__init__(NO_TERMS)
        #: In required anti-affinity.
        self.anti_keys: Counter[str] = Counter()
        #: In required affinity and in preferred terms.
        self.other_keys: Counter[str] = Counter()

    def on_assigned(self, _code: int, value: AffinityTerms) -> None:
        """Count the keys of terms that pods have now."""
        self.anti_keys.update(term.topology_key for term in value.anti_affinity)
        self.other_keys.update(_other_keys(value))

    def on_freed(self, _code: int, value: AffinityTerms) -> None:
        """Count out the keys of terms that no pod has any more."""
        _count_out(self.anti_keys, [term.topology_key for term in value.anti_affinity])
        _count_out(self.other_keys, _other_keys(value))


class PodIndex:
    """The label sets and terms of all pods that have a slot; only the pod table changes it."""

    def __init__(self) -> None:
        self.label_sets: Final[RefcountedInterner[LabelSet]] = RefcountedInterner(
            LabelSet("", {}, terminating=False)
        )
        self.carried: Final = CarriedTerms()
        #: The position after the last entry of the journal.
        self.position = 0
        self._floor = 0
        self._start = 0
        self._journal = array("q")
        self._rows: Int = np.full(16, _OUTSIDE, dtype=np.int64)
        self._codes: dict[int, Int] = {
            LABELS: np.zeros(16, dtype=np.int64),
            CARRIED: np.zeros(16, dtype=np.int64),
        }
        self._size = 0
        self._shared: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()

    def add(self, slot: int, pod: Pod, row: int) -> None:
        """Add the pod in a slot, on a row or, below 0, on none."""
        if slot >= self._size:
            self._size = slot + 1
            if self._size > self._rows.shape[0]:
                self._rows = grown(self._rows, self._size, _OUTSIDE)
                for column, codes in self._codes.items():
                    self._codes[column] = grown(codes, self._size)
        epochs = self.label_sets.epoch + self.carried.epoch
        self._codes[LABELS][slot] = self._label_set(pod)
        self._codes[CARRIED][slot] = self._terms(pod)
        if self.label_sets.epoch + self.carried.epoch != epochs:
            # Older entries use codes that may have other values from now on.
            self._floor = self.position
        self._rows[slot] = row
        self._record(slot, +1)

    def replace(self, slot: int, before: Pod, pod: Pod) -> None:
        """Replace the state of the pod in a slot."""
        if _same_codes(before, pod):
            return
        row = int(self._rows[slot])
        self.remove(slot)
        self.add(slot, pod, row)

    def remove(self, slot: int) -> None:
        """Remove the pod in a slot."""
        self._record(slot, -1)
        self._rows[slot] = _OUTSIDE
        for column, pool in ((LABELS, self.label_sets), (CARRIED, self.carried)):
            codes = self._codes[column]
            pool.release(int(codes[slot]))
            codes[slot] = 0

    def trim(self, size: int) -> None:
        """Drop all slots from `size` on, which are free."""
        self._size = size

    def rows(self) -> Int:
        """Return, (S,), the row of each slot; below 0 for pods on no row and for free slots."""
        return self._rows[: self._size]

    def codes(self, column: int) -> Int:
        """Return, (S,), the code of each slot; `column` is `LABELS` or `CARRIED`."""
        return self._codes[column][: self._size]

    def codes_of(self, column: int, slots: Int) -> Int:
        """Return the codes of some slots; any code for slots below 0."""
        return self._codes[column][slots]

    def having(self, wanted: Callable[[LabelSet], bool]) -> Bool:
        """Return, (S,), whether a condition is true for the label set of each slot."""
        values = self.label_sets.values
        table = np.fromiter(map(wanted, values), dtype=np.bool_, count=len(values))
        return table[self.codes(LABELS)]

    def since(self, position: int) -> Int | None:
        """Return the journal since a position.

        Returns:
            (k, 4) entries, oldest first, or `None` if the reader must count all pods: it is too
            far behind, or codes of the older entries were reused.
        """
        behind = self.position - position
        if position < max(self._start, self._floor) or behind > _SHORT + self._size // _SHARE:
            return None
        if not behind:
            return _NOTHING
        fresh = self._journal[(position - self._start) * _WIDTH :]
        return np.frombuffer(fresh, dtype=np.int64).reshape(-1, _WIDTH)

    def shared(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the object of a key; callers share it as long as one of them refers to it."""
        item: T | None = self._shared.get(key)
        if item is None:
            item = make()
            self._shared[key] = item
        return item

    def _record(self, slot: int, sign: int) -> None:
        row = int(self._rows[slot])
        if row < 0:
            return
        journal = self._journal
        if len(journal) >= 2 * _KEEP * _WIDTH:
            self._start += _KEEP
            del journal[: _KEEP * _WIDTH]
        labels, carried = self._codes[LABELS], self._codes[CARRIED]
        journal.extend((row, int(labels[slot]), int(carried[slot]), sign))
        self.position += 1

    def _label_set(self, pod: Pod) -> int:
        metadata = pod.metadata
        labels = LabelSet(metadata.namespace, metadata.labels, pod.terminating)
        return self.label_sets.acquire(_encode(labels), lambda: labels)

    def _terms(self, pod: Pod) -> int:
        near, away = _affinity(pod)
        if near is None and away is None:
            return 0
        key = _encode((pod.metadata.namespace, near, away))
        return self.carried.acquire(key, lambda: affinity_terms.compiled(pod))

    def check(self) -> None:
        """Assert the invariants: references match the codes of slots, free slots have code 0."""
        for column, pool in ((LABELS, self.label_sets), (CARRIED, self.carried)):
            pool.check()
            codes, counts = np.unique(self.codes(column), return_counts=True)
            for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
                assert code == 0 or pool.references(code) == count


def _count_out(counts: Counter[str], keys: Sequence[str]) -> None:
    counts.subtract(keys)
    for key in keys:
        if counts[key] <= 0:
            del counts[key]


def _other_keys(value: AffinityTerms) -> list[str]:
    lists = (value.affinity, value.preferred_affinity, value.preferred_anti_affinity)
    return [term.topology_key for terms in lists for term in terms]


def _affinity(pod: Pod) -> tuple[PodAffinity | None, PodAffinity | None]:
    affinity = pod.spec.affinity
    return (None, None) if affinity is None else (affinity.pod_affinity, affinity.pod_anti_affinity)


def _same_codes(before: Pod, pod: Pod) -> bool:
    return (
        before.metadata.labels == pod.metadata.labels
        and before.terminating == pod.terminating
        and before.metadata.namespace == pod.metadata.namespace
        and _affinity(before) == _affinity(pod)
    )
