"""Node labels as columns: one small integer per node and key.

Axes: N rows, L distinct values of one key.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from typing import Final
from weakref import WeakValueDictionary

import numpy as np

from scheduler.model.api import selectors
from scheduler.model.api.objects import Requirement
from scheduler.state.columns.arrays import Bool, Int, grown
from scheduler.state.columns.refcounted_interner import RefcountedInterner

__all__ = ["ABSENT", "LabelColumn", "LabelColumns", "LabelTest"]

#: The code of a node that lacks the key.
ABSENT = 0

#: Small, because counters have an entry for each code, the idle ones included.
_FEW_IDLE: Final = 64

_NO_LABELS: Final[Mapping[str, str]] = {}


class LabelColumn:
    """The values of one label key, coded; code 0 stands for *absent*.

    The code of a value that no node has any more may be reused for another value.
    """

    __slots__ = ("__weakref__", "_codes", "_pool")

    def __init__(self) -> None:
        self._pool: RefcountedInterner[str | None] = RefcountedInterner(None, _FEW_IDLE)
        self._codes: Int = np.zeros(16, dtype=np.int64)

    @property
    def values(self) -> Sequence[str | None]:
        """The value of each code; `None` for code 0 and for codes that are free."""
        return self._pool.values

    @property
    def serial(self) -> int:
        """How often a code was assigned to a value."""
        return self._pool.serial

    def assigned_since(self, serial: int) -> Int:
        """Return the codes that were assigned after `serial` had this value."""
        return self._pool.assigned_since(serial)

    def code(self, value: str) -> int | None:
        """Return the code of a value, which may be idle; `None` if it has none."""
        return self._pool.find(value.encode(errors="surrogatepass"))

    def write(self, row: int, labels: Mapping[str, str], key: str) -> None:
        """Set one row from a node's labels."""
        if row >= self._codes.shape[0]:
            self._codes = grown(self._codes, row + 1)
        before = int(self._codes[row])
        self._codes[row] = self._take(labels.get(key))
        self._pool.release(before)

    def fill(self, values: Sequence[str | None]) -> None:
        """Set all rows of a new column."""
        self._codes = np.array([*map(self._take, values), ABSENT], dtype=np.int64)

    def _take(self, value: str | None) -> int:
        if value is None:
            return ABSENT
        return self._pool.acquire(value.encode(errors="surrogatepass"), lambda: value)

    def codes(self, size: int) -> Int:
        """Return the codes of rows 0 to `size`; not to be written to."""
        if self._codes.shape[0] < size:
            self._codes = grown(self._codes, size)
        return self._codes[:size]


class LabelColumns:
    """The label columns that plugins have asked for, kept up to date by row.

    A column is kept as long as a node has the key. Keys that no node has are chosen by the authors
    of pod specs, so their columns are kept only as long as a plugin refers to them.
    """

    __slots__ = ("_columns", "_counts", "_empty", "_labels", "version")

    def __init__(self) -> None:
        #: Grows whenever the first node gets a key or the last one loses it.
        self.version = 0
        #: The labels of each row.
        self._labels: list[Mapping[str, str]] = []
        #: How many rows have each key.
        self._counts: dict[str, int] = {}
        self._columns: dict[str, LabelColumn] = {}
        self._empty: WeakValueDictionary[str, LabelColumn] = WeakValueDictionary()

    def exists(self, key: str) -> bool:
        """Return whether a node has a key."""
        return key in self._counts

    def existing(self, keys: Collection[str]) -> Set[str]:
        """Return which of some distinct keys a node has."""
        few, others = (
            (keys, self._counts) if len(keys) < len(self._counts) else (self._counts, keys)
        )
        return {key for key in few if key in others}

    def column(self, key: str) -> LabelColumn:
        """Return the column of a key, built from all nodes when first asked for."""
        column = self._columns.get(key) or self._empty.get(key)
        if column is not None:
            return column
        column = LabelColumn()
        if key not in self._counts:
            self._empty[key] = column
            return column
        column.fill([labels.get(key) for labels in self._labels])
        self._columns[key] = column
        return column

    def write(self, row: int, labels: Mapping[str, str]) -> None:
        """Set one row in every column."""
        while row >= len(self._labels):
            self._labels.append(_NO_LABELS)
        before = self._labels[row]
        if before == labels:
            return
        self._labels[row] = labels
        self._increment(labels.keys() - before.keys())
        for key in before.keys() | labels.keys():
            column = self._columns.get(key)
            if column is not None:
                column.write(row, labels, key)
        self._decrement(before.keys() - labels.keys())

    def _increment(self, keys: Iterable[str]) -> None:
        """Count the keys that a row got."""
        for key in keys:
            if key not in self._counts:
                self._counts[key] = 0
                self.version += 1
                if (column := self._empty.pop(key, None)) is not None:
                    self._columns[key] = column
            self._counts[key] += 1

    def _decrement(self, keys: Iterable[str]) -> None:
        """Count out the keys that a row lost."""
        for key in keys:
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]
                self.version += 1
                if (column := self._columns.pop(key, None)) is not None:
                    self._empty[key] = column


class LabelTest:
    """One valid node selector expression, evaluated once for each distinct value of its key."""

    __slots__ = ("_column", "_holds", "_seen", "_table")

    def __init__(self, requirement: Requirement, column: LabelColumn) -> None:
        self._column = column
        self._holds = _test(requirement)
        self._table: Bool = np.array([self._holds(None)], dtype=np.bool_)
        self._seen = 0

    @property
    def column(self) -> LabelColumn:
        """The column that is tested."""
        return self._column

    def table(self) -> Bool:
        """Return, (L,), whether the expression is true for each code."""
        column = self._column
        if self._seen != column.serial:
            fresh = column.assigned_since(self._seen)
            self._seen = column.serial
            values = column.values
            self._table = grown(self._table, len(values))
            self._table[fresh] = [self._holds(values[code]) for code in fresh.tolist()]
        return self._table[: len(column.values)]


def _test(requirement: Requirement) -> Callable[[str | None], bool]:
    wanted = frozenset(requirement.values)
    match requirement.operator:
        case "In":
            return lambda value: value in wanted
        case "NotIn":
            return lambda value: value not in wanted
        case "Exists":
            return lambda value: value is not None
        case "DoesNotExist":
            return lambda value: value is None
        case _:
            return _comparison(requirement)


def _comparison(requirement: Requirement) -> Callable[[str | None], bool]:
    bound = selectors.parse_int64(requirement.values[0])
    greater = requirement.operator == "Gt"

    def holds(value: str | None) -> bool:
        number = None if value is None else selectors.parse_int64(value)
        if number is None or bound is None:
            return False
        return number > bound if greater else number < bound

    return holds
