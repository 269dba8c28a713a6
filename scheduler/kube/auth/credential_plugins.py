"""Logins that expire: from a command that a kubeconfig names, or from an auth provider.

One refresh runs at a time, in a thread of its own, and all requests that need its result wait for
the same one; a request that stops waiting does not end it. A refresh begins before the login
expires, so that requests seldom wait for it. It also begins after the API server has refused the
token: once for each token, however many requests were refused with it.

Source: client-go v0.36.3 plugin/pkg/client/auth/exec. Differs: it is refreshed before it expires;
a command that takes more than a minute is ended, unless it may ask the user at a terminal.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from scheduler.kube.auth.credentials import bearer, is_token
from scheduler.kube.errors import ConnectionSettingsError

__all__ = ["AuthProvider", "Issued", "LoginCommand"]

#: A login is refreshed when so much of its life is left, but at most a fifth of its whole life.
EARLY_SECONDS: Final = 300.0
#: How long an auth provider's token is used before the official client is called again, which does
#: not return when a token expires.
ASK_AGAIN_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Issued:
    """The result of a login: a token, a client certificate, or both."""

    token: str = ""
    #: PEM; `None` where there is none.
    certificate: bytes | None = None
    key: bytes | None = None
    #: For how many seconds it is valid from now; `None` for until it is refused.
    seconds: float | None = None


class LoginCommand:
    """Credentials that are issued again when they expire or are refused.

    May be used by several threads, each with an event loop of its own.
    """

    def __init__(self, issue: Callable[[bool], Issued], source: str) -> None:
        """Log in for the first time, so that no request is ever sent without credentials.

        Args:
            issue: Logs in; gets whether the last login was refused; may take seconds.
            source: Where the login is from, for messages.

        Raises:
            ConnectionSettingsError: The login failed.
        """
        self._issue = issue
        self._source = source
        #: Called in the thread of the refresh when the client certificate has changed.
        self.on_certificate: Callable[[], None] = _nothing
        self._lock = threading.Lock()
        self._refresh: Future[None] | None = None
        self._refused = False
        #: By the clock of event loops; `None` while unknown, and where the login does not expire.
        self._early_at: float | None = None
        self._expires_at: float | None = None
        self._timed = False
        self.issued, self._headers = self._log_in()

    async def headers(self) -> Mapping[str, str]:
        """Return the headers, after waiting for a refresh where the old ones are invalid.

        Raises:
            ConnectionSettingsError: The refresh failed.
        """
        if self.cached_headers() is None:
            try:
                await asyncio.shield(asyncio.wrap_future(self._refreshing()))
            except ConnectionSettingsError as error:
                raise ConnectionSettingsError(str(error)) from error
        return self._headers

    def cached_headers(self) -> Mapping[str, str] | None:
        """Return the headers, unless they were refused or have expired."""
        now = asyncio.get_running_loop().time()
        if not self._timed:
            self._set_times(now)
        if self._refused or (self._expires_at is not None and now >= self._expires_at):
            return None
        if self._early_at is not None and now >= self._early_at:
            self._early_at = now + EARLY_SECONDS / 10  # a failed refresh is not retried at once
            self._refreshing()
        return self._headers

    def on_unauthorized(self, headers: Mapping[str, str] | None = None) -> bool:
        """Log in again before the next request, unless that has happened meanwhile."""
        if headers is None or headers == self._headers:
            self._refused = True
        return True

    def _set_times(self, now: float) -> None:
        seconds = self.issued.seconds
        if seconds is not None:
            self._early_at = now + seconds - min(EARLY_SECONDS, seconds / 5)
            self._expires_at = now + seconds
        else:
            self._early_at = self._expires_at = None
        self._timed = True

    def _refreshing(self) -> Future[None]:
        """Return the running refresh; begin one if there is none."""
        with self._lock:
            if self._refresh is None or self._refresh.done():
                self._refresh = Future()
                self._refresh.set_running_or_notify_cancel()  # no waiter can cancel it
                # A daemon: a command that hangs does not keep the process from ending.
                threading.Thread(
                    target=self._run, args=(self._refresh,), name="login", daemon=True
                ).start()
            return self._refresh

    def _run(self, refresh: Future[None]) -> None:
        try:
            before = self.issued
            self.issued, self._headers = self._log_in()
            self._timed = self._refused = False
            if (before.certificate, before.key) != (self.issued.certificate, self.issued.key):
                self.on_certificate()
        except ConnectionSettingsError as error:
            refresh.set_exception(error)
        except Exception as error:  # noqa: BLE001 - the waiting requests must get it
            problem = f"{self._source}: {type(error).__name__}: {error}"
            refresh.set_exception(ConnectionSettingsError(problem))
        else:
            refresh.set_result(None)

    def _log_in(self) -> tuple[Issued, Mapping[str, str]]:
        issued = self._issue(self._refused)
        if issued.token and not is_token(issued.token):
            raise ConnectionSettingsError(f"{self._source}: the token cannot be sent in a header")
        if not issued.token and issued.certificate is None:
            raise ConnectionSettingsError(
                f"{self._source}: the login command gave neither a token nor a certificate"
            )
        return issued, bearer(issued.token) if issued.token else {}


class AuthProvider:
    """A login by one of the older `auth-provider` entries, made by the official client.

    The official client takes more than a second to import, so it is imported only for such a login.
    """

    def __init__(self, kubeconfig: Path, context: str = "") -> None:
        self._path = str(kubeconfig)
        #: Empty for the current one.
        self._context = context
        self._login: Any = None

    def __call__(self, refused: bool) -> Issued:
        """Return the current token.

        Raises:
            ConnectionSettingsError: There is none.
        """
        if self._login is None or refused:
            self._login = self._load()
        # The official client runs an expired login again when its settings are read.
        for setting in self._login.auth_settings().values():
            if setting["key"].lower() == "authorization":
                token = str(setting["value"]).removeprefix("Bearer ")
                return Issued(token, seconds=ASK_AGAIN_SECONDS)
        return Issued()

    def _load(self) -> Any:
        from kubernetes.client import Configuration  # noqa: PLC0415 - takes a second
        from kubernetes.config import ConfigException, load_kube_config  # noqa: PLC0415 - same

        login = Configuration()
        load: Any = load_kube_config  # untyped
        try:
            load(
                self._path,
                context=self._context or None,
                client_configuration=login,
                persist_config=False,
            )
        except ConfigException as error:
            raise ConnectionSettingsError(f"kubeconfig {self._path}: {error}") from error
        return login


def _nothing() -> None:
    """Do nothing."""
