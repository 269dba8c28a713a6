"""Which connections are kept, and which has to go when there are too many.

Counted from the moment they are accepted, whatever they do or fail to do afterwards. Pure: times
are arguments, and nothing here touches a socket.

A newcomer is let in wherever another one can go: probes open a connection each, and so does a
Prometheus server that was restarted. What goes is idle, and of the peer that has most of them; so
no peer can shut out another one. A connection over which a reader that was let in gets its answer
stays.
"""

import ipaddress
from dataclasses import dataclass, field
from typing import Final

from scheduler.model.times import Seconds

__all__ = ["OpenConnection", "Table", "bounded", "peer"]

#: At most this part of the descriptors that the process may have, so that requests to the API
#: server get theirs.
_SHARE_OF_DESCRIPTORS: Final = 4
_FEWEST: Final = 16
#: Addresses of one IPv6 network of this length are one peer: a host has as many as it wants.
_IPV6_PREFIX: Final = 64


@dataclass(eq=False, slots=True)
class OpenConnection:
    """A connection."""

    peer: str
    #: Since when nothing was asked over it.
    idle_since: Seconds
    #: Whether a reader that was let in gets an answer.
    busy: bool = field(default=False)


class Table:
    """The connections that there are.

    Args:
        limit: How many there may be, at least two. One peer may have three quarters of them.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._each = limit * 3 // 4
        self._peers: dict[str, set[OpenConnection]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def admit(self, held: OpenConnection) -> OpenConnection | None:
        """Add a connection, and return the one that had to go for it, if any: it is to be closed.

        It is the new one where all others are busy.
        """
        own = self._peers.setdefault(held.peer, set())
        own.add(held)
        leaving = None
        if len(own) > self._each:
            leaving = min((each for each in own if not each.busy), key=lambda each: each.idle_since)
        elif self._count >= self._limit:
            leaving = self.least()
        self._count += 1
        if leaving is not None:
            self.drop(leaving)
        return leaving

    def drop(self, held: OpenConnection) -> None:
        """Forget a connection; one that is not known does no harm."""
        own = self._peers.get(held.peer)
        if own is None or held not in own:
            return
        own.remove(held)
        self._count -= 1
        if not own:
            del self._peers[held.peer]

    def least(self) -> OpenConnection | None:
        """Return the connection that goes first; `None` when none can."""
        idle = (
            (-len(own), each.idle_since, id(each), each)
            for own in self._peers.values()
            for each in own
            if not each.busy
        )
        return min(idle, default=(0, 0.0, 0, None))[-1]


def bounded(wanted: int, descriptors: int) -> int:
    """Return how many connections there may be.

    Args:
        wanted: With descriptors enough.
        descriptors: How many the process may have; negative for no limit.
    """
    if descriptors < 0:
        return wanted
    return max(_FEWEST, min(wanted, descriptors // _SHARE_OF_DESCRIPTORS))


def peer(address: str) -> str:
    """Return what counts as one peer: an IPv4 address, or an IPv6 network of 64 bits."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(parsed), _IPV6_PREFIX), strict=False))
