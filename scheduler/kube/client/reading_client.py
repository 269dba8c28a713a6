"""A client that reads: everything but GET is refused before it is sent."""

from collections.abc import Callable
from typing import NoReturn

from scheduler.kube.client.client import Client, Request
from scheduler.kube.client.transport import Reply
from scheduler.kube.errors import Unreachable

__all__ = ["ReadingClient"]


class ReadingClient(Client):
    """Sends GET requests, and opens watches."""

    async def call(self, request: Request) -> bytes:
        """Send a request that reads and return the body of the answer.

        Raises:
            RuntimeError: The request would write.
        """
        if request.method != "GET":
            _refuse(request)
        return await super().call(request)

    def post(self, request: Request, _then: Callable[[Reply | Unreachable], None]) -> NoReturn:
        """Refuse to write.

        Raises:
            RuntimeError: Always.
        """
        _refuse(request)


def _refuse(request: Request) -> NoReturn:
    raise RuntimeError(f"a client that only reads does not {request}")
