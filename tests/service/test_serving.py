"""Health checks of the parts and of a whole process."""

import asyncio
import contextlib
import json
import signal
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import yaml
from prometheus_client import CollectorRegistry

from scheduler.config import load
from scheduler.core.machine import Machine
from scheduler.kube.watch.informer import WatchHealth
from scheduler.model.policies import PolicyState
from scheduler.observe.api.history import History
from scheduler.observe.metrics.metrics import Metrics
from scheduler.observe.pages.health import Check
from scheduler.plugins import registry
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.service.options import ProcessOptions
from scheduler.service.recording import copied
from scheduler.service.serving import Serving
from tests.support.fake_api import FakeApi

SETTINGS = load.defaults()


class Clock:
    """Time that a test moves on."""

    time = 1000.0

    def now(self) -> float:
        return self.time


class Part:
    """Something that lists a resource."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.state = self.said()

    def said(self, problem: str = "", *, synced: bool = True) -> WatchHealth:
        return WatchHealth(self._name, synced, 0.0, problem, undecodable=0, objects=0)

    def health(self) -> WatchHealth:
        return self.state

    def states(self) -> list[PolicyState]:
        return []


class World:
    """Pages of a process with parts that a test sets."""

    def __init__(self, lease: object | None = None) -> None:
        self.clock = Clock()
        self.pods = Part("pods")
        self.stopping = asyncio.Event()
        machine = Machine(registry.profiles(SETTINGS), PodBackoff(1.0, 10.0))
        self.serving = Serving(
            options=ProcessOptions(settings=SETTINGS),
            clock=self.clock,
            machine=machine,
            history=History(machine, 1000.0),
            metrics=Metrics(CollectorRegistry()),
            elector=lease,
            informers=[self.pods],
            policies=Part("preemptionpolicies"),
            copied=lambda: copied(machine, self.clock.perf),
            stopping=self.stopping,
        )

    def readiness(self) -> dict[str, str | None]:
        return results(self.serving.pages.readyz)


def results(checks: dict[str, Check]) -> dict[str, str | None]:
    return {name: check() for name, check in checks.items()}


def test_a_replica_that_has_listed_everything_is_ready():
    assert World().readiness() == {
        "shutdown": None,
        "sched-handler-sync": None,
        "informer-sync": None,
        "api-server": None,
    }


def test_what_is_not_synced_is_reported_under_both_names():
    world = World()
    world.pods.state = world.pods.said("no right", synced=False)

    ready = world.readiness()

    assert ready["informer-sync"] == "not synced: pods (no right)"
    assert ready["sched-handler-sync"] == "handlers are not fully synchronized"
    assert ready["api-server"] is None


def test_an_api_server_that_cannot_be_reached_is_reported():
    world = World()
    world.pods.state = world.pods.said("no answer")

    assert world.readiness()["api-server"] == "no answer"
    assert world.readiness()["informer-sync"] is None


def test_a_loop_that_does_not_run_for_minutes_is_not_alive():
    world = World()
    pages = world.serving.pages

    world.clock.time += 299.0
    assert results(pages.livez) == results(pages.healthz) == {"loop": None}
    world.clock.time += 13.0

    want = {"loop": "the scheduling loop has not run for 312 s"}
    assert results(pages.livez) == results(pages.healthz) == want


def test_a_leader_that_cannot_renew_is_reported_as_by_kube_scheduler():
    world = World(lease=object())
    pages = world.serving.pages

    world.clock.time += 36.0
    standing_by = (pages.healthz["leaderElection"](), pages.readyz["leaderElection"]())
    world.serving.leads = True
    leading = (pages.healthz["leaderElection"](), pages.readyz["leaderElection"]())
    world.serving.pulse.beat()

    problem = "failed election to renew leadership on lease preemptive-scheduler"
    assert standing_by == (None, None)
    assert leading == (problem, problem)
    assert pages.healthz["leaderElection"]() is None


class Process:
    """`run` in a process of its own, against an API server of the test."""

    def __init__(self, kubeconfig: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._kubeconfig = kubeconfig
        self.log = kubeconfig.with_name("log")
        self._process: asyncio.subprocess.Process | None = None
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusting.check_hostname = False
        trusting.verify_mode = ssl.CERT_NONE
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting))

    async def start(self) -> None:
        with self.log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "scheduler.cli.main", "run",
                "--kubeconfig", self._kubeconfig, "--bind-address", "127.0.0.1",
                "--secure-port", str(self.port), "-v", "2", stderr=log,
            )  # fmt: skip

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        url = f"https://127.0.0.1:{self.port}{path}"
        async with self._session.get(url, headers=headers) as response:
            return response.status, await response.text()

    async def serves(self) -> None:
        """Return when it serves and its loop runs."""
        async with asyncio.timeout(40):
            while True:
                with contextlib.suppress(aiohttp.ClientError):
                    if (await self.get("/configz"))[0] == 200:
                        return
                await asyncio.sleep(0.1)

    async def stop(self) -> int:
        await self._session.close()
        assert self._process is not None
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            return await self._process.wait()


@pytest.fixture
async def process(tmp_path: Path) -> AsyncIterator[Process]:
    api = FakeApi()
    await api.start()
    kubeconfig = tmp_path / "kubeconfig"
    content = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "us"}}],
        "clusters": [{"name": "here", "cluster": {"server": api.url}}],
        "users": [{"name": "us", "user": {"token": "secret"}}],
    }
    kubeconfig.write_text(yaml.safe_dump(content))
    process = Process(kubeconfig)
    await process.start()
    yield process
    assert await process.stop() == 0
    await api.stop()


async def test_a_process_serves_its_pages_and_the_checks_of_kube_scheduler(process):
    await process.serves()

    for path in (
        "/livez", "/livez/ping", "/livez/loop", "/healthz", "/healthz/leaderElection",
        "/healthz/loop", "/readyz/leaderElection", "/readyz/shutdown",
    ):  # fmt: skip
        assert await process.get(path) == (200, "ok"), path
    # That server does not know all resources, so they are never synced.
    status, text = await process.get("/readyz/sched-handler-sync")
    assert (status, "handlers are not fully synchronized" in text) == (500, True)
    status, text = await process.get("/readyz/informer-sync")
    assert (status, "services" in text) == (500, True)
    for path in ("/metrics", "/debug/queue", "/debug/nodes", "/debug/snapshot"):
        assert (await process.get(path))[0] == 200, path
    _, flags = await process.get("/flagz")
    assert f"secure-port={process.port}\n" in flags
    accept = "application/json;g=config.k8s.io;v=v1beta1;as=Statusz"
    _, told = await process.get("/statusz", Accept=accept)
    assert json.loads(told)["paths"] == [
        "/api", "/configz", "/debug", "/flagz", "/healthz", "/livez", "/metrics", "/readyz",
    ]  # fmt: skip
