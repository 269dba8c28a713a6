"""Where a reader of changed rows stands.

What is kept by row is brought up to date from a log of changes: a reader asks which rows changed
since it looked last, and works out these, or all of them where that is the better way.

Axes: n rows that changed.
"""

from typing import Final

from scheduler.state.columns.arrays import Rows
from scheduler.state.columns.change_log import ChangeLog

__all__ = ["RowCursor", "few"]

#: With more changes than N over this, working out all rows is cheaper than picking some.
_SHARE: Final = 8


def few(size: int) -> int:
    """Return up to how many changes are worth picking from so many rows."""
    return size // _SHARE


class RowCursor:
    """Reads a log of changed rows from where it stopped; at first all rows are to be looked at."""

    __slots__ = ("_log", "_position")

    def __init__(self, log: ChangeLog) -> None:
        self._log = log
        self._position = -1

    @property
    def up_to_date(self) -> bool:
        """Whether nothing changed since the last look."""
        return self._position == self._log.position

    def news(self, most: int) -> Rows | None:
        """Return, (n,), the rows that changed since the last look, each once, in row order.

        Args:
            most: With more changes than this all rows are to be looked at; see `few`.

        Returns:
            `None` when all rows are to be looked at.
        """
        found = self._log.since(self._position, most)
        self._position = self._log.position
        return found
