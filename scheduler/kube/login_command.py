"""Logins by a command or a plugin that a kubeconfig names, run by the official client.

The official client takes more than a second to import, so it is imported when such a login is
made, and by nothing else in this package.
"""

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scheduler.kube.credentials import REREAD_SECONDS, bearer
from scheduler.kube.errors import ConnectionSettingsError

__all__ = ["LoginCommand"]


class LoginCommand:
    """A login that a command issues: a token, or a client certificate for the whole life.

    The command runs in a thread, because it may take seconds, and only when its last token has
    expired or was refused.
    """

    def __init__(self, kubeconfig: Path, tls: ssl.SSLContext | None) -> None:
        self._kubeconfig = kubeconfig
        self._login = self._log_in()
        if self._login.cert_file and tls is not None:
            tls.load_cert_chain(self._login.cert_file, self._login.key_file)
        elif not _token(self._login):
            raise ConnectionSettingsError(
                f"kubeconfig {kubeconfig}: the login command gave neither a token nor a certificate"
            )
        self._headers: Mapping[str, str] = {}
        self._asked_at: float | None = None
        self._refused = False

    async def headers(self) -> Mapping[str, str]:
        """Return the headers, after asking for a new token when it is time."""
        if self._is_time():
            anew, self._refused = self._refused, False
            self._asked_at = asyncio.get_running_loop().time()
            token = await asyncio.to_thread(self._ask, anew=anew)
            self._headers = bearer(token) if token else {}
        return self._headers

    def at_hand(self) -> Mapping[str, str] | None:
        """Return the headers, unless it is time to ask for a new token."""
        return None if self._is_time() else self._headers

    def _is_time(self) -> bool:
        if self._refused or self._asked_at is None:
            return True
        return asyncio.get_running_loop().time() - self._asked_at >= REREAD_SECONDS

    def refused(self) -> bool:
        """Have the command run before the next request."""
        self._refused = True
        return True

    def _ask(self, *, anew: bool) -> str:
        if anew:
            self._login = self._log_in()
        return _token(self._login)

    def _log_in(self) -> Any:
        from kubernetes.client import Configuration  # noqa: PLC0415 - takes a second
        from kubernetes.config import ConfigException, load_kube_config  # noqa: PLC0415 - same

        login = Configuration()
        path = str(self._kubeconfig)
        try:
            load: Any = load_kube_config  # untyped
            load(path, client_configuration=login, persist_config=False)
        except ConfigException as error:
            raise ConnectionSettingsError(f"kubeconfig {path}: {error}") from error
        return login


def _token(login: Any) -> str:
    """Return the token of the moment; the official client runs an expired login again."""
    for setting in login.auth_settings().values():
        if setting["key"].lower() == "authorization":
            return str(setting["value"]).removeprefix("Bearer ")
    return ""
