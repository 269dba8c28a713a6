"""The debug pages say what the scheduler knows, and change nothing."""

import asyncio
import inspect
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from scheduler.model.decisions import Unschedulable
from scheduler.model.effects import Bind, Nominate
from scheduler.observe.pages.debug import Debug
from scheduler.queue.phases import QueuePhase
from tests.support.builders import node, pod
from tests.support.cluster import Cluster

POD = "/debug/pods/{namespace}/{name}"


async def page(cluster: Cluster, path: str, **query: str) -> Any:
    content = Debug(cluster.machine, lambda: cluster.now).pages()[path](query)
    content = await content if inspect.isawaitable(content) else content
    if isinstance(content, AsyncIterator):
        return json.loads(b"".join([part async for part in content]))
    return content


async def explained(cluster: Cluster, name: str) -> Any:
    return await page(cluster, POD, namespace="default", name=name)


async def test_a_waiting_pod_is_explained_node_by_node():
    taken = pod("low").on("full").cpu("4").priority(9)
    cluster = Cluster(node("full").cpu("4"), node("tainted").cpu("4").taint("k"), taken)
    decision = cluster.schedule(pod("p").cpu("2").priority(1))

    found = await explained(cluster, "p")

    assert isinstance(decision, Unschedulable)
    assert found["phase"] == "unschedulable"
    assert found["attempts"] == 1
    assert found["since"] == "2026-01-01T00:16:40Z"
    assert found["rejectedBy"] == ["NodeResourcesFit", "TaintToleration"]
    assert found["message"] == decision.message
    assert found["node"] is None
    assert [(each["name"], each["filter"]) for each in found["nodes"]] == [
        ("full", "NodeResourcesFit: Insufficient cpu"),
        ("tainted", "TaintToleration: node(s) had untolerated taint(s)"),
    ]
    assert found["rejections"] == {each["filter"]: 1 for each in found["nodes"]}


async def test_asking_changes_no_decision():
    def fresh() -> Cluster:
        return Cluster(
            *(node(f"n{i}").cpu("4") for i in range(3)),
            *(pod(f"low{i}").on(f"n{i}").cpu("4").priority(i) for i in range(3)),
            *(pod(f"p{i}").cpu("2").priority(5 + i) for i in range(4)),
        )

    asked, silent = fresh(), fresh()
    for _ in range(4):
        for i in range(4):
            if asked.phase(f"p{i}") is not None:
                await explained(asked, f"p{i}")
        asked.step()
        silent.step()

    assert asked.attempts == silent.attempts
    assert asked.effects == silent.effects


async def test_a_pod_that_is_being_bound_is_not_evaluated_again():
    cluster = Cluster(node("n1").cpu("4"), pod("p").cpu("4"))
    cluster.hold(Bind)
    cluster.step()

    found = await explained(cluster, "p")

    assert (found["phase"], found["node"], found["message"]) == (
        "binding",
        "n1",
        "the pod is binding",
    )


async def test_a_pod_placed_before_it_is_explained_is_not_evaluated_again():
    cluster = Cluster(node("n1").cpu("4"), pod("p").cpu("4"))
    query = {"namespace": "default", "name": "p"}
    content = await Debug(cluster.machine, lambda: cluster.now).pages()[POD](query)
    cluster.hold(Bind)

    cluster.step()
    (page,) = [json.loads(part) async for part in content]

    assert page["phase"] == "binding"
    assert "nodes" not in page


async def test_extenders_are_not_asked_for_a_page():
    config = "extenders: [{urlPrefix: http://e, filterVerb: filter}]\n"
    cluster = Cluster(node("n1").cpu("4"), pod("p").cpu("1"), config=config)

    found = await explained(cluster, "p")

    assert found["message"] == "the attempt would call extenders; an explanation does not call them"
    assert (found["node"], found["nodes"]) == (None, [])
    assert cluster.effects == []
    assert cluster.phase("p") is QueuePhase.ACTIVE


