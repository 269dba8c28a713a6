"""A log of changed rows, from which cached results are refreshed instead of recomputed."""

from typing import Final, Protocol

import numpy as np

from scheduler.state.columns.arrays import Rows

__all__ = ["ChangeCount", "ChangeLog", "RowChanges"]

_KEEP: Final = 65_536
_NONE: Final[Rows] = np.zeros(0, dtype=np.int64)


class RowChanges(Protocol):
    """Says which rows changed since a position."""

    @property
    def position(self) -> int:
        """The position after the last change."""

    def has_changed(self, row: int, position: int) -> bool:
        """Return whether a row changed since a position."""


class ChangeCount:
    """Changes of all rows at once."""

    __slots__ = ("position",)

    def __init__(self) -> None:
        #: The position after the last change.
        self.position = 0

    def record(self) -> None:
        """Record that all rows changed."""
        self.position += 1

    def has_changed(self, _row: int, position: int) -> bool:
        """Return whether the rows changed since a position."""
        return self.position > position


class ChangeLog:
    """An append-only list of changed rows; readers remember how far they have read."""

    __slots__ = ("_last", "_rows", "_start", "position")

    def __init__(self) -> None:
        self._rows: list[int] = []
        #: The position of the last change of each row.
        self._last: dict[int, int] = {}
        self._start = 0
        #: The position after the last change.
        self.position = 0

    def record(self, row: int) -> None:
        """Record that a row changed."""
        rows = self._rows
        if len(rows) >= 2 * _KEEP:
            self._start += _KEEP
            del rows[:_KEEP]
        rows.append(row)
        self._last[row] = self.position
        self.position += 1

    def has_changed(self, row: int, position: int) -> bool:
        """Return whether a row changed since a position."""
        return self._last.get(row, -1) >= position

    def since(self, position: int, most: int) -> Rows | None:
        """Return the rows that changed since a position, each once, in row order.

        Returns:
            (n,) rows, or `None` if the reader must recompute all rows: its position is too old, or
            there are more than `most` entries to read.
        """
        behind = self.position - position
        if position < self._start or behind > most:
            return None
        if not behind:
            return _NONE
        fresh = self._rows[-behind:]
        return np.array(fresh if behind == 1 else sorted(set(fresh)), dtype=np.int64)
