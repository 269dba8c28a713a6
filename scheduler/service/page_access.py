"""Who may read which page.

Pages that are always allowed need no token. For all others the caller sends a bearer token that the
API server accepts, and the API server decides whether its user may `get` the path. While the API
server cannot be asked, access is refused, unless an answer of some seconds ago is still valid.

Unknown callers cause few requests to the API server: tokens that were not accepted lately are
reviewed at most once a second for one address, and ten times a second for all together; further
requests are answered with 429. A token that was accepted within the last hour is not subject to
these limits, and callers that reach them do not slow it down. Reviews of rights that are not cached
are limited by address as well.

On a developer's own machine, bound to its loopback interface, only users of that machine can reach
the pages, and callers need no token.

Source: apiserver v0.36.3 pkg/authentication/request/bearertoken, pkg/authorization/path.
Differs: a caller without a token is refused with 401, and not reviewed as `system:anonymous`;
client certificates are not read; while the API server does not answer the status is 503.
"""

import asyncio
import ipaddress
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from scheduler.kube.client.client import Client
from scheduler.kube.errors import KubeError
from scheduler.kube.token_review import AuthenticatedUser, Reviewer, ReviewSettings
from scheduler.model.times import Seconds
from scheduler.observe.server.access import (
    ALLOWED,
    UNAUTHENTICATED,
    AccessDecision,
    AccessVerdict,
    Caller,
    loopback,
    unavailable,
)
from scheduler.observe.server.connections import peer
from scheduler.observe.server.rates import Rate, RateLimit, RatesByPeer
from scheduler.service.options import ProcessOptions

__all__ = ["OpenPaths", "PageAuthorizer", "Reviews", "page_authorizer"]

_SCHEME: Final = "bearer"


#: How often tokens that were not accepted lately are reviewed: for one address, and for all.
_TOKENS_OF_ONE: Final = RateLimit(per_second=1, burst=20)
_TOKENS_OF_ALL: Final = RateLimit(per_second=10, burst=50)
#: How often the API server is asked for one address whether a user may read a page.
_RIGHTS_OF_ONE: Final = RateLimit(per_second=10, burst=100)

#: How long a refusal of a token is cached.
_REFUSED_SECONDS: Final = 60.0

_TOO_OFTEN: Final = AccessDecision(
    AccessVerdict.THROTTLED, "too many reviews are asked for; come again later"
)


class Reviews(Protocol):
    """Authenticates and authorizes users; `kube.token_review.Reviewer` does."""

    def needs_review(self, token: str) -> bool:
        """Return whether a token needs a review and was not accepted lately."""

    def is_cached(self, user: AuthenticatedUser, verb: str, path: str) -> bool:
        """Return whether the answer of `allows` is cached."""

    async def user(self, token: str) -> AuthenticatedUser | None:
        """Return the user of a token; `None` where it is not accepted."""

    async def allows(self, user: AuthenticatedUser, verb: str, path: str) -> bool:
        """Return whether a user may use a verb on a path."""


class OpenPaths:
    """Paths that need no token: exact ones, and prefixes, which end in `*`.

    Source: apiserver v0.36.3 pkg/authorization/path.NewAuthorizer.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        wanted = [path.removeprefix("/") for path in paths]
        self._exact = frozenset(path for path in wanted if not path.endswith("*"))
        self._prefixes = tuple(path[:-1] for path in wanted if path.endswith("*"))

    def __contains__(self, path: str) -> bool:
        path = path.removeprefix("/")
        return path in self._exact or path.startswith(self._prefixes)


class PageAuthorizer:
    """Decides which callers may read which pages.

    Args:
        open_paths: The paths that need no token.
        reviews: Authenticates and authorizes users; `None` to allow all callers of this host, and
            no others.
        report: Called with the problem when reviews begin to fail.
    """

    def __init__(
        self, open_paths: OpenPaths, reviews: Reviews | None, report: Callable[[str], None]
    ) -> None:
        self._open = open_paths
        self._reviews = reviews
        self._report = report
        self._is_failing = False
        self._tokens = RatesByPeer(_TOKENS_OF_ONE)
        self._rights = RatesByPeer(_RIGHTS_OF_ONE)
        self._all_tokens: Rate | None = None

    async def __call__(self, caller: Caller, /) -> AccessDecision:
        """Return whether this caller may read this path."""
        if caller.path in self._open:
            return ALLOWED
        if self._reviews is None:
            return await loopback(caller)
        token = _token(caller)
        if not token:
            return UNAUTHENTICATED
        try:
            judgement = await self._reviewed(self._reviews, token, caller)
        except KubeError as error:
            if not self._is_failing:  # reported once, however many callers there are
                self._report(str(error))
            self._is_failing = True
            return unavailable()
        self._is_failing = False
        return judgement

    async def _reviewed(self, reviews: Reviews, token: str, caller: Caller) -> AccessDecision:
        address = peer(caller.peer)
        now = asyncio.get_running_loop().time()
        if reviews.needs_review(token) and not self._may_ask(address, now):
            return _TOO_OFTEN
        user = await reviews.user(token)
        if user is None:
            return UNAUTHENTICATED
        is_cached = reviews.is_cached(user, caller.verb, caller.path)
        if not is_cached and not self._rights.of(address, now).take(now):
            return _TOO_OFTEN
        if await reviews.allows(user, caller.verb, caller.path):
            return ALLOWED
        text = f'forbidden: User "{user.username}" cannot {caller.verb} path "{caller.path}"'
        return AccessDecision(AccessVerdict.FORBIDDEN, text)

    def _may_ask(self, address: str, now: Seconds) -> bool:
        """Return whether an unknown token may be reviewed now; if so, count the review."""
        if self._all_tokens is None:
            self._all_tokens = Rate(_TOKENS_OF_ALL, now)
        own = self._tokens.of(address, now)
        return own.wait(now) <= 0.0 and self._all_tokens.take(now) and own.take(now)


def page_authorizer(
    options: ProcessOptions, client: Client, report: Callable[[str], None]
) -> PageAuthorizer:
    """Return the gate for the pages of a process with these options.

    Callers on this host need no token where there is a kubeconfig, so that this is not a pod, and
    where other hosts cannot reach the pages.
    """
    has_kubeconfig = options.kubeconfig or options.settings.client_connection.kubeconfig
    if has_kubeconfig and _is_loopback(options.bind_address):
        return PageAuthorizer(OpenPaths(options.open_paths), None, report)
    settings = ReviewSettings(
        token_seconds=options.token_cache_seconds,
        allowed_seconds=options.allowed_cache_seconds,
        denied_seconds=options.denied_cache_seconds,
        # A lifetime of 0 for tokens switches off the cache of refusals, too.
        refused_seconds=_REFUSED_SECONDS if options.token_cache_seconds > 0 else 0.0,
    )
    return PageAuthorizer(OpenPaths(options.open_paths), Reviewer(client, settings), report)


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _token(caller: Caller) -> str:
    """Return the bearer token of a caller; empty where there is no well-formed one."""
    scheme, _, rest = caller.headers.get("Authorization", "").strip().partition(" ")
    token = rest.partition(" ")[0]
    if scheme.lower() != _SCHEME or not token.isascii() or not token.isprintable():
        return ""
    return token
