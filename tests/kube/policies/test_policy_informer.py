"""Policies as they appear, change and disappear: list, watch by kopf, and status."""

import asyncio
import contextlib
import json
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from scheduler.kube.auth.cluster_access import ClusterAccess
from scheduler.kube.auth.credentials import FixedHeaders
from scheduler.kube.client.backoff import Sleeper
from scheduler.kube.client.client import Client
from scheduler.kube.client.transport import HttpTransport
from scheduler.kube.http.tls import Tls
from scheduler.kube.policies.policy_informer import PolicyInformer, PolicySettings
from scheduler.kube.policies.registry import Due
from scheduler.kube.policies.status_writer import PolicyWriter
from scheduler.model.events import Event, PolicyGone, PolicyObserved
from scheduler.model.policies import PolicyFigures
from tests.kube.fixtures import NOW, Heard, Waits
from tests.support.certificates import Authority
from tests.support.fake_api import FakeApi, Fault
from tests.support.fake_store import Target

KIND = "preemptionpolicies"
ONE, TWO = {"maxVictimsPerPreemption": 1}, {"maxVictimsPerPreemption": 2}
BAD = {"maxVictimsPerPreemption": -1}


@dataclass
class Told(Heard):
    """An observer that records reports about policies, too."""

    policies: list[str] = field(default_factory=list)

    def policy_changed(self, name: str, verdict: str, detail: str) -> None:
        self.policies.append(f"{name} {verdict}")


@dataclass
class Surroundings:
    """The sink of policies, and their callbacks."""

    events: list[Event] = field(default_factory=list)
    leads: bool = True
    figures: dict[str, PolicyFigures] = field(default_factory=dict)

    def in_force(self) -> dict[str, int | None]:
        found: dict[str, int | None] = {}
        for event in self.events:
            if isinstance(event, PolicyObserved):
                found[event.policy.name] = event.policy.max_victims_per_preemption
            elif isinstance(event, PolicyGone):
                del found[event.name]
        return found


@pytest.fixture
def heard() -> Told:
    return Told()


@pytest.fixture
def around() -> Surroundings:
    return Surroundings()


#: Starts policies, with settings; a list follows another after a moment unless `period` is given.
Begin = Callable[..., Coroutine[Any, Any, PolicyInformer]]


@pytest.fixture
async def begin(api: FakeApi, client: Client, around: Surroundings) -> AsyncIterator[Begin]:
    running = []

    async def start(
        token: str = "", sleeper: Sleeper | None = None, period: float = 0.05, **settings: Any
    ) -> PolicyInformer:
        credentials = FixedHeaders(token)
        policies = PolicyInformer(
            client,
            around.events.extend,
            sleeper or Sleeper(jitter=lambda: 0.0),
            PolicySettings(
                where=ClusterAccess(api.url, credentials),
                user_agent="test",
                may_write=lambda: around.leads,
                figures=lambda: around.figures,
                wall=lambda: NOW,
                period_seconds=period,
                **settings,
            ),
        )
        running.append(asyncio.create_task(policies.run()))
        return policies

    yield start
    for task in running:
        task.cancel()
    for result in await asyncio.gather(*running, return_exceptions=True):
        assert isinstance(result, asyncio.CancelledError), result


async def until(holds: Callable[[], object]) -> None:
    """Wait until something holds; kopf takes a moment to be imported."""
    async with asyncio.timeout(15):
        while not holds():
            await asyncio.sleep(0.005)


def put(api: FakeApi, spec: dict[str, Any], generation: int, name: str = "p") -> None:
    status = api.store.get(KIND, name).get("status", {}) if api.store.has(KIND, name) else {}
    metadata = {"name": name, "generation": generation}
    api.store.put(KIND, {"metadata": metadata, "spec": spec, "status": status})


def status(api: FakeApi, name: str = "p") -> dict[str, Any]:
    found: dict[str, Any] = api.store.get(KIND, name).get("status", {})
    return found


def said(api: FakeApi, name: str = "p") -> tuple[str, int]:
    """Return the value of the condition, and the generation that it is about."""
    for each in status(api, name).get("conditions", []):
        return each["status"], each["observedGeneration"]
    return "", 0


def asked(api: FakeApi, verb: str) -> list[str]:
    return [each.resource for each in api.requests if each.verb == verb]


