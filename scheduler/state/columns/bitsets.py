"""Sets of positions as whole numbers: bit p is set where position p belongs to the set.

One term of a selector against thousands of nodes is then one operation on one number, at a tenth
of what an array operation costs before it has looked at the first element. So a selector with
thousands of terms is judged in milliseconds.

Axes: n positions.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from scheduler.state.columns.arrays import Bool, Int

__all__ = ["of_positions", "packed", "unpacked", "weighted_sum"]

#: Up to so many positions are set one by one.
_FEW = 4


def packed(holds: Bool) -> int:
    """Return the set of positions where something holds."""
    return int.from_bytes(np.packbits(holds, bitorder="little").tobytes(), "little")


def unpacked(positions: int, size: int) -> Bool:
    """Return, (n,), where the set has a position."""
    raw = np.frombuffer(positions.to_bytes((size + 7) // 8, "little"), dtype=np.uint8)
    return np.unpackbits(raw, count=size, bitorder="little").astype(np.bool_)


def of_positions(positions: Sequence[int] | Int, size: int) -> int:
    """Return the set of some positions below a size."""
    if len(positions) <= _FEW:
        found = 0
        for position in positions:
            found |= 1 << int(position)
        return found
    holds = np.zeros(size, dtype=np.bool_)
    holds[positions] = True
    return packed(holds)


def weighted_sum(sets: Iterable[tuple[int, int]], size: int) -> Int:
    """Return, (n,), the sum of the weights of the sets that each position belongs to.

    Args:
        sets: Sets, each with its weight.
        size: How many positions there are.
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
    """Yield, lowest first, the binary digits of how many sets each position belongs to."""
    digits: list[int] = []
    for carried in sets:
        carry = carried
        for place, digit in enumerate(digits):
            if not carry:
                break
            digits[place], carry = digit ^ carry, digit & carry
        if carry:
            digits.append(carry)
    yield from digits
