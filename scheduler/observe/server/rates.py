"""Rate limits: token buckets, buckets by peer, and fair turns between peers.

Pure: times are arguments, and nothing here waits.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from scheduler.model.times import Seconds

__all__ = ["FairTurns", "Rate", "RateLimit", "RatesByPeer"]

T = TypeVar("T")

#: Peers that are kept. When more addresses send requests, the oldest ones count as new again.
_PEERS: Final = 4096


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A rate per second, and the size of a burst."""

    per_second: float
    burst: float


class Rate:
    """A token bucket that is full at first.

    Args:
        allowance: How fast it fills, and how much it holds.
        now: Seconds of any monotonic clock.
    """

    __slots__ = ("_allowance", "_at", "_tokens", "served_at")

    def __init__(self, allowance: RateLimit, now: Seconds) -> None:
        self._allowance = allowance
        self._tokens = allowance.burst
        self._at = now
        #: When a token was last taken; at first, when the bucket was made.
        self.served_at = now

    def wait(self, now: Seconds) -> Seconds:
        """Return the time until a token is available."""
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
        """Take a token, if necessary a future one; return how long to wait for it."""
        pause = self.wait(now)
        self._spend(now)
        return pause

    def _spend(self, now: Seconds) -> None:
        self._tokens -= 1.0
        self.served_at = now


class RatesByPeer:
    """One bucket for each peer; the least recently used ones are dropped."""

    def __init__(self, allowance: RateLimit, peers: int = _PEERS) -> None:
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

    If there are more than the rate allows, the peer whose last turn is longest ago is first. So
    a probe that comes every few seconds never waits behind a flood, however many addresses the
    flood comes from. Tickets of one peer are drawn in the order in which they were added.

    Args:
        whole: The rate of all peers together.
        each: The rate of one peer.
        now: Seconds of any monotonic clock.
    """

    def __init__(self, whole: RateLimit, each: RateLimit, now: Seconds) -> None:
        self._whole = Rate(whole, now)
        self._peers = RatesByPeer(each)
        self._waiting: dict[str, deque[T]] = {}

    def add(self, peer: str, ticket: T, now: Seconds) -> None:
        """Add a ticket."""
        self._peers.of(peer, now)
        self._waiting.setdefault(peer, deque()).append(ticket)

    def drop(self, peer: str, ticket: T) -> None:
        """Remove a ticket if it is still waiting."""
        tickets = self._waiting.get(peer)
        if tickets is None or ticket not in tickets:
            return
        tickets.remove(ticket)
        if not tickets:
            del self._waiting[peer]

    def take_next(self, now: Seconds) -> T | None:
        """Return the next ticket; `None` if it is too early for any."""
        if not self._waiting or self._whole.wait(now) > 0.0:
            return None
        rates = {peer: self._peers.of(peer, now) for peer in self._waiting}
        ready = [peer for peer, rate in rates.items() if rate.wait(now) <= 0.0]
        if not ready:
            return None
        peer = min(ready, key=lambda peer: rates[peer].served_at)
        rates[peer].take(now)
        self._whole.take(now)
        ticket = self._waiting[peer][0]
        self.drop(peer, ticket)
        return ticket

    def pause(self, now: Seconds) -> Seconds | None:
        """Return the time until a ticket can be drawn; `None` if there is none."""
        if not self._waiting:
            return None
        soonest = min(self._peers.of(peer, now).wait(now) for peer in self._waiting)
        return max(soonest, self._whole.wait(now))