async def test_all_policies_are_handed_over_before_synced_is_set(api, around, begin):
    put(api, ONE, 1)
    put(api, TWO, 1, "q")

    policies = await begin()
    await until(policies.synced.is_set)

    assert around.in_force() == {"p": 1, "q": 2}
    assert policies.health().objects == 2


async def test_without_the_definition_there_are_none_and_kopf_is_not_started(api, around, begin):
    api.absent.add(KIND)

    policies = await begin()
    await until(policies.synced.is_set)
    await until(lambda: asked(api, "list").count(KIND) >= 3)

    assert around.events == []
    assert policies.health().problem == ""
    assert asked(api, "watch") == []


async def test_changes_take_effect_at_once_and_show_in_the_status(api, heard, around, begin):
    put(api, ONE, 1)
    await begin(period=60.0)
    await until(lambda: said(api) == ("True", 1))

    put(api, TWO, 2)
    await until(lambda: said(api) == ("True", 2))
    put(api, BAD, 3)
    await until(lambda: said(api) == ("False", 3))

    assert around.in_force() == {"p": 2}
    assert status(api)["accepted"] == {"generation": 2, "spec": TWO}
    api.store.remove(KIND, "p")
    await until(lambda: around.in_force() == {})
    assert heard.policies == ["p accepted", "p accepted", "p refused", "p gone"]


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


async def test_the_definition_may_come_later_and_go_again(api, around, begin):
    api.absent.add(KIND)
    policies = await begin()
    await until(policies.synced.is_set)

    api.absent.discard(KIND)
    put(api, ONE, 1)
    await until(lambda: said(api) == ("True", 1))
    assert around.in_force() == {"p": 1}

    await until(lambda: api.watches)
    api.absent.add(KIND)
    await until(lambda: around.in_force() == {})
    await until(lambda: "policies" not in {each.name for each in threading.enumerate()})
    api.absent.discard(KIND)
    await until(lambda: around.in_force() == {"p": 1})


async def test_a_deletion_that_no_watch_reported_is_noticed(api, around, begin):
    put(api, ONE, 1)
    await begin()
    await until(lambda: api.watches)
    api.frozen = True

    api.store.remove(KIND, "p")

    await until(lambda: around.in_force() == {})


async def test_a_deletion_while_a_watch_restarts_is_noticed_at_once(api, around, begin):
    put(api, ONE, 1)
    await begin(period=60.0)
    await until(lambda: said(api) == ("True", 1))

    api.store.listeners.clear()  # no watch gets this deletion
    api.store.remove(KIND, "p")
    api.expire_watches()

    await until(lambda: around.in_force() == {})


async def test_kopf_is_started_again_when_it_gives_up(api, heard, around, begin):
    put(api, ONE, 1)
    policies = await begin(period=60.0)
    await until(lambda: api.watches)

    api.inject(Fault("GET", f"{KIND}.*watch", status=410))
    api.close_watches()
    await until(lambda: heard.interruptions)
    await until(lambda: policies.health().problem == "")
    put(api, TWO, 2)

    await until(lambda: around.in_force() == {"p": 2})


async def test_a_missing_right_is_named_and_nothing_is_decided(api, heard, begin):
    api.forbidden.add(("list", KIND))

    policies = await begin(sleeper=Waits().sleeper)
    await until(lambda: heard.interruptions)

    assert not policies.synced.is_set()
    problem = policies.health().problem
    assert problem.startswith(f"cannot list {KIND}: ")
    assert f'cannot list resource "{KIND}" in API group "preemptive-scheduler.io"' in problem
    api.forbidden.clear()
    await until(policies.synced.is_set)
    assert policies.health().problem == ""
    assert heard.interruptions == [problem]


async def test_a_missing_right_is_none_where_there_is_nothing_to_read(api, begin):
    # A real server checks the right before it looks for the resource; so does this fault.
    api.absent.add(KIND)
    api.inject(Fault("GET", KIND, status=403, times=1000))

    policies = await begin(period=60.0)
    await until(policies.synced.is_set)

    assert policies.health().problem == ""


