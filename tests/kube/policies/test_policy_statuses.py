"""The status of a policy and the Event of a refusal, which only the leader writes."""

import asyncio
from typing import Any

from scheduler.kube.policies.registry import Due
from scheduler.kube.policies.status_writer import PolicyWriter
from scheduler.model.policies import PolicyFigures
from tests.support.fake_api import FakeApi
from tests.support.stored_policies import (
    BAD,
    KIND,
    ONE,
    TWO,
    asked,
    put,
    said,
    status,
    until,
)


async def test_nothing_but_the_status_is_written_and_only_by_the_leader(api, around, begin):
    around.leads = False
    put(api, ONE, 1)
    await begin(figures_seconds=0.02)
    await until(lambda: api.watches)
    put(api, TWO, 2)
    await until(lambda: around.in_force() == {"p": 2})
    assert asked(api, "patch") == []

    around.leads = True
    await until(lambda: said(api) == ("True", 2))

    assert set(asked(api, "patch")) == {f"{KIND}/status"}
    assert set(api.store.get(KIND, "p")["metadata"]) == {
        "name",
        "generation",
        "uid",
        "resourceVersion",
    }
    verbs = {each.verb for each in api.requests}
    assert verbs == {"list", "watch", "patch"}


async def test_figures_are_written_when_they_change(api, around, begin):
    put(api, ONE, 1)
    await begin(figures_seconds=0.02)
    await until(lambda: status(api).get("victims") == 0)

    around.figures = {"p": PolicyFigures(2, {"budgets": 5})}
    await until(lambda: status(api).get("victims") == 2)

    assert status(api)["refusals"] == {"budgets": 5}
    written = len(asked(api, "patch"))
    await asyncio.sleep(0.2)
    assert len(asked(api, "patch")) == written


async def test_a_status_that_cannot_be_written_is_reported_and_retried(api, heard, begin):
    api.forbidden.add(("patch", f"{KIND}/status"))
    put(api, ONE, 1)
    policies = await begin(period=60.0, figures_seconds=0.02)
    await until(lambda: heard.interruptions)

    assert heard.interruptions[0].startswith(f"status of p: cannot patch {KIND}/status: ")
    assert policies.health().problem == ""
    api.forbidden.clear()
    await until(lambda: said(api) == ("True", 1))


def events(api: FakeApi) -> list[dict[str, Any]]:
    return [
        each.body for each in api.requests if (each.verb, each.resource) == ("create", "events")
    ]


async def test_a_status_is_not_written_again_while_it_is_being_written(
    api, around, begin, monkeypatch
):
    real = PolicyWriter._patch

    async def slow(self: PolicyWriter, name: str, due: Due) -> int:
        await asyncio.sleep(0.1)
        return await real(self, name, due)

    monkeypatch.setattr(PolicyWriter, "_patch", slow)
    put(api, ONE, 1)
    await begin(figures_seconds=0.02)
    await until(lambda: asked(api, "patch"))
    await asyncio.sleep(0.2)
    assert len(asked(api, "patch")) == 1

    put(api, TWO, 2)
    await until(lambda: said(api) == ("True", 2))
    await asyncio.sleep(0.2)
    assert len(asked(api, "patch")) == 2


async def test_a_refused_policy_has_an_event_once(api, around, begin):
    put(api, ONE, 1)
    policies = await begin(figures_seconds=0.02)
    await until(lambda: said(api) == ("True", 1))
    assert events(api) == []

    put(api, BAD, 2)
    await until(lambda: events(api))
    around.figures = {"p": PolicyFigures(2, {"budgets": 5})}
    await until(lambda: status(api).get("victims") == 2)

    (event,) = events(api)
    assert (event["type"], event["reason"]) == ("Warning", "PolicyRefused")
    assert event["regarding"]["name"] == "p"
    assert event["metadata"]["namespace"] == "default"
    assert event["note"] == (
        "generation 1 is in force: spec.maxVictimsPerPreemption: Invalid value: -1: not in valid "
        "range [0, 10000]"
    )
    assert policies.count_by_state() == {"current": 0, "behind": 1, "none": 0}


async def test_no_status_is_written_after_the_lease_is_lost(api, around, begin, monkeypatch):
    for name in "abc":
        put(api, ONE, 1, name)
    real = PolicyWriter._patch

    async def lost_meanwhile(self: PolicyWriter, name: str, due: Due) -> int:
        around.leads = False
        return await real(self, name, due)

    monkeypatch.setattr(PolicyWriter, "_patch", lost_meanwhile)
    await begin(period=60.0, figures_seconds=0.02)
    await until(lambda: asked(api, "patch"))
    await asyncio.sleep(0.3)

    assert len(asked(api, "patch")) == 1
