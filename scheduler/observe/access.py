"""Who may read metrics, configuration and debug pages.

Before it comes `web`, which asks for every path but those of health. The reviewer that asks the
API server (TokenReview and SubjectAccessReview) is not here, because only `scheduler.kube` talks
to it; here are those that need to ask nobody. Which one holds is always said expressly; without
a word it is `nobody`.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

__all__ = ["Authorize", "Caller", "Verdict", "anybody", "loopback", "nobody"]


class Verdict(Enum):
    """What a reviewer says about a request, and the status it is refused with."""

    ALLOWED = 200
    #: The caller did not prove who it is.
    UNAUTHENTICATED = 401
    #: The caller is known and may not.
    FORBIDDEN = 403
    #: There is nobody to ask at the moment.
    UNAVAILABLE = 503


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks for what."""

    #: As in a SubjectAccessReview: `get`.
    verb: str
    path: str
    #: Case-insensitive; `Authorization` holds the token.
    headers: Mapping[str, str] = field(repr=False)
    #: The address at the other end of the connection.
    peer: str


class Authorize(Protocol):
    """Judges requests for anything but health."""

    async def __call__(self, caller: Caller, /) -> Verdict:
        """Say whether this caller may read this path."""


async def nobody(_caller: Caller) -> Verdict:
    """Allow no request."""
    return Verdict.FORBIDDEN


async def anybody(_caller: Caller) -> Verdict:
    """Allow every request, by whoever reaches the port."""
    return Verdict.ALLOWED


async def loopback(caller: Caller) -> Verdict:
    """Allow requests from this host; in a pod that includes everybody who may port-forward."""
    try:
        peer = ipaddress.ip_address(caller.peer)
    except ValueError:
        return Verdict.FORBIDDEN
    if isinstance(peer, ipaddress.IPv6Address):
        peer = peer.ipv4_mapped or peer
    return Verdict.ALLOWED if peer.is_loopback else Verdict.FORBIDDEN
