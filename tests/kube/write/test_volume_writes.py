"""The writer begins to bind the volumes of a pod: nominate, reserve, select."""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from scheduler.kube.client.backoff import Sleeper
from scheduler.kube.client.client import Client
from scheduler.kube.client.transport import Reply
from scheduler.kube.errors import Unreachable
from scheduler.kube.write.executor import Patience
from scheduler.kube.write.writer import Writer, WriterSettings
from scheduler.model.effects import BindVolumes, PodRef, ReserveVolume, SelectNode
from scheduler.model.events import EffectDone, EffectFailed, Event

POD = "/api/v1/namespaces/default/pods/p"
VOLUME = "/api/v1/persistentvolumes/v"
CLAIM = "/api/v1/namespaces/default/persistentvolumeclaims/m"
EFFECT = BindVolumes(
    PodRef("default", "p", "uid-p"),
    "n1",
    (ReserveVolume("v", "7", "default", "c", "uid-c", "8", by_controller=True),),
    (SelectNode("default", "m", "9"),),
)
LOST = object()


def merged(into: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a merge patch."""
    result = dict(into)
    for key, value in change.items():
        old = result.get(key)
        result[key] = merged(old or {}, value) if isinstance(value, dict) else value
    return result


@dataclass
class Server:
    """Keeps objects by path; a patch must name their version."""

    objects: dict[str, dict[str, Any]]
    #: What to answer instead, by path: statuses, or that the answer is lost. One for each request.
    faults: dict[str, list[Any]] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    bodies: dict[str, Any] = field(default_factory=dict)

    async def send(self, method: str, path: str, body: bytes | None, content_type: str) -> Reply:
        await asyncio.sleep(0)
        self.requests.append((method, path))
        fault = self.faults[path].pop(0) if method == "PATCH" and self.faults.get(path) else None
        if isinstance(fault, int):
            return refusal(fault)
        plain = path.removesuffix("/status")
        found = self.objects.get(plain)
        if found is None:
            return refusal(404)
        if method == "PATCH":
            change = json.loads(body or b"{}")
            self.bodies[path] = change
            wanted = change["metadata"].get("resourceVersion")
            if wanted not in (None, found["metadata"]["resourceVersion"]):
                return refusal(409)
            found = self.objects[plain] = merged(found, change)
            found["metadata"]["resourceVersion"] += "+"
        if fault is LOST:
            raise Unreachable("connection reset")
        return Reply(200, {}, json.dumps(found).encode())

    def stream(self, path: str, silence_seconds: float) -> Any:
        raise NotImplementedError


def refusal(status: int) -> Reply:
    return Reply(status, {}, json.dumps({"kind": "Status", "message": f"no: {status}"}).encode())


@pytest.fixture
def server() -> Server:
    def stored(version: str) -> dict[str, Any]:
        return {"metadata": {"resourceVersion": version}, "spec": {}}

    return Server({POD: stored("1"), VOLUME: stored("7"), CLAIM: stored("9")})


async def outcome(server: Server, *, leads: Iterable[bool] = (), patience: float = 1.0) -> Event:
    """Have the effect executed, and return how it ended."""
    told: list[Event] = []
    answers = iter(leads)
    sleeper = Sleeper(jitter=lambda: 0.0, sleep=lambda _: asyncio.sleep(0))
    writer = Writer(
        Client(server),
        told.append,
        lambda: next(answers, True),
        lambda: 0.0,
        sleeper,
        WriterSettings(patience=Patience(seconds=patience)),
    )
    writer.submit(EFFECT)
    async with asyncio.timeout(2):
        while not told:
            await asyncio.sleep(0)
    await writer.drain(0)
    return told[0]


async def test_nominates_reserves_and_selects_in_this_order(server):
    assert await outcome(server) == EffectDone(EFFECT)

    patches = [("PATCH", path) for path in (f"{POD}/status", VOLUME, CLAIM)]
    assert server.requests == patches
    assert server.bodies[f"{POD}/status"] == {
        "metadata": {"uid": "uid-p"},
        "status": {"nominatedNodeName": "n1"},
    }
    assert server.bodies[VOLUME] == {
        "metadata": {
            "resourceVersion": "7",
            "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"},
        },
        "spec": {
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": "default",
                "name": "c",
                "uid": "uid-c",
                "resourceVersion": "8",
            }
        },
    }
    assert server.bodies[CLAIM] == {
        "metadata": {
            "resourceVersion": "9",
            "annotations": {"volume.kubernetes.io/selected-node": "n1"},
        }
    }


@pytest.mark.parametrize("status", [403, 404, 500])
async def test_volumes_are_bound_even_if_the_nomination_cannot_be_written(server, status):
    server.faults[f"{POD}/status"] = [status]

    assert await outcome(server) == EffectDone(EFFECT)


@pytest.mark.parametrize("path", [VOLUME, CLAIM], ids=["volume", "claim"])
async def test_another_state_is_a_conflict(server, path):
    server.objects[path]["metadata"]["resourceVersion"] = "10"

    ended = await outcome(server)

    assert isinstance(ended, EffectFailed)
    assert ended.failure.kind == "conflict"
    assert server.requests[-1] == ("GET", path)


@pytest.mark.parametrize("path", [VOLUME, CLAIM], ids=["volume", "claim"])
async def test_a_write_whose_answer_was_lost_is_found_out(server, path):
    server.faults[path] = [LOST]

    assert await outcome(server) == EffectDone(EFFECT)

    assert server.requests.count(("PATCH", path)) == 2
    assert ("GET", path) in server.requests


@pytest.mark.parametrize(("status", "kind"), [(403, "refused"), (404, "gone"), (422, "refused")])
async def test_a_refused_patch_ends_the_effect(server, status, kind):
    server.faults[VOLUME] = [status]

    ended = await outcome(server)

    assert isinstance(ended, EffectFailed)
    assert ended.failure.kind == kind
    assert ("PATCH", CLAIM) not in server.requests


async def test_nothing_is_written_when_another_instance_leads(server):
    ended = await outcome(server, leads=[True, False])

    assert isinstance(ended, EffectFailed)
    assert ended.failure.kind == "abandoned"
    assert server.requests == [("PATCH", f"{POD}/status")]
