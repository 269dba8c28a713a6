"""Node labels as columns: one small integer per node and key.

Axes: N rows, L distinct values of one key.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from scheduler.model import selectors
from scheduler.model.objects import Node, Requirement
from scheduler.state.arrays import Bool, Int, grown
from scheduler.state.interning import Interner

__all__ = ["ABSENT", "LabelColumn", "LabelColumns", "LabelTest"]

#: The code of a node that lacks the key.
ABSENT = 0


class LabelColumn:
    """The values of one label key, coded; code 0 stands for *absent*."""

    __slots__ = ("_codes", "_interner")

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

    def codes(self, size: int) -> Int:
        """Return the codes of rows 0 to `size`; not to be written to."""
        if self._codes.shape[0] < size:
            self._codes = grown(self._codes, size)
        return self._codes[:size]


class LabelColumns:
    """The label columns that some rule has asked for, kept up to date by row."""

    __slots__ = ("_columns", "_nodes")

    def __init__(self, nodes: Sequence[Node | None]) -> None:
        self._nodes = nodes
        self._columns: dict[str, LabelColumn] = {}

    def column(self, key: str) -> LabelColumn:
        """Return the column of a key, built from all nodes when first asked for."""
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = LabelColumn()
            for row, node in enumerate(self._nodes):
                if node is not None and key in node.metadata.labels:
                    column.write(row, node.metadata.labels, key)
        return column

    def write(self, row: int, labels: Mapping[str, str]) -> None:
        """Set one row in every column."""
        for key, column in self._columns.items():
            column.write(row, labels, key)


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
