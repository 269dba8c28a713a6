"""Who we are: the headers that authenticate a request, always fresh.

A bound ServiceAccount token lives for an hour or less and its file is replaced in time, so the
file is read again every minute, and at once when the server says 401.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from scheduler.kube.errors import ConnectionSettingsError

__all__ = ["REREAD_SECONDS", "Credentials", "FixedHeaders", "TokenFile", "bearer", "reason"]

#: The kubelet replaces a token at 80 % of its life, so a minute is early enough by far.
REREAD_SECONDS: Final = 60.0


class Credentials(Protocol):
    """A source of authentication headers."""

    async def headers(self) -> Mapping[str, str]:
        """Return the headers for a request that is sent now.

        Raises:
            ConnectionSettingsError: They cannot be obtained.
        """

    def at_hand(self) -> Mapping[str, str] | None:
        """Return the headers if they are there without waiting; the same object while they last."""

    def refused(self) -> bool:
        """Note that the server did not accept the headers; whether asking again may help."""


class FixedHeaders:
    """Credentials that never change: a literal token, or none beside a client certificate."""

    def __init__(self, token: str = "") -> None:
        self._headers = bearer(token) if token else {}

    async def headers(self) -> Mapping[str, str]:
        """Return the headers."""
        return self._headers

    def at_hand(self) -> Mapping[str, str]:
        """Return the headers."""
        return self._headers

    def refused(self) -> bool:
        """Return false: there is nothing to renew."""
        return False


class TokenFile:
    """A bearer token in a file that somebody else replaces.

    While the file cannot be read the last token stays in use.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._headers = bearer(_read_token(path))
        self._read_at: float | None = None

    async def headers(self) -> Mapping[str, str]:
        """Return the headers, from a token read within the last minute."""
        return self.at_hand()

    def at_hand(self) -> Mapping[str, str]:
        """Return the headers, from a token read within the last minute."""
        now = asyncio.get_running_loop().time()
        if self._read_at is None or now - self._read_at >= REREAD_SECONDS:
            self._read_at = now
            self._reread()
        return self._headers

    def refused(self) -> bool:
        """Read the file again; true when the token is a new one."""
        before = self._headers
        self._reread()
        return self._headers != before

    def _reread(self) -> None:
        try:
            self._headers = bearer(_read_token(self._path))
        except ConnectionSettingsError:
            return


def bearer(token: str) -> Mapping[str, str]:
    """Return the header that carries a token."""
    return {"Authorization": f"Bearer {token}"}


def _read_token(path: Path) -> str:
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConnectionSettingsError(f"token file {path}: {reason(error)}") from error
    if not token or not token.isascii() or not token.isprintable():
        raise ConnectionSettingsError(f"token file {path}: holds no token")
    return token


def reason(error: Exception) -> str:
    """Return what went wrong, without the file name that the caller tells anyway."""
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
