"""Which preemptions failed, and how long similar ones are not tried again.

A preemption fails when its victims were evicted and the preemptor did not get the capacity that
they freed. Where another scheduler binds the victims' replacements to the node at once, the same
preemption would fail endlessly. The records are keyed by owners, because replaced pods have other
names each time.

For one preemptor's owner, node and victims' owner: the first failure has no effect, since it may
have been bad luck. From the second on there is a growing pause, in which other nodes are tried. For
one pair of owners on all nodes: when the capacity was lost often enough without a success in
between, preemption stops for a long time.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from scheduler.model.api.owners import bounded
from scheduler.model.times import Seconds

__all__ = ["FailureRecord", "PairPause", "PreemptionBackoff"]

FIRST_PAUSE: Final[Seconds] = 30.0
PAUSE_GROWTH: Final = 4.0
MAX_PAUSE: Final[Seconds] = 3600.0

#: How often a pair of owners may lose the freed capacity before preemption stops.
STOP_AFTER: Final = 4
FIRST_STOP: Final[Seconds] = 3600.0
MAX_STOP: Final[Seconds] = 86_400.0

#: Failures that long ago do not count; longer than any pause.
FORGOTTEN_AFTER: Final[Seconds] = 2 * MAX_STOP
#: How many records are kept at most: those with the latest failures.
MAX_RECORDS: Final = 1024
#: How many bytes the records may take in the ledger's text.
MAX_BYTES: Final = 250_000


class PairPause(NamedTuple):
    """A preemption is not tried for a while, because similar ones failed."""

    until: Seconds
    #: How often they failed.
    times: int
    #: Whether this applies to every node.
    stopped: bool


@dataclass(frozen=True, slots=True)
class FailureRecord:
    """The failed preemptions of one preemptor's owner, node and victims' owner."""

    preemptor: str
    node: str
    victim: str
    #: How many preemptions failed.
    times: int = 0
    #: After how many of them the preemptor was left without a node.
    lost: int = 0
    #: When the last one failed.
    last: Seconds = 0.0

    @property
    def key(self) -> tuple[str, str, str]:
        """The preemptor's owner, the node and the victims' owner."""
        return self.preemptor, self.node, self.victim

    @property
    def size(self) -> int:
        """How many bytes it takes at most in the ledger's text."""
        return len(self.preemptor) + len(self.node) + len(self.victim) + 64


@dataclass(slots=True)
class PreemptionBackoff:
    """All records of failed preemptions. Owned by the ledger."""

    #: Grows with every change.
    version: int = 0
    #: By preemptor's and victims' owner, and by node.
    _pairs: dict[tuple[str, str], dict[str, FailureRecord]] = field(default_factory=dict)
    _count: int = 0
    _bytes: int = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[FailureRecord]:
        """Yield all records, in the order of their last failure."""
        records = (record for pair in self._pairs.values() for record in pair.values())
        return iter(sorted(records, key=lambda record: record.last))

    def pairs(self, preemptor: str) -> frozenset[str]:
        """Return the victims' owners of all records of a preemptor's owner."""
        return frozenset(victim for owner, victim in self._pairs if owner == preemptor)

    def record_failure(
        self, preemptor: str, node: str, victims: Iterable[str], now: Seconds, *, lost: bool
    ) -> None:
        """Record that a preemption failed.

        Args:
            preemptor: Owner of the preemptor.
            node: The nominated node.
            victims: Owners of the evicted pods.
            now: The time.
            lost: Whether the preemptor is left without a node; false if it has another one.
        """
        preemptor, node = bounded(preemptor), bounded(node)
        for victim in sorted({bounded(owner) for owner in victims}):
            known = self._pairs.get((preemptor, victim), {}).get(node)
            times, often = (0, 0) if known is None else (known.times, known.lost)
            self._put(FailureRecord(preemptor, node, victim, times + 1, often + lost, now))
        self._bound()

    def record_success(self, preemptor: str, victims: Iterable[str]) -> bool:
        """Drop the records of pairs of owners after a success; return whether there were any.

        Those of every node are dropped: pairs that succeed now and then are in no endless loop.
        """
        pairs = [pair for owner in set(victims) if (pair := (preemptor, owner)) in self._pairs]
        for pair in pairs:
            for record in [*self._pairs[pair].values()]:
                self._drop(record)
        return bool(pairs)

    def loops(self, preemptor: str, victim: str) -> bool:
        """Return whether a preemption of one owner's pods for another's has failed."""
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
        lost = sum(record.lost for record in pair.values())
        if lost < STOP_AFTER:
            return None
        stop = _grown(FIRST_STOP, 2.0, lost - STOP_AFTER, MAX_STOP)
        until = max(record.last for record in pair.values()) + stop
        return PairPause(until, lost, stopped=True) if now < until else None

    def pauses(self, preemptor: str, victim: str, now: Seconds) -> dict[str, PairPause]:
        """Return the pauses of a pair of owners that apply to single nodes, by node."""
        pauses = {}
        for node, record in self._pairs.get((preemptor, victim), {}).items():
            if record.times > 1:
                grown = _grown(FIRST_PAUSE, PAUSE_GROWTH, record.times - 2, MAX_PAUSE)
                if now < record.last + grown:
                    pauses[node] = PairPause(record.last + grown, record.times, stopped=False)
        return pauses

    def prune(self, now: Seconds) -> None:
        """Drop records whose last failure is too long ago."""
        for record in self:
            if record.last + FORGOTTEN_AFTER > now:
                break
            self._drop(record)

    def merge(self, record: FailureRecord) -> None:
        """Add the record of another process; of two records, keep the one with more failures."""
        known = self._pairs.get((record.preemptor, record.victim), {}).get(record.node)
        if known is None or (known.times, known.last) < (record.times, record.last):
            self._put(record)
            self._bound()

    def _put(self, record: FailureRecord) -> None:
        pair = self._pairs.setdefault((record.preemptor, record.victim), {})
        known = pair.get(record.node)
        if known is None:
            self._count += 1
            self._bytes += record.size
        pair[record.node] = record
        self.version += 1

    def _drop(self, record: FailureRecord) -> None:
        key = (record.preemptor, record.victim)
        del self._pairs[key][record.node]
        if not self._pairs[key]:
            del self._pairs[key]
        self._count -= 1
        self._bytes -= record.size
        self.version += 1

    def _bound(self) -> None:
        if self._count > MAX_RECORDS or self._bytes > MAX_BYTES:
            for record in self:
                if self._count <= MAX_RECORDS and self._bytes <= MAX_BYTES:
                    break
                self._drop(record)


def _grown(first: Seconds, growth: float, steps: int, longest: Seconds) -> Seconds:
    return min(longest, first * math.pow(growth, min(steps, 16)))
