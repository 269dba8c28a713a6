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
import contextlib
import hashlib
import secrets
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from scheduler.kube.auth.credentials import bearer, is_token
from scheduler.kube.http.http1 import Reply
from scheduler.model.rest.cluster import ApiIndex
from scheduler.observe.server.connections import peer
from scheduler.observe.server.rates import Rate, RateLimit, RatesByPeer
from scheduler.web_console.backend import BackendError
from scheduler.web_console.sign_in import Form, SignedIn, SignInRefused

__all__ = ["TokenSignIn"]

#: With its prefix, no other host of the domain and no plain page can set the cookie.
COOKIE: Final = "__Host-preemptive-console"
#: The scheduler reads lines of 8,190 bytes.
TOKEN_BYTES: Final = 8_000
FORM_BYTES: Final = 16_384
#: For how long a session lasts, and how long without a request or an open connection; how often
#: that is looked at.
SESSION_SECONDS: Final = 12 * 3600.0
IDLE_SECONDS: Final = 3600.0
SWEEP_SECONDS: Final = 60.0
#: How many there are, and of one user. Whose group has most of them loses the one that was used
#: longest ago.
SESSIONS: Final = 1_000
USER_SESSIONS: Final = 10
#: For how long a token counts as accepted, and that of a user without the permission to read.
ACCEPTED_SECONDS: Final = 600.0
FORBIDDEN_SECONDS: Final = 5.0
#: How often the scheduler is asked about tokens that it has not accepted: half of what it reviews
#: for one address.
UNKNOWN_TOKENS: Final = RateLimit(per_second=0.5, burst=15)
#: How many of one source may be refused: of its address, and what the proxy in front says about it.
#: Whoever gets past the proxy can say anything, so this is for fairness only.
SOURCE_TOKENS: Final = RateLimit(per_second=0.1, burst=5)

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

    key: Final = ""
    is_public: Final = True

    def __init__(self, url: str, ask: Asks, report: Callable[..., object]) -> None:
        parts = urlsplit(url)
        self.scheme: Final = parts.scheme
        # Where the form is shown over http although the address is https, the token stays.
        sent_to = url if parts.scheme == "https" else "'self'"
        self.form: Final = Form("token", "Token", HINT, FORM_BYTES, sent_to)
        self._hosts = frozenset((parts.netloc.lower(),))
        self._ask = ask
        self._report = report
        self._unknown: Rate | None = None
        self._sources = RatesByPeer(SOURCE_TOKENS)
        self._sweeper: asyncio.TimerHandle | None = None
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

    def session(self, cookie: str) -> SignedIn | None:
        """Return the user of a session."""
        key, now = _digest(cookie), _now()
        session = self._sessions.get(key)
        if session is None or self._ended(key, now):
            return None
        session.used = now
        return session.login

    async def login(self, request: web.Request, cookie: str) -> SignedIn | None:
        """Return the user of the token of a proxy, else of the session."""
        token = _bearer(request)
        if token is None:
            return self.session(cookie)
        return SignedIn(bearer(token), await self._user(request, token), "proxy")

    async def enter(self, request: web.Request, given: str) -> str:
        """Return the cookie of a new session for a token."""
        user, now = await self._user(request, given), _now()
        own = [key for key, each in self._sessions.items() if each.login.user == user]
        if len(own) >= USER_SESSIONS:
            self._drop(min(own, key=lambda key: self._sessions[key].used), "too many of the user")
        if len(self._sessions) >= SESSIONS:
            self._drop(self._least(), "too many sessions")
        if self._sweeper is None:
            self._sweep()
        cookie = secrets.token_urlsafe(32)
        self._sessions[_digest(cookie)] = _Session(SignedIn(bearer(given), user, "token"), now, now)
        self._report("signed_in", user=user)
        return cookie

    def message(self, *, had_cookie: bool) -> str:
        """Say what is needed."""
        return ENDED if had_cookie else TOKEN

    def end(self, login: SignedIn, reason: str) -> None:
        """End a session, with what is being sent to it; the token must be reviewed again."""
        token = login.headers.get("Authorization", "").partition(" ")[2]
        self._accepted.pop(_digest(token), None)
        for key in [key for key, each in self._sessions.items() if each.login is login]:
            self._drop(key, reason)

    def _ended(self, key: bytes, now: float) -> bool:
        """End a session if it is time; return whether that is so."""
        session = self._sessions[key]
        if session.login.connections:
            session.used = now
        if now - session.began > SESSION_SECONDS:
            self._drop(key, "after 12 hours")
        elif now - session.used > IDLE_SECONDS:
            self._drop(key, "after an hour without a request")
        return key not in self._sessions

    def _sweep(self) -> None:
        """End sessions to which no request comes any more; again while there are some."""
        now = _now()
        for key in list(self._sessions):
            self._ended(key, now)
        loop = asyncio.get_running_loop()
        self._sweeper = loop.call_later(SWEEP_SECONDS, self._sweep)

    def _least(self) -> bytes:
        """Return which session ends for a new one: the accounts of one namespace share theirs."""
        groups = Counter(each.login.group for each in self._sessions.values())
        order = {k: (-groups[each.login.group], each.used) for k, each in self._sessions.items()}
        return min(order, key=order.__getitem__)

    def _drop(self, key: bytes, reason: str) -> None:
        login = self._sessions.pop(key).login
        self._report("signed_out", user=login.user, reason=reason)
        for connection in list(login.connections):
            connection.abort()

    async def _user(self, request: web.Request, token: str) -> str:
        """Return the user of a token, who may read the API.

        Raises:
            SignInRefused: The scheduler does not accept it, they may not, or it cannot be asked.
        """
        accepted = await self._review(_source(request), token)
        if accepted.problem:
            raise SignInRefused(accepted.problem)
        return accepted.user

    async def _review(self, source: str, token: str) -> Accepted:
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
            if (known is None or known.problem) and not self._may_ask(source, now):
                if known is not None:
                    return known
                raise SignInRefused(TOO_MANY, 429)
            asking = self._asking[key] = asyncio.create_task(self._asked(source, token, now))
            asking.add_done_callback(lambda task: self._answered(key, task))
        return await asyncio.shield(asking)

    def _may_ask(self, source: str, now: float) -> bool:
        """Take a place for a token that the scheduler has not accepted."""
        self._unknown = self._unknown or Rate(UNKNOWN_TOKENS, now)
        return self._sources.of(source, now).wait(now) <= 0.0 and self._unknown.take(now)

    def _answered(self, key: bytes, asking: "asyncio.Task[Accepted]") -> None:
        """Remember what was said about a token."""
        del self._asking[key]
        if asking.cancelled() or asking.exception() is not None:
            return
        self._accepted[key] = asking.result()
        self._accepted.move_to_end(key)
        while len(self._accepted) > SESSIONS:
            self._accepted.popitem(last=False)

    async def _asked(self, source: str, token: str, now: float) -> Accepted:
        try:
            reply = await self._ask("GET", "/api/v1", bearer(token), None)
        except BackendError as error:
            raise SignInRefused(str(error), 503) from error
        if reply.status == 200:
            with contextlib.suppress(msgspec.DecodeError):
                user = msgspec.json.decode(reply.body, type=ApiIndex).user
                if user:
                    return Accepted(user, "", now + ACCEPTED_SECONDS)
        if reply.status in {401, 403}:
            self._sources.of(source, now).reserve(now)
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
    """Return the token in a header; `None` without one, as with the password of a proxy.

    What is no token, and more than one header, is as an empty token: the cookie does not count.
    """
    given = request.headers.getall("Authorization", [])
    if len(given) > 1:
        return ""
    if not given or given[0][:6].lower() != "bearer":
        return None
    return given[0][7:].strip(" ") if given[0][6:7] == " " else ""


def _source(request: web.Request) -> str:
    """Return where a request comes from: the address, and what a proxy there has added."""
    forwarded = ",".join(request.headers.getall("X-Forwarded-For", []))
    return f"{peer(request.remote or '')} {peer(forwarded.rpartition(',')[2].strip()[:64])}"


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="surrogateescape")).digest()


def _now() -> float:
    return asyncio.get_running_loop().time()
