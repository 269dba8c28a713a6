"""Who may read which page.

Pages that are always allowed need no token. For all others the caller sends a bearer token that the
API server accepts, or has a client certificate that the cluster's client CA has signed, and the API
server decides whether its user may `get` the path. A valid certificate comes before a token. While
the API server cannot be reached, access is refused, unless a result from some seconds ago is still
valid.

Unknown callers cause few requests to the API server: tokens that were not accepted lately are
reviewed at most once a second for one address, and ten times a second for all together; further
requests return 429. A token that was accepted within the last hour is not subject to these limits,
and callers that reach them do not slow it down. Reviews of permissions that are not cached are
limited by address as well.

Permissions for the documents of `/api/v1` are reviewed on `/preemptive-scheduler/api/v1`, because
every authenticated user may read `/api`. These documents show the pod names of a namespace to users
who may `get` pods there. The first review is for all namespaces, further ones are for each
namespace that matters.

On a developer's own machine, bound to its loopback interface, only users of that machine can reach
the pages, and callers need no token.

Source: apiserver v0.36.3 pkg/authentication/request/bearertoken, pkg/authorization/path.
Differs: a caller without credentials is refused with 401, and not reviewed as `system:anonymous`;
while the API server does not answer the status is 503.
"""

import asyncio
import ipaddress
from collections.abc import Callable, Collection, Container, Sequence
from typing import Final, Protocol

