"""Missing rights, outages and wrong answers end no policy that is in force."""

import asyncio
import json

import pytest

from tests.kube.fixtures import Waits
from tests.support.fake_api import Fault
from tests.support.fake_store import Target
from tests.support.stored_policies import (
    KIND,
    ONE,
    TWO,
    asked,
    put,
    until,
)


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


async def test_changes_are_seen_with_the_next_list_without_the_right_to_watch(
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
async def test_an_answer_of_a_proxy_ends_no_policy(api, heard, around, begin, answer):
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

    assert any("went backwards, from 1000" in each for each in heard.interruptions)
    api.store.listeners.append(api._changed)
    await until(lambda: api.watches)
    put(api, ONE, 2, "later")
    await until(lambda: around.in_force() == {"later": 1})
