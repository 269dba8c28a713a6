"""Ask the API server who somebody is, and whether they may read a page of ours.

A TokenReview tells the user behind a bearer token, a SubjectAccessReview whether that user may use
a verb on a path. Answers are remembered for some seconds, so that a Prometheus server costs a few
requests a minute; a failure is never remembered. What is remembered is bounded, and tokens are
remembered as keyed hashes only: nothing here keeps, logs or returns a token.

Only a few reviews are under way at a time, so that strangers who knock keep no connection from the
writer; a caller that comes while they last waits. A token that was accepted within the last hour
has places of its own: a scrape never waits behind made-up tokens. The rate of reviews is set by
`service/page_access`, which learns here whether an answer needs one.

Source: apiserver v0.36.3 plugin/pkg/authenticator/token/webhook, plugin/pkg/authorizer/webhook,
pkg/authentication/token/cache.
Differs: a review that failed is not tried again: the caller comes again. That a token is not
accepted is remembered for longer.
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

__all__ = ["AuthenticatedUser", "CachedReview", "ReviewSettings", "Reviewer"]

TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

#: Whoever proved who they are belongs to this group, also where the server does not say so.
AUTHENTICATED: Final = "system:authenticated"
ANONYMOUS: Final = "system:unauthenticated"

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewSettings:
    """For how long answers hold, and how much is asked at a time."""

    #: The user of a token.
    token_seconds: float = 10.0
    #: That a token is not accepted.
    refused_seconds: float = 60.0
    #: That a token was accepted, so that it is no stranger's.
    accepted_seconds: float = 3600.0
    allowed_seconds: float = 10.0
    denied_seconds: float = 10.0
    #: Answers that are remembered of each kind; the one that was used longest ago goes first.
    entries: int = 1024
    #: Reviews under way, of tokens that were never accepted, and of all others.
    at_once: int = 4
    reserved_at_once: int = 2
    #: How long the API server may take for one.
    answer_seconds: float = 4.0


class AuthenticatedUser(msgspec.Struct, frozen=True):
    """Somebody whom the API server knows."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = {}


class CachedReview(Generic[KeyT, ValueT]):
    """Values that hold for some time, and no more than so many of them."""

    def __init__(self, entries: int) -> None:
        self._entries = entries
        self._kept: OrderedDict[KeyT, tuple[float, ValueT]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: KeyT) -> tuple[ValueT] | None:
        """Return the value in a tuple, `None` when there is none that still holds."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        if kept[0] <= _now():
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        return (kept[1],)

    def put(self, key: KeyT, value: ValueT, seconds: float) -> None:
        """Remember a value for so many seconds."""
        if seconds <= 0:
            return
        self._kept[key] = (_now() + seconds, value)
        self._kept.move_to_end(key)
        while len(self._kept) > self._entries:
            self._kept.popitem(last=False)

    def forget(self, key: KeyT) -> None:
        """Remember nothing of a key."""
        self._kept.pop(key, None)


def _spec(user: AuthenticatedUser, verb: str, path: str) -> dict[str, Any]:
    """Return what is asked about a user and a path that is no API resource."""
    return {
        "user": user.username,
        "uid": user.uid,
        "groups": user.groups,
        "extra": user.extra,
        "nonResourceAttributes": {"verb": verb, "path": path},
    }


class Reviewer:
    """Asks, and remembers the answers. Use it inside the running event loop.

    Args:
        client: How requests travel.
        settings: For how long answers hold.
    """

    def __init__(self, client: Client, settings: ReviewSettings | None = None) -> None:
        self._client = client
        self._settings = settings = settings or ReviewSettings()
        #: Apart, so that made-up tokens push no others out.
        self._users: CachedReview[bytes, AuthenticatedUser] = CachedReview(settings.entries)
        self._refused: CachedReview[bytes, None] = CachedReview(settings.entries)
        self._accepted: CachedReview[bytes, None] = CachedReview(settings.entries)
        self._rights: CachedReview[bytes, bool] = CachedReview(settings.entries)
        self._secret = secrets.token_bytes(32)
        self._places = asyncio.Semaphore(settings.at_once)
        self._reserved = asyncio.Semaphore(settings.reserved_at_once)

    def needs_review(self, token: str) -> bool:
        """Tell whether a token needs a review that no earlier one speaks for."""
        key = self._hash(token.encode())
        return self._accepted.get(key) is None and self._known(key) is None

    async def user(self, token: str) -> AuthenticatedUser | None:
        """Return who is behind a token; `None` when the API server does not accept it.

        Raises:
            KubeError: It could not be asked, or refused to say.
        """
        key = self._hash(token.encode())
        known = self._known(key)
        if known is not None:
            return known[0]
        async with self._places if self._accepted.get(key) is None else self._reserved:
            known = self._known(key)  # perhaps the same was asked meanwhile
            if known is None:
                known = (await self._review_token(token),)
                self._learn(key, known[0])
        return known[0]

    def _known(self, key: bytes) -> tuple[AuthenticatedUser | None] | None:
        """Return the answer that is remembered, in a tuple."""
        return self._users.get(key) or self._refused.get(key)

    def _learn(self, key: bytes, user: AuthenticatedUser | None) -> None:
        settings = self._settings
        if user is None:
            self._refused.put(key, None, settings.refused_seconds)
            self._accepted.forget(key)
        else:
            self._users.put(key, user, settings.token_seconds)
            self._accepted.put(key, None, settings.accepted_seconds)

    def is_cached(self, user: AuthenticatedUser, verb: str, path: str) -> bool:
        """Tell whether it is remembered what `allows` answers."""
        return self._rights.get(self._right(_spec(user, verb, path))) is not None

    async def allows(self, user: AuthenticatedUser, verb: str, path: str) -> bool:
        """Tell whether a user may use a verb on a path that is no API resource.

        Raises:
            KubeError: The API server could not be asked, or refused to say.
        """
        spec = _spec(user, verb, path)
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
        said = await self._ask("tokenreviews", TOKEN_REVIEWS, body, _TOKEN_REVIEW)
        if not said.status.authenticated:
            return None
        user = said.status.user
        if not user.username:
            raise Unreachable("cannot create tokenreviews: the answer names no user")
        if not {AUTHENTICATED, ANONYMOUS} & {*user.groups}:
            user = msgspec.structs.replace(user, groups=(*user.groups, AUTHENTICATED))
        return user

    async def _review_access(self, spec: dict[str, Any]) -> bool:
        body = _review("authorization.k8s.io", "SubjectAccessReview", spec)
        said = await self._ask("subjectaccessreviews", ACCESS_REVIEWS, body, _ACCESS_REVIEW)
        return said.status.allowed and not said.status.denied

    async def _ask(
        self, resource: str, path: str, body: bytes, decoder: "msgspec.json.Decoder[ValueT]"
    ) -> ValueT:
        seconds = self._settings.answer_seconds
        request = Request("create", resource, "POST", path, body, answer_seconds=seconds)
        answer = await self._client.call(request)
        try:
            return decoder.decode(answer)
        except UNREADABLE as error:
            raise Unreachable(f"cannot {request}: the answer is no review") from error

    def _right(self, spec: dict[str, Any]) -> bytes:
        return self._hash(msgspec.json.encode(spec, order="sorted"))

    def _hash(self, data: bytes) -> bytes:
        return hmac.digest(self._secret, data, hashlib.sha256)


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: AuthenticatedUser = AuthenticatedUser()


class _TokenReview(msgspec.Struct):
    #: Without it the answer is something else.
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
