"""Authenticates and authorizes callers of the pages through the API server.

A TokenReview returns the user of a bearer token, a SubjectAccessReview whether that user may use a
verb on a path. Results are cached for some seconds, so that a Prometheus server costs a few
requests per minute; failures are never cached. The caches are limited, and contain tokens as keyed
hashes only: nothing here stores, logs or returns a token.

Only a few reviews run at a time, so that unknown callers take no connections from the writer;
further callers wait. Tokens that were accepted within the last hour have places of their own: a
scrape never waits behind made-up tokens. `service/page_access` limits the rate of reviews; this
module returns whether a review is needed.

Source: apiserver v0.36.3 plugin/pkg/authenticator/token/webhook, plugin/pkg/authorizer/webhook,
pkg/authentication/token/cache.
Differs: a failed review is not retried, because the caller will ask again. Refusals of tokens are
cached for longer.
"""

import asyncio
import hashlib
import hmac
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec

from scheduler.kube.client.client import Client, Request
from scheduler.kube.errors import Unreachable
from scheduler.kube.watch.decoding import UNREADABLE

__all__ = ["AUTHENTICATED", "AuthenticatedUser", "CachedReview", "ReviewSettings", "Reviewer"]

TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

#: All authenticated users belong to this group, also where the server does not list it.
AUTHENTICATED: Final = "system:authenticated"
ANONYMOUS: Final = "system:unauthenticated"

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewSettings:
    """Lifetimes of cached answers, and limits."""

    #: Of the user of a token.
    token_seconds: float = 10.0
    #: Of the refusal of a token.
    refused_seconds: float = 60.0
    #: How long a token counts as known after it was accepted.
    accepted_seconds: float = 3600.0
    allowed_seconds: float = 10.0
    denied_seconds: float = 10.0
    #: Cached answers of each kind; the least recently used one goes first.
    entries: int = 1024
    #: Concurrent reviews: of tokens that were not accepted lately, and all others.
    at_once: int = 4
    reserved_at_once: int = 2
    #: How long the API server may take for one.
    answer_seconds: float = 4.0


