"""The writer when it does not know: late bindings, evictions without a reason, sinks that fail."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from scheduler.kube.client.client import Client
from scheduler.kube.write.executor import Patience
from scheduler.kube.write.writer import Writer, WriterSettings
from scheduler.model.effects import ClearNomination, RecordEvent, SetCondition
from scheduler.model.events import EffectDone, Event
from tests.kube.fixtures import NOW, Waits, bind, evict, ref, settle, until, writes
from tests.support.fake_api import FakeApi, Fault, pod
from tests.support.fake_store import Target


@pytest.fixture
def made(writing_client: Client, waits: Waits) -> Callable[..., Writer]:
    def make(sink: Callable[[Event], None], patience: float = 0.05, **settings: Any) -> Writer:
        patient = Patience(seconds=patience, uncertain_seconds=settings.pop("unsettled", 0.05))
        return Writer(
            writing_client, sink, lambda: True, lambda: NOW, waits.sleeper,
            WriterSettings(patience=patient, **settings),
        )  # fmt: skip

    return make


Made = Callable[..., Writer]


def carry_out(api: FakeApi, node: str) -> None:
    """Do what a binding asks for that was cut long ago."""
    body = {"metadata": {"uid": ref(api).uid}, "target": {"kind": "Node", "name": node}}
    api.store.execute("create", Target("pods", "default", "a", "binding"), {}, body)


# Bindings


@pytest.mark.parametrize("status", [0, 500, 504], ids=["cut", "500", "504"])
async def test_a_binding_that_takes_effect_after_the_time_limit_is_reported_as_done(
    api, made, outcomes, status
):
    api.store.put("pods", pod("a"))
    fault = {"status": status} if status else {"cut": True}
    api.inject(Fault("POST", "/binding", times=1000, **fault))
    writer = made(outcomes.append, unsettled=5.0)

    writer.submit(bind(api))
    await until(lambda: len(api.requests) > 8)
    await asyncio.sleep(0.1)  # after the time limit
    sent = writes(api)
    assert outcomes == []
    carry_out(api, "n1")
    await until(lambda: outcomes)

    assert outcomes.kinds() == ["done"]
    assert writes(api) == sent
    await writer.drain(0)


async def test_a_late_binding_to_another_node_is_a_conflict(api, made, outcomes):
    api.store.put("pods", pod("a"))
    api.inject(Fault("POST", "/binding", times=1000, cut=True))
    writer = made(outcomes.append, unsettled=5.0)

    writer.submit(bind(api))
    await asyncio.sleep(0.1)
    carry_out(api, "n2")
    await until(lambda: outcomes)

    assert outcomes.kinds() == ["conflict"]
    await writer.drain(0)


async def test_a_refusal_does_not_decide_the_outcome_of_an_earlier_request(api, made, outcomes):
    api.store.put("pods", pod("a"))
    api.inject(Fault("POST", "/binding", cut=True))
    api.inject(Fault("POST", "/binding", times=1000, status=403))
    writer = made(outcomes.append, unsettled=5.0)

    writer.submit(bind(api))
    await asyncio.sleep(0.1)
    assert outcomes == []
    carry_out(api, "n1")
    await until(lambda: outcomes)

    assert outcomes.kinds() == ["done"]
    await writer.drain(0)


async def test_what_cannot_happen_any_more_has_failed(api, made, outcomes):
    api.store.put("pods", pod("a"))
    api.inject(Fault("POST", "/binding", times=1000, cut=True))
    writer = made(outcomes.append)

    writer.submit(bind(api))
    await until(lambda: outcomes)

    assert outcomes.kinds() == ["unavailable"]
    assert api.requests[-1].verb == "get"
    await writer.drain(0)


# Evictions


@pytest.mark.parametrize("settings", [{}, {"evict_only": True}], ids=["delete", "eviction"])
async def test_an_eviction_that_is_not_wanted_any_more_is_not_sent(api, made, outcomes, settings):
    api.store.put("pods", pod("a", node="n1"))
    asked = []
    writer = made(outcomes.append, still_wanted=lambda each: bool(asked.append(each)), **settings)

    writer.submit(evict(api))
    await until(lambda: outcomes)
    await settle()

    assert outcomes.kinds() == ["abandoned"]
    assert asked == [evict(api)]
    assert api.requests == []
    await writer.drain(0)


@pytest.mark.parametrize(
    ("settings", "call", "want"),
    [
        pytest.param({}, ("PATCH", "/status"), "abandoned", id="delete"),
        # The API server may have evicted the pod, or may do so yet.
        pytest.param({"evict_only": True}, ("POST", "/eviction"), "unavailable", id="eviction"),
    ],
)
async def test_an_eviction_is_asked_about_before_it_is_sent_again(
    api, made, outcomes, settings, call, want
):
    api.store.put("pods", pod("a", node="n1"))
    api.inject(Fault(*call, times=9, status=503))
    wanted = iter([True, True, False])
    writer = made(outcomes.append, 9.0, still_wanted=lambda _: next(wanted), **settings)

    writer.submit(evict(api))
    await until(lambda: outcomes)

    assert outcomes.kinds() == [want]
    assert len(writes(api)) == 2
    assert api.store.get("pods", "default/a")["metadata"].get("deletionTimestamp") is None
    await writer.drain(0)


@pytest.mark.parametrize("status", [403, 422])
@pytest.mark.parametrize(
    ("settings", "call"),
    [
        pytest.param({}, ("DELETE", "/pods/a"), id="delete"),
        pytest.param({"evict_only": True}, ("POST", "/eviction"), id="eviction"),
    ],
)
async def test_a_refusal_does_not_show_that_an_earlier_request_did_not_evict(
    api, made, outcomes, settings, call, status
):
    api.store.put("pods", pod("a", node="n1"))
    # The first one over a kept connection, which is repeated at once where that is safe.
    api.inject(Fault(*call, times=2, cut=True))
    api.inject(Fault(*call, status=status))
    writer = made(outcomes.append, 9.0, **settings)

    writer.submit(evict(api))
    await until(lambda: outcomes)

    assert outcomes.kinds() == ["unavailable"]
    await writer.drain(0)


async def test_an_eviction_is_under_way_while_the_api_server_may_still_carry_it_out(
    api, made, outcomes
):
    api.store.put("pods", pod("a", node="n1"))
    api.inject(Fault("DELETE", "/pods/a", times=1000, cut=True))
    writer = made(outcomes.append, unsettled=1.0)

    writer.submit(evict(api))
    await until(lambda: outcomes)

    assert outcomes.kinds() == ["unavailable"]
    assert (writer.sent, writer.evicting) == (0, 1)
    await until(lambda: writer.evicting == 0)
    await writer.drain(0)


async def test_an_eviction_that_happened_after_all_is_not_under_way(api, made, outcomes):
    api.store.put("pods", pod("a", node="n1"))
    api.inject(Fault("DELETE", "/pods/a", times=1000, cut=True))
    writer = made(outcomes.append, unsettled=1000.0)
    writer.submit(evict(api))
    await until(lambda: outcomes)
    api.clear_faults()

    writer.submit(evict(api))
    await until(lambda: len(outcomes) == 2)

    assert outcomes.kinds() == ["unavailable", "done"]
    assert writer.evicting == 0
    await writer.drain(0)


async def test_a_victim_that_was_marked_is_deleted_without_another_question(api, made, outcomes):
    api.store.put("pods", pod("a", node="n1"))
    api.inject(Fault("DELETE", "/pods/a", times=2, status=503))
    wanted = iter([True])
    writer = made(outcomes.append, 9.0, still_wanted=lambda _: next(wanted))

    writer.submit(evict(api))
    await until(lambda: outcomes)

    assert outcomes.kinds() == ["done"]
    await writer.drain(0)


# Defects


class Failing:
    """A sink that fails, and the reported defects."""

    def __init__(self) -> None:
        self.heard: list[Event] = []
        self.defects: list[Exception] = []

    def take(self, event: Event) -> None:
        self.heard.append(event)
        raise ArithmeticError("a defect")


def announce(api: FakeApi) -> RecordEvent:
    return RecordEvent(ref(api), "Normal", "Scheduled", "Binding", "note", "s", "")


@pytest.mark.parametrize(
    "effect",
    [
        pytest.param(bind, id="a binding"),
        pytest.param(announce, id="an Event"),
        pytest.param(lambda api: ClearNomination(ref(api)), id="over a task"),
    ],
)
async def test_an_exception_of_the_sink_is_reported(api, made, effect):
    api.store.put("pods", pod("a"))
    unheard: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
    failing = Failing()
    writer = made(failing.take, defect=failing.defects.append)

    writer.submit(effect(api))
    await until(lambda: failing.heard)
    await settle()

    assert [str(each) for each in failing.defects] == ["a defect"]
    assert len(failing.heard) == 1
    assert unheard == []
    await writer.drain(0)


async def test_an_exception_of_the_sink_is_reported_when_the_outcome_needs_no_request(api, made):
    api.store.put("pods", pod("a"))
    failing = Failing()
    writer = made(failing.take, 9.0, defect=failing.defects.append)
    condition = SetCondition(ref(api), "Unschedulable", "why", 1)
    api.inject(Fault("PATCH", "/status", times=1000, status=503))

    writer.submit(condition)
    await until(lambda: api.requests)
    writer.submit(SetCondition(ref(api), "Unschedulable", "newer", 1))
    writer.submit(SetCondition(ref(api), "Unschedulable", "newest", 1))
    await asyncio.sleep(0)

    (replaced,) = failing.heard
    assert isinstance(replaced, EffectDone)
    assert len(failing.defects) == 1
    await writer.drain(0)


# What a server asks for


async def test_a_requested_pause_above_the_time_limit_applies_to_later_requests(
    api, made, outcomes, waits
):
    api.store.put("pods", pod("a"))
    api.inject(Fault("POST", "/binding", status=429, headers={"Retry-After": "30"}))
    writer = made(outcomes.append)
    writer.submit(bind(api))
    await until(lambda: outcomes)
    assert waits.slept == []

    writer.submit(bind(api))
    await until(lambda: len(outcomes) == 2)

    assert outcomes.kinds() == ["unavailable", "done"]
    assert waits.slept == [pytest.approx(30, abs=1)]
    writer.submit(ClearNomination(ref(api)))
    await until(lambda: len(outcomes) == 3)
    assert len(waits.slept) == 1
    await writer.drain(0)


async def test_a_webhook_that_puts_one_pod_off_puts_off_no_other(api, made, outcomes, waits):
    message = 'admission webhook "w" denied the request: this tenant has to wait'
    later = {"kind": "Status", "message": message, "details": {"retryAfterSeconds": 30}}
    api.store.put("pods", pod("a"))
    header, body = {"Retry-After": "30"}, json.dumps(later).encode()
    api.inject(Fault("POST", "/binding", times=99, status=429, headers=header, body=body))
    writer = made(outcomes.append)
    writer.submit(bind(api))
    await until(lambda: outcomes)
    api.clear_faults()

    writer.submit(bind(api))
    await until(lambda: len(outcomes) == 2)

    assert outcomes.kinds() == ["unavailable", "done"]
    assert 30 not in map(round, waits.slept)
    await writer.drain(0)


async def test_a_server_can_request_a_pause_in_its_status(api, write, outcomes, waits):
    api.store.put("pods", pod("a"))
    busy = b'{"kind":"Status","reason":"TooManyRequests","details":{"retryAfterSeconds":3}}'
    api.inject(Fault("POST", "/binding", status=429, body=busy))

    await write(bind(api), patience=9)

    assert outcomes.kinds() == ["done"]
    assert waits.slept == [3.0]
