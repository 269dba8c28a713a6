"""The routes of health pages. They are answered in the serving thread."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from aiohttp import web

from scheduler.observe.pages.health import HealthChecks
from scheduler.observe.server.responses import health_response

__all__ = ["all_checks", "one_check"]

Respond: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


def all_checks(health: HealthChecks) -> Respond:
    """Return what answers with all checks of a kind."""

    async def respond(request: web.Request) -> web.Response:
        query = request.query
        return health_response(
            health.report(verbose="verbose" in query, excluded=query.getall("exclude", []))
        )

    return respond


def one_check(health: HealthChecks) -> Respond:
    """Return what answers with the check that the path names."""

    async def respond(request: web.Request) -> web.Response:
        report = health.single(request.match_info["check"])
        if report is None:
            raise web.HTTPNotFound
        return health_response(report)

    return respond
