"""An informer reports every object, whatever happens to the connection."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from scheduler.kube.client.client import Client
from scheduler.kube.watch.resources import NAMESPACES, NODES, PDBS
from scheduler.model.events import BudgetGone, NamespaceGone, NodeGone, PodGone, PodObserved
from tests.kube.fixtures import View, settle, until
from tests.support.fake_api import Fault, pod


@pytest.mark.usefixtures("ways")
async def test_lists_everything_in_parts(api, view, start):
    for number in range(7):
        api.store.put("pods", pod(f"p{number}"))

    informer = await start(page_objects=3)

    assert view.equals(api)
    assert view.batches == 3
    assert informer.health().objects == 7


async def test_the_next_page_is_asked_for_before_one_is_taken_over(api, view, start, monkeypatch):
    for number in range(5):
        api.store.put("pods", pod(f"p{number}"))
    order = []

    def noted(what: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(owner: object, each: object) -> Any:
            order.append(what)
            return real(owner, each)

        return call

    monkeypatch.setattr(Client, "call", noted("asked", Client.call))
    monkeypatch.setattr(View, "take", noted("taken", View.take))
    await start(page_objects=2)

    assert order == ["asked", "asked", "taken", "asked", "taken", "taken"]


async def test_watches_what_happens_later(api, view, start):
    await start()

    api.store.put("pods", pod("a"))
    api.store.put("pods", pod("a", nominatedNodeName="n1"))
    api.store.put("pods", pod("b"))
    api.store.remove("pods", "default/b")
    await until(lambda: view.equals(api) and len(view.events) == 4)

    observed = view.events[1]
    assert isinstance(observed, PodObserved)
    assert observed.pod.status.nominated_node_name == "n1"


async def test_a_finished_pod_is_reported_as_gone(api, view, start):
    api.store.put("pods", pod("done", phase="Succeeded"))
    running = api.store.put("pods", pod("a", phase="Running"))
    await start()

    api.store.put("pods", pod("a", phase="Failed"))
    await until(lambda: len(view.events) == 2)

    assert view.events[1] == PodGone("default/a", running["metadata"]["uid"])


async def test_continues_where_a_closed_watch_ended(api, view, start):
    await start()
    api.store.put("pods", pod("a"))
    await until(lambda: view.pods)

    api.close_watches()
    api.store.put("pods", pod("b"))
    await until(lambda: view.equals(api))

    assert api.lists() == 1
    assert len(view.events) == 2


@pytest.mark.parametrize("in_stream", [True, False], ids=["as event", "as HTTP status"])
async def test_an_expired_watch_lists_again_and_finds_what_it_missed(api, view, start, in_stream):
    for name in ("kept", "deleted", "replaced"):
        api.store.put("pods", pod(name))
    await start()
    await until(lambda: api.watches == 1)
    api.expired_in_stream = in_stream

    api.close_watches()
    api.store.remove("pods", "default/deleted")
    api.store.put("pods", pod("replaced"), uid="another")
    api.store.put("pods", pod("new"))
    api.store.compact()
    await until(lambda: view.equals(api))

    told = [type(event) for event in view.events[3:]]
    assert sorted(kind.__name__ for kind in told) == [
        "PodGone",
        "PodGone",
        "PodObserved",
        "PodObserved",
    ]


async def test_an_open_watch_that_expires_lists_again(api, view, start):
    await start()
    await until(lambda: api.watches == 1)

    api.expire_watches()
    api.store.put("pods", pod("a"))
    await until(lambda: view.equals(api))


async def test_a_pod_replaced_under_its_name_is_reported_as_gone_first(api, view, start):
    old = api.store.put("pods", pod("a"))
    await start()

    api.store.put("pods", pod("a"), uid="another")
    await until(lambda: len(view.events) == 3)

    assert view.events[1] == PodGone("default/a", old["metadata"]["uid"])
    assert view.pods == {"default/a": "another"}


async def test_a_silent_connection_is_closed(api, view, start):
    informer = await start(silence_seconds=0.05)
    await until(lambda: api.watches == 1)

    api.frozen = True
    api.store.put("pods", pod("a"))
    await settle()
    api.frozen = False
    await until(lambda: view.equals(api))

    assert informer.health().problem == ""


async def test_bookmarks_keep_a_quiet_watch_alive_and_move_it_on(api, view, start, heard):
    informer = await start(silence_seconds=2)
    await until(lambda: api.watches == 1)

    api.store.version += 10
    for _ in range(5):
        await asyncio.sleep(0.5)
        api.bookmark()
    await settle()

    assert heard.interruptions == []
    assert informer.health().silent_seconds < 2
    assert informer._version == str(api.store.version)


async def test_repeated_events_are_reported_once(api, view, start):
    await start()
    await until(lambda: api.watches == 1)
    line = (
        b'{"type":"ADDED","object":{"metadata":{"name":"a","namespace":"x","uid":"u",'
        b'"resourceVersion":"500"}}}\n'
    )

    api.say(line + line)
    api.say(line)
    await until(lambda: view.events)
    await settle()

    assert len(view.events) == 1


async def test_listing_again_ends_when_what_the_watch_withheld_was_handed_over(api, view, start):
    informer = await start()
    await until(lambda: api.watches == 1)
    api.store.listeners.remove(api._changed)
    api.store.put("pods", pod("withheld"))
    api.inject(Fault("GET", "/pods", status=500))

    await asyncio.wait_for(informer.list_again(), 1.5)

    assert view.equals(api)


async def test_a_list_that_has_begun_before_does_not_count(api, view, start):
    for number in range(30):
        api.store.put("pods", pod(f"p{number}"))
    informer = await start(page_objects=1)
    await until(lambda: api.watches == 1)
    before = len(api.requests)
    informer.relist()
    await until(lambda: len(api.requests) > before + 1)
    api.store.listeners.remove(api._changed)
    api.store.put("pods", pod("a"))  # its page has passed

    await asyncio.wait_for(informer.list_again(), 1.5)

    assert view.equals(api)
    assert [each.verb for each in api.requests[before:]].count("list") == 30 + 31


@pytest.mark.parametrize(
    ("resource", "name", "want_gone"),
    [
        pytest.param(NODES, "n1", NodeGone("n1"), id="nodes"),
        pytest.param(NAMESPACES, "ns", NamespaceGone("ns"), id="namespaces"),
        pytest.param(PDBS, "ns/b", BudgetGone("ns/b"), id="budgets"),
    ],
)
async def test_watches_other_kinds_as_well(api, view, start, resource, name, want_gone):
    namespace, _, last = name.rpartition("/")
    await start(resource)

    api.store.put(resource.name, {"metadata": {"name": last, "namespace": namespace}})
    api.store.remove(resource.name, name)
    await until(lambda: len(view.events) == 2)

    assert type(view.events[0]) is resource.observed
    assert view.events[1] == want_gone


async def test_lines_that_arrive_in_pieces_are_joined(api, view, start):
    await start()
    await until(lambda: api.watches == 1)
    api.piece_bytes = 7

    api.store.put("pods", pod("a"))
    api.store.put("pods", pod("b"))
    await until(lambda: view.equals(api))
