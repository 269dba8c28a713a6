"""Authorization of requests for metrics, configuration and debug pages.

`web_app` authorizes requests for all paths but health. The authorizer that calls the API server
(TokenReview and SubjectAccessReview) is in `scheduler.service.page_access`; the ones here need no
API server. One must be chosen explicitly; the default is `deny_all`.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

from scheduler.observe.api.requests import EVERY_NAME, NO_NAME, NameAccess

__all__ = [
    "ALLOWED",
    "UNAUTHENTICATED",
    "AccessDecision",
    "AccessVerdict",
    "Authorize",
    "Caller",
    "ClientIdentity",
    "allow_all",
    "deny_all",
    "loopback",
    "unavailable",
]


class AccessVerdict(Enum):
    """The result of the authorization of a request; the value is the HTTP status."""

    ALLOWED = 200
    #: The caller is not authenticated.
    UNAUTHENTICATED = 401
    #: The caller is authenticated, but not authorized.
    FORBIDDEN = 403
    #: The caller, or its address, sends too many requests that need a review.
    THROTTLED = 429
    #: Access cannot be reviewed at the moment.
    UNAVAILABLE = 503


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """A verdict, with the message for the caller if the request is refused."""

    verdict: AccessVerdict
    message: str = ""
    #: Which pods the caller may know by name, if the request is allowed.
    names: NameAccess = field(default=NO_NAME, compare=False)
    #: The user, if the request is allowed and the user is known.
    user: str = field(default="", compare=False)


#: For callers who need no review: they see everything.
ALLOWED: Final = AccessDecision(AccessVerdict.ALLOWED, names=EVERY_NAME)
UNAUTHENTICATED: Final = AccessDecision(AccessVerdict.UNAUTHENTICATED, "Unauthorized")


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """The user of a client certificate that was verified."""

    username: str
    groups: tuple[str, ...] = ()
    #: The SHA-256 digest of the certificate, in hexadecimal digits.
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class Caller:
    """The attributes of a request that its authorization depends on."""

    #: As in a SubjectAccessReview: `get`.
    verb: str
    path: str
    #: Case-insensitive; `Authorization` holds the token.
    headers: Mapping[str, str] = field(repr=False)
    #: The address at the other end of the connection.
    peer: str
    #: The user of its certificate; `None` without one that is valid.
    client: ClientIdentity | None = None


class Authorize(Protocol):
    """Authorizes requests for all paths but health."""

    async def __call__(self, caller: Caller, /) -> AccessDecision:
        """Return whether this caller may read this path."""


async def deny_all(caller: Caller) -> AccessDecision:
    """Allow no request."""
    return _forbidden(caller)


async def allow_all(_caller: Caller) -> AccessDecision:
    """Allow every request."""
    return ALLOWED


async def loopback(caller: Caller) -> AccessDecision:
    """Allow requests from this host; in a pod this includes all users who may port-forward."""
    try:
        peer = ipaddress.ip_address(caller.peer)
    except ValueError:
        return _forbidden(caller)
    if isinstance(peer, ipaddress.IPv6Address):
        peer = peer.ipv4_mapped or peer
    return ALLOWED if peer.is_loopback else _forbidden(caller)


def unavailable() -> AccessDecision:
    """Refuse because access cannot be checked; the cause is logged and not shown to the caller."""
    return AccessDecision(AccessVerdict.UNAVAILABLE, "access to this page cannot be checked now")


def _forbidden(caller: Caller) -> AccessDecision:
    return AccessDecision(
        AccessVerdict.FORBIDDEN, f'forbidden: access to {caller.verb} "{caller.path}" is disabled'
    )
