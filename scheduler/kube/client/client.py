"""The API client: named requests, classified answers, deadlines, and a rate limit.

Informers, writer and leader election call it; it sends through a transport.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Final

from scheduler.kube.client.rate_limiter import RateLimiter
from scheduler.kube.client.transport import Reply, ReplyStream, StreamingTransport
from scheduler.kube.errors import Unreachable, refusal
from scheduler.kube.http.connection import BUFFER_BYTES
from scheduler.kube.instrumentation import Instrumentation
from scheduler.model.base import Record

__all__ = ["JSON", "MERGE_PATCH", "STRATEGIC_MERGE_PATCH", "Client", "Request", "body_of"]

JSON: Final = "application/json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"

#: Longer than a loaded server takes for a write, and short enough that a lost answer is noticed
#: while the reservation that waits for it still matters.
ANSWER_SECONDS: Final = 10.0
#: The status of every POST that an API server has executed, of bindings and evictions, too.
#: Source: apiserver v0.36.3 endpoints/handlers.createHandler.
CREATED: Final = 201


class Request(Record, frozen=True):
    """One API call."""

    #: As RBAC names them; metrics and error messages use both.
    verb: str
    resource: str
    method: str
    path: str
    body: bytes | None = None
    content_type: str = JSON
    answer_seconds: float = ANSWER_SECONDS

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}"


def body_of(request: Request, answer: Reply | Unreachable) -> bytes:
    """Return the body of an answer.

    Raises:
        ApiError: The server refused.
        Unreachable: There is no answer, or it cannot be read.
    """
    if isinstance(answer, Unreachable):
        raise Unreachable(f"cannot {request}: {answer}", sent=answer.sent) from answer
    if answer.status >= 300:
        raise refusal(answer.status, answer.headers, answer.body, request.verb, request.resource)
    if answer.body[:1] != b"{":
        # A proxy's page, or nothing at all: it is unknown whether the request was executed.
        raise Unreachable(f"cannot {request}: the response is not JSON")
    if request.method == "POST" and answer.status != CREATED:
        raise Unreachable(f"cannot {request}: HTTP status {answer.status} is not an API server's")
    return answer.body


def _code(answer: Reply | Unreachable) -> str:
    return str(answer.status) if isinstance(answer, Reply) else "unreachable"


class Client:
    """Sends requests, opens watches, and classifies the answers."""

    def __init__(
        self,
        transport: StreamingTransport,
        observer: Instrumentation | None = None,
        limiter: RateLimiter | None = None,
    ) -> None:
        #: Gets each request; informers and the writer report their own work to it, too.
        self.observer = observer or Instrumentation()
        self._transport = transport
        self._limiter = limiter

    async def call(self, request: Request) -> bytes:
        """Send a request and return the body of the answer.

        Raises:
            ApiError: The server refused.
            Unreachable: No readable answer came.
            ConnectionSettingsError: The credentials cannot be obtained.
        """
        if self._limiter is not None:
            await self._limiter.acquire()
        begun = asyncio.get_running_loop().time()
        code = "unreachable"
        try:
            answer = await self._answer(request)
            code = _code(answer)
        finally:
            seconds = asyncio.get_running_loop().time() - begun
            self.observer.request_ended(request.verb, request.resource, code, seconds)
        return body_of(request, answer)

    def dispatch(self, request: Request, then: Callable[[Reply | Unreachable], None]) -> bool:
        """Send a write if that is possible at once; `then` is called later, once.

        The caller evaluates the answer with `body_of`. A 401 is not retried here: `call` renews
        the credentials.

        Returns:
            Whether it was sent; `then` is not called otherwise.
        """
        if self._limiter is not None and not self._limiter.take():
            return False
        loop = asyncio.get_running_loop()
        begun = loop.time()

        def ended(answer: Reply | Unreachable) -> None:
            seconds = loop.time() - begun
            self.observer.request_ended(request.verb, request.resource, _code(answer), seconds)
            then(answer)

        body, seconds = request.body or b"", request.answer_seconds
        sent = self._transport.dispatch(
            request.method, request.path, body, request.content_type, seconds, ended
        )
        if not sent and self._limiter is not None:
            self._limiter.put_back()
        return sent

    async def _answer(self, request: Request) -> Reply | Unreachable:
        try:
            async with asyncio.timeout(request.answer_seconds):
                return await self._transport.send(
                    request.method, request.path, request.body, request.content_type
                )
        except TimeoutError:
            return Unreachable(f"no response within {request.answer_seconds:g} s")
        except Unreachable as error:
            return error

    @contextlib.asynccontextmanager
    async def stream(self, request: Request, silence_seconds: float) -> AsyncIterator[ReplyStream]:
        """Open a stream, such as a watch; it is closed after that many seconds without a byte.

        Raises:
            ApiError: The server refused.
            Unreachable: The server does not begin to answer.
            ConnectionSettingsError: The credentials cannot be obtained.
        """
        async with contextlib.AsyncExitStack() as stack:
            opening = self._transport.stream(request.path, silence_seconds)
            try:
                stream = await stack.enter_async_context(opening)
            except Unreachable as error:
                self.observer.request_ended(request.verb, request.resource, _code(error), 0.0)
                raise Unreachable(f"cannot {request}: {error}", sent=error.sent) from error
            self.observer.request_ended(request.verb, request.resource, str(stream.status), 0.0)
            if stream.status >= 300:
                body = b""
                while len(body) <= BUFFER_BYTES and (chunk := await stream.read()):
                    body += chunk
                raise refusal(stream.status, stream.headers, body, request.verb, request.resource)
            yield stream
