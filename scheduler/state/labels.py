"""Node labels as columns: one small integer per node and key.

Axes: N rows, L distinct values of one key.
"""

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from typing import Final
from weakref import WeakValueDictionary

import numpy as np

from scheduler.model import selectors
from scheduler.model.objects import Requirement
from scheduler.state.arrays import Bool, Int, grown
from scheduler.state.interning import Interner

__all__ = ["ABSENT", "LabelColumn", "LabelColumns", "LabelTest"]

#: The code of a node that lacks the key.
ABSENT = 0

_NO_LABELS: Final[Mapping[str, str]] = {}


class LabelColumn:
    """The values of one label key, coded; code 0 stands for *absent*."""

    __slots__ = ("__weakref__", "_codes", "_interner")

    def __init__(self) -> None:
        self._interner: Interner[str | None] = Interner(None)
        self._codes: Int = np.zeros(16, dtype=np.int64)

    @property
    def values(self) -> Sequence[str | None]:
        """The value of each code; `None` for code 0."""
        return self._interner.values

    def code(self, value: str) -> int | None:
        """Return the code of a value that some node has or had."""
        return self._interner.find(value)

    def write(self, row: int, labels: Mapping[str, str], key: str) -> None:
        """Set one row from a node's labels."""
        value = labels.get(key)
        if row >= self._codes.shape[0]:
            self._codes = grown(self._codes, row + 1)
        self._codes[row] = ABSENT if value is None else self._interner.code(value)

    def fill(self, values: Sequence[str | None]) -> None:
        """Set all rows of a new column."""
        self._codes = np.array([*map(self._interner.code, values), ABSENT], dtype=np.int64)

    def codes(self, size: int) -> Int:
        """Return the codes of rows 0 to `size`; not to be written to."""
        if self._codes.shape[0] < size:
            self._codes = grown(self._codes, size)
        return self._codes[:size]


class LabelColumns:
    """The label columns that some rule has asked for, kept up to date by row.

    A column is kept for good where some node has the key, or had it. Keys that no node has are up
    to whoever writes pod specs: their columns last as long as somebody holds them.
    """

    __slots__ = ("_columns", "_counts", "_empty", "_labels", "version")

    def __init__(self) -> None:
        #: Grows whenever a key comes to the first node or leaves the last one.
        self.version = 0
        #: The labels of each row, as they were written last.
        self._labels: list[Mapping[str, str]] = []
        #: How many rows have each key.
        self._counts: dict[str, int] = {}
        self._columns: dict[str, LabelColumn] = {}
        self._empty: WeakValueDictionary[str, LabelColumn] = WeakValueDictionary()

    def somewhere(self, key: str) -> bool:
        """Tell whether some node has a key."""
        return key in self._counts

    def among(self, keys: Collection[str]) -> Set[str]:
        """Return those of some distinct keys that some node has."""
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
        self._count(before, labels)
        for key in before.keys() | labels.keys():
            column = self._columns.get(key)
            if column is not None:
                column.write(row, labels, key)

    def _count(self, before: Mapping[str, str], labels: Mapping[str, str]) -> None:
        """Count the keys that a row has lost and got."""
        for key in before.keys() - labels.keys():
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]
                self.version += 1
        for key in labels.keys() - before.keys():
            if key not in self._counts:
                self._counts[key] = 0
                self.version += 1
                if (column := self._empty.pop(key, None)) is not None:
                    self._columns[key] = column
            self._counts[key] += 1


class LabelTest:
    """One valid node selector expression, decided once per distinct value of its key."""

    __slots__ = ("_column", "_holds", "_table")

    def __init__(self, requirement: Requirement, column: LabelColumn) -> None:
        self._column = column
        self._holds = _test(requirement)
        self._table: Bool = np.zeros(0, dtype=np.bool_)

    @property
    def column(self) -> LabelColumn:
        """The column that is tested."""
        return self._column

    def table(self) -> Bool:
        """Return, (L,), for each code whether the expression holds."""
        values = self._column.values
        known = self._table.shape[0]
        if known < len(values):
            fresh = np.fromiter(map(self._holds, values[known:]), dtype=np.bool_)
            self._table = np.concatenate((self._table, fresh))
        return self._table


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
