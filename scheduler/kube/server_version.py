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
