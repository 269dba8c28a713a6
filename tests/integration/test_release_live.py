"""Two API servers of different releases behind one address, as during an upgrade."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.tools.controlplane import binaries, bootstrap
from deploy.tools.controlplane.api import ApiClient, ApiError
from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.controlplane.components import Settings, arguments
from scheduler.kube import server_version
from scheduler.kube.auth import cluster_access
from scheduler.kube.auth.cluster_access import ClusterAccess
from scheduler.kube.client.backoff import Sleeper
from scheduler.kube.client.client import Client
from scheduler.kube.client.transport import HttpTransport
from scheduler.kube.server_version import ServerVersion
from scheduler.kube.watch import informer as informer_module
from scheduler.kube.watch.informer import Informer
from scheduler.kube.watch.resources import DEVICES
from scheduler.model.events import Event
from scheduler.model.releases import V1_36, Reference
from scheduler.service.release_watch import ReleaseWatch
from tests.service.test_release_finder import Log
from tests.support.alternating import Alternating
from tests.support.control_plane import VERSION

pytestmark = [
    pytest.mark.xdist_group(__name__),
    pytest.mark.cluster,
    pytest.mark.timeout(180),
    pytest.mark.needs_server(
        "1.37", "the older server of this test is a v1.37 that emulates v1.36"
    ),
]

(TAINT_RULES,) = (each for each in DEVICES if each.name == "devicetaintrules")


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(Settings(version=VERSION, controllers=False, kwok=False)) as made:
        yield made


@pytest.fixture(scope="module")
def old(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> int:
    """The port of a second API server on the same etcd, which behaves as v1.36."""
    port = bootstrap.new_places(plane.folder).apiserver_port
    emulating = replace(plane.settings, flags={"kube-apiserver": {"emulated-version": "1.36"}})
    argv: list[str | Path] = [binaries.find("kube-apiserver", VERSION)]
    argv += arguments("kube-apiserver", emulating, replace(plane._places, apiserver_port=port))
    plane.run("emulating", argv)
    kubeconfig = tmp_path_factory.mktemp("old") / "kubeconfig"
    new = plane._places.apiserver_port
    kubeconfig.write_text(plane.admin_kubeconfig.read_text().replace(str(new), str(port)))
    with ApiClient.from_kubeconfig(kubeconfig) as api:
        until_ready(plane, api)
    return port


def until_ready(plane: ControlPlane, api: ApiClient) -> None:
    while True:
        assert plane.exit_code("emulating") is None, plane.log("emulating").read_text()[-2000:]
        try:
            api.request("GET", "/readyz")
        except (ApiError, OSError):
            continue
        return


@pytest.fixture
async def balancer(plane: ControlPlane, old: int) -> AsyncIterator[Alternating]:
    """Has connections go to both servers in turns."""
    async with Alternating(old, plane._places.apiserver_port) as made:
        yield made


@pytest.fixture
def access(plane: ControlPlane, balancer: Alternating) -> ClusterAccess:
    found = cluster_access.load(str(plane.admin_kubeconfig), os.environ, wall=lambda: 0.0)
    return replace(found, server=f"https://127.0.0.1:{balancer.port}")


async def test_the_release_changes_when_no_older_server_answers(plane, balancer, access):
    now = 0.0
    restarts: list[Reference] = []

    async def read() -> ServerVersion:
        async with HttpTransport(access, "test") as transport:
            return await server_version.read(Client(transport))

    watch = ReleaseWatch(
        used=V1_36,
        read=read,
        sleeper=Sleeper(lambda: 0.0),
        elapsed=lambda: now,
        log=Log(),
        leads=lambda: False,
        restart=restarts.append,
    )
    for _ in range(30):
        await watch.look()
        now += 60.0
    assert (watch.agreement.differs, restarts) == (True, [])

    balancer.ports = balancer.ports[1:]
    while not restarts:
        await watch.look()
        now += 60.0
    assert (now, restarts[0].name) == ((30 + 10 + 1) * 60.0, "v1.37")


async def test_rules_of_which_only_the_newer_server_knows_are_kept(
    plane, balancer, access, monkeypatch
):
    rule = {"metadata": {"name": "kept"}, "spec": {"taint": {"key": "k", "effect": "NoSchedule"}}}
    plane.api.post(TAINT_RULES.path, rule)
    monkeypatch.setattr(informer_module, "ABSENT_AGREED_SECONDS", 3.0)
    events: list[Event] = []
    async with HttpTransport(access, "test") as transport:
        sleeper = Sleeper(lambda: 0.0, lambda _: asyncio.sleep(0.05))
        informer = Informer(TAINT_RULES, Client(transport), events.extend, sleeper)
        running = asyncio.create_task(informer.run())
        async with asyncio.timeout(60):
            await informer.synced.wait()
            absent = 0
            while absent < 20 or not events:
                await balancer.cut()  # the next request goes to the other server
                await asyncio.sleep(0.05)
                absent += informer._absences > 0
            assert len(events) == 1

            balancer.ports = balancer.ports[:1]
            await balancer.cut()
            while len(events) < 2:
                await asyncio.sleep(0.05)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert len(events) == 2