async def test_without_the_right_to_watch_changes_come_with_the_next_list(
    api, heard, around, begin
):
    api.forbidden.add(("watch", KIND))
    put(api, ONE, 1)
    policies = await begin(period=0.2)
    await until(lambda: "watch" in policies.health().problem)

    put(api, TWO, 2)
    await until(lambda: around.in_force() == {"p": 2})

    problem = policies.health().problem
    assert problem.startswith(f"cannot watch {KIND}: ")
    assert f'cannot watch resource "{KIND}"' in problem
    api.store.remove(KIND, "p")
    api.forbidden.clear()
    await until(lambda: policies.health().problem == "")


async def test_a_status_that_cannot_be_written_is_reported_and_retried(api, heard, begin):
    api.forbidden.add(("patch", f"{KIND}/status"))
    put(api, ONE, 1)
    policies = await begin(period=60.0, figures_seconds=0.02)
    await until(lambda: heard.interruptions)

    assert heard.interruptions[0].startswith(f"status of p: cannot patch {KIND}/status: ")
    assert policies.health().problem == ""
    api.forbidden.clear()
    await until(lambda: said(api) == ("True", 1))


async def test_an_outage_changes_nothing_that_is_in_force(api, heard, around, begin):
    put(api, ONE, 1)
    policies = await begin()
    await until(lambda: api.watches)

    api.inject(Fault("GET", KIND, times=5, cut=True))
    api.close_watches()
    await until(lambda: heard.interruptions)
    assert around.in_force() == {"p": 1}

    put(api, TWO, 2)
    await until(lambda: around.in_force() == {"p": 2})
    await until(lambda: policies.health().problem == "")


PAGE_404 = (404, b"<html>404 Not Found</html>")


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(PAGE_404, id="a page that says 404"),
        pytest.param((404, b"404 page not found\n"), id="what an API server says, too"),
        pytest.param((403, b"<html>Forbidden</html>"), id="a page that says 403"),
        pytest.param((200, b"<html>Welcome</html>"), id="a page"),
        pytest.param((200, b'{"kind":"Status","metadata":{}}'), id="a Status"),
        pytest.param((200, b'{"kind":"PodList","metadata":{"resourceVersion":"900"}}'), id="pods"),
        pytest.param((200, b'{"kind":"PreemptionPolicyList","metadata":{}}'), id="no version"),
    ],
)
async def test_what_something_on_the_way_answers_ends_no_policy(api, heard, around, begin, answer):
    put(api, ONE, 1)
    policies = await begin(period=0.02)
    await until(lambda: around.in_force() == {"p": 1})

    api.proxied[f"{KIND}($|[?])"] = answer
    await until(lambda: heard.interruptions and policies.health().problem)
    await asyncio.sleep(0.1)

    assert around.in_force() == {"p": 1}
    api.proxied.clear()
    await until(lambda: policies.health().problem == "")


async def test_a_policy_that_is_nested_too_deeply_is_refused_alone(api, around, begin, heard):
    put(api, ONE, 1)
    page = api.store.execute("list", Target(KIND, "", "", ""), {}, {})[1]
    deep = b'{"a":' * 5000 + b"[]" + b"}" * 5000
    named = b'{"metadata":{"name":"deep","uid":"u","generation":1,"resourceVersion":"1"},"spec":%s}'
    items = b'"items": [' + named % deep + b","
    api.proxied[f"{KIND}($|[?])"] = (200, json.dumps(page).encode().replace(b'"items": [', items))

    policies = await begin()
    await until(policies.synced.is_set)

    assert around.in_force() == {"p": 1}
    assert heard.policies == ["p accepted", "deep refused"]


async def test_a_definition_that_is_missing_for_a_moment_ends_no_policy(api, around, begin):
    put(api, ONE, 1)
    await begin(period=0.1)
    await until(lambda: api.watches)
    seen = len(asked(api, "list"))

    api.absent.add(KIND)
    await until(lambda: len(asked(api, "list")) > seen)
    api.absent.discard(KIND)
    await asyncio.sleep(0.3)

    assert [type(event).__name__ for event in around.events] == ["PolicyObserved"]


