"""What answers of plans tell, and how they are written."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from scheduler.core.snapshot.copying import MachineCopy
from scheduler.model.events import PodObserved
from scheduler.observe.api import openapi
from scheduler.observe.api.requests import EVERY_NAME
from scheduler.observe.server import access, what_if_route
from scheduler.observe.server.access import AccessDecision, AccessVerdict, Caller
from scheduler.sim.what_if_cluster import State
from tests.service.test_what_if import JSON, NOW, SETTINGS, TEMPLATE, World, new, until
from tests.support.builders import pod


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    await made.start()
    yield made
    await made.close()


async def test_a_long_answer_is_written_in_parts(world, monkeypatch):
    _, whole = await world.post(new("x"))
    monkeypatch.setattr(what_if_route, "_PART", 100)

    code, answer, headers = await world.posted(new("x"))

    assert (code, answer, headers["Content-Type"]) == (200, whole, "application/json")
    assert int(headers["Content-Length"]) > 200


async def test_warnings_do_not_tell_what_exists_in_other_namespaces(world):
    class Names:
        async def visible(self, namespaces):
            return {"default"} & set(namespaces)

    async def authorize(_caller):
        return AccessDecision(AccessVerdict.ALLOWED, names=Names())

    world.authorize = authorize
    existing = pod("c").namespace("secret").on("n1").cpu("0").owner("ReplicaSet", "db").build()
    world.machine.observe(PodObserved(existing), NOW)
    spec = {"replicas": 1, "selector": {}, "template": TEMPLATE}
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


async def test_each_answer_that_is_given_is_described(world, monkeypatch):
    async def never(_request: web.Request, _most: int) -> bytes:
        await asyncio.sleep(5)
        return b""

    def verdict(verdict: AccessVerdict) -> Callable[[Caller], Awaitable[AccessDecision]]:
        async def authorize(_caller: Caller) -> AccessDecision:
            return AccessDecision(verdict, "no")

        return authorize

    async def broken() -> tuple[State, MachineCopy]:
        return State((), SETTINGS, NOW), MachineCopy(fields={"nonsense": 1})

    answers = [
        await world.posted(new("x")),
        await world.posted("{"),
        await world.posted("x" * (4 << 20)),
        await world.posted("x", {"Content-Type": "text/plain"}),
    ]
    with monkeypatch.context() as patch:
        patch.setattr(what_if_route, "_BODY_SECONDS", 0.1)
        patch.setattr(what_if_route, "_body", never)
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


async def by_token(caller: Caller) -> AccessDecision:
    user = caller.headers["Authorization"].split()[1]
    return AccessDecision(AccessVerdict.ALLOWED, names=EVERY_NAME, user=user)


async def test_bodies_that_do_not_come_keep_no_plan_waiting(world, monkeypatch):
    """Of eight bodies that are read at a time, the oldest yields to a new one."""
    monkeypatch.setattr(what_if_route, "_BODY_SECONDS", 100.0)
    world.authorize = by_token
    head = (
        "POST /api/v1/plan HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer slow-{}\r\n"
        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"
    )
    slow = [await asyncio.open_connection("127.0.0.1", world._web.port) for _ in range(12)]
    for number, (_, writer) in enumerate(slow):
        writer.write(head.format(number).encode())
    answers = [asyncio.create_task(reader.readline()) for reader, _ in slow]
    await until(lambda: sum(answer.done() for answer in answers) == 4)

    code, _ = await world.post(new("x"), {**JSON, "Authorization": "Bearer ada"})

    assert code == 200
    await until(lambda: sum(answer.done() for answer in answers) == 5)
    assert {answer.result().split()[1] for answer in answers if answer.done()} == {b"408"}
    for _, writer in slow:
        writer.close()
    await asyncio.gather(*answers)


async def test_a_refused_body_that_does_not_come_is_answered(world):
    world.problem = "not synced: pods"
    reader, writer = await asyncio.open_connection("127.0.0.1", world._web.port)
    writer.write(
        b"POST /api/v1/plan HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Content-Length: 100\r\n\r\n{"
    )

    assert b" 503 " in await reader.readline()
    writer.close()
