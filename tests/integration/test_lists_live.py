"""Lists of a real API server, by a stream and in pages, while etcd compacts its history."""

import asyncio
import os
from collections.abc import Iterator

import pytest

from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.controlplane.components import Settings
from scheduler.kube.auth import cluster_access
from scheduler.kube.client.backoff import Sleeper
from scheduler.kube.client.client import Client
from scheduler.kube.client.transport import HttpTransport
from scheduler.kube.instrumentation import Instrumentation
from scheduler.kube.watch.informer import Informer, InformerSettings
from scheduler.kube.watch.resources import PODS
from scheduler.model.events import Event, PodGone, PodObserved
from tests.integration.objects import pod
from tests.support.control_plane import VERSION

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

PATH = "/api/v1/namespaces/default/pods"
COUNT = 60
#: Flags and feature gates of the API server by the way in which lists come. Without its cache,
#: the pages of a list depend on the history in etcd.
WAYS = {"by a stream": ({}, {}), "in pages": ({"watch-cache": "false"}, {"WatchList": False})}


@pytest.fixture(params=WAYS.items(), ids=WAYS)
def way(request: pytest.FixtureRequest) -> Iterator[tuple[str, ControlPlane]]:
    name, (flags, gates) = request.param
    settings = Settings(
        version=VERSION,
        controllers=False,
        kwok=False,
        flags={"kube-apiserver": flags},
        feature_gates=gates,
    )
    with ControlPlane(settings) as plane:
        yield name, plane


class Told(Instrumentation):
    """What an informer says about its lists."""

    def __init__(self, *, streams: bool) -> None:
        #: Whether the first list comes by a stream.
        self.streams = streams
        self.problems: list[str] = []
        self.codes: list[str] = []

    def request_ended(self, verb: str, resource: str, code: str, seconds: float) -> None:
        if verb == "list":
            self.codes.append(code)

    def interrupted(self, resource: str, problem: str) -> None:
        self.problems.append(problem)


async def followed(plane: ControlPlane, told: Told, compactions: int) -> dict[str, str]:
    """Return the pods that an informer knows in the end: while it lists, they change.

    Args:
        plane: The API server.
        told: Gets what the informer reports.
        compactions: How often etcd discards its history after the first part of a list.
    """
    access = cluster_access.load(str(plane.admin_kubeconfig), os.environ, wall=lambda: 0.0)
    pods: dict[str, str] = {}
    left = compactions

    def take(events: list[Event]) -> None:
        nonlocal left
        for event in events:
            if isinstance(event, PodObserved):
                pods[event.pod.metadata.name] = event.pod.metadata.uid
            elif isinstance(event, PodGone):
                del pods[event.key.rpartition("/")[2]]
        if left and len(pods) < COUNT:
            left -= 1
            plane.api.delete(f"{PATH}/p{left:02}", {"gracePeriodSeconds": 0})
            plane.api.post(PATH, pod(f"p{left:02}", "1"))
            plane.compact_etcd()

    async with HttpTransport(access, "test") as transport:
        sleeper = Sleeper(jitter=lambda: 0.0, sleep=lambda _: asyncio.sleep(0.01))
        informer = Informer(
            PODS, Client(transport, told), take, sleeper, InformerSettings(page_objects=7)
        )
        informer._lister._streams = told.streams
        running = asyncio.create_task(informer.run())
        async with asyncio.timeout(60):
            await informer.synced.wait()
            there = await asyncio.to_thread(uids, plane)
            while pods != there:
                assert not running.done(), running.exception()
                await asyncio.sleep(0.05)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return pods


def uids(plane: ControlPlane) -> dict[str, str]:
    found = plane.api.items(PATH)
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in found}


async def test_a_list_is_complete_although_history_is_discarded(way):
    name, plane = way
    names = [f"p{number:02}" for number in range(COUNT)]
    plane.api.post_all(PATH, [pod(each, "1") for each in names])
    told = Told(streams=name == "by a stream")

    pods = await followed(plane, told, compactions=3)

    assert sorted(pods) == names
    if name == "by a stream":
        assert (told.codes, told.problems) == (["200"], [])
    else:
        # What is left of the list expires, a stream is refused, and pages begin again.
        assert told.codes[:2] == ["200", "200"]
        assert told.codes[told.codes.index("410") + 1] == "422"
