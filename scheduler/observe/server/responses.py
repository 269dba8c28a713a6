"""Responses of the web server: pages, health, and refusals in the format of the API server."""

import logging
from collections.abc import Mapping
from typing import Final

import msgspec
from aiohttp import web, web_response
from aiohttp.http_exceptions import HttpProcessingError

from scheduler.observe.api.requests import StatusError
from scheduler.observe.pages.health import HealthReport
from scheduler.observe.pages.statuses import status
from scheduler.observe.server.access import AccessDecision, AccessVerdict

__all__ = [
    "SERVER",
    "failed",
    "health_response",
    "is_defect",
    "not_served",
    "refused",
    "shown",
]

#: The header of that name, without versions.
SERVER: Final = "preemptive-scheduler"
# Of refusals of requests that cannot be read, which no application prepares.
web_response.SERVER_SOFTWARE = SERVER  # type: ignore[attr-defined]


#: The `reason` of a Status, by verdict.
_REASONS: Final[Mapping[AccessVerdict, str]] = {
    AccessVerdict.UNAUTHENTICATED: "Unauthorized",
    AccessVerdict.FORBIDDEN: "Forbidden",
    AccessVerdict.THROTTLED: "TooManyRequests",
    AccessVerdict.UNAVAILABLE: "ServiceUnavailable",
}


def health_response(report: HealthReport) -> web.Response:
    """Return the answer to a probe."""
    return web.Response(status=200 if report.healthy else 500, text=report.text)


def refused(decision: AccessDecision) -> web.Response:
    """Return a refusal in the format of the API server."""
    verdict = decision.verdict
    body = status(verdict.value, _REASONS[verdict], decision.message)
    headers = {"Retry-After": "1"} if verdict is AccessVerdict.THROTTLED else None
    return web.Response(
        status=verdict.value, body=body, content_type="application/json", headers=headers
    )


def failed(error: StatusError) -> web.Response:
    """Return an error in the format of the API server."""
    return web.Response(
        status=error.code,
        body=status(error.code, error.reason, error.message),
        content_type="application/json",
        headers={"Retry-After": str(error.retry_after)} if error.retry_after else None,
    )


def shown(content: object) -> web.Response:
    """Return a page: text as it is, anything else as JSON."""
    if isinstance(content, str):
        return web.Response(text=content)
    return web.Response(body=msgspec.json.encode(content), content_type="application/json")


def not_served(refusal: web.HTTPException, method: str, path: str) -> web.Response:
    """Return the answer to a method or a path that is not served, in the format of the API server.

    Args:
        refusal: That of the web server.
        method: The method of the request.
        path: The path of the request.
    """
    if isinstance(refusal, web.HTTPMethodNotAllowed):
        error = StatusError(405, "MethodNotAllowed", f"{path} does not support {method}")
    elif refusal.status == 404:
        error = StatusError(404, "NotFound", f"there is no page {path}")
    else:
        error = StatusError(refusal.status, refusal.reason.replace(" ", ""), refusal.reason)
    response = failed(error)
    if "Allow" in refusal.headers:
        response.headers["Allow"] = refusal.headers["Allow"]
    return response


def is_defect(record: logging.LogRecord) -> bool:
    """Return whether a record of aiohttp is not about a request that cannot be read.

    Any client can send those, as often as it likes.
    """
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError | web.RequestPayloadError)
