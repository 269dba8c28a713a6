"""Which rows changed: what lets a class of pods be refreshed instead of recomputed."""

from typing import Final

import numpy as np

from scheduler.state.columns.arrays import Rows

__all__ = ["ChangeLog"]

_KEEP: Final = 65_536
_NONE: Final[Rows] = np.zeros(0, dtype=np.int64)


class ChangeLog:
    """An append-only list of changed rows; readers remember how far they have read."""

    __slots__ = ("_last", "_rows", "_start", "position")

    def __init__(self) -> None:
        self._rows: list[int] = []
        #: Where the last change of each row stands.
        self._last: dict[int, int] = {}
        self._start = 0
        #: Where a reader who has seen everything stands.
        self.position = 0

    def note(self, row: int) -> None:
        """Note that a row changed."""
        rows = self._rows
        if len(rows) >= 2 * _KEEP:
            self._start += _KEEP
            del rows[:_KEEP]
        rows.append(row)
        self._last[row] = self.position
        self.position += 1

    def has_changed(self, row: int, position: int) -> bool:
        """Tell whether a row changed since a position."""
        return self._last.get(row, -1) >= position

    def since(self, position: int, most: int) -> Rows | None:
        """Return the rows that changed since a position, each once, in row order.

        Returns:
            (n,) rows, or `None` when the reader is so far behind, or more than `most` entries are
            to be read, that recomputing everything is the better way.
        """
        behind = self.position - position
        if position < self._start or behind > most:
            return None
        if not behind:
            return _NONE
        fresh = self._rows[-behind:]
        return np.array(fresh if behind == 1 else sorted(set(fresh)), dtype=np.int64)
