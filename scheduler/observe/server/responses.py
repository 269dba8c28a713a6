"""Responses of the web server: pages, health, and refusals in the format of the API server."""

from collections.abc import Mapping
from typing import Final

import msgspec
from aiohttp import web

from scheduler.observe.api.requests import ApiError
from scheduler.observe.pages.health import HealthReport
from scheduler.observe.pages.statuses import status
from scheduler.observe.server.access import AccessDecision, AccessVerdict

__all__ = ["failed", "health_response", "refused", "shown"]

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


def failed(error: ApiError) -> web.Response:
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
