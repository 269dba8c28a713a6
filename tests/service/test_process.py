"""The process as a whole: what signals, defects and a wrong clock do to it."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.kube.watch.resources import RESOURCES
from scheduler.service.clock import Clock
from tests.support import fake_store
from tests.support.fake_api import FakeApi, Fault, node, pod

ROOT = Path(__file__).parents[2]
LEASE = "kube-system/preemptive-scheduler"

#: The line of a watch whose version is below that of every list.
OLD = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1"}}}\n'

#: Sends a signal when the imports of `run` begin.
EARLY = """
import os, signal, sys

class Finder:
    def find_spec(self, name, *_):
        if name == "scheduler.service.process":
            os.kill(os.getpid(), signal.SIGTERM)

sys.meta_path.insert(0, Finder())
from scheduler.cli import main
sys.exit(main.main(sys.argv[1:]))
"""

#: Runs the command with a machine that fails at the outcome of a binding.
DEFECTIVE = """
import sys
from scheduler.cli import main
from scheduler.core.machine import Machine

observe = Machine.observe

def failing(self, event, now):
    if type(event).__name__ == "EffectDone":
        raise ArithmeticError("a defect")
    return observe(self, event, now)

Machine.observe = failing
sys.exit(main.main(sys.argv[1:]))
"""


class Process:
    """A scheduler in a process of its own, and what it has logged."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.log = ""

    async def logs(self, what: str) -> None:
        """Wait until something is logged."""
        assert self._process.stderr is not None
        async with asyncio.timeout(30):
            while what not in self.log:
                line = await self._process.stderr.readline()
                assert line, self.log
                self.log += line.decode()

    def signal(self, number: int = signal.SIGTERM) -> None:
        self._process.send_signal(number)

    async def ends(self, seconds: float = 30.0) -> int:
        """Return the exit code."""
        assert self._process.stderr is not None
        async with asyncio.timeout(seconds):
            self.log += (await self._process.stderr.read()).decode()
            return await self._process.wait()

    def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()


@pytest.fixture
async def api(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeApi]:
    for each in RESOURCES:
        if each.name not in fake_store.LISTS:
            path = each.path.removeprefix("/apis/").removeprefix("/api/")
            version = path.rpartition("/")[0]
            monkeypatch.setitem(fake_store.LISTS, each.name, (version, each.type.__name__))
    server = FakeApi()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def start(api: FakeApi, tmp_path: Path) -> AsyncIterator[Any]:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "current-context": "here",
                "contexts": [{"name": "here", "context": {"cluster": "here", "user": "us"}}],
                "clusters": [{"name": "here", "cluster": {"server": api.url}}],
                "users": [{"name": "us", "user": {"token": "secret"}}],
            }
        )
    )
    started = []

    async def begin(
        *program: str, elect: bool = False, flags: Sequence[str] = (), **environment: str
    ) -> Process:
        process = Process(
            await asyncio.create_subprocess_exec(
                sys.executable, *program, "run", "--kubeconfig", str(kubeconfig),
                f"--leader-elect={elect}", "--leader-elect-resource-namespace=kube-system",
                "--secure-port=0", "-v=4", *flags,
                cwd=ROOT, env={**os.environ, **environment}, stderr=asyncio.subprocess.PIPE,
            )
        )  # fmt: skip
        started.append(process)
        return process

    yield begin
    for each in started:
        each.kill()
        await each.ends()


async def test_a_signal_during_the_start_ends_the_process(start):
    process = await start("-c", EARLY)

    assert await process.ends() == 0


async def test_a_second_signal_does_not_wait_for_a_server_that_hangs(api, start):
    process = await start("-m", "tests.support.skewed", "3600", elect=True, HTTP_PROXY="http://p")
    await process.logs("became_leader")
    renewed = api.store.get("leases", LEASE)["spec"]["renewTime"]
    api.inject(Fault("GET", "/leases/", times=99, hang=True))
    api.inject(Fault("PUT", "/leases/", times=99, hang=True))

    process.signal()
    await process.logs('"stopping"')
    process.signal()

    assert await process.ends(4) == 1
    assert "stopped_at_once" in process.log
    assert "proxy_not_used" in process.log
    ahead = datetime.fromisoformat(renewed) - datetime.fromtimestamp(Clock().wall(), UTC)
    assert 3500 < ahead.total_seconds() <= 3600


async def test_a_defect_ends_the_process_and_nothing_more_is_written(api, start):
    api.store.put("nodes", node("n1"))
    api.store.put("pods", pod("a"))

    process = await start("-c", DEFECTIVE)

    assert await process.ends() == 1
    assert '"defect"' in process.log
    assert "ArithmeticError: a defect" in process.log
    assert "pods/binding" in [each.resource for each in api.requests]
    assert api.store.get("pods", "default/a")["spec"]["nodeName"] == "n1"


async def test_an_etcd_that_is_restored_again_while_everything_is_listed_is_listed_again(
    api, start
):
    seen: set[object] = set()

    async def restored() -> None:
        """Have the next watch of nodes, and no other one, show that etcd was restored."""
        async with asyncio.timeout(30):
            while not (
                queues := {queue for queue, (kind, _) in api._watches.items() if kind == "nodes"}
                - seen
            ):
                await asyncio.sleep(0.01)
        seen.update(queues)
        for queue in queues:
            queue.put_nowait(OLD)

    process = await start("-m", "scheduler.cli.main")
    await process.logs("caches_synced")
    before = api.lists("namespaces")
    api.inject(Fault("GET", r"/pods\?limit=", times=3, status=503))  # takes some seconds

    await restored()
    await restored()

    async with asyncio.timeout(10):
        while api.lists("namespaces") < before + 2:
            await asyncio.sleep(0.01)


async def test_the_release_of_the_api_server_is_followed(api, start):
    api.version = ("1", "37")

    process = await start("-m", "scheduler.cli.main")
    await process.logs("caches_synced")

    assert '"decides_as":"kube-scheduler v1.37.2"' in process.log.replace('": "', '":"')


async def test_a_process_that_finds_another_release_late_restarts_with_it(api, start):
    api.version = None
    api.inject(Fault("GET", "/api/v1/nodes", times=99, status=500))
    process = await start("-m", "scheduler.cli.main")
    await process.logs("server_version_unknown")

    api.version = ("1", "37")
    api.clear_faults()

    await process.logs("caches_synced")
    before, after = process.log.split("api_server_of_other_release")
    assert "v1.36.3" in before
    assert "v1.37.2" in after
    assert "became_leader" not in before
