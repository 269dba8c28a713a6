"""How often policies refused evictions, by span of time."""

from collections import Counter, deque
from collections.abc import Iterable
from typing import Final

from scheduler.model.times import Seconds

__all__ = ["Refusals"]

#: The length of a span, and how many spans are kept: those of a week.
_SPAN: Final[Seconds] = 600.0
_MAX_SPANS: Final = 1008
#: How many policies are told apart in a span; further ones count together.
_MAX_KEYS: Final = 200
_OTHER: Final = "<other>"


class Refusals:
    """Attempts in which policies refused evictions.

    Args:
        began: Since when they are counted.
    """

    def __init__(self, began: Seconds) -> None:
        self._began = began
        #: By policy and mode; with the beginning of the span.
        self._spans: deque[tuple[Seconds, Counter[tuple[str, str]]]] = deque(maxlen=_MAX_SPANS)

    @property
    def known_since(self) -> Seconds:
        """Since when they are known."""
        full = len(self._spans) == _MAX_SPANS
        return self._spans[0][0] if full else self._began

    def add(self, policy: str, mode: str, now: Seconds) -> None:
        """Count a refusal in an attempt."""
        begin = now - now % _SPAN
        if not self._spans or self._spans[-1][0] < begin:
            self._spans.append((begin, Counter()))
        counts, key = self._spans[-1][1], (policy, mode)
        counts[key if key in counts or len(counts) < _MAX_KEYS else (_OTHER, mode)] += 1

    def between(self, since: Seconds, until: Seconds) -> Iterable[tuple[tuple[str, str], int]]:
        """Return the counts by policy and mode, most first; spans at the ends count as a whole."""
        found: Counter[tuple[str, str]] = Counter()
        for begin, counts in self._spans:
            if begin + _SPAN > since and begin < until:
                found.update(counts)
        return found.most_common()
