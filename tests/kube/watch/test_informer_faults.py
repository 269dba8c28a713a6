"""An informer survives odd objects, missing rights and failing servers."""

import asyncio

import pytest

from scheduler.kube.client.backoff import Sleeper
from scheduler.kube.watch.informer import Informer
from scheduler.kube.watch.resources import NAMESPACES, NODES, PDBS, PODS
from scheduler.model.events import Event, NamespaceObserved
from tests.kube.fixtures import WATCH, until
from tests.support.fake_api import Fault, node, pod


@pytest.mark.usefixtures("ways")
async def test_an_undecodable_object_is_reported_once_and_left_out(api, view, start, heard):
    bad = {"metadata": {"name": "bad", "namespace": "default"}, "spec": 7, "status": {}}
    api.store.put("pods", bad)
    api.store.put("pods", pod("good"))

    informer = await start()
    api.store.put("pods", bad)
    api.store.put("pods", pod("later"))
    await until(lambda: "default/later" in view.pods)

    assert heard.unreadable == ["default/bad"]
    assert informer.health().undecodable == 1
    assert set(view.pods) == {"default/good", "default/later"}


async def test_a_known_object_stays_known_while_it_cannot_be_read(api, view, start):
    api.store.put("pods", pod("a", node="n1"))
    informer = await start()

    api.store.put("pods", {**pod("a"), "spec": 7})
    await until(lambda: informer.health().undecodable)
    assert len(view.events) == 1

    api.store.remove("pods", "default/a")
    await until(lambda: not view.pods)
    assert informer.health().undecodable == 0


async def test_a_replaced_object_that_cannot_be_read_is_reported_as_gone(api, view, start):
    api.store.put("pods", pod("a"))
    informer = await start()

    api.store.put("pods", {**pod("a"), "spec": 7}, uid="another")
    await until(lambda: informer.health().undecodable)

    assert view.pods == {}


async def test_a_missing_right_is_reported_and_retried_with_growing_pauses(api, view, start, waits):
    api.forbidden.add(("list", "nodes"))
    api.store.put("nodes", node("n1"))

    informer = await start(NODES, synced=False)
    await until(lambda: len(waits.slept) >= 4)
    health = informer.health()
    assert "cannot list nodes: nodes is forbidden" in health.problem
    assert not health.synced

    api.forbidden.clear()
    await until(lambda: informer.synced.is_set() and informer.health().problem == "")
    assert waits.slept[:4] == [0.5, 1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault("GET", "/pods", times=3, status=500), id="500"),
        pytest.param(Fault("GET", "/pods", times=3, status=503, body=b"<html>"), id="html 503"),
        pytest.param(Fault("GET", "/pods", times=3, status=200, body=b"<html>"), id="html 200"),
        pytest.param(
            Fault("GET", "/pods", times=3, status=200, body=b'{"metadata":{},"it'), id="half a body"
        ),
        pytest.param(
            Fault(
                "GET",
                "/pods",
                times=3,
                status=200,
                headers={"Content-Encoding": "gzip"},
                body=b"{}",
            ),
            id="broken gzip",
        ),
        pytest.param(Fault("GET", "/pods", times=3, cut=True), id="cut"),
        pytest.param(Fault("GET", WATCH, times=3, status=504), id="watch 504"),
        pytest.param(Fault("GET", WATCH, times=3, status=200, body=b"<html>\n"), id="watch html"),
        pytest.param(Fault("GET", WATCH, times=3, status=200, body=b""), id="watch ends at once"),
        # Each comes over a kept connection, and is sent again at once.
        pytest.param(Fault("GET", WATCH, times=6, cut=True), id="watch cut"),
    ],
)
async def test_a_failing_server_is_tried_again_with_growing_pauses(api, view, start, waits, fault):
    api.inject(fault)

    await start()
    await until(lambda: api.watches == 1)
    api.store.put("pods", pod("a"))
    await until(lambda: view.equals(api))

    assert waits.slept == [0.5, 1.0, 2.0]


async def test_watches_that_end_with_their_first_line_are_not_opened_without_pauses(
    api, start, waits
):
    """As through something on the way that passes on a part of an answer as the whole."""
    line = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"200"}}}\n'
    api.inject(Fault("GET", WATCH, times=5, status=200, body=line))

    informer = await start()
    await until(lambda: api.watches == 1)

    assert waits.slept == [0.5] * 5
    assert informer.health().problem == ""


async def test_an_unknown_resource_counts_as_empty_where_it_is_optional(api, view, start):
    api.absent.add("poddisruptionbudgets")

    informer = await start(PDBS)

    assert informer.health().synced
    api.absent.clear()
    api.store.put("poddisruptionbudgets", {"metadata": {"name": "b", "namespace": "ns"}})
    await until(lambda: view.events)


async def test_an_unknown_resource_is_not_waited_for_when_all_is_listed_again(api, client, view):
    api.absent.add("poddisruptionbudgets")
    sleeper = Sleeper(jitter=lambda: 0.0, sleep=lambda _: asyncio.sleep(3600))
    informer = Informer(PDBS, client, view.take, sleeper)
    running = asyncio.create_task(informer.run())
    await informer.synced.wait()

    await asyncio.wait_for(informer.list_again(), 1.5)

    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_an_unknown_resource_is_a_problem_where_it_is_needed(api, start, waits):
    api.absent.add("namespaces")

    informer = await start(NAMESPACES, synced=False)
    await until(lambda: len(waits.slept) > 2)

    assert not informer.synced.is_set()


async def test_an_error_event_is_no_namespace(api, view, start):
    api.store.put("namespaces", {"metadata": {"name": "ns"}})
    await start(NAMESPACES)
    await until(lambda: api.watches == 1)

    api.expire_watches()
    api.store.put("namespaces", {"metadata": {"name": "later"}})
    await until(lambda: len(view.events) == 2)

    assert all(isinstance(event, NamespaceObserved) for event in view.events)


async def test_what_the_sink_raises_ends_the_informer(api, client, waits):
    def broken(_: list[Event]) -> None:
        raise ArithmeticError

    api.store.put("pods", pod("a"))

    with pytest.raises(ArithmeticError):
        await Informer(PODS, client, broken, waits.sleeper).run()
