"""The writer asks extenders and lets them bind, and finds out what became of it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

import pytest

from scheduler.config.settings import Extender
from scheduler.kube.client.client import Client
from scheduler.kube.errors import Unreachable
from scheduler.kube.extenders import Extenders
from scheduler.kube.watch.informer import Informer
from scheduler.kube.watch.raw_objects import RawNodes, RawPods
from scheduler.kube.write.writer import Writer, WriterSettings
from scheduler.model.effects import Ask, Bind, Effect, PodRef, Question, Verb
from scheduler.model.events import Answered, EffectDone, EffectFailed, Failure, FailureKind
from scheduler.model.extender_answers import Filtered
from tests.kube.fixtures import NOW, Outcomes, Waits, bind, until, writes
from tests.support.extender import ExtenderServer
from tests.support.fake_api import FakeApi, Fault, node, pod

FILTER = Question(0, Verb.FILTER, ("n1",))
#: Hands an effect to a writer with an extender of these settings.
Submit = Callable[..., Coroutine[Any, Any, Writer]]


@pytest.fixture
def server() -> Iterator[ExtenderServer]:
    with ExtenderServer() as started:
        started.answers = {"filter": {"NodeNames": ["n1"]}, "bind": {}}
        yield started


@pytest.fixture
async def submit(
    client: Client, server: ExtenderServer, outcomes: Outcomes, waits: Waits
) -> AsyncIterator[Submit]:
    """Hand an effect to a writer with one extender."""
    async with contextlib.AsyncExitStack() as stack:

        async def begin(effect: Effect, *, leads: bool = True, **settings: Any) -> Writer:
            usual = {"filter_verb": "filter", "bind_verb": "bind", "node_cache_capable": True}
            extender = Extender(**{"url_prefix": server.url, **usual, **settings})
            extenders = Extenders([extender], RawPods(client), {})
            await stack.enter_async_context(extenders)
            writer = Writer(
                client,
                outcomes.append,
                lambda: leads,
                lambda: NOW,
                waits.sleeper,
                WriterSettings(extenders=extenders),
            )
            stack.push_async_callback(writer.drain, 0)
            writer.submit(effect)
            return writer

        yield begin


@pytest.fixture
def execute(submit: Submit, outcomes: Outcomes) -> Submit:
    """Have an effect executed."""

    async def to_the_end(effect: Effect, **settings: Any) -> Writer:
        writer = await submit(effect, **settings)
        await until(lambda: len(outcomes) == 1)
        return writer

    return to_the_end


def ask(api: FakeApi, *questions: Question, version: str = "") -> Ask:
    found = api.store.get("pods", "default/a")["metadata"]
    reference = PodRef("default", "a", found["uid"])
    return Ask(reference, 7, version or found["resourceVersion"], questions or (FILTER,))


def by_extender(api: FakeApi) -> Bind:
    effect = bind(api)
    return Bind(effect.pod, effect.node, effect.scheduler_name, 0)


async def test_an_extender_is_asked_about_the_whole_pod(api, execute, server, outcomes):
    stored = pod("a")
    stored["metadata"] |= {"finalizers": ["x/y"], "managedFields": [{"manager": "m"}]}
    stored["spec"]["unknown"] = {"to": ["us"]}
    api.store.put("pods", stored)
    effect = ask(api)

    await execute(effect)

    assert outcomes == [Answered(effect.pod, 7, (Filtered(("n1",)),))]
    (body,) = server.asked("filter")
    want = json.loads(json.dumps(api.store.get("pods", "default/a")))
    del want["metadata"]["managedFields"]
    assert body["Pod"] == want


async def test_a_pod_is_looked_up_once_for_all_questions_about_a_version(api, client):
    api.store.put("pods", pod("a"))
    effect = ask(api)
    pods = RawPods(client)

    first = await pods.get(effect.pod, effect.version)
    again = await pods.get(effect.pod, effect.version)
    newer = await pods.get(effect.pod, "newer")

    assert first == again == newer
    assert [request.verb for request in api.requests] == ["get", "get"]


async def test_a_pod_is_not_deleted_because_something_else_has_answered(api, client):
    api.store.put("pods", pod("a"))
    api.inject(Fault("GET", "/pods/a", status=200, body=b"{}"))

    with pytest.raises(Unreachable):
        await RawPods(client).get(ask(api).pod)


async def test_no_extender_is_asked_about_a_deleted_pod(api, execute, server, outcomes):
    api.store.put("pods", pod("a"))
    effect = ask(api)
    api.store.remove("pods", "default/a")
    api.store.put("pods", pod("a"))

    await execute(effect)

    (outcome,) = outcomes
    assert isinstance(outcome, EffectFailed)
    assert outcome.failure.kind is FailureKind.GONE
    assert server.calls == []


async def test_an_extender_binds(api, execute, server, outcomes):
    api.store.put("pods", pod("a"))
    effect = by_extender(api)

    await execute(effect)

    assert outcomes == [EffectDone(effect)]
    uid = effect.pod.uid
    assert server.asked("bind") == [
        {"PodName": "a", "PodNamespace": "default", "PodUID": uid, "Node": "n1"}
    ]
    assert api.requests == []


async def test_what_an_extender_refuses_to_bind_stays_unbound(api, execute, server, outcomes):
    api.store.put("pods", pod("a"))
    server.answers["bind"] = {"Error": "no license"}
    effect = by_extender(api)

    await execute(effect)

    failure = Failure(FailureKind.UNAVAILABLE, "no license")
    assert outcomes == [EffectFailed(effect, failure)]
    assert writes(api) == []


async def test_a_pod_that_an_ignorable_extender_refuses_to_bind_is_bound_by_the_scheduler(
    api, execute, server, outcomes
):
    api.store.put("pods", pod("a"))
    server.answers["bind"] = 500
    effect = by_extender(api)

    await execute(effect, ignorable=True)

    assert outcomes == [EffectDone(effect)]
    assert api.store.get("pods", "default/a")["spec"]["nodeName"] == "n1"


@pytest.mark.parametrize("ignorable", [False, True])
async def test_a_binding_whose_answer_is_lost_is_found_out(
    api, execute, server, outcomes, ignorable
):
    api.store.put("pods", pod("a"))
    effect = by_extender(api)
    found = api.store.get("pods", "default/a")
    found["spec"]["nodeName"] = "n1"
    api.store.put("pods", found)
    server.answers["bind"] = 500

    await execute(effect, ignorable=ignorable)

    assert outcomes == [EffectDone(effect)]
    assert writes(api) == []


async def test_whole_nodes_are_kept_up_to_date(api, client, waits):
    stored = node("n1")
    stored["metadata"]["managedFields"] = [{"manager": "m"}]
    stored["status"]["images"] = [{"names": ["i"], "sizeBytes": 1}]
    api.store.put("nodes", stored)
    api.store.put("nodes", node("n2"))
    nodes = RawNodes()
    informer: Informer[Any] = Informer(nodes.resource, client, nodes.take, waits.sleeper)
    task = asyncio.create_task(informer.run())
    await until(lambda: len(nodes) == 2)

    want = json.loads(json.dumps(api.store.get("nodes", "n1")))
    del want["metadata"]["managedFields"]
    assert json.loads(nodes["n1"]) == want
    api.store.remove("nodes", "n1")
    await until(lambda: list(nodes) == ["n2"])
    api.store.put("nodes", {**node("n2"), "spec": {"unschedulable": True}})
    await until(lambda: b"unschedulable" in nodes["n2"])

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
