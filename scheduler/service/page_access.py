"""Who may read which page.

Pages that are always allowed need nothing. For all others a caller shows a bearer token that the
API server accepts, and the API server says whether its user may `get` the path. While it cannot be
asked nobody is let in, unless an answer of some seconds ago still holds.

Strangers cause few requests to the API server: an address may have a token reviewed that was not
accepted lately once a second, and all of them together ten times; more is answered with 429. A
token that was accepted within the last hour is not held up by these bounds, nor by callers that
reach them. A right that has to be asked about is bounded by address as well.

Run on somebody's own machine, bound to its loopback interface, there is nobody to protect the
pages from but users of that machine, and callers need no token.

Source: apiserver v0.36.3 pkg/authentication/request/bearertoken, pkg/authorization/path.
Differs: who shows no token is refused with 401, and not asked about as `system:anonymous`; client
certificates are not looked at; while the API server is away the answer is 503.
"""

import asyncio
import ipaddress
import logging
from collections.abc import Sequence
from typing import Final, Protocol

from scheduler.kube.client.client import Client
from scheduler.kube.errors import KubeError
from scheduler.kube.token_review import AuthenticatedUser, Reviewer, ReviewSettings
from scheduler.model.times import Seconds
from scheduler.observe.rates import Allowance, ByPeer, Rate
from scheduler.observe.server.access import (
    ALLOWED,
    UNAUTHENTICATED,
    AccessVerdict,
    Caller,
    Judgement,
    loopback,
    unavailable,
)
from scheduler.observe.server.connections import peer
from scheduler.service.options import ProcessOptions

__all__ = ["Gate", "OpenPaths", "Reviews", "gate"]

_LOG: Final = logging.getLogger(__name__)

_SCHEME: Final = "bearer"


#: How often one address, and all, may have tokens reviewed that were not accepted lately.
_STRANGERS_OF_ONE: Final = Allowance(per_second=1, burst=20)
_STRANGERS: Final = Allowance(per_second=10, burst=50)
#: How often one address may have it asked whether a user may read a page.
_RIGHTS_OF_ONE: Final = Allowance(per_second=10, burst=100)

#: For how long it holds that a token is not accepted.
_REFUSED_SECONDS: Final = 60.0

_TOO_OFTEN: Final = Judgement(
    AccessVerdict.THROTTLED, "too many reviews are asked for; come again later"
)


class Reviews(Protocol):
    """Knows users and their rights; `kube.review.Reviewer` is one."""

    def is_strange(self, token: str) -> bool:
        """Tell whether a token needs a review that no earlier one speaks for."""

    def is_known(self, user: AuthenticatedUser, verb: str, path: str) -> bool:
        """Tell whether it is remembered what `allows` answers."""

    async def user(self, token: str) -> AuthenticatedUser | None:
        """Return who is behind a token; `None` for nobody."""

    async def allows(self, user: AuthenticatedUser, verb: str, path: str) -> bool:
        """Tell whether a user may use a verb on a path."""


class OpenPaths:
    """Paths that anybody may read: as they stand, or all that begin like one that ends in `*`.

    Source: apiserver v0.36.3 pkg/authorization/path.NewAuthorizer.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        wanted = [path.removeprefix("/") for path in paths]
        self._exact = frozenset(path for path in wanted if not path.endswith("*"))
        self._prefixes = tuple(path[:-1] for path in wanted if path.endswith("*"))

    def __contains__(self, path: str) -> bool:
        path = path.removeprefix("/")
        return path in self._exact or path.startswith(self._prefixes)


class Gate:
    """Judges callers.

    Args:
        open_paths: What anybody may read.
        reviews: Who knows users and their rights; `None` where callers of this host are let in
            without a token, and nobody else.
    """

    def __init__(self, open_paths: OpenPaths, reviews: Reviews | None) -> None:
        self._open = open_paths
        self._reviews = reviews
        self._is_failing = False
        self._tokens = ByPeer(_STRANGERS_OF_ONE)
        self._rights = ByPeer(_RIGHTS_OF_ONE)
        self._all_tokens: Rate | None = None

    async def __call__(self, caller: Caller, /) -> Judgement:
        """Say whether this caller may read this path."""
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
            if not self._is_failing:  # told once, however many knock
                _LOG.warning("nobody can be let in: %s", error)
            self._is_failing = True
            return unavailable()
        self._is_failing = False
        return judgement

    async def _reviewed(self, reviews: Reviews, token: str, caller: Caller) -> Judgement:
        address = peer(caller.peer)
        now = asyncio.get_running_loop().time()
        if reviews.is_strange(token) and not self._may_ask(address, now):
            return _TOO_OFTEN
        user = await reviews.user(token)
        if user is None:
            return UNAUTHENTICATED
        is_known = reviews.is_known(user, caller.verb, caller.path)
        if not is_known and not self._rights.of(address, now).take(now):
            return _TOO_OFTEN
        if await reviews.allows(user, caller.verb, caller.path):
            return ALLOWED
        text = f'forbidden: User "{user.username}" cannot {caller.verb} path "{caller.path}"'
        return Judgement(AccessVerdict.FORBIDDEN, text)

    def _may_ask(self, address: str, now: Seconds) -> bool:
        """Tell whether a stranger's token may be reviewed now; if so it counts."""
        if self._all_tokens is None:
            self._all_tokens = Rate(_STRANGERS, now)
        own = self._tokens.of(address, now)
        return own.wait(now) <= 0.0 and self._all_tokens.take(now) and own.take(now)


def gate(options: ProcessOptions, client: Client) -> Gate:
    """Return who judges the callers of a process with these options.

    Callers on this host need no token where the kubeconfig is somebody's own, so that this is no
    pod, and nobody else can reach what is served.
    """
    at_home = options.kubeconfig or options.settings.client_connection.kubeconfig
    if at_home and _is_loopback(options.bind_address):
        return Gate(OpenPaths(options.open_paths), None)
    settings = ReviewSettings(
        token_seconds=options.token_cache_seconds,
        allowed_seconds=options.allowed_cache_seconds,
        denied_seconds=options.denied_cache_seconds,
        # No answer is remembered where that is wished for.
        refused_seconds=_REFUSED_SECONDS if options.token_cache_seconds > 0 else 0.0,
    )
    return Gate(OpenPaths(options.open_paths), Reviewer(client, settings))


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _token(caller: Caller) -> str:
    """Return the bearer token of a caller; empty when it shows none that could be one."""
    scheme, _, rest = caller.headers.get("Authorization", "").strip().partition(" ")
    token = rest.partition(" ")[0]
    if scheme.lower() != _SCHEME or not token.isascii() or not token.isprintable():
        return ""
    return token
