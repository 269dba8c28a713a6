"""Users of the console in a cluster: each has a token, with which the scheduler is asked.

A token comes in `Authorization`, from a proxy that has signed the user in, or in the form. Then it
is kept here, and the browser gets a random cookie for it. A cookie that is stolen is worth less
than a token: it reads this console, while the token is valid for the API server as well. A cookie
also has not enough room for the tokens of some providers, and proxies log cookies. The price is
that a restart ends all sessions.

No token is forwarded before the scheduler has accepted it once, within the last ten minutes. It
reviews few unknown tokens of one address, and all users of the console have its address: invented
ones must not use up what the known ones need, for example after a change of the leader.
"""

import asyncio
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from scheduler.kube.auth.credentials import bearer, is_token
from scheduler.kube.http.http1 import Reply
from scheduler.model.rest.cluster import ApiIndex
from scheduler.observe.server.rates import Rate, RateLimit
from scheduler.web_console.backend import BackendError
from scheduler.web_console.sign_in import Form, SignedIn, SignInRefused

__all__ = ["TokenSignIn"]

#: With its prefix, no other host of the domain and no plain page can set the cookie.
COOKIE: Final = "__Host-preemptive-console"
#: The scheduler reads lines of 8,190 bytes.
TOKEN_BYTES: Final = 8_000
FORM_BYTES: Final = 16_384
#: For how long a session lasts, and how long without a request. Pages that are shown send some.
SESSION_SECONDS: Final = 12 * 3600.0
IDLE_SECONDS: Final = 3600.0
#: How many there are, and of one user; the oldest ends.
SESSIONS: Final = 1_000
USER_SESSIONS: Final = 10
#: For how long a token counts as accepted, and that of a user without the permission to read.
ACCEPTED_SECONDS: Final = 600.0
FORBIDDEN_SECONDS: Final = 5.0
#: How often the scheduler is asked about tokens that it has not accepted: half of what it reviews
#: for one address.
UNKNOWN_TOKENS: Final = RateLimit(per_second=0.5, burst=15)

TOKEN: Final = "Enter a token of your user in the cluster."
ENDED: Final = "Your session has ended, or its token has expired. Sign in again."
WRONG: Final = "The cluster does not accept this token. It may have expired, or be incomplete."
VIEWER: Final = "The ClusterRole preemptive-scheduler-viewer has this permission."
TOO_MANY: Final = "Too many tokens that are not known were sent. Try again in some seconds."
HINT: Final = (
    "<p>A token that <code>kubectl create token ACCOUNT -n NAMESPACE</code> prints, or an ID token"
    " of your provider. You see what its user may see, and can change nothing. The token is kept in"
    " the memory of this server until you sign out, for 12 hours at most.</p>"
)


class Asks(Protocol):
    """Asks the scheduler."""

    def __call__(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, /
    ) -> Awaitable[Reply]:
        """Send a request; raises BackendError."""


class Accepted(NamedTuple):
    """A token that the scheduler has accepted."""

    user: str
    #: Why its user may not read the API; empty if they may.
    problem: str
    until: float


@dataclass(eq=False, slots=True)
class _Session:
    login: SignedIn
    began: float
    used: float