async def test_a_history_that_was_replaced_is_noticed_and_watched_from_its_end(
    api, heard, around, begin
):
    api.store.version = 1_000_000
    put(api, ONE, 1)
    await begin(period=0.05)
    await until(lambda: api.watches)

    # etcd is restored from a backup in which the policy had not been made.
    api.store.listeners.clear()
    api.store.remove(KIND, "p")
    api.store.changes.clear()
    api.store.version = 500_000
    put(api, TWO, 1, "later")
    await until(lambda: around.in_force() == {"later": 2})

    assert any("went back from 1000" in each for each in heard.interruptions)
    api.store.listeners.append(api._changed)
    await until(lambda: api.watches)
    put(api, ONE, 2, "later")
    await until(lambda: around.in_force() == {"later": 1})


def events(api: FakeApi) -> list[dict[str, Any]]:
    return [
        each.body for each in api.requests if (each.verb, each.resource) == ("create", "events")
    ]


async def test_a_status_is_not_written_again_while_it_is_on_its_way(
    api, around, begin, monkeypatch
):
    real = PolicyWriter._patch

    async def slow(self: PolicyWriter, name: str, due: Due) -> int:
        await asyncio.sleep(0.5)
        return await real(self, name, due)

    monkeypatch.setattr(PolicyWriter, "_patch", slow)
    put(api, ONE, 1)
    await begin(figures_seconds=0.02)
    await until(lambda: asked(api, "patch"))
    await asyncio.sleep(0.7)
    assert len(asked(api, "patch")) == 1

    put(api, TWO, 2)
    await until(lambda: said(api) == ("True", 2))
    await asyncio.sleep(0.7)
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
    assert policies.standing() == {"current": 0, "behind": 1, "none": 0}


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


async def test_kopf_talks_to_no_server_that_is_not_verified(around, client, heard, tmp_path):
    authority = Authority(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(authority.folder / "server.crt", authority.folder / "server.key")
    secure = FakeApi()
    await secure.start(tls)
    settings = PolicySettings(
        where=ClusterAccess(
            secure.url, FixedHeaders("very-secret"), Tls(ssl.create_default_context)
        ),
        user_agent="test",
        may_write=lambda: True,
        figures=dict,
        wall=lambda: NOW,
        period_seconds=0.05,
    )
    policies = PolicyInformer(client, around.events.extend, Sleeper(jitter=lambda: 0.0), settings)
    running = asyncio.create_task(policies.run())
    await until(lambda: any("certificate" in each.lower() for each in heard.interruptions))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await secure.stop()

    assert secure.requests == []


async def test_a_defect_of_the_sink_ends_it(api, client):
    def sink(events: list[Event]) -> None:
        if any(isinstance(event, PolicyGone) for event in events):
            raise ValueError("a defect")

    put(api, ONE, 1)
    settings = PolicySettings(
        where=ClusterAccess(api.url, FixedHeaders()),
        user_agent="test",
        may_write=lambda: False,
        figures=dict,
        wall=lambda: NOW,
        period_seconds=60.0,
    )
    policies = PolicyInformer(client, sink, Sleeper(jitter=lambda: 0.0), settings)
    running = asyncio.create_task(policies.run())
    await until(lambda: api.watches)
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # it is logged there, too

    api.store.remove(KIND, "p")

    with pytest.raises(ExceptionGroup, match="unhandled errors") as caught:
        await asyncio.wait_for(running, 15)
    assert caught.group_contains(ValueError, match="a defect")


async def test_it_authenticates_as_the_scheduler_does(api, begin, around):
    api.tokens = {"secret"}
    put(api, ONE, 1)
    transport = HttpTransport(ClusterAccess(api.url, FixedHeaders("secret")), "test")
    async with transport:
        policies = PolicyInformer(
            Client(transport),
            around.events.extend,
            Sleeper(jitter=lambda: 0.0),
            PolicySettings(
                where=ClusterAccess(api.url, Rotating()),
                user_agent="test",
                may_write=lambda: True,
                figures=dict,
                wall=lambda: NOW,
            ),
        )
        running = asyncio.create_task(policies.run())
        await until(lambda: said(api) == ("True", 1))
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running

    agents = {each.headers["User-Agent"] for each in api.requests}
    assert agents == {"test"}


class Rotating:
    """A token that has expired; only the server's refusal shows it."""

    def __init__(self) -> None:
        self.token = "expired"

    async def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def at_hand(self) -> None:
        return None

    def refused(self) -> bool:
        before, self.token = self.token, "secret"
        return before != self.token
