"""How the writer behaves with many effects: order, priority, stopping, and no outcome lost."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable

import numpy as np
import pytest

from scheduler.kube.client.client import Client, Request
from scheduler.kube.write.writer import Writer, WriterSettings
from scheduler.model.effects import Bind, Effect, Evict, Nominate, PodRef, RecordEvent, SetCondition
from scheduler.model.events import EffectDone, EffectFailed, Event
from tests.kube.fixtures import NOW, Waits, settle, until
from tests.support.fake_api import FakeApi, Fault, pod


def effect_of(event: Event) -> Effect:
    assert isinstance(event, EffectDone | EffectFailed)
    return event.effect


def kinds(events: list[Event]) -> Counter[str]:
    return Counter(
        str(event.failure.kind) if isinstance(event, EffectFailed) else "done" for event in events
    )


@pytest.fixture
def outcomes() -> list[Event]:
    return []


@pytest.fixture
async def begin(
    writing_client: Client, outcomes: list[Event], waits: Waits
) -> AsyncIterator[Callable[..., Writer]]:
    writers = []

    def make(
        places: int = 8, events_waiting: int = 1000, clock: Callable[[], float] = lambda: NOW
    ) -> Writer:
        settings = WriterSettings(host="host", places=places, events_waiting=events_waiting)
        writer = Writer(
            writing_client, outcomes.append, lambda: True, clock, waits.sleeper, settings
        )
        writers.append(writer)
        return writer

    yield make
    for writer in writers:
        await writer.drain(0)


def add(api: FakeApi, name: str, node: str = "") -> PodRef:
    uid = api.store.put("pods", pod(name, node=node))["metadata"]["uid"]
    return PodRef("default", name, uid)


def bind(target: PodRef) -> Bind:
    return Bind(target, "n1", "s")


def condition(target: PodRef, message: str = "why") -> SetCondition:
    return SetCondition(target, "Unschedulable", message, 1)


def announce(target: PodRef, note: str = "Successfully assigned", version: str = "") -> RecordEvent:
    return RecordEvent(target, "Normal", "Scheduled", "Binding", note, "s", version)


async def test_an_outcome_is_never_reported_before_submit_returns(api, begin, outcomes):
    writer = begin()
    target = add(api, "a")
    writer.submit(bind(add(api, "b")))

    writer.submit(condition(target))
    writer.submit(condition(target, "newer"))
    assert outcomes == []

    await until(lambda: len(outcomes) == 3)


async def test_bindings_overtake_what_waits(api, client, begin, outcomes):
    # With a connection for each place, so that nothing has to wait for one to be made.
    look = Request("list", "pods", "GET", "/api/v1/pods")
    await asyncio.gather(*(client.call(look) for _ in range(4)))
    writer = begin(places=4)
    others = [condition(add(api, f"c{number}")) for number in range(10)]
    first = bind(add(api, "b"))

    for effect in others:
        writer.submit(effect)
    writer.submit(first)
    await until(lambda: len(outcomes) == 11)

    assert [effect_of(event) for event in outcomes].index(first) <= 2


async def test_a_condition_never_lands_after_the_binding_of_its_pod(api, begin, outcomes):
    writer = begin()
    target = add(api, "a")
    api.inject(Fault("PATCH", "/status", times=1000, status=503))

    writer.submit(condition(target))
    await until(lambda: api.requests)
    writer.submit(condition(target, "newer"))
    writer.submit(bind(target))
    await until(lambda: len(outcomes) == 3)

    conditions = api.store.get("pods", "default/a")["status"]["conditions"]
    assert [each["status"] for each in conditions] == ["True"]
    assert api.requests[-1].resource == "pods/binding"
    assert kinds(outcomes) == {"done": 3}


async def test_effects_of_one_pod_arrive_in_order(api, begin, outcomes):
    writer = begin()
    target = add(api, "a", node="n1")

    writer.submit(Nominate(target, "n1", "why", 1))
    writer.submit(condition(target))
    writer.submit(Evict(target, "n1", target, "s", 1))
    await until(lambda: len(outcomes) == 3)

    assert [each.verb for each in api.requests] == ["patch", "patch", "patch", "delete"]


async def test_no_more_than_the_allowed_number_of_requests_run_at_once(api, begin, outcomes):
    api.inject(Fault("POST", "/binding", times=100, hang=True))
    writer = begin(places=8)

    for number in range(20):
        writer.submit(bind(add(api, f"p{number}")))
    await until(lambda: len(api.requests) == 5)
    await settle()

    assert writer.sent == len(api.requests) == 5
    assert writer.lengths() == {
        "bind": 15,
        "preempt": 0,
        "condition": 0,
        "announce": 0,
        "extend": 0,
    }
    assert outcomes == []


# Events


async def test_an_announcement_becomes_an_event(api, begin, outcomes):
    target = add(api, "a")
    begin().submit(announce(target, "x" * 2000, version="42"))
    await until(lambda: outcomes)

    (event,) = api.store.all("events")
    assert event["metadata"]["name"] == f"a.{int(NOW * 1e9):x}"
    assert event["note"] == "x" * 1020 + " ..."
    assert event["eventTime"] == "2026-01-01T00:00:00.250000Z"
    assert event["reportingController"] == "s"
    assert event["reportingInstance"] == "s-host"
    assert event["regarding"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "default",
        "name": "a",
        "uid": target.uid,
        "resourceVersion": "42",
    }
    assert (event["type"], event["reason"], event["action"]) == ("Normal", "Scheduled", "Binding")


async def test_an_event_that_waits_has_the_time_of_its_cause(api, begin, outcomes):
    moment = NOW
    writer = begin(places=4, clock=lambda: moment)
    for name in "ab":
        writer.submit(announce(add(api, name)))
    moment += 60.0
    await until(lambda: len(outcomes) == 2)

    times = {each["eventTime"] for each in api.store.all("events")}
    assert times == {"2026-01-01T00:00:00.250000Z"}


async def test_too_many_events_are_dropped(api, begin, outcomes, heard):
    api.inject(Fault("POST", "/events", times=100, hang=True))
    writer = begin(events_waiting=3)
    target = add(api, "a")

    for number in range(20):
        writer.submit(announce(target, "x" * number))
    await until(lambda: outcomes)

    assert heard.dropped == len(outcomes) == 20 - 3 - writer.sent
    assert set(kinds(outcomes)) == {"unavailable"}
    writer.submit(bind(target))
    await until(lambda: effect_of(outcomes[-1]) == bind(target))


# Stopping


async def test_stopping_abandons_what_was_not_sent(api, begin, outcomes):
    writer = begin(places=4)
    for number in range(10):
        writer.submit(bind(add(api, f"p{number}")))
    await until(lambda: api.requests)

    await writer.drain(1)

    done = len(api.requests)
    assert done < 10
    assert kinds(outcomes) == {"done": done, "abandoned": 10 - done}
    writer.submit(bind(add(api, "late")))
    await settle()
    assert kinds(outcomes) == {"done": done, "abandoned": 11 - done}
    assert len(api.requests) == done


async def test_stopping_ends_pauses_at_once(client, api, outcomes, waits):
    pausing = asyncio.Event()

    async def sleep_for_ever(_: float) -> None:
        pausing.set()
        await asyncio.Event().wait()

    waits.sleep = sleep_for_ever  # type: ignore[method-assign]
    api.inject(Fault("POST", "/binding", status=503))
    writer = Writer(client, outcomes.append, lambda: True, lambda: NOW, waits.sleeper)
    writer.submit(bind(add(api, "a")))
    await asyncio.wait_for(pausing.wait(), 1)

    async with asyncio.timeout(10):
        await writer.drain(30)

    assert kinds(outcomes) == {"abandoned": 1}


async def test_stopping_finishes_an_eviction_that_has_started(api, begin, outcomes):
    writer = begin()
    victim = add(api, "a", node="n1")
    api.inject(Fault("DELETE", "/pods/a", times=5, status=503))
    writer.submit(Evict(victim, "n1", victim, "s", 1))
    await until(lambda: len(api.requests) > 1)

    await writer.drain(1)

    assert kinds(outcomes) == {"done": 1}
    assert api.store.get("pods", "default/a")["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize("seed", range(8))
async def test_every_effect_has_exactly_one_outcome(api, begin, outcomes, seed):
    random = np.random.default_rng(seed)
    pods = [add(api, f"p{number}", node="n1" if number % 2 else "") for number in range(6)]
    faults = [
        Fault("POST", "/binding", lose=True),
        Fault("POST", "/binding", status=500),
        Fault("PATCH", "/status", times=2, status=429),
        Fault("PATCH", "/status", cut=True),
        Fault("DELETE", "/pods", lose=True),
        Fault("GET", "/pods", status=503),
        Fault("POST", "/events", status=400),
        Fault("PATCH", "/status", hang=True),
    ]
    for number in random.permutation(len(faults))[:5]:
        api.inject(faults[number])
    writer = begin(places=int(random.integers(4, 12)), events_waiting=5)
    submitted: list[Effect] = []
    for _ in range(60):
        target = pods[random.integers(len(pods))]
        makers = (bind, condition, announce, lambda each: Evict(each, "n1", each, "s", 1))
        effect = makers[random.integers(len(makers))](target)
        submitted.append(effect)
        writer.submit(effect)
        if random.random() < 0.1:
            await asyncio.sleep(0.002)

    await settle()
    await writer.drain(0.05)

    assert Counter(map(effect_of, outcomes)) == Counter(submitted)


async def test_an_event_whose_answer_is_lost_is_written_once(api, begin, outcomes):
    api.inject(Fault("POST", "/events", lose=True))

    begin().submit(announce(add(api, "a")))
    await until(lambda: outcomes)

    assert kinds(outcomes) == {"done": 1}
    assert len(api.store.all("events")) == 1
