"""Policies as they appear, change and disappear: list, and watch by kopf."""

import threading

from tests.support.fake_api import Fault
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


async def test_all_policies_are_delivered_before_synced_is_set(api, around, begin):
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


async def test_the_definition_can_be_created_later_and_deleted_again(api, around, begin):
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


async def test_kopf_is_started_again_when_it_ends(api, heard, around, begin):
    put(api, ONE, 1)
    policies = await begin(period=60.0)
    await until(lambda: api.watches)

    api.inject(Fault("GET", f"{KIND}.*watch", status=410))
    api.close_watches()
    await until(lambda: heard.interruptions)
    await until(lambda: policies.health().problem == "")
    put(api, TWO, 2)

    await until(lambda: around.in_force() == {"p": 2})
