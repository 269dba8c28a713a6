"""What the package expects of an API server, on the fake one and on a real one.

Everything is done through the package's own client, so both are asked the same. The real server
is that of `tests.support.control_plane`.
"""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from scheduler.kube.auth import cluster_access
from scheduler.kube.auth.cluster_access import ClusterAccess
from scheduler.kube.auth.credentials import FixedHeaders
from scheduler.kube.client import requests
from scheduler.kube.client.backoff import Sleeper
from scheduler.kube.client.client import JSON, Client, Request
from scheduler.kube.client.transport import HttpTransport
from scheduler.kube.errors import Conflict, NotFound
from scheduler.kube.leader_election import LeaderElectionConfig, LeaderElector
from scheduler.kube.watch.informer import Informer
from scheduler.kube.watch.resources import PODS
from scheduler.kube.write.writer import Writer
from scheduler.model.effects import (
    Bind,
    ClearNomination,
    Effect,
    Evict,
    Nominate,
    PodRef,
    RecordEvent,
    SetCondition,
)
from scheduler.model.events import EffectDone, EffectFailed, Event, PodGone, PodObserved
from tests.support.fake_api import FakeApi

PAUSES = Sleeper(jitter=lambda: 0.5)


def now() -> float:
    return time.time()  # noqa: TID251 - a real server compares with its own clock


@dataclass
class World:
    """A namespace on some API server."""

    client: Client
    namespace: str

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else msgspec.json.encode(body)
        return msgspec.json.decode(
            await self.client.call(Request("ask", path, method, path, data, JSON))
        )

    async def add(self, name: str, **spec: Any) -> PodRef:
        spec = {"containers": [{"name": "c", "image": "none"}], "schedulerName": "ours", **spec}
        body = {"metadata": {"name": name}, "spec": spec}
        made = await self.ask("POST", f"/api/v1/namespaces/{self.namespace}/pods", body)
        return PodRef(self.namespace, name, made["metadata"]["uid"])

    async def get(self, pod: PodRef) -> Any:
        return await self.ask("GET", requests.get_pod(pod).path)

    async def write(self, effect: Effect) -> str:
        """Have an effect executed, and return how it ended."""
        ended: list[Event] = []
        writer = Writer(self.client, ended.append, lambda: True, now, PAUSES)
        writer.submit(effect)
        await until(lambda: ended)
        await writer.drain(1)
        (outcome,) = ended
        assert isinstance(outcome, EffectDone | EffectFailed)
        return "done" if isinstance(outcome, EffectDone) else str(outcome.failure.kind)


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.005)


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.cluster)])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    if request.param == "real":
        if not request.config.pluginmanager.hasplugin("tests.support.control_plane"):
            pytest.skip("needs -p tests.support.control_plane")
        cluster = request.getfixturevalue("control_plane")
        namespace = request.getfixturevalue("namespace")
        async with HttpTransport(cluster_access.load(cluster.admin_kubeconfig, {}), "test") as http:
            yield World(Client(http), namespace)
        return
    api = FakeApi()
    await api.start()
    async with HttpTransport(ClusterAccess(api.url, FixedHeaders()), "test") as http:
        yield World(Client(http), "default")
    await api.stop()


def other(pod: PodRef) -> PodRef:
    """Return a reference to a pod of the same name that does not exist."""
    return PodRef(pod.namespace, pod.name, "11111111-1111-4111-8111-111111111111")


def absent(world: World) -> PodRef:
    return other(PodRef(world.namespace, "absent", ""))


async def test_a_binding(world):
    pod = await world.add("a")

    assert await world.write(Nominate(pod, "n1", "why", 1)) == "done"
    assert await world.write(Bind(pod, "n1", "ours")) == "done"

    bound = await world.get(pod)
    assert bound["spec"]["nodeName"] == "n1"
    assert "nominatedNodeName" not in bound["status"]
    (condition,) = (c for c in bound["status"]["conditions"] if c["type"] == "PodScheduled")
    assert condition["status"] == "True"


async def test_bindings_that_are_refused(world):
    pod = await world.add("a")
    assert await world.write(Bind(other(pod), "n1", "ours")) == "gone"
    assert await world.write(Bind(absent(world), "n1", "ours")) == "gone"
    assert await world.write(Bind(pod, "n1", "ours")) == "done"
    assert await world.write(Bind(pod, "n1", "ours")) == "done"
    assert await world.write(Bind(pod, "n2", "ours")) == "conflict"
    assert await world.write(Evict(pod, "n1", pod, "ours", 1)) == "done"
    assert await is_terminating(world, pod)
    assert await world.write(Bind(pod, "n2", "ours")) in {"conflict", "gone"}


async def is_terminating(world: World, pod: PodRef) -> bool:
    try:
        return "deletionTimestamp" in (await world.get(pod))["metadata"]
    except NotFound:
        return True


async def test_a_nomination_and_its_end(world):
    pod = await world.add("a")

    assert await world.write(Nominate(pod, "n1", "0/1 nodes", 1)) == "done"
    status = (await world.get(pod))["status"]
    assert status["nominatedNodeName"] == "n1"
    (condition,) = (c for c in status["conditions"] if c["type"] == "PodScheduled")
    assert condition["reason"] == "Unschedulable"
    assert condition["message"] == "0/1 nodes"
    assert condition["lastTransitionTime"]

    assert await world.write(ClearNomination(pod)) == "done"
    status = (await world.get(pod))["status"]
    assert "nominatedNodeName" not in status
    assert condition in status["conditions"]


