"""What answers of plans tell, and how they are written."""

from collections.abc import AsyncIterator

import pytest

from scheduler.model.events import PodObserved
from scheduler.observe.server import access, plan_route
from scheduler.observe.server.access import AccessDecision, AccessVerdict
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
