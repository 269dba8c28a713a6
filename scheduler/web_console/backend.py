"""The way from the console's server to the scheduler."""

from collections.abc import Mapping
from typing import Protocol

from scheduler.kube.http.http1 import Incoming, Reply

__all__ = ["Backend", "BackendError"]


class BackendError(Exception):
    """The scheduler cannot be asked; the message is for the user."""


class Backend(Protocol):
    """The way to the scheduler; both methods raise BackendError."""

    async def send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> Reply:
        """Send a request and return the answer, whatever its status."""

    async def open(self, path: str, headers: Mapping[str, str]) -> Incoming:
        """Begin to read an answer in parts; the caller closes it."""
