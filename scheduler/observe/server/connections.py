"""The table of open connections: which one is closed when there are too many.

Connections count from the moment they are accepted, whatever they do afterwards. Pure: times are
arguments, and nothing here touches a socket.

A new connection is admitted if another one can be closed for it: each probe opens a connection, and
so does a Prometheus server that was restarted. The one that is closed is idle and belongs to the
peer that has most of them, so no peer can shut out another one. A connection that is sending a
response to an authorized request is never closed.
"""

import ipaddress
from dataclasses import dataclass, field
from typing import Final

from scheduler.model.times import Seconds

__all__ = ["ConnectionTable", "OpenConnection", "bounded", "peer"]

#: The divisor for the part of the file descriptors that connections may use, so that enough are
#: left for requests to the API server.
_SHARE_OF_DESCRIPTORS: Final = 4
_MIN_CONNECTIONS: Final = 16
#: Addresses of one IPv6 network of this length are one peer: a host can use all of them.
_IPV6_PREFIX: Final = 64
#: How requests with a body begin, and how the head of any request ends.
_POST: Final = b"POST "
_HEAD_END: Final = b"\r\n\r\n"


@dataclass(eq=False, slots=True)
class OpenConnection:
    """An open connection."""

    peer: str
    #: The time of the end of its last request.
    idle_since: Seconds
    #: Whether it is sending a response to an authorized request.
    busy: bool = field(default=False)
    #: Of what came since the last response: how much counts, how it begins, and how it ends.
    _counted: int = field(default=0, init=False)
    _begin: bytes = field(default=b"", init=False)
    _end: bytes = field(default=b"", init=False)

    def answered(self, now: Seconds) -> None:
        """Expect another request: the last one has its response."""
        self.idle_since = now
        self._counted, self._begin, self._end = 0, b"", b""

    def count(self, data: bytes) -> int:
        """Count received data; return how many bytes came since the last response.

        The heads of requests are kept while they arrive, and before anybody knows who sends them.
        The body of a form or a plan does not count: it is limited where it is read.
        """
        self._begin = (self._begin + data[: len(_POST)])[: len(_POST)]
        if self._begin != _POST:
            self._counted += len(data)
        elif self._end != _HEAD_END:
            seen = self._end + data
            head, found, _ = seen.partition(_HEAD_END)
            self._counted += len(head) - len(self._end)
            self._end = found or seen[1 - len(_HEAD_END) :]
        return self._counted


class ConnectionTable:
    """All open connections.

    Args:
        limit: The maximum number, at least two. One peer may have three quarters of them.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._each = limit * 3 // 4
        self._peers: dict[str, set[OpenConnection]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def admit(self, connection: OpenConnection) -> OpenConnection | None:
        """Add a connection; return the one that must be closed for it, if any.

        It is the new one if all others are busy.
        """
        own = self._peers.setdefault(connection.peer, set())
        own.add(connection)
        evicted = None
        if len(own) > self._each:
            idle = (other for other in own if not other.busy)
            evicted = min(idle, key=lambda other: other.idle_since)
        elif self._count >= self._limit:
            evicted = self.least()
        self._count += 1
        if evicted is not None:
            self.drop(evicted)
        return evicted

    def drop(self, connection: OpenConnection) -> None:
        """Remove a connection if it is known."""
        own = self._peers.get(connection.peer)
        if own is None or connection not in own:
            return
        own.remove(connection)
        self._count -= 1
        if not own:
            del self._peers[connection.peer]

    def least(self) -> OpenConnection | None:
        """Return the connection that is closed first; `None` if all are busy."""
        idle = (
            (-len(own), connection.idle_since, id(connection), connection)
            for own in self._peers.values()
            for connection in own
            if not connection.busy
        )
        return min(idle, default=(0, 0.0, 0, None))[-1]


def bounded(wanted: int, descriptors: int) -> int:
    """Return the maximum number of connections.

    Args:
        wanted: The maximum if there are enough file descriptors.
        descriptors: The file descriptors that the process may have; negative for no limit.
    """
    if descriptors < 0:
        return wanted
    return max(_MIN_CONNECTIONS, min(wanted, descriptors // _SHARE_OF_DESCRIPTORS))


def peer(address: str) -> str:
    """Return the peer of an address: an IPv4 address, or an IPv6 network of 64 bits."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(parsed), _IPV6_PREFIX), strict=False))
