"""Watches that say nothing, fail again and again, or go on in another history."""

import asyncio
import io
import json
import re
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from scheduler.kube.client.client import Client
from scheduler.kube.errors import Unreachable
from scheduler.kube.watch.informer import Informer, InformerSettings
from scheduler.kube.watch.resources import PODS
from scheduler.kube.watch.versions import is_older
from scheduler.observe.logs.logs import Logs
from scheduler.observe.metrics.metrics import Metrics
from scheduler.service.telemetry import provide
from tests.kube.fixtures import WATCH, Heard, Start, settle, until
from tests.support.cluster import Cluster
from tests.support.fake_api import FakeApi, Fault, pod


class Nothing:
    """A writer that has nothing to write, and policies of which there are none."""

    stops = False

    def lengths(self) -> dict[str, int]:
        return {}

    def count_by_state(self) -> dict[str, int]:
        return {}


def lists(heard: Heard) -> int:
    return [verb for verb, _, _ in heard.requests].count("list")


def watches(heard: Heard) -> int:
    return [verb for verb, _, _ in heard.requests].count("watch")


# The age of a watch


def age(registry: CollectorRegistry) -> float:
    return registry.get_sample_value("scheduler_watch_age_seconds", {"resource": "pods"}) or 0.0


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def gauged(registry: CollectorRegistry, informer: Informer[Any]) -> None:
    logs = Logs(io.BytesIO(), lambda: 0.0)
    nothing: Any = Nothing()
    provide(Metrics(registry), Cluster().machine, [informer], nothing, nothing, logs)


async def test_the_age_grows_while_watches_open_and_say_nothing(api, start, registry, heard):
    informer = await start(silence_seconds=0.05)
    gauged(registry, informer)
    await until(lambda: api.watches == 1)

    api.frozen = True
    api.store.put("pods", pod("a"))
    await until(lambda: age(registry) > 0.3 and watches(heard) > 3)

    assert lists(heard) > 2
    api.frozen = False
    api.store.put("pods", pod("b"))
    await until(lambda: age(registry) < 0.1)


async def test_the_age_grows_while_the_server_is_unavailable(api, start, registry, waits):
    informer = await start()
    gauged(registry, informer)
    await until(lambda: api.watches == 1)

    await api.stop()
    await until(lambda: age(registry) > 0.3 and len(waits.slept) > 3)


# A quiet cluster


async def test_a_kind_without_events_is_not_cut_and_not_warned_of(api, start, heard, waits):
    # No bookmark comes, as from an API server whose etcd reports its progress every ten minutes.
    informer = await start(watch_seconds=1.0, silence_seconds=1.3)
    await asyncio.sleep(2.2)

    watches = [each for each in api.requests if re.search(WATCH, each.path)]
    assert len(watches) == 3
    assert {"timeoutSeconds=1" in each.path for each in watches} == {True}
    assert (heard.interruptions, heard.restarts, waits.slept) == ([], 0, [])
    assert informer.health().silent_seconds < 1


def test_the_server_is_asked_to_end_a_watch_before_silence_counts_as_death():
    settings = InformerSettings()

    assert 2 * settings.watch_seconds < settings.silence_seconds


# Watches that fail


@pytest.mark.parametrize(
    "line",
    [
        pytest.param({"code": 500, "reason": "InternalError", "message": "future"}, id="500"),
        pytest.param({"code": 400, "message": "bad"}, id="400"),
        pytest.param({"message": "something"}, id="no code"),
    ],
)
async def test_watches_that_fail_repeatedly_are_replaced_by_a_list(api, start, heard, view, line):
    error = json.dumps({"type": "ERROR", "object": {"kind": "Status", **line}}).encode() + b"\n"
    api.inject(Fault("GET", WATCH, times=3, status=200, body=error))

    await start()
    api.store.listeners.remove(api._changed)
    api.store.put("pods", pod("a"))
    api.store.changes.clear()
    await until(lambda: view.equals(api) and view.pods)

    assert lists(heard) == 4  # at the start, twice to check the version, and at the end


async def test_a_silent_watch_is_replaced_by_a_list(api, start, view, waits):
    await start(silence_seconds=0.03)
    await until(lambda: api.watches == 1)

    api.frozen = True
    api.store.put("pods", pod("a"))
    await until(lambda: view.equals(api))

    assert waits.slept[:3] == [0.5, 1.0, 2.0]


async def test_an_unavailable_server_causes_no_list(api, start, heard, waits, monkeypatch):
    await start()
    await until(lambda: api.watches == 1)
    seen = lists(heard)

    async def refused(*_: Any) -> bytes:
        raise Unreachable("cannot connect", sent=False)

    with monkeypatch.context() as patch:
        patch.setattr(Client, "call", refused)
        api.close_watches()
        await until(lambda: len(waits.slept) > 9)
    await until(lambda: api.watches == 1)

    assert lists(heard) == seen + 1  # for the version alone
    assert api.requests[-2].path.startswith("/api/v1/pods?limit=1&")


