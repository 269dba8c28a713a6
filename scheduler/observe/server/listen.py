"""How a web server listens: address, TLS settings, timeouts, and limits on clients."""

import socket
from dataclasses import dataclass, field
from ssl import TLSVersion
from typing import Final

from scheduler.observe.server.rates import RateLimit

__all__ = ["Limits", "Listen", "listening"]

#: The maximum number of connections that wait in the kernel to be accepted.
_BACKLOG: Final = 1024
_ACCEPTS: Final = RateLimit(per_second=1000, burst=1000)
_HANDSHAKES: Final = RateLimit(per_second=50, burst=300)
_PEER_HANDSHAKES: Final = RateLimit(per_second=30, burst=150)
_PEER_REQUESTS: Final = RateLimit(per_second=100, burst=200)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on what all clients together, and one client alone, may use."""

    #: Open connections; fewer if the process may have few descriptors. One peer may have three
    #: quarters of them.
    connections: int = 512
    #: What one may send before it gets a response, bodies not counted: as much as
    #: nginx reads of a head.
    request_bytes: int = 2**15
    #: How fast connections are accepted; each costs some 50 µs, and the others wait in the kernel.
    accepts: RateLimit = _ACCEPTS
    #: TLS handshakes, in total and of one peer; each costs some 1 ms of CPU, half of it outside of
    #: Python.
    handshakes: RateLimit = _HANDSHAKES
    peer_handshakes: RateLimit = _PEER_HANDSHAKES
    #: Requests of one peer; each costs some 0.2 ms of CPU. Requests beyond the rate wait.
    peer_requests: RateLimit = _PEER_REQUESTS
    #: Timeout of a handshake, including the wait for its turn.
    handshake_seconds: float = 5.0
    #: Pages that are served at a time, health pages not counted; more are refused with 503.
    pages: int = 32
    #: Watches that are open at a time, and those of one user; how long a client may take to read
    #: one event of them.
    watches: int = 64
    user_watches: int = 16
    event_seconds: float = 10.0
    #: How often it is reviewed whether the caller may still open an open watch.
    rights_seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class Listen:
    """Address, TLS settings, timeouts and limits of the web server."""

    address: str = "0.0.0.0"
    #: 0 disables serving.
    port: int = 10259
    #: If both are empty, a self-signed certificate is used.
    cert_file: str = ""
    key_file: str = ""
    #: Serve HTTP without TLS; for local use.
    plain: bool = False
    #: How long a connection may be idle before its first request and between requests.
    idle_seconds: float = 30.0
    #: Timeout of the access review; after it the request is refused.
    review_seconds: float = 10.0
    #: Timeout of a whole response until the client has read it, including the review.
    answer_seconds: float = 60.0
    #: How often the server checks whether there is a new certificate, or need for one.
    refresh_seconds: float = 60.0
    #: The minimum TLS version.
    min_version: TLSVersion = TLSVersion.TLSv1_2
    #: Cipher suites for TLS 1.2, under their OpenSSL names; empty for OpenSSL's default.
    ciphers: str = ""
    limits: Limits = field(default_factory=Limits)


def listening(address: str, port: int) -> socket.socket:
    """Return a listening socket; an unspecified address means all of IPv4 and IPv6.

    Raises:
        OSError: The port is taken.
    """
    if address in ("", "0.0.0.0", "::") and socket.has_dualstack_ipv6():
        return socket.create_server(
            ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG
        )
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, port), family=family, backlog=_BACKLOG)
