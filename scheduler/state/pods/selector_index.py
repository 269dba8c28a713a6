"""An index of many selectors, which finds those that select some labels.

The counterpart of `label_index`, which matches one selector against the labels of many objects.
"""

from collections.abc import Mapping, Sequence

from scheduler.model.api.selectors import Selector

__all__ = ["SelectorIndex"]


class SelectorIndex:
    """Finds the matching selectors; the cost depends on how many share a key and value."""

    def __init__(self, selectors: Sequence[Selector | None]) -> None:
        """Create the index; a selector of `None` selects nothing."""
        #: By key and value, and under `None` for any value: the selectors that require it, and
        #: those that exclude it.
        self._requiring: dict[str, dict[str | None, list[int]]] = {}
        self._excluding: dict[str, dict[str | None, list[int]]] = {}
        #: How many keys each selector requires.
        self._needs = [0] * len(selectors)
        #: The selectors that require no key.
        self._unconditional: set[int] = set()
        for index, selector in enumerate(selectors):
            if selector is not None:
                self._add(index, selector)

    def _add(self, index: int, selector: Selector) -> None:
        required, excluded = selector.folded()
        self._needs[index] = len(required)
        if not required:
            self._unconditional.add(index)
        for by_requirement, by_key in ((required, self._requiring), (excluded, self._excluding)):
            for key, values in by_requirement.items():
                by_value = by_key.setdefault(key, {})
                for value in (None,) if values is None else values:
                    by_value.setdefault(value, []).append(index)

    def matching(self, labels: Mapping[str, str]) -> set[int]:
        """Return the indices of the selectors that match."""
        counts: dict[int, int] = {}
        for indices in _lists(self._requiring, labels):
            for index in indices:
                counts[index] = counts.get(index, 0) + 1
        matching = {index for index, count in counts.items() if count == self._needs[index]}
        matching |= self._unconditional
        for indices in _lists(self._excluding, labels):
            matching.difference_update(indices)
        return matching


def _lists(
    by_key: Mapping[str, Mapping[str | None, list[int]]], labels: Mapping[str, str]
) -> list[list[int]]:
    """Return the lists of all keys and values that occur in some labels."""
    few, others = (by_key, labels) if len(by_key) < len(labels) else (labels, by_key)
    return [
        indices
        for key in few
        if key in others
        for value in (labels[key], None)
        if (indices := by_key[key].get(value)) is not None
    ]
