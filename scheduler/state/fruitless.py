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

from scheduler.model.times import Seconds

__all__ = ["Fruitless", "Memory", "Pause"]

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


class Pause(NamedTuple):
    """A preemption is not tried for a while, because the like of it came to nothing."""

    until: Seconds
    #: How often it came to nothing.
    times: int
    #: Whether this holds on every node.
    stopped: bool


@dataclass(slots=True)
class Memory:
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


class Fruitless:
    """All that is remembered. Owned by the ledger."""

    def __init__(self) -> None:
        self._memories: dict[tuple[str, str, str], Memory] = {}

    def __len__(self) -> int:
        return len(self._memories)

    def __iter__(self) -> Iterator[Memory]:
        return iter(self._memories.values())

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
        for victim in sorted(set(victims)):
            key = (preemptor, node, victim)
            memory = self._memories.pop(key, None) or Memory(*key)
            memory.times += 1
            memory.lost += lost
            memory.last = now
            self._memories[key] = memory
        self._bound()

    def succeeded(self, preemptor: str, victims: Iterable[str]) -> bool:
        """Forget about pairs of owners of which a preemption has succeeded; tell if there was any.

        On every node: whoever gets room now and then is in no endless loop.
        """
        owners = frozenset(victims)
        over = [
            key for key, each in self._memories.items()
            if each.preemptor == preemptor and each.victim in owners
        ]  # fmt: skip
        for key in over:
            del self._memories[key]
        return bool(over)

    def loops(self, preemptor: str, victim: str) -> bool:
        """Tell whether the room that one owner's pods left for another's was ever lost."""
        return any(
            each.preemptor == preemptor and each.victim == victim
            for each in self._memories.values()
        )

    def pause(self, preemptor: str, node: str, victim: str, now: Seconds) -> Pause | None:
        """Return until when pods of one owner must not be evicted for another's on a node."""
        if not self._memories:
            return None
        pair = [
            each for each in self._memories.values()
            if each.preemptor == preemptor and each.victim == victim
        ]  # fmt: skip
        lost = sum(each.lost for each in pair)
        if lost >= STOP_AFTER:
            stop = _grown(FIRST_STOP, 2.0, lost - STOP_AFTER, LONGEST_STOP)
            until = max(each.last for each in pair) + stop
            if now < until:
                return Pause(until, lost, stopped=True)
        here = self._memories.get((preemptor, node, victim))
        if here is not None and here.times > 1:
            until = here.last + _grown(FIRST_PAUSE, PAUSE_GROWTH, here.times - 2, LONGEST_PAUSE)
            if now < until:
                return Pause(until, here.times, stopped=False)
        return None

    def prune(self, now: Seconds) -> None:
        """Forget what was long ago."""
        for key, each in list(self._memories.items()):
            if each.last + FORGOTTEN_AFTER <= now:
                del self._memories[key]

    def merge(self, memory: Memory) -> None:
        """Take over what was remembered elsewhere; of two memories the one that says more."""
        known = self._memories.get(memory.key)
        if known is None or (known.times, known.last) < (memory.times, memory.last):
            self._memories[memory.key] = memory
            self._bound()

    def _bound(self) -> None:
        if len(self._memories) > MOST:
            oldest = sorted(self._memories.values(), key=lambda each: each.last)
            for each in oldest[: len(oldest) - MOST]:
                del self._memories[each.key]


def _grown(first: Seconds, growth: float, steps: int, longest: Seconds) -> Seconds:
    return min(longest, first * math.pow(growth, min(steps, 16)))
