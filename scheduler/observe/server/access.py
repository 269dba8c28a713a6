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
from typing import Final, Protocol

__all__ = [
    "ALLOWED",
    "UNAUTHENTICATED",
    "AccessVerdict",
    "Authorize",
    "Caller",
    "Judgement",
    "anybody",
    "loopback",
    "nobody",
    "unavailable",
]


class AccessVerdict(Enum):
    """What a reviewer says about a request, and the status it is refused with."""

    ALLOWED = 200
    #: The caller did not prove who it is.
    UNAUTHENTICATED = 401
    #: The caller is known and may not.
    FORBIDDEN = 403
    #: The caller, or its address, asks too often for what needs a review.
    THROTTLED = 429
    #: There is nobody to ask at the moment.
    UNAVAILABLE = 503


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, with what the caller is told if it is refused."""

    verdict: AccessVerdict
    message: str = ""


ALLOWED: Final = Judgement(AccessVerdict.ALLOWED)
UNAUTHENTICATED: Final = Judgement(AccessVerdict.UNAUTHENTICATED, "Unauthorized")


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

    async def __call__(self, caller: Caller, /) -> Judgement:
        """Say whether this caller may read this path."""


async def nobody(caller: Caller) -> Judgement:
    """Allow no request."""
    return _forbidden(caller)


async def anybody(_caller: Caller) -> Judgement:
    """Allow every request, by whoever reaches the port."""
    return ALLOWED


async def loopback(caller: Caller) -> Judgement:
    """Allow requests from this host; in a pod that includes everybody who may port-forward."""
    try:
        peer = ipaddress.ip_address(caller.peer)
    except ValueError:
        return _forbidden(caller)
    if isinstance(peer, ipaddress.IPv6Address):
        peer = peer.ipv4_mapped or peer
    return ALLOWED if peer.is_loopback else _forbidden(caller)


def unavailable() -> Judgement:
    """Refuse because access cannot be checked; the cause is logged and not shown to the caller."""
    return Judgement(AccessVerdict.UNAVAILABLE, "access to this page cannot be checked now")


def _forbidden(caller: Caller) -> Judgement:
    return Judgement(
        AccessVerdict.FORBIDDEN, f'forbidden: access to {caller.verb} "{caller.path}" is disabled'
    )
