"""How a user enters the console: what the browser must bring, and what is then sent along."""

import asyncio
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from aiohttp import web

__all__ = [
    "ADDRESS",
    "FORM",
    "HEAD",
    "OPENED",
    "Form",
    "KeySignIn",
    "SignIn",
    "SignInRefused",
    "SignedIn",
]

ADDRESS: Final = "127.0.0.1"
#: How the users of ServiceAccounts begin; namespace and name follow.
ACCOUNT: Final = "system:serviceaccount:"
#: The length of the key. Wrong keys are not limited, so it must be too long to be guessed.
KEY_BYTES: Final = 18
ENTER: Final = "Enter the key that kubectl preemptive console shows in its terminal."
WRONG: Final = (
    "Wrong key. Enter the key that kubectl preemptive console shows in its terminal. Each start of"
    " the command creates a new key."
)
#: For a browser with the cookie of an earlier server on the same port.
STARTED_AGAIN: Final = (
    "kubectl preemptive console was started again, with a new key. Enter the one that it shows in"
    " its terminal."
)

HEAD: Final = """\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="dark light"><title>preemptive-scheduler</title>
<link rel="icon" href="/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/style/target.css">
<link rel="stylesheet" href="/style/sign_in.css">\
"""
#: Without an action it is sent to the address that it is shown at, with its fragment.
FORM: Final = """\
{head}</head><body><main>
<h1><img src="/icon.svg" alt="" width="24" height="24">preemptive-scheduler{target}</h1>
<form method="post">
<p id="message"{alert}>{message}</p>
<label for="{field}">{label}</label>
<input id="{field}" name="{field}" type="password" aria-describedby="message" autocomplete="off"
 autofocus required>
<button>Open the console</button>
{hint}
</form></main></body></html>
"""
#: For a key that comes from a file. It is a page of this server, so that the browser sends the
#: cookie: after a redirect of a request that came from elsewhere it would not.
OPENED: Final = f"""\
{HEAD}<meta http-equiv="refresh" content="0;url=/"></head>
<body><main><p><a href="/">Open the console</a></p></main></body></html>
"""


@dataclass(eq=False, slots=True)
class SignedIn:
    """Who has entered."""

    #: Sent with each request to the scheduler.
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: The user, where it is known.
    user: str = ""
    #: How it came: `key`, `token`, or `proxy` if another server sends the token.
    kind: str = "key"
    #: The connections on which it is answered; those of a login that ends are cut off.
    connections: set[asyncio.Transport] = field(default_factory=set)

    @property
    def group(self) -> str:
        """Whose accounts belong together: of a namespace, or else the user."""
        return self.user.rpartition(":")[0] if self.user.startswith(ACCOUNT) else self.user


@dataclass(frozen=True, slots=True)
class Form:
    """The form for users who have not entered."""

    #: The name of its only field, and what the page calls it.
    field: str
    label: str
    #: Shown below the field, as HTML.
    hint: str
    #: The largest body: it comes from clients that have not signed in.
    most_bytes: int
    #: Where it may be sent, as in a content security policy.
    sent_to: str = "'self'"


class SignInRefused(Exception):
    """What was given does not let the user in; the message is for the user.

    Args:
        message: What is wrong, and what to do.
        code: The HTTP status.
    """

    def __init__(self, message: str, code: int = 403) -> None:
        super().__init__(message)
        self.code = code


class SignIn(Protocol):
    """A way to enter."""

    @property
    def form(self) -> Form:
        """The form."""

    @property
    def key(self) -> str:
        """What lets the user in, where this server has made it itself; else empty."""

    @property
    def is_public(self) -> bool:
        """Whether browsers of others come, over https; else only those of this machine."""

    @property
    def scheme(self) -> str:
        """`http` or `https`, as the browser sees it."""

    def hosts(self, port: int) -> frozenset[str]:
        """Return the values of `Host` that are served."""

    def cookie(self, port: int) -> str:
        """Return the name of the cookie."""

    def session(self, cookie: str) -> SignedIn | None:
        """Return who has entered and got this cookie."""

    async def login(self, request: web.Request, cookie: str) -> SignedIn | None:
        """Return who sends a request; `None` for nobody who has entered.

        Raises:
            SignInRefused: They may not read, or it cannot be found out now.
        """

    async def enter(self, request: web.Request, given: str) -> str:
        """Return the value of the cookie for what was entered into the form.

        Raises:
            SignInRefused: It is wrong.
        """

    def message(self, *, had_cookie: bool) -> str:
        """Return what the form says at first, also as a refusal of the API."""

    def end(self, login: SignedIn, reason: str) -> None:
        """Forget a login, for a reason that is logged; its connections are cut off."""


class KeySignIn:
    """For one user, who knows the key: the server on the user's own machine.

    Args:
        key: What the browser must send to get the cookie; empty for a new one.
    """

    form: Final = Form("key", "Key", "", 4096)
    scheme: Final = "http"
    is_public: Final = False

    def __init__(self, key: str = "") -> None:
        self.key = key or secrets.token_urlsafe(KEY_BYTES)
        self._session = secrets.token_urlsafe(32)
        self._login = SignedIn()

    def hosts(self, port: int) -> frozenset[str]:
        """Return the names of this machine."""
        return frozenset((f"{ADDRESS}:{port}", f"localhost:{port}"))

    def cookie(self, port: int) -> str:
        """Return a name that no server on another port has."""
        return f"preemptive-console-{port}"

    def session(self, cookie: str) -> SignedIn | None:
        """Return the only user, for the cookie."""
        return self._login if same(cookie, self._session) else None

    async def login(self, _request: web.Request, cookie: str) -> SignedIn | None:
        """Return the only user, for the cookie."""
        return self.session(cookie)

    async def enter(self, _request: web.Request, given: str) -> str:
        """Return the cookie for the key."""
        if not same(given, self.key):
            raise SignInRefused(WRONG)
        return self._session

    def message(self, *, had_cookie: bool) -> str:
        """Say where the key is."""
        return STARTED_AGAIN if had_cookie else ENTER

    def end(self, login: SignedIn, reason: str) -> None:
        """Do nothing: the user leaves by ending the command."""


def same(given: str, wanted: str) -> bool:
    """Compare what a client has sent with a secret, also where it is not UTF-8."""
    sent: Any = given.encode(errors="surrogateescape")
    return hmac.compare_digest(sent, wanted.encode())