async def test_a_problem_is_reported_once_until_it_changes(api, start, heard, waits):
    api.inject(Fault("GET", "/pods", times=5, status=503))
    api.inject(Fault("GET", "/pods", times=3, status=500))

    await start()

    assert len(waits.slept) == heard.restarts == 8
    assert heard.interruptions == [
        "cannot list pods: HTTP status 503",
        "cannot list pods: HTTP status 500",
    ]


async def test_an_empty_line_is_no_event(api, start, view, heard):
    await start()
    await until(lambda: api.watches == 1)

    api.say(b"\n\r\n")
    api.say(b"\r\n")
    api.store.put("pods", pod("a"))
    await until(lambda: view.equals(api))

    assert heard.interruptions == []


# Another history


@pytest.mark.parametrize(
    ("version", "than", "want"),
    [
        ("9", "10", True),
        ("10", "9", False),
        ("10", "10", False),
        ("10", "11", True),
        ("", "1", False),
        ("1", "", False),
        ("a", "b", False),
        ("a", "10", False),
        ("18446744073709551614", "18446744073709551615", True),
    ],
)
def test_versions_are_compared_as_numbers(version, than, want):
    assert is_older(version, than) is want


def restore(api: FakeApi) -> None:
    """Put etcd back to an earlier state: one pod was never created, another one never deleted."""
    api.store.listeners.remove(api._changed)
    for each in list(api.store.all("pods")):
        api.store.remove("pods", f"default/{each['metadata']['name']}")
    api.store.version = 500_000
    api.store.put("pods", pod("ghost"))
    api.store.put("pods", pod("kept"))
    api.store.changes.clear()
    api.store.listeners.append(api._changed)


async def started_at_a_million(api: FakeApi, start: Start, **settings: Any) -> Informer[Any]:
    api.store.version = 1_000_000
    api.store.put("pods", pod("kept"))
    api.store.put("pods", pod("born"))
    informer = await start(**settings)
    await until(lambda: api.watches == 1)
    return informer


async def test_a_restored_etcd_is_noticed_when_the_watch_is_opened_again(api, start, view, heard):
    await started_at_a_million(api, start)

    restore(api)
    for queue in list(api._watches):
        queue.put_nowait(b"not an event\n")
    await until(lambda: view.equals(api))

    assert any("went backwards, from 1000" in each for each in heard.interruptions)


async def test_a_restored_etcd_is_noticed_without_events(api, start, view, heard):
    await started_at_a_million(api, start, quiet_seconds=0.1)

    restore(api)
    await asyncio.sleep(0.1)
    api.close_watches()
    await until(lambda: view.equals(api))

    assert any("went backwards" in each for each in heard.interruptions)


@pytest.mark.parametrize("what", ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"])
async def test_a_version_that_decreases_within_a_watch_is_noticed(api, start, view, heard, what):
    await started_at_a_million(api, start)

    restore(api)
    line = {"type": what, "object": api.store.get("pods", "default/kept")}
    api.say(json.dumps(line).encode() + b"\n")
    await until(lambda: view.equals(api))

    assert any("went backwards" in each for each in heard.interruptions)


# Drift, and an outage that ends


async def test_a_list_that_is_wanted_is_made_at_once(api, start, view, heard):
    informer = await start()
    await until(lambda: api.watches == 1)
    api.store.listeners.remove(api._changed)
    api.store.put("pods", pod("missed"))
    api.store.changes.clear()

    informer.relist()
    informer.relist()
    await until(lambda: view.equals(api))

    assert (heard.interruptions, lists(heard)) == ([], 2)


class Outage:
    """Pauses that last until they are ended."""

    def __init__(self) -> None:
        self.sleeper: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.sleeper.append(seconds)
        await asyncio.sleep(0 if seconds <= 1 else 3600)


async def test_a_long_pause_ends_when_others_get_answers_again(api, client, view, waits):
    outage = Outage()
    sleeper = waits.sleeper
    object.__setattr__(sleeper, "sleep", outage.sleep)
    informer = Informer(PODS, client, view.take, sleeper)
    running = asyncio.create_task(informer.run())
    await informer.synced.wait()
    api.store.put("pods", pod("a"))
    await until(lambda: view.pods)
    api.inject(Fault("GET", "/pods", times=12, cut=True))
    api.close_watches()
    # The first pause follows a watch that has ended soon after it began.
    await until(lambda: outage.sleeper == [0.5, 0.5, 1.0, 2.0])

    informer.resume()
    await until(lambda: len(outage.sleeper) == 5)
    informer.resume()  # it failed again meanwhile, so it is not asked for more
    await settle()

    assert outage.sleeper == [0.5, 0.5, 1.0, 2.0, 4.0]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_pause_that_the_server_requests_is_observed(api, client, view, waits):
    outage = Outage()
    sleeper = waits.sleeper
    object.__setattr__(sleeper, "sleep", outage.sleep)
    api.inject(Fault("GET", "/pods", status=429, headers={"Retry-After": "7"}))
    informer = Informer(PODS, client, view.take, sleeper)
    running = asyncio.create_task(informer.run())
    await until(lambda: outage.sleeper)

    informer.resume()
    await settle()

    assert len(api.requests) == 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