from scheduler.kube.client.client import Client
from scheduler.kube.errors import KubeError
from scheduler.kube.token_review import AUTHENTICATED, AuthenticatedUser, Reviewer, ReviewSettings
from scheduler.model.times import Seconds
from scheduler.observe.api.requests import EVERY_NAME, StatusError
from scheduler.observe.server.access import (
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

__all__ = [
    "OpenPaths",
    "PageAuthorizer",
    "ReviewedNames",
    "Reviews",
    "needs_no_credentials",
    "page_authorizer",
]

_SCHEME: Final = "bearer"
#: Prefix of the paths of the API when permissions for them are reviewed.
API_RIGHTS: Final = "/preemptive-scheduler"


#: How often tokens that were not accepted lately are reviewed: for one address, and for all.
_TOKENS_OF_ONE: Final = RateLimit(per_second=1, burst=20)
_TOKENS_OF_ALL: Final = RateLimit(per_second=10, burst=50)
#: How often the API server is asked for one address whether a user may read a page.
_RIGHTS_OF_ONE: Final = RateLimit(per_second=10, burst=100)

#: How often the API server is asked for one address whether a user may get the pods of a namespace,
#: and how often for one request. What is not asked about is hidden.
_NAMES_OF_ONE: Final = RateLimit(per_second=20, burst=100)
_NAMES_AT_ONCE: Final = 50
#: For how long an answer counts in a watch where the limits prevent that it is asked for again.
_REMEMBERED_SECONDS: Final = 30.0
_NEVER: Final = (False, 0.0)

#: The users of service accounts are named so, followed by namespace and name.
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"

#: How long a refusal of a token is cached.
_REFUSED_SECONDS: Final = 60.0

_TOO_OFTEN: Final = AccessDecision(
    AccessVerdict.THROTTLED, "too many authorization reviews are pending; try again later"
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

    def knows_pods(self, user: AuthenticatedUser, namespace: str) -> bool:
        """Return whether the answer of `may_get_pods` is cached."""

    async def may_get_pods(self, user: AuthenticatedUser, namespace: str) -> bool:
        """Return whether a user may get the pods of a namespace; of all if it is empty."""


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


class ReviewedNames:
    """The namespaces in which a user may see the names of pods.

    The user may `get` pods in all namespaces, or in some of them. The namespaces about which the
    API server cannot be asked because of the limits are hidden, unless it was asked lately: a watch
    asks again and again, and must not take pods from its reader because others ask as well.

    Args:
        reviews: Authorizes users.
        user: The user.
        rate: Limits how often the API server is asked.
        report: Called with the problem if it cannot be asked.
    """

    def __init__(
        self, reviews: Reviews, user: AuthenticatedUser, rate: Rate, report: Callable[[str], None]
    ) -> None:
        self._reviews = reviews
        self._user = user
        self._rate = rate
        self._report = report
        #: The last answer about each namespace, and when it was asked for.
        self._answers: dict[str, tuple[bool, Seconds]] = {}

    async def visible(self, namespaces: Collection[str]) -> Container[str]:
        """Return those of some namespaces in which the user may get pods.

        Raises:
            ApiError: The API server cannot be asked.
        """
        try:
            if await self._may_get(""):
                return await EVERY_NAME.visible(namespaces)
            return await self._allowed(namespaces)
        except KubeError as error:
            self._report(str(error))
            text = "the permission to get pods cannot be checked now"
            raise StatusError(503, "ServiceUnavailable", text) from error

    async def _allowed(self, namespaces: Collection[str]) -> frozenset[str]:
        known: list[str] = []
        unknown: list[str] = []
        for namespace in sorted(namespaces, key=lambda name: (not self._is_own(name), name)):
            cached = self._reviews.knows_pods(self._user, namespace)
            (known if cached else unknown).append(namespace)
        # Those that were never asked for first, then those of long ago.
        unknown.sort(key=lambda name: self._answers.get(name, _NEVER)[1])
        asked = [name for name in known + unknown[:_NAMES_AT_ONCE] if name]
        answers = await asyncio.gather(*map(self._may_get, asked))
        allowed = {name for name, allowed in zip(asked, answers, strict=True) if allowed}
        return frozenset(allowed.union(filter(self._was_allowed, unknown[_NAMES_AT_ONCE:])))

    def _is_own(self, namespace: str) -> bool:
        """Return whether the user is a service account of a namespace."""
        return self._user.username.startswith(f"{_SERVICE_ACCOUNT}{namespace}:")

    async def _may_get(self, namespace: str) -> bool:
        now = asyncio.get_running_loop().time()
        if not self._reviews.knows_pods(self._user, namespace) and not self._rate.take(now):
            return self._was_allowed(namespace)
        allowed = await self._reviews.may_get_pods(self._user, namespace)
        self._answers[namespace] = allowed, now
        return allowed

    def _was_allowed(self, namespace: str) -> bool:
        """Return whether the last answer about a namespace was yes, and is not old."""
        allowed, at = self._answers.get(namespace, _NEVER)
        return allowed and asyncio.get_running_loop().time() - at < _REMEMBERED_SECONDS


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
        self._names = RatesByPeer(_NAMES_OF_ONE)
        self._all_tokens: Rate | None = None

    async def __call__(self, caller: Caller, /) -> AccessDecision:
        """Return whether this caller may read this path."""
        if caller.path in self._open:
            return AccessDecision(AccessVerdict.ALLOWED)
        if self._reviews is None:
            return await loopback(caller)
        try:
            decision = await self._reviewed(self._reviews, caller)
        except KubeError as error:
            if not self._is_failing:  # reported once, however many callers there are
                self._report(str(error))
            self._is_failing = True
            return unavailable()
        self._is_failing = False
        return decision

    async def _reviewed(self, reviews: Reviews, caller: Caller) -> AccessDecision:
        address = peer(caller.peer)
        now = asyncio.get_running_loop().time()
        user, token = _certified(caller), _token(caller)
        if user is None and token:
            if reviews.needs_review(token) and not self._may_ask(address, now):
                return _TOO_OFTEN
            user = await reviews.user(token)
        if user is None:
            return UNAUTHENTICATED
        path = reviewed_path(caller.path)
        is_cached = reviews.is_cached(user, caller.verb, path)
        if not is_cached and not self._rights.of(address, now).take(now):
            return _TOO_OFTEN
        if await reviews.allows(user, caller.verb, path):
            names = ReviewedNames(reviews, user, self._names.of(address, now), self._report)
            return AccessDecision(AccessVerdict.ALLOWED, names=names, user=user.username)
        text = f'forbidden: User "{user.username}" cannot {caller.verb} path "{path}"'
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
    if needs_no_credentials(options):
        return PageAuthorizer(OpenPaths(options.open_paths), None, report)
    settings = ReviewSettings(
        token_seconds=options.token_cache_seconds,
        allowed_seconds=options.allowed_cache_seconds,
        denied_seconds=options.denied_cache_seconds,
        # A lifetime of 0 for tokens switches off the cache of refusals, too.
        refused_seconds=_REFUSED_SECONDS if options.token_cache_seconds > 0 else 0.0,
    )
    return PageAuthorizer(OpenPaths(options.open_paths), Reviewer(client, settings), report)


def reviewed_path(path: str) -> str:
    """Return the path on which a caller needs the right to read a page.

    The ClusterRole `system:discovery` lets every authenticated user, and so every pod, `get` all of
    `/api`. So the documents below that path are reviewed under a path of their own.
    """
    return f"{API_RIGHTS}{path}" if path == "/api" or path.startswith("/api/") else path


def needs_no_credentials(options: ProcessOptions) -> bool:
    """Return whether only callers of this host can reach the pages, and this is not a pod."""
    has_kubeconfig = options.kubeconfig or options.settings.client_connection.kubeconfig
    return bool(has_kubeconfig) and _is_loopback(options.bind_address)


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _certified(caller: Caller) -> AuthenticatedUser | None:
    """Return the user of a caller's certificate.

    Source: apiserver v0.36.3 pkg/authentication/request/x509, pkg/authentication/user.
    """
    client = caller.client
    if client is None:
        return None
    extra = {"authentication.kubernetes.io/credential-id": [f"X509SHA256={client.fingerprint}"]}
    return AuthenticatedUser(client.username, "", (*client.groups, AUTHENTICATED), extra)


def _token(caller: Caller) -> str:
    """Return the bearer token of a caller; empty where there is no well-formed one."""
    scheme, _, rest = caller.headers.get("Authorization", "").strip().partition(" ")
    token = rest.partition(" ")[0]
    if scheme.lower() != _SCHEME or not token.isascii() or not token.isprintable():
        return ""
    return token
