"""The headers that authenticate requests, always current.

A bound ServiceAccount token is valid for an hour or less and its file is replaced in time, so the
file is read again every minute, and at once after a 401.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from scheduler.kube.errors import ConnectionSettingsError

__all__ = [
    "REREAD_SECONDS",
    "Credentials",
    "FixedHeaders",
    "TokenFile",
    "bearer",
    "is_token",
    "reason",
]

#: The kubelet replaces a token at 80 % of its life, so once a minute is often enough.
REREAD_SECONDS: Final = 60.0


class Credentials(Protocol):
    """A source of authentication headers."""

    async def headers(self) -> Mapping[str, str]:
        """Return the headers for a request that is sent now.

        Raises:
            ConnectionSettingsError: They cannot be obtained.
        """

    def cached_headers(self) -> Mapping[str, str] | None:
        """Return the headers if they are available without waiting; the same object while valid."""

    def on_unauthorized(self, headers: Mapping[str, str] | None = None) -> bool:
        """Record that the server refused some headers; return whether new ones may differ.

        Args:
            headers: Those that were sent; `None` for the current ones.
        """


class FixedHeaders:
    """Credentials that never change: a literal token, or none beside a client certificate."""

    def __init__(self, token: str = "") -> None:
        self._headers = bearer(token) if token else {}

    async def headers(self) -> Mapping[str, str]:
        """Return the headers."""
        return self._headers

    def cached_headers(self) -> Mapping[str, str]:
        """Return the headers."""
        return self._headers

    def on_unauthorized(self, headers: Mapping[str, str] | None = None) -> bool:  # noqa: ARG002 - protocol
        """Return false: there is nothing to renew."""
        return False


class TokenFile:
    """A bearer token in a file that is replaced from time to time.

    While the file cannot be read, the last token stays in use.
    """

    def __init__(self, path: Path, fallback: str = "") -> None:
        """Read the file.

        Args:
            path: The file.
            fallback: The token to use until the file can be read; empty where there is none.

        Raises:
            ConnectionSettingsError: It cannot be read, and there is no other token.
        """
        self._path = path
        self._headers = bearer(fallback)
        self._read_at: float | None = None
        if not fallback:
            self._headers = bearer(_read_token(path))
        else:
            self._reread()

    async def headers(self) -> Mapping[str, str]:
        """Return the headers, from a token read within the last minute."""
        return self.cached_headers()

    def cached_headers(self) -> Mapping[str, str]:
        """Return the headers, from a token read within the last minute."""
        now = asyncio.get_running_loop().time()
        if self._read_at is None or now - self._read_at >= REREAD_SECONDS:
            self._read_at = now
            self._reread()
        return self._headers

    def on_unauthorized(self, headers: Mapping[str, str] | None = None) -> bool:
        """Read the file again; return whether the token differs from the one that was sent."""
        before = self._headers if headers is None else headers
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
    if not is_token(token):
        raise ConnectionSettingsError(f"token file {path}: holds no token")
    return token


def is_token(text: str) -> bool:
    """Return whether a text can be sent as a bearer token."""
    return bool(text) and text.isascii() and text.isprintable()


def reason(error: Exception) -> str:
    """Return the problem without the file name, which the caller adds."""
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
