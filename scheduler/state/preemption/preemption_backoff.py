"""Which preemptions came to nothing, and for how long the like of them is not tried again.

A preemption comes to nothing when its victims were asked to leave and the preemptor did not get
their room. Where another scheduler puts the victims' replacements straight back, the same
preemption would come to nothing for ever. What is remembered is keyed by owners, since pods that
are replaced have other names each time.

For one preemptor's owner, node and victims' owner: the first costs nothing, since it may have been
bad luck; from the second on there is a pause that grows, in which other nodes are looked at. For
one pair of owners on all nodes: when the room was lost often enough without a success in between,
preemption stops for a long time.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from scheduler.model.api.owners import bounded
from scheduler.model.times import Seconds

__all__ = ["FailureRecord", "PairPause", "PreemptionBackoff"]

FIRST_PAUSE: Final[Seconds] = 30.0
PAUSE_GROWTH: Final = 4.0
LONGEST_PAUSE: Final[Seconds] = 3600.0

#: So often a pair of owners may lose the room before preemption stops.
STOP_AFTER: Final = 4
FIRST_STOP: Final[Seconds] = 3600.0
LONGEST_STOP: Final[Seconds] = 86_400.0

#: What happened so long ago does not count; longer than any pause.
FORGOTTEN_AFTER: Final[Seconds] = 2 * LONGEST_STOP
#: More are not kept; those that were noted last stay.
MOST: Final = 1024
#: Nor is more than this, in bytes as they take when they are written down.
MOST_BYTES: Final = 250_000


class PairPause(NamedTuple):
    """A preemption is not tried for a while, because the like of it came to nothing."""

    until: Seconds
    #: How often it came to nothing.
    times: int
    #: Whether this holds on every node.
    stopped: bool


@dataclass(frozen=True, slots=True)
class FailureRecord:
    """What is remembered of one preemptor's owner, node and victims' owner."""

    preemptor: str
    node: str
    victim: str
    #: Preemptions that came to nothing.
    times: int = 0
    #: Those among them after which the preemptor was left without a place.
    lost: int = 0
    #: When the last one was noted.
    last: Seconds = 0.0

    @property
    def key(self) -> tuple[str, str, str]:
        """What it is about."""
        return self.preemptor, self.node, self.victim

    @property
    def size(self) -> int:
        """How many bytes it takes at most when it is written down."""
        return len(self.preemptor) + len(self.node) + len(self.victim) + 64


class PreemptionBackoff:
    """All that is remembered. Owned by the ledger."""

    def __init__(self) -> None:
        #: Grows with every change.
        self.version = 0
        #: By preemptor's and victims' owner, and by node.
        self._pairs: dict[tuple[str, str], dict[str, FailureRecord]] = {}
        self._count = 0
        self._bytes = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[FailureRecord]:
        """Yield all, the one that was noted longest ago first."""
        memories = (each for pair in self._pairs.values() for each in pair.values())
        return iter(sorted(memories, key=lambda each: each.last))

    def pairs(self, preemptor: str) -> frozenset[str]:
        """Return the owners of victims of which something is remembered for a preemptor's owner."""
        return frozenset(victim for whose, victim in self._pairs if whose == preemptor)

    def note(
        self, preemptor: str, node: str, victims: Iterable[str], now: Seconds, *, lost: bool
    ) -> None:
        """Note that a preemption came to nothing.

        Args:
            preemptor: Owner of the preemptor.
            node: Where it was to be.
            victims: Owners of the victims that were asked to leave.
            now: The time.
            lost: Whether the preemptor is left without a place; false where it has another one.
        """
        preemptor, node = bounded(preemptor), bounded(node)
        for victim in sorted({bounded(each) for each in victims}):
            known = self._pairs.get((preemptor, victim), {}).get(node)
            times, often = (0, 0) if known is None else (known.times, known.lost)
            self._put(FailureRecord(preemptor, node, victim, times + 1, often + lost, now))
        self._bound()

    def succeeded(self, preemptor: str, victims: Iterable[str]) -> bool:
        """Forget about pairs of owners of which a preemption has succeeded; tell if there was any.

        On every node: whoever gets room now and then is in no endless loop.
        """
        over = [key for each in set(victims) if (key := (preemptor, each)) in self._pairs]
        for key in over:
            for memory in [*self._pairs[key].values()]:
                self._drop(memory)
        return bool(over)

    def loops(self, preemptor: str, victim: str) -> bool:
        """Tell whether the room that one owner's pods left for another's was ever lost."""
        return (preemptor, victim) in self._pairs

    def pause(self, preemptor: str, node: str, victim: str, now: Seconds) -> PairPause | None:
        """Return until when pods of one owner must not be evicted for another's on a node."""
        stop = self.stop(preemptor, victim, now)
        return stop if stop is not None else self.pauses(preemptor, victim, now).get(node)

    def stop(self, preemptor: str, victim: str, now: Seconds) -> PairPause | None:
        """Return until when pods of one owner must not be evicted for another's on any node."""
        pair = self._pairs.get((preemptor, victim))
        if pair is None:
            return None
        lost = sum(each.lost for each in pair.values())
        if lost < STOP_AFTER:
            return None
        stop = _grown(FIRST_STOP, 2.0, lost - STOP_AFTER, LONGEST_STOP)
        until = max(each.last for each in pair.values()) + stop
        return PairPause(until, lost, stopped=True) if now < until else None

    def pauses(self, preemptor: str, victim: str, now: Seconds) -> dict[str, PairPause]:
        """Return until when they must not on single nodes, by node."""
        found = {}
        for node, each in self._pairs.get((preemptor, victim), {}).items():
            if each.times > 1:
                grown = _grown(FIRST_PAUSE, PAUSE_GROWTH, each.times - 2, LONGEST_PAUSE)
                if now < each.last + grown:
                    found[node] = PairPause(each.last + grown, each.times, stopped=False)
        return found

    def prune(self, now: Seconds) -> None:
        """Forget what was long ago."""
        for each in self:
            if each.last + FORGOTTEN_AFTER > now:
                break
            self._drop(each)

    def merge(self, memory: FailureRecord) -> None:
        """Take over what was remembered elsewhere; of two memories the one that says more."""
        known = self._pairs.get((memory.preemptor, memory.victim), {}).get(memory.node)
        if known is None or (known.times, known.last) < (memory.times, memory.last):
            self._put(memory)
            self._bound()

    def _put(self, memory: FailureRecord) -> None:
        pair = self._pairs.setdefault((memory.preemptor, memory.victim), {})
        known = pair.get(memory.node)
        if known is None:
            self._count += 1
            self._bytes += memory.size
        pair[memory.node] = memory
        self.version += 1

    def _drop(self, memory: FailureRecord) -> None:
        key = (memory.preemptor, memory.victim)
        del self._pairs[key][memory.node]
        if not self._pairs[key]:
            del self._pairs[key]
        self._count -= 1
        self._bytes -= memory.size
        self.version += 1

    def _bound(self) -> None:
        if self._count > MOST or self._bytes > MOST_BYTES:
            for each in self:
                if self._count <= MOST and self._bytes <= MOST_BYTES:
                    break
                self._drop(each)


def _grown(first: Seconds, growth: float, steps: int, longest: Seconds) -> Seconds:
    return min(longest, first * math.pow(growth, min(steps, 16)))
