"""Drift is found; events that are still on their way do not count as drift."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from scheduler.kube.auth.cluster_access import ClusterAccess
from scheduler.kube.auth.credentials import FixedHeaders
from scheduler.kube.client.client import Client
from scheduler.kube.client.transport import HttpTransport
from scheduler.kube.errors import Unreachable
from scheduler.kube.watch.cache_comparer import (
    METADATA_ONLY,
    CacheComparer,
    ComparerSettings,
    Drift,
)
from scheduler.kube.watch.decoding import Known
from scheduler.kube.watch.informer import Informer
from scheduler.kube.watch.resources import NODES, PDBS, PODS
from tests.kube.fixtures import Heard, Waits, until
from tests.support.fake_api import FakeApi, Fault, node, pod


class Knows:
    """A cache with the content that a test sets."""

    def __init__(self, resource: Any = PODS, **versions: str) -> None:
        self.resource = resource
        self.synced = asyncio.Event()
        self.objects = {
            f"default/{name}": Known(f"uid-{name}", version) for name, version in versions.items()
        }
        self.odd: set[str] = set()
        self.lists = 0

    def known(self) -> dict[str, Known]:
        return dict(self.objects)

    def unreadable(self, key: str) -> bool:
        return key in self.odd

    def relist(self) -> None:
        self.lists += 1


class Reports:
    """The reports of a comparer."""

    def __init__(self) -> None:
        self.drifts: list[tuple[str, Drift]] = []
        self.failures: list[tuple[str, str]] = []

    def drift(self, resource: str, drift: Drift) -> None:
        self.drifts.append((resource, drift))

    def failed(self, resource: str, problem: str) -> None:
        self.failures.append((resource, problem))


@pytest.fixture
def reports() -> Reports:
    return Reports()


Compare = Callable[..., CacheComparer]


@pytest.fixture
async def comparer(
    api: FakeApi, heard: Heard, waits: Waits, reports: Reports
) -> AsyncIterator[Compare]:
    transport = HttpTransport(ClusterAccess(api.url, FixedHeaders()), "test", METADATA_ONLY)

    def make(*informers: Any, **settings: Any) -> CacheComparer:
        return CacheComparer(
            informers,
            Client(transport, heard),
            reports.drift,
            reports.failed,
            waits.sleeper,
            ComparerSettings(**settings),
        )

    async with transport:
        yield make


def there(api: FakeApi, *names: str) -> Knows:
    """Create pods; return a cache that knows them."""
    knows = Knows()
    for name in names:
        made = api.store.put("pods", pod(name))["metadata"]
        knows.objects[f"default/{name}"] = Known(made["uid"], made["resourceVersion"])
    return knows


async def test_everything_that_was_missed_is_reported(api, comparer):
    knows = there(api, "same", "changed", "gone", "reborn")
    api.store.put("pods", pod("new"))
    api.store.put("pods", pod("changed", node="n"))
    api.store.remove("pods", "default/gone")
    api.store.remove("pods", "default/reborn")
    api.store.put("pods", pod("reborn"), uid="another")

    drift = await comparer().compare(knows)

    assert drift == Drift(
        missing=("default/new",),
        surplus=("default/gone",),
        stale=("default/changed", "default/reborn"),
    )
    assert drift.counts() == {"missing": 1, "surplus": 1, "stale": 2}


async def test_an_object_observed_within_the_grace_period_is_no_drift(api, comparer, waits):
    knows = there(api, "changed", "gone")
    made = api.store.put("pods", pod("new"))["metadata"]
    changed = api.store.put("pods", pod("changed", node="n"))["metadata"]
    api.store.remove("pods", "default/gone")
    comparing = asyncio.create_task(comparer(grace_seconds=7.0).compare(knows))
    await until(lambda: waits.slept)

    knows.objects = {
        "default/new": Known(made["uid"], made["resourceVersion"]),
        "default/changed": Known(changed["uid"], changed["resourceVersion"]),
    }

    assert await comparing == Drift()
    assert waits.slept == [7.0]


async def test_an_object_created_and_deleted_within_the_grace_period_is_no_drift(
    api, comparer, waits
):
    knows = there(api, "a")
    api.store.put("pods", pod("short"))
    comparing = asyncio.create_task(comparer().compare(knows))
    await until(lambda: waits.slept)

    api.store.remove("pods", "default/short")

    assert await comparing == Drift()


async def test_what_changes_again_and_again_is_no_drift(api, comparer, waits):
    knows = there(api, "busy")
    api.store.put("pods", pod("busy", node="n"))
    comparing = asyncio.create_task(comparer().compare(knows))
    await until(lambda: waits.slept)

    knows.objects["default/busy"] = Known("uid", "some newer one")

    assert await comparing == Drift()


async def test_long_lists_are_read_in_pages_with_pauses(api, comparer, waits):
    knows = there(api, *(f"p{i}" for i in range(25)))

    assert await comparer(page_objects=10, pause_seconds=0.5).compare(knows) == Drift()
    assert waits.slept == [0.5, 0.5]
    assert [each.verb for each in api.requests] == ["list"] * 3


async def test_a_resource_that_the_server_does_not_have_has_no_objects(api, comparer):
    api.absent.add("poddisruptionbudgets")

    assert await comparer().compare(Knows(PDBS)) == Drift()


@pytest.mark.parametrize(
    ("answer", "error"),
    [(b'{"kind":"Status"}', Unreachable), (b"[", Unreachable)],
)
async def test_an_answer_that_is_no_list_is_no_drift(api, comparer, answer, error):
    knows = there(api, "a")
    api.inject(Fault("GET", "/pods", status=200, body=answer))

    with pytest.raises(error):
        await comparer().compare(knows)


async def test_every_resource_is_compared_even_after_a_failure(api, comparer, reports, waits):
    waits.jitter = 0.5
    api.store.put("nodes", node("n1"))
    nodes, pods, unsynced = Knows(NODES), there(api, "a"), Knows(PDBS)
    nodes.synced.set()
    pods.synced.set()
    api.inject(Fault("GET", "/nodes", status=500, body=b"{}"))
    running = asyncio.create_task(comparer(nodes, pods, unsynced, period_seconds=10).run())

    await until(lambda: len(reports.drifts) >= 3)
    running.cancel()

    assert waits.slept[0] == 15.0
    assert reports.failures == [("nodes", "cannot list nodes: HTTP status 500")]
    assert reports.drifts[:3] == [
        ("pods", Drift()),
        ("nodes", Drift(missing=("n1",))),
        ("pods", Drift()),
    ]


async def test_an_informer_without_events_is_detected(api, start, comparer):
    api.store.put("pods", pod("a"))
    informer: Informer[Any] = await start(PODS)
    await until(lambda: api.watches == 1)
    assert await comparer().compare(informer) == Drift()

    api.frozen = True
    api.store.put("pods", pod("b"))
    api.store.remove("pods", "default/a")

    assert await comparer().compare(informer) == Drift(
        missing=("default/b",), surplus=("default/a",)
    )


async def test_only_metadata_is_asked_for(api):
    connection = ClusterAccess(api.url, FixedHeaders())
    async with HttpTransport(connection, "test", METADATA_ONLY) as transport:
        quiet = CacheComparer(
            [], Client(transport), lambda *_: None, lambda *_: None, Waits().sleeper
        )
        await quiet.compare(Knows())

    assert api.requests[0].headers["Accept"] == METADATA_ONLY


async def test_what_was_missed_is_listed_again(api, comparer, waits):
    knows, same = there(api, "changed"), there(api)
    api.store.put("nodes", node("n1"))
    api.store.put("pods", pod("changed", node="n1"))
    same.resource = PDBS
    for each in (knows, same):
        each.synced.set()

    running = asyncio.create_task(comparer(knows, same).run())
    await until(lambda: knows.lists)
    running.cancel()

    assert same.lists == 0


async def test_an_informer_gets_what_it_missed(api, start, comparer, view):
    informer: Informer[Any] = await start(PODS)
    await until(lambda: api.watches == 1)
    api.store.listeners.remove(api._changed)
    api.store.put("pods", pod("missed"))
    api.store.changes.clear()

    running = asyncio.create_task(comparer(informer).run())
    await until(lambda: view.equals(api))
    running.cancel()


@pytest.mark.parametrize(
    "body",
    [
        b'{"kind":"Status","metadata":{}}',
        b'{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[]}',
        b'{"kind":"PartialObjectMetadataList","metadata":{},"items":[]}',
        b'{"metadata":{"resourceVersion":"1"},"items":[]}',
    ],
)
async def test_another_answer_than_the_list_is_no_drift(api, comparer, body):
    knows = there(api, "a")
    api.inject(Fault("GET", "/pods", status=200, body=body))

    with pytest.raises(Unreachable):
        await comparer().compare(knows)
