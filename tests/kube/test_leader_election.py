"""Of several candidates one leads, and knows when it does not any more."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from scheduler.kube.auth.cluster_access import ClusterAccess
from scheduler.kube.auth.credentials import FixedHeaders
from scheduler.kube.client.backoff import Sleeper
from scheduler.kube.client.client import Client, Request
from scheduler.kube.client.transport import HttpTransport, Reply
from scheduler.kube.leader_election import LeaderElectionConfig, LeaderElector, unique_identity
from tests.kube.fixtures import NOW, Waits, settle, until
from tests.support.fake_api import FakeApi, Fault

KEY = "kube-system/preemptive-scheduler"
#: Periods of a lease that is lost and won within a test.
SHORT = {"duration_seconds": 1.0, "renew_deadline_seconds": 0.3, "retry_seconds": 0.01}


@pytest.fixture
def candidate(client: Client, waits: Waits) -> Callable[..., LeaderElector]:
    def make(identity: str, **periods: float) -> LeaderElector:
        settings = LeaderElectionConfig("kube-system", "preemptive-scheduler", identity, **periods)
        return LeaderElector(client, settings, lambda: NOW, waits.sleeper)

    return make


def spec(api: FakeApi) -> dict[str, Any]:
    return api.store.get("leases", KEY)["spec"]


def hold(api: FakeApi, identity: str, **fields: Any) -> None:
    """Let another instance hold the lease."""
    content = {
        "holderIdentity": identity,
        "leaseDurationSeconds": 15,
        "acquireTime": "2025-12-31T00:00:00.000000Z",
        "renewTime": "2025-12-31T00:00:00.000000Z",
        "leaseTransitions": 4,
        **fields,
    }
    metadata = {"namespace": "kube-system", "name": "preemptive-scheduler", "labels": {"a": "b"}}
    api.store.put("leases", {"metadata": metadata, "spec": content})


async def test_a_lease_that_is_not_renewed_is_taken_over(api, candidate):
    hold(api, "dead", leaseDurationSeconds=1)
    lease = candidate("b", **SHORT)

    assert await lease.acquire(), "it was held before"

    assert spec(api)["holderIdentity"] == "b"
    assert spec(api)["leaseTransitions"] == 5
    assert spec(api)["acquireTime"] == "2026-01-01T00:00:00.250000Z"
    assert api.store.get("leases", KEY)["metadata"]["labels"] == {"a": "b"}


async def test_the_clocks_of_others_do_not_matter(api, candidate):
    hold(api, "other", renewTime="1999-01-01T00:00:00.000000Z")
    lease = candidate("b")

    task = asyncio.create_task(lease.acquire())
    await settle()

    assert not lease.is_leader
    task.cancel()


async def test_the_holder_renews(api, candidate, waits):
    lease = candidate("a", **SHORT)
    await lease.acquire()
    task = asyncio.create_task(lease.keep_renewing())

    await asyncio.sleep(0.5)

    assert lease.is_leader
    assert not task.done()
    assert {each.verb for each in api.requests[2:]} == {"update"}
    task.cancel()


async def test_a_holder_that_cannot_renew_stops_leading_in_time(api, candidate):
    lease = candidate("a", **SHORT)
    await lease.acquire()
    api.inject(Fault("PUT", "/leases", times=1000, status=503))

    async with asyncio.timeout(10):
        await lease.keep_renewing()

    assert not lease.is_leader
    assert "cannot update leases" in lease.problem


async def test_a_leader_whose_renewal_hangs_stops_leading_in_time(api, candidate):
    lease = candidate("a", **SHORT)
    await lease.acquire()
    api.inject(Fault("PUT", "/leases", times=1000, hang=True))
    task = asyncio.create_task(lease.keep_renewing())

    await asyncio.sleep(0.35)

    assert not lease.is_leader
    await asyncio.wait_for(task, 1)


async def test_a_renewal_that_fails_once_does_not_end_the_leadership(api, candidate):
    lease = candidate("a", **SHORT)
    await lease.acquire()
    api.inject(Fault("PUT", "/leases", times=2, status=503))
    task = asyncio.create_task(lease.keep_renewing())

    await asyncio.sleep(0.4)

    assert lease.is_leader
    assert lease.problem == ""
    task.cancel()


async def test_a_paused_holder_does_not_lead_when_it_wakes_up(api, candidate):
    lease = candidate("a", **SHORT)
    await lease.acquire()
    task = asyncio.create_task(lease.keep_renewing())
    await settle()
    expires = asyncio.get_running_loop().time() + 0.35

    while asyncio.get_running_loop().time() < expires:
        pass  # the process is stopped: nothing else runs

    assert not lease.is_leader
    await asyncio.wait_for(task, 1)
    assert not lease.is_leader


async def test_a_renewal_that_is_answered_during_a_pause_of_the_process_comes_too_late(api):
    class Paused(HttpTransport):
        seconds = 0.0

        async def send(self, *request: Any) -> Reply:
            reply = await super().send(*request)
            wake = asyncio.get_running_loop().time() + self.seconds
            while asyncio.get_running_loop().time() < wake:
                pass
            return reply

    async with Paused(ClusterAccess(api.url, FixedHeaders()), "test") as transport:
        settings = LeaderElectionConfig("kube-system", "preemptive-scheduler", "a", 1.0, 0.4, 0.2)
        lease = LeaderElector(Client(transport), settings, lambda: NOW, Sleeper(jitter=lambda: 0.0))
        await lease.acquire()
        task = asyncio.create_task(lease.keep_renewing())
        await asyncio.sleep(0.1)

        transport.seconds = 0.3
        await asyncio.sleep(0.15)

        assert not lease.is_leader
        await asyncio.wait_for(task, 1)
        assert not lease.is_leader


async def test_a_suspension_of_the_host_ends_the_leadership(client, waits):
    uptime = 100.0
    settings = LeaderElectionConfig("kube-system", "preemptive-scheduler", "a")
    lease = LeaderElector(client, settings, lambda: NOW, waits.sleeper, lambda: uptime)
    await lease.acquire()

    uptime += 9.9
    assert lease.is_leader
    uptime += 0.2
    assert not lease.is_leader


async def test_a_lease_survives_a_fail_over_that_breaks_open_connections(server):
    body = json.dumps({"metadata": {"resourceVersion": "1"}, "spec": {"holderIdentity": "a"}})
    answer = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    dead = asyncio.Event()
    # Five connections that are kept, each dead from some request on; new ones work.
    server.script = [[answer] * 3 + [dead], *([answer, dead] for _ in range(4)), [answer] * 99]
    async with HttpTransport(ClusterAccess(server.url, FixedHeaders()), "test") as transport:
        client = Client(transport)
        settings = LeaderElectionConfig("kube-system", "preemptive-scheduler", "a", 2.0, 1.0, 0.05)
        lease = LeaderElector(client, settings, lambda: NOW, Sleeper(jitter=lambda: 0.0))
        others = Request("list", "pods", "GET", "/api/v1/pods")
        await lease.acquire()
        await asyncio.gather(*(client.call(others) for _ in range(5)))
        held = asyncio.create_task(lease.keep_renewing())

        await asyncio.sleep(1.2)

        assert lease.is_leader
        assert not held.done()
        held.cancel()
        await asyncio.gather(held, return_exceptions=True)
    dead.set()


async def test_a_holder_that_sees_another_one_stops_at_once(api, candidate):
    lease = candidate("a")
    await lease.acquire()
    hold(api, "other")

    async with asyncio.timeout(10):
        await lease.keep_renewing()

    assert not lease.is_leader
    assert spec(api)["holderIdentity"] == "other"


async def test_a_lease_that_was_deleted_is_made_again(api, candidate):
    lease = candidate("a", retry_seconds=0.01)
    await lease.acquire()
    api.store.remove("leases", KEY)
    task = asyncio.create_task(lease.keep_renewing())

    await until(lambda: api.store.has("leases", KEY))

    assert lease.is_leader
    task.cancel()


async def test_only_ones_own_lease_is_released(api, candidate):
    lease = candidate("a")
    await lease.acquire()
    hold(api, "other")

    await lease.release()

    assert spec(api)["holderIdentity"] == "other"


async def test_one_of_two_that_try_together_leads(api, candidate):
    candidates = [candidate("a"), candidate("b")]
    tasks = [asyncio.create_task(each.acquire()) for each in candidates]

    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    await settle()

    assert [each.is_leader for each in candidates].count(True) == 1
    for task in tasks:
        task.cancel()


async def test_a_missing_right_is_reported(api, candidate):
    api.forbidden.add(("get", "leases"))
    lease = candidate("a")
    task = asyncio.create_task(lease.acquire())

    await until(lambda: lease.problem)

    assert lease.problem.startswith("cannot get leases: leases is forbidden")
    task.cancel()


def test_two_instances_on_a_host_have_different_names():
    assert unique_identity() != unique_identity()
