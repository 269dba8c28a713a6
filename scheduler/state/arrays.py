"""Growing integer columns.

Axes: N rows (or slots, or shapes): whatever the column is indexed by.
"""

from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bool", "Codes", "Float", "Int", "IntColumn", "Rows", "Scores", "grown"]

Bool: TypeAlias = NDArray[np.bool_]
Int: TypeAlias = NDArray[np.int64]
Float: TypeAlias = NDArray[np.float64]
#: (n,) verdict codes, 0 where the node fits.
Codes: TypeAlias = NDArray[np.uint16]
#: (n,) row indices.
Rows: TypeAlias = NDArray[np.int64]
#: (n,) raw or normalised scores.
Scores: TypeAlias = NDArray[np.int64]

#: A column with fewer entries that are not zero is kept as a mapping: thousands of resources that
#: one node each has must not cost a full array each.
_SPARSE_LIMIT: Final = 64


def grown(array: NDArray[Any], size: int, fill: float = 0) -> NDArray[Any]:
    """Return the array with room for `size` entries at least; growth is geometric."""
    have = array.shape[0]
    if size <= have:
        return array
    larger = np.full(max(size, 2 * have, 16), fill, dtype=array.dtype)
    larger[:have] = array
    return larger


class IntColumn:
    """One int64 a row, 0 where nothing was set; sparse while few are set."""

    __slots__ = ("_dense", "_sparse")

    def __init__(self) -> None:
        self._sparse: dict[int, int] = {}
        self._dense: Int | None = None

    def __getitem__(self, row: int) -> int:
        if self._dense is None:
            return self._sparse.get(row, 0)
        return int(self._dense[row]) if row < self._dense.shape[0] else 0

    def __setitem__(self, row: int, number: int) -> None:
        if self._dense is None:
            if number:
                self._sparse[row] = number
            else:
                self._sparse.pop(row, None)
            if len(self._sparse) > _SPARSE_LIMIT:
                self._densify()
            return
        if row >= self._dense.shape[0]:
            self._dense = grown(self._dense, row + 1)
        self._dense[row] = number

    @property
    def any(self) -> bool:
        """Whether some row may have something; False is certain."""
        return self._dense is not None or bool(self._sparse)

    def add(self, row: int, number: int) -> None:
        """Add to one row."""
        dense = self._dense
        if dense is not None and row < dense.shape[0]:
            dense[row] += number
        else:
            self[row] += number

    def all(self, size: int) -> Int:
        """Return rows 0 to `size`; the caller must not write to it."""
        if self._dense is None:
            dense = np.zeros(size, dtype=np.int64)
            for row, number in self._sparse.items():
                if row < size:
                    dense[row] = number
            return dense
        if self._dense.shape[0] < size:
            self._dense = grown(self._dense, size)
        return self._dense[:size]

    def take(self, rows: Rows, size: int) -> Int:
        """Return a copy of some rows, all below `size`."""
        if self._dense is None and rows.shape[0] <= _SPARSE_LIMIT:
            get = self._sparse.get
            return np.array([get(row, 0) for row in rows.tolist()], dtype=np.int64)
        return self.all(size)[rows]

    def _densify(self) -> None:
        self._dense = np.zeros(max(self._sparse) + 1, dtype=np.int64)
        for row, number in self._sparse.items():
            self._dense[row] = number
        self._sparse = {}
