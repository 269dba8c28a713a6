"""Sets of positions as whole numbers: bit p is set if position p belongs to the set.

One term of a selector is then matched against thousands of nodes by one operation on one number,
which costs a tenth of the fixed cost of an array operation. So a selector with thousands of terms
is evaluated in milliseconds.

Axes: n positions.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from scheduler.state.columns.arrays import Bool, Int

__all__ = ["of_positions", "packed", "unpacked", "weighted_sum"]

#: Up to this number, positions are set one by one.
_FEW = 4


def packed(holds: Bool) -> int:
    """Return the set of positions that are true in an array."""
    return int.from_bytes(np.packbits(holds, bitorder="little").tobytes(), "little")


def unpacked(positions: int, size: int) -> Bool:
    """Return, (n,), which positions are in the set."""
    raw = np.frombuffer(positions.to_bytes((size + 7) // 8, "little"), dtype=np.uint8)
    return np.unpackbits(raw, count=size, bitorder="little").astype(np.bool_)


def of_positions(positions: Sequence[int] | Int, size: int) -> int:
    """Return the set of some positions below a size."""
    if len(positions) <= _FEW:
        result = 0
        for position in positions:
            result |= 1 << int(position)
        return result
    holds = np.zeros(size, dtype=np.bool_)
    holds[positions] = True
    return packed(holds)


def weighted_sum(sets: Iterable[tuple[int, int]], size: int) -> Int:
    """Return, (n,), the sum of the weights of the sets that each position belongs to.

    Args:
        sets: Sets, each with its weight.
        size: The number of positions.
    """
    by_weight: dict[int, list[int]] = {}
    for positions, weight in sets:
        if positions and weight:
            by_weight.setdefault(weight, []).append(positions)
    total: Int = np.zeros(size, dtype=np.int64)
    for weight, alike in by_weight.items():
        for power, digits in enumerate(_counted(alike)):
            total += (weight << power) * unpacked(digits, size)
    return total


def _counted(sets: Iterable[int]) -> Iterator[int]:
    """Yield, lowest first, the binary digits of the number of sets that a position belongs to."""
    digits: list[int] = []
    for positions in sets:
        carry = positions
        for power, digit in enumerate(digits):
            if not carry:
                break
            digits[power], carry = digit ^ carry, digit & carry
        if carry:
            digits.append(carry)
    yield from digits
