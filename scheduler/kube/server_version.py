"""The version of an API server."""

from typing import Final

import msgspec

from scheduler.kube.client.client import Client, Request
from scheduler.kube.errors import Unreachable
from scheduler.kube.watch.decoding import UNREADABLE

__all__ = ["ServerVersion", "read"]

#: The answer is small, and the server computes nothing for it.
_ANSWER_SECONDS: Final = 3.0


class ServerVersion(msgspec.Struct, frozen=True, rename="camel"):
    """What `GET /version` says, as far as it is used."""

    major: str
    minor: str
    git_version: str = ""
    #: Those that the server is told to behave as (`--emulated-version`); servers before v1.33 do
    #: not give them.
    emulation_major: str = ""
    emulation_minor: str = ""

    @property
    def behaves_as(self) -> tuple[str, str]:
        """Major and minor version of the API, as text."""
        if self.emulation_major and self.emulation_minor:
            return self.emulation_major, self.emulation_minor
        return self.major, self.minor


_DECODER: Final = msgspec.json.Decoder(ServerVersion)


async def read(client: Client) -> ServerVersion:
    """Return the version of the API server.

    Raises:
        KubeError: The server cannot be asked now, or refuses to answer.
    """
    request = Request("get", "version", "GET", "/version", answer_seconds=_ANSWER_SECONDS)
    body = await client.call(request)
    try:
        return _DECODER.decode(body)
    except UNREADABLE as error:
        raise Unreachable(f"cannot {request}: {error}") from error