async def test_pods_are_explained_one_after_the_other():
    cluster = Cluster(node("n1").cpu("1"), pod("a").cpu("2"), pod("b").cpu("2"))
    loop = asyncio.get_running_loop()
    pages = Debug(cluster.machine, lambda: cluster.now).pages()
    moments: dict[str, float] = {}

    async def ask(name: str) -> None:
        async for _ in await pages[POD]({"namespace": "default", "name": name}):
            moments[name] = loop.time()

    await asyncio.gather(ask("a"), ask("b"))

    assert abs(moments["a"] - moments["b"]) >= 0.15


async def test_a_pod_that_does_not_wait_is_not_found():
    cluster = Cluster(node("n1").cpu("4"), pod("p").on("n1"))

    with pytest.raises(LookupError, match='pod "default/p" is not in the queue'):
        await explained(cluster, "p")


async def test_the_queue_is_shown_with_its_phases():
    cluster = Cluster(node("n1").cpu("1"), pod("big").cpu("2"), pod("gated").gated("wait"))
    cluster.drain()
    cluster.add(pod("new").priority(7))

    found = await page(cluster, "/debug/queue")

    assert found["lengths"] == {"active": 1, "backoff": 0, "unschedulable": 1, "gated": 1}
    assert [(each["pod"], each["phase"], each["priority"]) for each in found["pods"]] == [
        ("default/big", "unschedulable", 0),
        ("default/gated", "gated", 0),
        ("default/new", "active", 7),
    ]


async def test_some_of_the_queue_can_be_picked():
    cluster = Cluster(node("n1").cpu("1"), pod("big").cpu("2"), pod("gated").gated("wait"))

    found = await page(cluster, "/debug/queue", phase="gated")

    assert [each["pod"] for each in found["pods"]] == ["default/gated"]
    with pytest.raises(ValueError, match="'lost'"):
        await page(cluster, "/debug/queue", phase="lost")


async def test_nodes_are_shown_with_their_requested_resources():
    low = pod("low").on("n1").cpu("3").priority(1)
    high = pod("high").cpu("4").priority(9)
    cluster = Cluster(node("n1").cpu("4"), node("n2").cpu("1").cordoned(), low, high)
    cluster.hold(Nominate)
    cluster.step()

    found = await page(cluster, "/debug/nodes")

    first, second = found["nodes"]
    assert first["name"] == "n1"
    assert first["pods"] == 1
    assert first["resources"]["cpu"] == {"allocatable": 4000, "requested": 3000}
    assert first["nominated"] == ["default/high"]
    assert not first["unschedulable"]
    assert (second["name"], second["unschedulable"], second["nominated"]) == ("n2", True, [])


async def test_long_lists_are_sent_in_parts():
    cluster = Cluster(node("n1").cpu("1"), *(pod(f"p{i}").cpu("2") for i in range(250)))
    content = Debug(cluster.machine, lambda: cluster.now).pages()["/debug/queue"]({})

    parts = [part async for part in content]

    assert len(parts) == 1 + 3 + 1
    assert len(json.loads(b"".join(parts))["pods"]) == 250


async def test_a_node_deleted_while_nodes_are_listed_is_left_out():
    cluster = Cluster(*(node(f"n{i}").cpu("1") for i in range(150)))
    content = Debug(cluster.machine, lambda: cluster.now).pages()["/debug/nodes"]({})
    page = await anext(content) + await anext(content)

    cluster.delete_node("n149")
    page += b"".join([part async for part in content])

    assert len(json.loads(page)["nodes"]) == 149


async def test_a_gated_pod_says_why():
    cluster = Cluster(node("n1").cpu("4"), pod("p").gated("wait"))

    found = await explained(cluster, "p")

    assert found["phase"] == "gated"
    assert "wait" in found["message"]
    assert "nodes" not in found
