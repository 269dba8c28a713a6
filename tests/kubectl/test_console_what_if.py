"""What-if of the console knows the PriorityClasses of the cluster, with the rights of its user."""

import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from scheduler.kubectl import connection, parsing
from scheduler.kubectl.client import SchedulerClient
from scheduler.kubectl.commands.console import PluginBackend
from scheduler.kubectl.output import Output
from scheduler.kubectl.session import Session
from scheduler.service.clock import Clock
from scheduler.web_console.server import ConsoleServer
from tests.kubectl.test_priority_classes import HIGH, pod
from tests.kubectl.test_transport import api, config  # noqa: F401 - fixtures
from tests.support.stand_in_documents import NOW

Plan = Callable[[Any], Awaitable[tuple[int, Any]]]


@pytest.fixture
async def plan(config: str, tmp_path: Path) -> AsyncIterator[Plan]:  # noqa: F811
    """Post a what-if as the page does."""
    arguments = parsing.parser().parse_args(["console"])
    way = connection.reach(arguments, {"HOME": str(tmp_path), "KUBECONFIG": config}, Clock())
    async with SchedulerClient(way.open) as client:
        out = Output(io.StringIO(), 80, color=False)
        session = Session(arguments, client, out, lambda: NOW, way.selection)
        server = ConsoleServer(PluginBackend(session), {})
        jar = aiohttp.CookieJar(unsafe=True)
        async with server.serving(), aiohttp.ClientSession(cookie_jar=jar) as browser:
            origin = server.url.rstrip("/")
            await browser.post(f"{origin}/session", data={"key": server.key})

            async def plan(body: Any) -> tuple[int, Any]:
                headers = {"Origin": origin, "Content-Type": "application/json"}
                text = body if isinstance(body, str) else json.dumps(body)
                url = f"{origin}/api/v1/plan"
                async with browser.post(url, data=text, headers=headers) as answer:
                    return answer.status, await answer.json()

            yield plan


async def test_a_plan_of_the_page_has_the_classes_of_the_cluster(
    plan,
    api,  # noqa: F811
    scheduler,
):
    api.priority_classes = [HIGH]

    status, answer = await plan({"objects": [pod(priorityClassName="high")], "drain": []})

    assert (status, "warnings" in answer) == (200, False)
    sent = scheduler.plans[0].objects
    assert [(each["kind"], each.get("value")) for each in sent] == [
        ("Pod", None), ("PriorityClass", 1000),
    ]  # fmt: skip


async def test_classes_that_the_user_may_not_read_are_a_warning(
    plan,
    api,  # noqa: F811
    scheduler,
):
    api.refused["priorityclasses"] = 403

    status, answer = await plan({"objects": [pod(priorityClassName="high")]})

    assert status == 200
    (warning,) = answer["warnings"]
    assert warning.startswith("the PriorityClasses of the cluster cannot be read: ")
    assert [each["kind"] for each in scheduler.plans[0].objects] == ["Pod"]


@pytest.mark.parametrize(
    "body", ["{", "[]", "3", '{"objects": 3}', '{"objects": [3]}', "[" * 100_000, '"\\ud800"']
)
async def test_what_is_no_request_is_judged_by_the_scheduler(
    plan,
    api,  # noqa: F811
    body,
):
    status, _ = await plan(body)

    assert status in {200, 400}
    assert not any("priorityclasses" in each for each in api.requests)
