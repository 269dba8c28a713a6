"""Growing integer columns.

Axes: N rows (or slots, or footprints): whatever the column is indexed by.
"""

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.ma  # `np.unique` imports it in its first call: 10 ms of a decision
from numpy.typing import NDArray

__all__ = [
    "MAX_NUMBER",
    "Bool",
    "Codes",
    "Float",
    "Int",
    "IntColumn",
    "Rows",
    "Scores",
    "grown",
]

Bool: TypeAlias = NDArray[np.bool_]
Int: TypeAlias = NDArray[np.int64]
Float: TypeAlias = NDArray[np.float64]
#: (n,) verdict codes, 0 where the node fits.
Codes: TypeAlias = NDArray[np.uint16]
#: (n,) row indices.
Rows: TypeAlias = NDArray[np.int64]
#: (n,) raw or normalised scores.
Scores: TypeAlias = NDArray[np.int64]

#: A column with at most so many non-zero entries is kept as a mapping: thousands of resources that
#: only one node has each must not cost a full array each.
_SPARSE_LIMIT: Final = 64


#: The largest number in arrays of sums; a hundred times as much is within int64.
MAX_NUMBER: Final = 2**56


def grown(array: NDArray[Any], size: int, fill: float = 0) -> NDArray[Any]:
    """Return the array with at least `size` entries; growth is geometric."""
    have = array.shape[0]
    if size <= have:
        return array
    larger = np.full(max(size, 2 * have, 16), fill, dtype=array.dtype)
    larger[:have] = array
    return larger


class IntColumn:
    """One exact integer for each row, 0 by default; sparse while few rows are set.

    Arrays are clipped to `MAX_NUMBER`, so that arithmetic on them stays within int64: no real
    capacity is near it, and a hundred times as much still fits. Reading one row gives the exact
    number, and so does `exact`.
    """

    __slots__ = ("_beyond", "_dense", "_sparse")

    def __init__(self) -> None:
        self._sparse: dict[int, int] = {}
        self._dense: Int | None = None
        #: The exact numbers of rows that the array clips; empty without an array.
        self._beyond: dict[int, int] = {}

    def __getitem__(self, row: int) -> int:
        if self._dense is None:
            return self._sparse.get(row, 0)
        if self._beyond and row in self._beyond:
            return self._beyond[row]
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
        if -MAX_NUMBER <= number <= MAX_NUMBER:
            if self._beyond:
                self._beyond.pop(row, None)
            self._dense[row] = number
        else:
            self._beyond[row] = number
            self._dense[row] = _clipped(number)

    @property
    def any(self) -> bool:
        """Whether a row may be non-zero; False is certain."""
        return self._dense is not None or bool(self._sparse)

    def add(self, row: int, number: int) -> None:
        """Add to one row."""
        dense = self._dense
        if dense is not None and row < dense.shape[0] and not self._beyond:
            total = int(dense[row]) + number
            if -MAX_NUMBER <= total <= MAX_NUMBER:
                dense[row] = total
                return
        self[row] += number

    def all(self, size: int) -> Int:
        """Return rows 0 to `size`, clipped to `MAX_NUMBER`; the caller must not write to it."""
        if self._dense is None:
            dense = np.zeros(size, dtype=np.int64)
            for row, number in self._sparse.items():
                if row < size:
                    dense[row] = _clipped(number)
            return dense
        if self._dense.shape[0] < size:
            self._dense = grown(self._dense, size)
        return self._dense[:size]

    def take(self, rows: Rows, size: int) -> Int:
        """Return a copy of some rows, all below `size`, clipped to `MAX_NUMBER`."""
        if self._dense is None and rows.shape[0] <= _SPARSE_LIMIT:
            get = self._sparse.get
            return np.array([_clipped(get(row, 0)) for row in rows.tolist()], dtype=np.int64)
        return self.all(size)[rows]

    def exact(self, rows: Rows, size: int) -> Int:
        """Return an exact copy of some rows: Python integers if int64 may not hold them."""
        beyond = self._beyond if self._dense is not None else self._sparse
        if not any(abs(number) > MAX_NUMBER for number in beyond.values()):
            return self.take(rows, size)
        return np.array([self[row] for row in rows.tolist()], dtype=object)

    def _densify(self) -> None:
        self._dense = np.zeros(max(self._sparse) + 1, dtype=np.int64)
        sparse, self._sparse = self._sparse, {}
        for row, number in sparse.items():
            self[row] = number


def _clipped(number: int) -> int:
    return max(-MAX_NUMBER, min(MAX_NUMBER, number))
