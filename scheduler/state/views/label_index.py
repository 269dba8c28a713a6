"""An index of the labels of many objects by key and value, for selectors with many requirements.

A selector is evaluated for all objects at once: its cost grows with the number of its requirements,
not with that times the number of objects.

Axes: n positions.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TypeAlias

import numpy as np

from scheduler.model.api import selectors
from scheduler.model.api.objects import Requirement
from scheduler.model.api.selectors import Selector
from scheduler.state.columns import bitsets
from scheduler.state.columns.arrays import Int
from scheduler.state.columns.labels import ABSENT, LabelColumns
from scheduler.state.views.node_view import NodeView

__all__ = ["LabelIndex", "of_labels", "of_nodes"]

#: The positions of each value of a key.
ByValue: TypeAlias = Mapping[str, Sequence[int] | Int]


class LabelIndex:
    """Labels by key and value; the results are bit sets, see `bitsets`."""

    def __init__(self, size: int, find: Callable[[str], ByValue | None]) -> None:
        """Create an index.

        Args:
            size: The number of positions.
            find: Returns the positions of each value of a key; `None` for a key without any.
        """
        self.size = size
        #: All positions.
        self.all = (1 << size) - 1
        self._find = find
        self._keys: dict[str, _Values | None] = {}

    def matching(self, selector: Selector) -> int:
        """Return the positions that a label selector matches."""
        matching = self.all
        for requirement in selector.requirements:
            matching &= self.holding(requirement)
            if not matching:
                break
        return matching

    def holding(self, requirement: Requirement) -> int:
        """Return the positions that match a valid expression of a label or node selector."""
        values = self._values(requirement.key)
        match requirement.operator:
            case "In":
                return 0 if values is None else values.any_of(requirement.values)
            case "NotIn":
                return self.all if values is None else self.all ^ values.any_of(requirement.values)
            case "Exists":
                return 0 if values is None else values.present
            case "DoesNotExist":
                return self.all if values is None else self.all ^ values.present
            case _:
                bound = selectors.parse_int64(requirement.values[0])
                if values is None or bound is None:
                    return 0
                greater = requirement.operator == "Gt"
                return values.above(bound) if greater else values.below(bound)

    def _values(self, key: str) -> "_Values | None":
        try:
            return self._keys[key]
        except KeyError:
            by_value = self._find(key)
            values = self._keys[key] = None if by_value is None else _Values(by_value, self.size)
            return values


class _Values:
    """The values of one key."""

    def __init__(self, by_value: ByValue, size: int) -> None:
        self._by_value = by_value
        self._size = size
        self._sets: dict[str, int] = {}
        arrays = [np.asarray(positions, dtype=np.int64) for positions in by_value.values()]
        self.present = bitsets.of_positions(np.concatenate(arrays), size)
        self._numbers: list[int] | None = None
        #: The positions of the first 0, 1, 2 ... numbers together.
        self._first: list[int] = []

    def any_of(self, values: Iterable[str]) -> int:
        """Return the positions of some values."""
        result = 0
        for value in values:
            result |= self._of(value)
        return result

    def above(self, bound: int) -> int:
        """Return the positions whose value is a number above a bound."""
        numbers = self._in_order()
        return self._first[-1] ^ self._first[bisect_right(numbers, bound)]

    def below(self, bound: int) -> int:
        """Return the positions whose value is a number below a bound."""
        numbers = self._in_order()
        return self._first[bisect_left(numbers, bound)]

    def _of(self, value: str) -> int:
        result = self._sets.get(value)
        if result is None:
            positions = self._by_value.get(value)
            if positions is None:
                return 0
            result = self._sets[value] = bitsets.of_positions(positions, self._size)
        return result

    def _in_order(self) -> list[int]:
        if self._numbers is None:
            parsed = [(selectors.parse_int64(value), value) for value in self._by_value]
            numbers = sorted((number, value) for number, value in parsed if number is not None)
            self._numbers = [number for number, _ in numbers]
            sets = (self._of(value) for _, value in numbers)
            self._first = list(accumulate(sets, int.__or__, initial=0))
        return self._numbers


def of_labels(objects: Iterable[tuple[Mapping[str, str], Sequence[int]]], size: int) -> LabelIndex:
    """Return the index of the labels of objects, each map with the positions that have it."""
    keys: dict[str, dict[str, list[int]]] = {}
    for labels, positions in objects:
        for key, value in labels.items():
            keys.setdefault(key, {}).setdefault(value, []).extend(positions)
    return LabelIndex(size, keys.get)


def of_nodes(nodes: NodeView, labels: LabelColumns) -> LabelIndex:
    """Return the index of the labels of nodes; keys are indexed on demand."""

    def find(key: str) -> ByValue | None:
        if not labels.exists(key):
            return None
        column = labels.column(key)
        codes = nodes.label_codes(column)
        order = np.argsort(codes, kind="stable")
        distinct, first = np.unique(codes[order], return_index=True)
        values = column.values
        return {
            value: positions
            for code, positions in zip(distinct.tolist(), np.split(order, first[1:]), strict=True)
            if code != ABSENT and (value := values[code]) is not None
        } or None

    return LabelIndex(len(nodes), find)
