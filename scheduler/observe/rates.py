"""How often something may happen: in all, by peer, and whose turn it is when it is too much.

Pure: times are arguments, and nothing here waits.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from scheduler.model.times import Seconds

__all__ = ["Allowance", "ByPeer", "FairTurns", "Rate"]

T = TypeVar("T")

#: Peers that are remembered. A flood from more addresses than this makes older ones look new.
_PEERS: Final = 4096


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many times a second something may happen, and how many times at once after a pause."""

    per_second: float
    burst: float


class Rate:
    """A token bucket that begins full.

    Args:
        allowance: How fast it fills, and how much it holds.
        now: Seconds on any monotonic line.
    """

    __slots__ = ("_allowance", "_at", "_tokens", "served_at")

    def __init__(self, allowance: Allowance, now: Seconds) -> None:
        self._allowance = allowance
        self._tokens = allowance.burst
        self._at = now
        #: When a token was last taken; at first, when the bucket was made.
        self.served_at = now

    def wait(self, now: Seconds) -> Seconds:
        """Return how long it takes until there is a token."""
        passed = max(0.0, now - self._at)
        self._at = now
        self._tokens = min(
            self._allowance.burst, self._tokens + passed * self._allowance.per_second
        )
        return max(0.0, (1.0 - self._tokens) / self._allowance.per_second)

    def take(self, now: Seconds) -> bool:
        """Take a token if there is one."""
        if self.wait(now) > 0.0:
            return False
        self._spend(now)
        return True

    def reserve(self, now: Seconds) -> Seconds:
        """Take a token, of the future if need be; return how long to wait for it."""
        pause = self.wait(now)
        self._spend(now)
        return pause

    def _spend(self, now: Seconds) -> None:
        self._tokens -= 1.0
        self.served_at = now


class ByPeer:
    """One bucket for each peer; those that were used longest ago are forgotten."""

    def __init__(self, allowance: Allowance, peers: int = _PEERS) -> None:
        self._allowance = allowance
        self._most = peers
        self._rates: OrderedDict[str, Rate] = OrderedDict()

    def __len__(self) -> int:
        return len(self._rates)

    def of(self, peer: str, now: Seconds) -> Rate:
        """Return the bucket of a peer."""
        rate = self._rates.get(peer)
        if rate is None:
            rate = self._rates[peer] = Rate(self._allowance, now)
        self._rates.move_to_end(peer)
        if len(self._rates) > self._most:
            self._rates.popitem(last=False)
        return rate


class FairTurns(Generic[T]):
    """Tickets of peers, drawn at a rate.

    When there are more than the rate allows, the peer whose last turn is longest ago is first. So
    a probe that comes every few seconds never stands in line behind a flood, however many
    addresses that comes from. Tickets of one peer are drawn in the order in which they came.

    Args:
        whole: How many are drawn in all.
        each: How many are drawn of one peer.
        now: Seconds on any monotonic line.
    """

    def __init__(self, whole: Allowance, each: Allowance, now: Seconds) -> None:
        self._whole = Rate(whole, now)
        self._peers = ByPeer(each)
        self._waiting: dict[str, deque[T]] = {}

    def add(self, peer: str, ticket: T, now: Seconds) -> None:
        """Put a ticket in line."""
        self._peers.of(peer, now)
        self._waiting.setdefault(peer, deque()).append(ticket)

    def drop(self, peer: str, ticket: T) -> None:
        """Take a ticket out of the line, if it still is in it."""
        line = self._waiting.get(peer)
        if line is None or ticket not in line:
            return
        line.remove(ticket)
        if not line:
            del self._waiting[peer]

    def draw(self, now: Seconds) -> T | None:
        """Return the ticket whose turn it is; `None` when it is too early for any."""
        if not self._waiting or self._whole.wait(now) > 0.0:
            return None
        rates = {peer: self._peers.of(peer, now) for peer in self._waiting}
        ready = [peer for peer, rate in rates.items() if rate.wait(now) <= 0.0]
        if not ready:
            return None
        peer = min(ready, key=lambda each: rates[each].served_at)
        rates[peer].take(now)
        self._whole.take(now)
        ticket = self._waiting[peer][0]
        self.drop(peer, ticket)
        return ticket

    def pause(self, now: Seconds) -> Seconds | None:
        """Return how long it takes until a ticket can be drawn; `None` when there is none."""
        if not self._waiting:
            return None
        soonest = min(self._peers.of(peer, now).wait(now) for peer in self._waiting)
        return max(soonest, self._whole.wait(now))
