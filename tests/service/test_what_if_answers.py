"""What answers of plans tell, and how they are written."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from scheduler.model.events import PodObserved
from scheduler.observe.api import openapi
from scheduler.observe.server import access, plan_route
from scheduler.observe.server.access import AccessDecision, AccessVerdict, Caller
from tests.service.test_what_if import NOW, World, new
from tests.support.builders import pod


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    await made.start()
    yield made
    await made.close()


async def test_a_long_answer_is_written_in_parts(world: World, monkeypatch):
    _, whole = await world.post(new("x"))
    monkeypatch.setattr(plan_route, "_PART", 100)

    code, answer, headers = await world.posted(new("x"))

    assert (code, answer, headers["Content-Type"]) == (200, whole, "application/json")
    assert int(headers["Content-Length"]) > 200


async def test_warnings_do_not_tell_what_exists_in_other_namespaces(world: World):
    class Names:
        async def visible(self, namespaces):
            return {"default"} & set(namespaces)

    async def authorize(_caller):
        return AccessDecision(AccessVerdict.ALLOWED, names=Names())

    world.authorize = authorize
    existing = pod("c").namespace("secret").on("n1").cpu("0").owner("ReplicaSet", "db").build()
    world.machine.observe(PodObserved(existing), NOW)
    spec = {"replicas": 1, "template": {"spec": {}}}
    workload = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": spec}
    guesses = [
        {**workload, "metadata": {"name": "db", "namespace": "secret"}},
        new("b", namespace="secret"),
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "guess", "namespace": "secret"},
        },
    ]

    _, answer = await world.post({"objects": guesses})
    world.authorize = access.allow_all
    _, everything = await world.post({"objects": guesses})

    assert answer.get("warnings", []) == []
    assert len(everything["warnings"]) == 3


# The description


def described() -> dict[str, Any]:
    found = json.loads(openapi.description())["paths"]["/api/v1/plan"]["post"]
    assert isinstance(found, dict)
    return found


async def test_each_type_of_body_that_is_read_is_described(world: World):
    types = described()["requestBody"]["content"]

    for content_type in types:
        code, _ = await world.post(new("x"), {"Content-Type": content_type})
        assert code == 200, content_type
    _, refused = await world.post("x", {"Content-Type": "text/plain"})
    assert refused["message"] == f"the body must be {' or '.join(types)}, not text/plain"


async def test_each_answer_that_is_given_is_described(world: World, monkeypatch):
    async def never(_request: web.Request, _most: int) -> bytes:
        await asyncio.sleep(5)
        return b""

    def verdict(verdict: AccessVerdict) -> Callable[[Caller], Awaitable[AccessDecision]]:
        async def authorize(_caller: Caller) -> AccessDecision:
            return AccessDecision(verdict, "no")

        return authorize

    async def broken() -> AsyncIterator[bytes]:
        yield b"nonsense"

    answers = [
        await world.posted(new("x")),
        await world.posted("{"),
        await world.posted("x" * (4 << 20)),
        await world.posted("x", {"Content-Type": "text/plain"}),
    ]
    with monkeypatch.context() as patch:
        patch.setattr(plan_route, "_BODY_SECONDS", 0.1)
        patch.setattr(plan_route, "_body", never)
        answers.append(await world.posted(new("x")))
    for each in AccessVerdict:
        if each is not AccessVerdict.ALLOWED:
            world.authorize = verdict(each)
            answers.append(await world.posted(new("x")))
    world.authorize = access.allow_all
    answers += await asyncio.gather(world.posted(new("x")), world.posted(new("x")))
    with monkeypatch.context() as patch:
        patch.setattr(world.page, "_feed", broken)
        answers.append(await world.posted(new("x")))
    world.problem = "not synced: pods"
    answers.append(await world.posted(new("x")))

    responses = described()["responses"]
    for code, document, headers in answers:
        assert headers["Content-Type"] in responses[str(code)]["content"]
        if code != 200:
            assert (document["kind"], document["code"]) == ("Status", code)
        if "Retry-After" in headers:
            assert "Retry-After" in responses[str(code)]["headers"]
    assert {str(code) for code, _, _ in answers} == set(responses)