async def test_a_condition_can_clear_the_nomination(world):
    pod = await world.add("a")
    await world.write(Nominate(pod, "n1", "0/1 nodes", 1))

    effect = SetCondition(pod, "SchedulerError", "newer", 1, clear_nomination=True)
    assert await world.write(effect) == "done"

    status = (await world.get(pod))["status"]
    assert "nominatedNodeName" not in status
    conditions = [c for c in status["conditions"] if c["type"] == "PodScheduled"]
    assert [c["message"] for c in conditions] == ["newer"]


async def test_patches_of_other_pods_change_nothing(world):
    pod = await world.add("a")

    assert await world.write(ClearNomination(other(pod))) == "gone"
    assert await world.write(SetCondition(absent(world), "Unschedulable", "", 1)) == "gone"


async def test_an_eviction_before_and_after_binding(world):
    pending, bound = await world.add("pending"), await world.add("bound")
    await world.write(Bind(bound, "n1", "ours"))

    assert await world.write(Evict(pending, "n1", bound, "ours", 1)) == "done"
    assert await world.write(Evict(bound, "n1", pending, "ours", 1)) == "done"

    with pytest.raises(NotFound):
        await world.get(pending)
    victim = await world.get(bound)
    assert victim["metadata"]["deletionTimestamp"]
    (condition,) = (c for c in victim["status"]["conditions"] if c["type"] == "DisruptionTarget")
    assert condition["reason"] == "PreemptionByScheduler"


async def test_an_eviction_of_another_pod_changes_nothing(world):
    pod = await world.add("a")

    assert await world.write(Evict(other(pod), "n1", pod, "ours", 1)) == "done"
    assert await world.write(Evict(absent(world), "n1", pod, "ours", 1)) == "done"
    with pytest.raises(Conflict, match="UID in the precondition"):
        await world.client.call(requests.delete(other(pod)))

    assert "deletionTimestamp" not in (await world.get(pod))["metadata"]


async def test_an_event_and_its_repeat(world):
    pod = await world.add("a")
    effect = RecordEvent(pod, "Warning", "FailedScheduling", "Scheduling", "ü" * 2000, "ours", "7")
    ended: list[Event] = []
    later = itertools.count(step=60)
    writer = Writer(world.client, ended.append, lambda: True, lambda: now() + next(later), PAUSES)
    for number in range(2):
        writer.submit(effect)
        await until(lambda number=number: len(ended) == number + 1)
    await writer.drain(1)

    assert ended == [EffectDone(effect)] * 2
    path = f"/apis/events.k8s.io/v1/namespaces/{world.namespace}/events"
    items = (await world.ask("GET", path))["items"]
    (event,) = (each for each in items if each["reportingController"] == "ours")
    assert event["series"]["count"] == 2
    assert len(event["note"].encode()) <= 1024


async def test_an_event_names_only_related_pods_of_its_own_namespace(world):
    pod = await world.add("a")
    near, far = PodRef(world.namespace, "b", "u-b"), PodRef("elsewhere", "c", "u-c")
    for related in (near, far):
        effect = RecordEvent(pod, "Normal", "Preempted", "Preempting", "", "ours", related=related)
        assert await world.write(effect) == "done"

    path = f"/apis/events.k8s.io/v1/namespaces/{world.namespace}/events"
    items = (await world.ask("GET", path))["items"]
    related = {each["related"]["uid"]: each["related"] for each in items if "related" in each}
    kind = {"apiVersion": "v1", "kind": "Pod"}
    assert related == {
        "u-b": {**kind, "namespace": world.namespace, "name": "b", "uid": "u-b"},
        "u-c": {**kind, "uid": "u-c"},
    }


async def test_what_an_informer_sees(world):
    seen: list[Event] = []
    await world.add("before")
    informer = Informer(PODS, world.client, seen.extend, PAUSES)
    task = asyncio.create_task(informer.run())
    await asyncio.wait_for(informer.synced.wait(), 10)
    first = await world.add("first")
    finished = await world.add("finished")

    await world.write(Bind(first, "n1", "ours"))
    status = Request(
        "patch",
        "pods/status",
        "PATCH",
        f"{requests.get_pod(finished).path}/status",
        b'{"status":{"phase":"Succeeded"}}',
        "application/strategic-merge-patch+json",
    )
    await world.client.call(status)
    await until(lambda: PodGone(finished.key, finished.uid) in seen)

    states = [each.pod for each in seen if isinstance(each, PodObserved)]
    assert f"{world.namespace}/before" in {each.key for each in states}
    assert "n1" in {each.spec.node_name for each in states if each.uid == first.uid}
    assert informer.health().undecodable == 0
    task.cancel()


async def test_a_lease_is_acquired_renewed_and_released(world):
    def candidate(identity: str) -> LeaderElector:
        settings = LeaderElectionConfig(world.namespace, "scheduler", identity, retry_seconds=0.1)
        return LeaderElector(world.client, settings, now, PAUSES)

    first, second = candidate("first"), candidate("second")
    await first.acquire()
    waiting = asyncio.create_task(second.acquire())
    await until(lambda: second.holder == "first")
    assert not second.is_leader

    await first.release()
    await asyncio.wait_for(waiting, 5)

    assert second.is_leader
    assert not first.is_leader


async def test_refusals_have_their_reasons(world):
    with pytest.raises(NotFound) as raised:
        await world.get(absent(world))
    assert raised.value.reason == "NotFound"

    await world.add("a")
    with pytest.raises(Conflict) as exists:
        await world.add("a")
    assert exists.value.reason == "AlreadyExists"