class TokenSignIn:
    """For all users of a cluster.

    Args:
        url: The address at which browsers reach the page; other names are not served.
        ask: Asks the scheduler who a user is.
        report: Logs who signs in and out: an event with fields.
    """

    form: Final = Form("token", "Token", HINT, FORM_BYTES)
    key: Final = ""
    is_public: Final = True

    def __init__(self, url: str, ask: Asks, report: Callable[..., object]) -> None:
        parts = urlsplit(url)
        self.scheme: Final = parts.scheme
        self._hosts = frozenset((parts.netloc.lower(),))
        self._ask = ask
        self._report = report
        self._unknown: Rate | None = None
        #: By digests: what is looked up says nothing about what is nearly equal to it.
        self._sessions: OrderedDict[bytes, _Session] = OrderedDict()
        self._accepted: OrderedDict[bytes, Accepted] = OrderedDict()
        #: Tokens that are being reviewed: all requests of a page wait for one answer.
        self._asking: dict[bytes, asyncio.Task[Accepted]] = {}

    def hosts(self, _port: int) -> frozenset[str]:
        """Return the public name alone, whatever proxies say about it."""
        return self._hosts

    def cookie(self, _port: int) -> str:
        """Return the name of the cookie."""
        return COOKIE

    async def login(self, request: web.Request, cookie: str) -> SignedIn | None:
        """Return the user of the token of a proxy, else of the session."""
        token = _bearer(request)
        if token is not None:
            return SignedIn(bearer(token), (await self._review(token)).user, "proxy")
        session = self._session(cookie)
        return None if session is None else session.login

    async def enter(self, given: str) -> str:
        """Return the cookie of a new session for a token."""
        accepted = await self._review(given)
        if accepted.problem:
            raise SignInRefused(accepted.problem)
        now, user = _now(), accepted.user
        own = [key for key, each in self._sessions.items() if each.login.user == user]
        for key in own[: max(0, len(own) + 1 - USER_SESSIONS)]:
            self._drop(key)
        while len(self._sessions) >= SESSIONS:
            self._drop(next(iter(self._sessions)))
        cookie = secrets.token_urlsafe(32)
        self._sessions[_digest(cookie)] = _Session(SignedIn(bearer(given), user, "token"), now, now)
        self._report("signed_in", user=user)
        return cookie

    def message(self, *, had_cookie: bool) -> str:
        """Say what is needed."""
        return ENDED if had_cookie else TOKEN

    def end(self, login: SignedIn) -> None:
        """End a session, with what is being sent to it; the token must be reviewed again."""
        token = login.headers.get("Authorization", "").partition(" ")[2]
        self._accepted.pop(_digest(token), None)
        for key in [key for key, each in self._sessions.items() if each.login is login]:
            self._drop(key)

    def _session(self, cookie: str) -> _Session | None:
        key, now = _digest(cookie), _now()
        session = self._sessions.get(key)
        if session is None:
            return None
        if now - session.began > SESSION_SECONDS or now - session.used > IDLE_SECONDS:
            self._drop(key)
            return None
        session.used = now
        return session

    def _drop(self, key: bytes) -> None:
        login = self._sessions.pop(key).login
        self._report("signed_out", user=login.user)
        for connection in list(login.connections):
            connection.abort()

    async def _review(self, token: str) -> Accepted:
        """Return what the scheduler says about a token.

        Raises:
            SignInRefused: It does not accept it, or cannot be asked.
        """
        if not is_token(token) or " " in token or len(token) > TOKEN_BYTES:
            raise SignInRefused(WRONG, 401)
        key, now = _digest(token), _now()
        known = self._accepted.get(key)
        if known is not None and now < known.until:
            return known
        asking = self._asking.get(key)
        if asking is None:
            self._unknown = self._unknown or Rate(UNKNOWN_TOKENS, now)
            if known is None and not self._unknown.take(now):
                raise SignInRefused(TOO_MANY, 429)
            asking = self._asking[key] = asyncio.create_task(self._asked(token, now))
            asking.add_done_callback(lambda task: self._answered(key, task))
        return await asyncio.shield(asking)

    def _answered(self, key: bytes, asking: "asyncio.Task[Accepted]") -> None:
        """Remember what was said about a token."""
        del self._asking[key]
        if asking.cancelled() or asking.exception() is not None:
            return
        self._accepted[key] = asking.result()
        self._accepted.move_to_end(key)
        while len(self._accepted) > SESSIONS:
            self._accepted.popitem(last=False)

    async def _asked(self, token: str, now: float) -> Accepted:
        try:
            reply = await self._ask("GET", "/api/v1", bearer(token), None)
        except BackendError as error:
            raise SignInRefused(str(error), 503) from error
        if reply.status == 200:
            user = msgspec.json.decode(reply.body, type=ApiIndex).user
            return Accepted(user, "", now + ACCEPTED_SECONDS)
        if reply.status == 403:
            return Accepted("", f"{_told(reply)}. {VIEWER}", now + FORBIDDEN_SECONDS)
        if reply.status == 401:
            self._accepted.pop(_digest(token), None)
            raise SignInRefused(WRONG, 401)
        raise SignInRefused(_told(reply), 429 if reply.status == 429 else 503)


def _told(reply: Reply) -> str:
    """Return what the scheduler says about a refusal."""
    try:
        document: Any = msgspec.json.decode(reply.body)
        return str(document["message"])
    except (msgspec.DecodeError, TypeError, KeyError):
        return "The scheduler cannot answer now. Try again in some seconds."


def _bearer(request: web.Request) -> str | None:
    """Return the token in a header; `None` without one, as with the password of a proxy."""
    given = request.headers.getall("Authorization", [])
    if len(given) != 1:
        return None
    scheme, _, token = given[0].strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="surrogateescape")).digest()


def _now() -> float:
    return asyncio.get_running_loop().time()
