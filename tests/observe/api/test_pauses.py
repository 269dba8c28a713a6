"""Long documents are made in slices: the loop goes on after a few hundred nodes."""

import asyncio
import contextlib

import pytest

from scheduler.core.attempt.node_results import NodeResults
from scheduler.model.api import selectors
from scheduler.model.policies import PreemptionPolicy
from scheduler.observe.api import explanation
from tests.support.api_documents import Documents
from tests.support.builders import at, node, pod
from tests.support.cluster import Cluster

NODES = 600
MOST = 400


class Turns:
    """The most calls of a function within one turn of the loop."""

    def __init__(self, monkeypatch, owner, name: str) -> None:
        self._here = self.most = self.calls = 0
        original = getattr(owner, name)

        def counted(*arguments):
            self.calls += 1
            self._here += 1
            self.most = max(self.most, self._here)
            return original(*arguments)

        monkeypatch.setattr(owner, name, counted)

    async def count(self) -> None:
        while True:
            self._here = 0
            await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def counting(turns: Turns):
    task = asyncio.create_task(turns.count())
    yield
    task.cancel()


def tainted() -> Documents:
    docs = Documents(*(node(f"n{number}").taint(f"key-{number}") for number in range(NODES)))
    docs.cluster.add(pod("p"))
    docs.cluster.drain()
    return docs


async def explained(docs: Documents, **query: str):
    return await docs.get("pods/{namespace}/{name}", namespace="default", name="p", **query)


async def test_taints_that_are_all_different_are_compared_in_slices(monkeypatch):
    docs = tainted()
    turns = Turns(monkeypatch, selectors, "untolerated")

    async with counting(turns):
        found = await explained(docs)

    assert len(found["suggestions"]) == 3
    assert turns.calls >= NODES
    assert turns.most <= MOST


async def test_the_results_of_nodes_are_read_in_slices(monkeypatch):
    docs = tainted()
    turns = Turns(monkeypatch, NodeResults, "_result")

    async with counting(turns):
        found = await explained(docs, nodes="1")

    assert [each["name"] for each in found["nodes"]] == sorted(f"n{each}" for each in range(NODES))
    assert turns.calls >= 2 * NODES
    assert turns.most <= MOST


async def test_an_explanation_is_that_of_the_moment_of_the_attempt(monkeypatch):
    docs = tainted()
    original, left = NodeResults._result, iter(range(20))

    def deleting(self, row):
        if (number := next(left, None)) is not None:
            docs.cluster.delete_node(f"n{number}")
        return original(self, row)

    monkeypatch.setattr(NodeResults, "_result", deleting)
    found = await explained(docs)

    assert sum(each["nodes"] for each in found["verdicts"]) == NODES
    assert len(found["suggestions"]) == 3


async def test_vetoes_that_differ_in_their_ends_are_one():
    """Else each node could have one of its own, for each policy."""
    docs = Documents(PreemptionPolicy("p", victim_min_runtime=3600.0))
    for number in range(3):
        docs.cluster.add(node(f"n{number}").cpu("4"))
        docs.cluster.add(pod(f"v{number}").on(f"n{number}").cpu("4").started(500 + 100 * number))
    docs.cluster.add(pod("p").cpu("4").priority(9))

    found = await explained(docs, nodes="1")

    text = 'PreemptionPolicy "p" refuses: victims have run for less than 1h (until'
    assert found["policies"] == [
        {"policy": "p", "rule": "victimMinRuntime", "message": f"{text} {at(4100)})", "count": 3}
    ]
    assert found["nodes"][2]["vetoes"] == [f"{text} {at(4300)})"]


@pytest.mark.parametrize(("gone", "texts"), [(2, 1), (3, 0)])
async def test_no_help_is_derived_from_nodes_that_are_gone_meanwhile(monkeypatch, gone, texts):
    docs = Documents(*(node(f"n{number}").cpu("4") for number in range(3)))
    docs.cluster.add(pod("p").cpu("9"))
    original, left = NodeResults._result, iter(range(gone))

    def deleting(self, row):
        for number in left:
            docs.cluster.delete_node(f"n{number}")
        return original(self, row)

    monkeypatch.setattr(NodeResults, "_result", deleting)
    found = (await explained(docs)).get("suggestions", [])

    text = (
        "None of the 1 nodes that lack resources is large enough: the pod requests 9 cpu, and the"
        " largest of them has 4."
    )
    assert found == [text][:texts]


async def test_an_explanation_waits_while_the_machine_is_copied(monkeypatch):
    monkeypatch.setattr(explanation, "_PAUSE_SECONDS", 0.0)
    cluster = Cluster(pod("p"))
    queued = cluster.machine.queue.get(cluster.ref("p").uid)
    cluster.machine.is_copied = True
    waiting = asyncio.create_task(
        explanation.Evaluations(cluster.machine).evaluate(queued, cluster.now)
    )
    for _ in range(9):
        await asyncio.sleep(0)
    assert not waiting.done()

    cluster.machine.is_copied = False

    assert await waiting is not None
