"""The position of a reader in a log of changed rows.

Values that are kept by row are updated from a log of changes: a reader gets the rows that changed
since its last call, and recomputes these, or all rows if that is cheaper.

Axes: n changed rows.
"""

from typing import Final

from scheduler.state.columns.arrays import Rows
from scheduler.state.columns.change_log import ChangeLog

__all__ = ["RowCursor", "max_incremental"]

#: With more changes than N divided by this, recomputing all rows is cheaper than picking some.
_SHARE: Final = 8


def max_incremental(size: int) -> int:
    """Return up to how many changes picking rows is cheaper than recomputing all of `size`."""
    return size // _SHARE


class RowCursor:
    """Reads a log of changed rows from its last position; at first, all rows count as changed."""

    __slots__ = ("_log", "_position")

    def __init__(self, log: ChangeLog) -> None:
        self._log = log
        self._position = -1

    @property
    def up_to_date(self) -> bool:
        """Whether nothing changed since the last call of `take_changed`."""
        return self._position == self._log.position

    def take_changed(self, most: int) -> Rows | None:
        """Return, (n,), the rows that changed since the last call, each once, in row order.

        Args:
            most: With more changes than this, all rows must be recomputed; see `max_incremental`.

        Returns:
            `None` if all rows must be recomputed.
        """
        changed = self._log.since(self._position, most)
        self._position = self._log.position
        return changed