class AuthenticatedUser(msgspec.Struct, frozen=True):
    """A user that the API server has authenticated."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = {}


class CachedReview(Generic[KeyT, ValueT]):
    """A cache of values with a lifetime each, bounded by number."""

    def __init__(self, entries: int) -> None:
        self._entries = entries
        self._values: OrderedDict[KeyT, tuple[float, ValueT]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: KeyT) -> tuple[ValueT] | None:
        """Return the value in a tuple; `None` when there is none, or it has expired."""
        cached = self._values.get(key)
        if cached is None:
            return None
        if cached[0] <= _now():
            del self._values[key]
            return None
        self._values.move_to_end(key)
        return (cached[1],)

    def put(self, key: KeyT, value: ValueT, seconds: float) -> None:
        """Cache a value for so many seconds."""
        if seconds <= 0:
            return
        self._values[key] = (_now() + seconds, value)
        self._values.move_to_end(key)
        while len(self._values) > self._entries:
            self._values.popitem(last=False)

    def remove(self, key: KeyT) -> None:
        """Remove a key."""
        self._values.pop(key, None)


def _spec(user: AuthenticatedUser, **attributes: dict[str, str]) -> dict[str, Any]:
    """Return the spec of an access review."""
    return {
        "user": user.username,
        "uid": user.uid,
        "groups": user.groups,
        "extra": user.extra,
        **attributes,
    }


def _path_spec(user: AuthenticatedUser, verb: str, path: str) -> dict[str, Any]:
    """Return the spec of an access review for a path that is not an API resource."""
    return _spec(user, nonResourceAttributes={"verb": verb, "path": path})


def _pods_spec(user: AuthenticatedUser, namespace: str) -> dict[str, Any]:
    """Return the spec of an access review for the pods of a namespace; of all if it is empty."""
    attributes = {"verb": "get", "version": "v1", "resource": "pods", "namespace": namespace}
    return _spec(user, resourceAttributes=attributes)


class Reviewer:
    """Reviews tokens and rights, and caches the answers. Use it inside the running event loop.

    Args:
        client: Sends the requests.
        settings: Lifetimes and limits.
    """

    def __init__(self, client: Client, settings: ReviewSettings | None = None) -> None:
        self._client = client
        self._settings = settings = settings or ReviewSettings()
        #: Separate caches, so that made-up tokens displace no others.
        self._users: CachedReview[bytes, AuthenticatedUser] = CachedReview(settings.entries)
        self._refused: CachedReview[bytes, None] = CachedReview(settings.entries)
        self._accepted: CachedReview[bytes, None] = CachedReview(settings.entries)
        self._rights: CachedReview[bytes, bool] = CachedReview(settings.entries)
        self._secret = secrets.token_bytes(32)
        self._places = asyncio.Semaphore(settings.at_once)
        self._reserved = asyncio.Semaphore(settings.reserved_at_once)

    def needs_review(self, token: str) -> bool:
        """Return whether a token needs a review and was not accepted lately."""
        key = self._hash(token.encode())
        return self._accepted.get(key) is None and self._cached(key) is None

    async def user(self, token: str) -> AuthenticatedUser | None:
        """Return the user of a token; `None` when the API server does not accept it.

        Raises:
            KubeError: It could not be asked, or refused to answer.
        """
        key = self._hash(token.encode())
        known = self._cached(key)
        if known is not None:
            return known[0]
        async with self._places if self._accepted.get(key) is None else self._reserved:
            known = self._cached(key)  # perhaps the same token was reviewed meanwhile
            if known is None:
                known = (await self._review_token(token),)
                self._store(key, known[0])
        return known[0]

    def _cached(self, key: bytes) -> tuple[AuthenticatedUser | None] | None:
        """Return the cached answer in a tuple."""
        return self._users.get(key) or self._refused.get(key)

    def _store(self, key: bytes, user: AuthenticatedUser | None) -> None:
        settings = self._settings
        if user is None:
            self._refused.put(key, None, settings.refused_seconds)
            self._accepted.remove(key)
        else:
            self._users.put(key, user, settings.token_seconds)
            self._accepted.put(key, None, settings.accepted_seconds)

    def is_cached(self, user: AuthenticatedUser, verb: str, path: str) -> bool:
        """Return whether the answer of `allows` is cached."""
        return self._rights.get(self._right(_path_spec(user, verb, path))) is not None

    async def allows(self, user: AuthenticatedUser, verb: str, path: str) -> bool:
        """Return whether a user may use a verb on a path that is not an API resource.

        Raises:
            KubeError: The API server could not be asked, or refused to answer.
        """
        return await self._allowed(_path_spec(user, verb, path))

    def knows_pods(self, user: AuthenticatedUser, namespace: str) -> bool:
        """Return whether the answer of `may_get_pods` is cached."""
        return self._rights.get(self._right(_pods_spec(user, namespace))) is not None

    async def may_get_pods(self, user: AuthenticatedUser, namespace: str) -> bool:
        """Return whether a user may get the pods of a namespace; of all if it is empty.

        Raises:
            KubeError: The API server could not be asked, or refused to answer.
        """
        return await self._allowed(_pods_spec(user, namespace))

    async def _allowed(self, spec: dict[str, Any]) -> bool:
        key = self._right(spec)
        known = self._rights.get(key)
        if known is not None:
            return known[0]
        async with self._reserved:
            known = self._rights.get(key)
            if known is None:
                allowed = await self._review_access(spec)
                settings = self._settings
                seconds = settings.allowed_seconds if allowed else settings.denied_seconds
                self._rights.put(key, allowed, seconds)
                known = (allowed,)
        return known[0]

    async def _review_token(self, token: str) -> AuthenticatedUser | None:
        body = _review("authentication.k8s.io", "TokenReview", {"token": token})
        answer = await self._ask("tokenreviews", TOKEN_REVIEWS, body, _TOKEN_REVIEW)
        if not answer.status.authenticated:
            return None
        user = answer.status.user
        if not user.username:
            raise Unreachable("cannot create tokenreviews: the response names no user")
        if not {AUTHENTICATED, ANONYMOUS} & {*user.groups}:
            user = msgspec.structs.replace(user, groups=(*user.groups, AUTHENTICATED))
        return user

    async def _review_access(self, spec: dict[str, Any]) -> bool:
        body = _review("authorization.k8s.io", "SubjectAccessReview", spec)
        answer = await self._ask("subjectaccessreviews", ACCESS_REVIEWS, body, _ACCESS_REVIEW)
        return answer.status.allowed and not answer.status.denied

    async def _ask(
        self, resource: str, path: str, body: bytes, decoder: "msgspec.json.Decoder[ValueT]"
    ) -> ValueT:
        seconds = self._settings.answer_seconds
        request = Request("create", resource, "POST", path, body, answer_seconds=seconds)
        answer = await self._client.call(request)
        try:
            return decoder.decode(answer)
        except UNREADABLE as error:
            raise Unreachable(f"cannot {request}: the response is not a valid review") from error

    def _right(self, spec: dict[str, Any]) -> bytes:
        return self._hash(msgspec.json.encode(spec, order="sorted"))

    def _hash(self, data: bytes) -> bytes:
        return hmac.digest(self._secret, data, hashlib.sha256)


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: AuthenticatedUser = AuthenticatedUser()


class _TokenReview(msgspec.Struct):
    #: Required: an answer without it is not a review.
    status: _TokenStatus


class _AccessStatus(msgspec.Struct):
    allowed: bool
    denied: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus


def _review(group: str, kind: str, spec: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"apiVersion": f"{group}/v1", "kind": kind, "spec": spec})


def _now() -> float:
    return asyncio.get_running_loop().time()


_TOKEN_REVIEW: Final = msgspec.json.Decoder(_TokenReview)
_ACCESS_REVIEW: Final = msgspec.json.Decoder(_AccessReview)
