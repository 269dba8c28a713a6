"""How often policies refused evictions, by span of time."""

from collections import Counter, deque
from collections.abc import Iterable
from typing import Final

from scheduler.model.times import Seconds

__all__ = ["MAX_ROWS", "Refusals"]

#: The length of a span, and how many spans are kept: those of a week.
_SPAN: Final[Seconds] = 600.0
_MAX_SPANS: Final = 1008
#: How many policies are told apart in a span; further ones count together.
_MAX_KEYS: Final = 200
_OTHER: Final = "<other>"
#: How many numbers are written down.
MAX_ROWS: Final = 4000


class Refusals:
    """Attempts in which policies refused evictions.

    Args:
        began: Since when they are counted.
    """

    def __init__(self, began: Seconds) -> None:
        self._began = began
        self._total = 0
        #: By policy and mode; with the beginning of the span.
        self._spans: deque[tuple[Seconds, Counter[tuple[str, str]]]] = deque(maxlen=_MAX_SPANS)

    def begin(self, now: Seconds) -> None:
        """Note that this process begins to decide."""
        self._began = now

    @property
    def total(self) -> int:
        """How many were counted by this process."""
        return self._total

    def rows(self) -> list[tuple[Seconds, str, str, int]]:
        """Return what is kept of them: begin of the span, policy, mode and number; oldest first."""
        rows = [
            (begin, policy, mode, number)
            for begin, counts in self._spans
            for (policy, mode), number in counts.items()
        ]
        return rows[-MAX_ROWS:]

    def restore(
        self, rows: Iterable[tuple[Seconds, str, str, int]], since: Seconds, now: Seconds
    ) -> None:
        """Add what earlier leaders have counted since some time; to be called once."""
        found: dict[Seconds, Counter[tuple[str, str]]] = {}
        for begin, policy, mode, number in rows:
            if now - _MAX_SPANS * _SPAN < begin <= now:
                counts = found.setdefault(begin - begin % _SPAN, Counter())
                # A later part of the ring has the same numbers, or higher ones.
                counts[policy, mode] = max(counts[policy, mode], number)
        for begin, counts in self._spans:
            found.setdefault(begin, Counter()).update(counts)
        self._spans.clear()
        self._spans.extend(sorted(found.items(), key=lambda each: each[0]))
        self._began = min(self._began, max(since, now - _MAX_SPANS * _SPAN))

    @property
    def known_since(self) -> Seconds:
        """Since when they are known."""
        full = len(self._spans) == _MAX_SPANS
        return self._spans[0][0] if full else self._began

    def add(self, policy: str, mode: str, now: Seconds) -> None:
        """Count a refusal in an attempt."""
        self._total += 1
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
