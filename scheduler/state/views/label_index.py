"""Which of many things have a label: found by key and value, for selectors with many requirements.

A selector is judged on all of them at once: what it costs grows with what it says, not with that
times the number of things.

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

#: Where each value of a key is.
ByValue: TypeAlias = Mapping[str, Sequence[int] | Int]


class LabelIndex:
    """Labels by key and value; see `bits` for the sets that it answers with."""

    def __init__(self, size: int, find: Callable[[str], ByValue | None]) -> None:
        """Make an index.

        Args:
            size: How many positions there are.
            find: Returns where each value of a key is; `None` for a key that is nowhere.
        """
        self.size = size
        #: All positions.
        self.all = (1 << size) - 1
        self._find = find
        self._keys: dict[str, _Values | None] = {}

    def matching(self, selector: Selector) -> int:
        """Return where a label selector matches."""
        found = self.all
        for each in selector.requirements:
            found &= self.holding(each)
            if not found:
                break
        return found

    def holding(self, requirement: Requirement) -> int:
        """Return where a valid expression of a label or node selector holds."""
        values = self._values(requirement.key)
        match requirement.operator:
            case "In":
                return 0 if values is None else values.any_of(requirement.values)
            case "NotIn":
                return self.all if values is None else self.all ^ values.any_of(requirement.values)
            case "Exists":
                return 0 if values is None else values.there
            case "DoesNotExist":
                return self.all if values is None else self.all ^ values.there
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
            found = self._keys[key] = None if by_value is None else _Values(by_value, self.size)
            return found


class _Values:
    """The values of one key."""

    def __init__(self, by_value: ByValue, size: int) -> None:
        self._by_value = by_value
        self._size = size
        self._sets: dict[str, int] = {}
        self.there = bitsets.of_positions(
            np.concatenate([np.asarray(each, dtype=np.int64) for each in by_value.values()]), size
        )
        self._numbers: list[int] | None = None
        #: Where one of the first so many numbers is.
        self._first: list[int] = []

    def any_of(self, values: Iterable[str]) -> int:
        """Return where one of some values is."""
        found = 0
        for value in values:
            found |= self._of(value)
        return found

    def above(self, bound: int) -> int:
        """Return where the value is a number that is greater than a bound."""
        numbers = self._in_order()
        return self._first[-1] ^ self._first[bisect_right(numbers, bound)]

    def below(self, bound: int) -> int:
        """Return where the value is a number that is less than a bound."""
        numbers = self._in_order()
        return self._first[bisect_left(numbers, bound)]

    def _of(self, value: str) -> int:
        found = self._sets.get(value)
        if found is None:
            positions = self._by_value.get(value)
            if positions is None:
                return 0
            found = self._sets[value] = bitsets.of_positions(positions, self._size)
        return found

    def _in_order(self) -> list[int]:
        if self._numbers is None:
            found = [(selectors.parse_int64(value), value) for value in self._by_value]
            numbers = sorted((number, value) for number, value in found if number is not None)
            self._numbers = [number for number, _ in numbers]
            sets = (self._of(value) for _, value in numbers)
            self._first = list(accumulate(sets, int.__or__, initial=0))
        return self._numbers


def of_labels(things: Iterable[tuple[Mapping[str, str], Sequence[int]]], size: int) -> LabelIndex:
    """Return the index of labels, each map with the positions that have it."""
    keys: dict[str, dict[str, list[int]]] = {}
    for labels, positions in things:
        for key, value in labels.items():
            keys.setdefault(key, {}).setdefault(value, []).extend(positions)
    return LabelIndex(size, keys.get)


def of_nodes(nodes: NodeView, labels: LabelColumns) -> LabelIndex:
    """Return the index of the labels of nodes; keys are looked at when they are asked for."""

    def find(key: str) -> ByValue | None:
        if not labels.somewhere(key):
            return None
        column = labels.column(key)
        codes = nodes.label_codes(column)
        order = np.argsort(codes, kind="stable")
        found, first = np.unique(codes[order], return_index=True)
        values = column.values
        return {
            value: positions
            for code, positions in zip(found.tolist(), np.split(order, first[1:]), strict=True)
            if code != ABSENT and (value := values[code]) is not None
        } or None

    return LabelIndex(len(nodes), find)
