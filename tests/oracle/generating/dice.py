"""A source of chance that is the same each time for the same seed."""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

__all__ = ["Dice", "Object"]

T = TypeVar("T")
#: An API object, or a part of one, as JSON has it.
Object = dict[str, Any]


class Dice:
    """Draws from small sets; most methods read as a question."""

    def __init__(self, *seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def chance(self, probability: float) -> bool:
        """Tell, with that probability, yes."""
        return probability > 0 and bool(self._random.random() < probability)

    def number(self, low: int, high: int) -> int:
        """Return a number, both ends included."""
        return int(self._random.integers(low, high + 1))

    def pick(self, options: Sequence[T]) -> T:
        """Return one of some options."""
        return options[self.number(0, len(options) - 1)]

    def some(self, options: Sequence[T], low: int, high: int) -> list[T]:
        """Return so many different options, in their order."""
        count = min(self.number(low, high), len(options))
        places = self._random.choice(len(options), size=count, replace=False)
        return [options[place] for place in sorted(places.tolist())]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """Return all options in some order."""
        return [options[place] for place in self._random.permutation(len(options)).tolist()]
