"""Many selectors, found by the labels that they select.

The other side of `label_index`: there one selector is asked about many things, here one thing is
held against many selectors.
"""

from collections.abc import Mapping, Sequence

from scheduler.model.api.selectors import Selector

__all__ = ["SelectorIndex"]


class SelectorIndex:
    """Which of some selectors select a thing. What a question costs depends on what is alike."""

    def __init__(self, selectors: Sequence[Selector | None]) -> None:
        """Make the index; `None` selects nothing."""
        #: By key: for each value, and under `None` for any, the selectors that ask for it, and
        #: those that refuse it.
        self._asking: dict[str, dict[str | None, list[int]]] = {}
        self._refusing: dict[str, dict[str | None, list[int]]] = {}
        #: How many keys each selector asks for.
        self._needs = [0] * len(selectors)
        #: The selectors that ask for nothing.
        self._easy: set[int] = set()
        for place, selector in enumerate(selectors):
            if selector is not None:
                self._add(place, selector)

    def _add(self, place: int, selector: Selector) -> None:
        demanded, refused = selector.folded()
        self._needs[place] = len(demanded)
        if not demanded:
            self._easy.add(place)
        for found, by_key in ((demanded, self._asking), (refused, self._refusing)):
            for key, values in found.items():
                by_value = by_key.setdefault(key, {})
                for value in (None,) if values is None else values:
                    by_value.setdefault(value, []).append(place)

    def matching(self, labels: Mapping[str, str]) -> set[int]:
        """Return the places of the selectors that match."""
        met: dict[int, int] = {}
        for places in _about(self._asking, labels):
            for place in places:
                met[place] = met.get(place, 0) + 1
        found = {place for place, count in met.items() if count == self._needs[place]}
        found |= self._easy
        for places in _about(self._refusing, labels):
            found.difference_update(places)
        return found


def _about(
    by_key: Mapping[str, Mapping[str | None, list[int]]], labels: Mapping[str, str]
) -> list[list[int]]:
    """Return the lists that are about one of some labels."""
    few, others = (by_key, labels) if len(by_key) < len(labels) else (labels, by_key)
    return [
        places
        for key in few
        if key in others
        for value in (labels[key], None)
        if (places := by_key[key].get(value)) is not None
    ]
