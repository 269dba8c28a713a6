"""`POST /api/v1/plan`: reads a body of limited size and passes it on, in the serving thread."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeAlias

from aiohttp import web

from scheduler.observe.logs.escape import printable, shortened
from scheduler.observe.pages.statuses import status
from scheduler.observe.pages.what_if import SchedulerLoop, WhatIfPage, WhatIfReply
from scheduler.observe.server.access import AccessDecision

__all__ = ["PATH", "Respond", "RespondTo", "add"]

PATH: Final = "/api/v1/plan"

_JSON: Final = "application/json"
_CONTENT_TYPES: Final = (_JSON, "application/yaml")
_PIECE: Final = 1 << 16
#: How much of an answer is encrypted at a time: some milliseconds of the serving thread.
_PART: Final = 1 << 18
#: How long a body may take, how many are read at a time (3 MiB each), and how long the body of a
#: request that is refused.
_BODY_SECONDS: Final = 10.0
_BODIES: Final = 8
_DROP_SECONDS: Final = 1.0
#: How often a connection is looked at while its answer is computed.
_LOOK_SECONDS: Final = 0.2
#: How much of a body that is too large is read before its client is answered.
_DROPPED_BYTES: Final = 16 << 20

Respond: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
#: Also takes what is known of the caller.
RespondTo: TypeAlias = Callable[[web.Request, AccessDecision], Awaitable[web.StreamResponse]]


def add(
    app: web.Application,
    page: WhatIfPage,
    scheduler_loop: SchedulerLoop,
    authorized: Callable[[RespondTo], Respond],
) -> None:
    """Add the route to an application.

    Args:
        app: The application.
        page: Answers.
        scheduler_loop: Runs what needs the scheduler's state.
        authorized: Wraps a handler, so that a request is authorized before it is answered.
    """
    bodies = _Bodies()

    async def respond(request: web.Request, access: AccessDecision) -> web.StreamResponse:
        # Not by what the caller sends: one user may have many tokens, and write one in many ways.
        # Callers that come through the API server (`kubectl port-forward`) have the same address.
        caller = access.user or request.remote or ""
        reply = _unsupported(request) or page.admit(caller)
        if isinstance(reply, WhatIfReply):
            # A client that is still sending when the connection is closed does not see the answer.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_DROP_SECONDS):
                    await _body(request, 0)
            return _response(reply)
        body = await bodies.read(caller, request, page.max_bytes)
        # Only now: a body that does not come would hold one of few admissions.
        reply = body if isinstance(body, WhatIfReply) else page.admit(caller)
        if isinstance(reply, WhatIfReply):
            return _response(reply)
        assert isinstance(body, bytes)
        with reply as admission:
            deciding = admission.answer(scheduler_loop, body, request.content_type, access.names)
            answer = await _while_connected(request, deciding)
        return await _written(request, answer)

    async def close(_app: web.Application) -> None:
        await page.close()

    app.router.add_post(PATH, authorized(respond))
    app.on_shutdown.append(close)


class _Bodies:
    """The bodies that are being read: one of each caller, and the slowest yields to a new one."""

    def __init__(self) -> None:
        #: The timeouts by caller, oldest first.
        self._reading: dict[str, asyncio.Timeout] = {}

    async def read(self, caller: str, request: web.Request, most: int) -> bytes | WhatIfReply:
        """Return the body of a request, or a refusal."""
        if caller in self._reading:
            text = "another plan of this caller is already running"
            return WhatIfReply(429, status(429, "TooManyRequests", text), 1)
        if len(self._reading) >= _BODIES:
            oldest = self._reading.pop(next(iter(self._reading)))
            if not oldest.expired():
                oldest.reschedule(asyncio.get_running_loop().time())
        timeout = self._reading[caller] = asyncio.timeout(_BODY_SECONDS)
        try:
            async with timeout:
                body = await _body(request, most)
        except TimeoutError:
            text = (
                f"the body has not arrived within {_BODY_SECONDS:g} seconds, or while others wait"
            )
            return WhatIfReply(408, status(408, "Timeout", text))
        except web.RequestPayloadError:
            return WhatIfReply(400, status(400, "BadRequest", "the body cannot be read"))
        finally:
            if self._reading.get(caller) is timeout:
                del self._reading[caller]
        if body is None:
            text = f"the body is larger than {most >> 20} MiB"
            return WhatIfReply(413, status(413, "RequestEntityTooLarge", text))
        return body


async def _while_connected(
    request: web.Request, deciding: Coroutine[Any, Any, WhatIfReply]
) -> WhatIfReply:
    """Return an answer; give it up when the client has gone.

    Raises:
        ConnectionError: The client has closed the connection.
    """
    task = asyncio.create_task(deciding)
    try:
        while not (await asyncio.wait({task}, timeout=_LOOK_SECONDS))[0]:
            if request.transport is None or request.transport.is_closing():
                raise ConnectionError("the client has closed the connection")
        return task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _unsupported(request: web.Request) -> WhatIfReply | None:
    """Return a refusal of a body of another type than those that are read."""
    if request.content_type in _CONTENT_TYPES:
        return None
    given = shortened(printable(request.content_type), 80)
    text = f"the body must be {' or '.join(_CONTENT_TYPES)}, not {given}"
    return WhatIfReply(415, status(415, "UnsupportedMediaType", text))


async def _body(request: web.Request, most: int) -> bytes | None:
    """Return the body; `None` if it is too large.

    Some of a larger one is read and dropped: a client that is still sending when the connection
    is closed does not see the answer.
    """
    pieces: list[bytes] = []
    size = 0
    while piece := await request.content.read(_PIECE):
        size += len(piece)
        if size <= most:
            pieces.append(piece)
        else:
            pieces.clear()
            if size > _DROPPED_BYTES:
                break
    return b"".join(pieces) if size <= most else None


async def _written(request: web.Request, reply: WhatIfReply) -> web.StreamResponse:
    """Write a reply in parts: megabytes that are encrypted at once would make probes wait."""
    if len(reply.body) <= _PART:
        return _response(reply)
    response = web.StreamResponse(status=reply.code, headers={"Content-Type": _JSON})
    response.content_length = len(reply.body)
    await response.prepare(request)
    for start in range(0, len(reply.body), _PART):
        await response.write(reply.body[start : start + _PART])
    return response


def _response(reply: WhatIfReply) -> web.Response:
    headers = {"Retry-After": str(reply.retry_after)} if reply.retry_after else None
    return web.Response(status=reply.code, body=reply.body, content_type=_JSON, headers=headers)
