"""Pauses that an outage of the API server has caused end with it."""

import asyncio

import pytest

from scheduler.kube import recovery
from scheduler.kube.client import Client, Request
from scheduler.kube.connection import Connection
from scheduler.kube.credentials import FixedHeaders
from scheduler.kube.errors import KubeError
from scheduler.kube.informer import Informer
from scheduler.kube.pauses import Pauses
from scheduler.kube.recovery import Recovery
from scheduler.kube.resources import PODS
from scheduler.kube.transport import HttpTransport
from tests.kube.fixtures import View, settle
from tests.support.fake_api import FakeApi, Fault, pod

LIST = Request("list", "nodes", "GET", "/api/v1/nodes")


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "OUTAGE_SECONDS", 0.05)


async def ended(sleeping: asyncio.Task[None]) -> bool:
    await settle()
    return sleeping.done()


async def test_a_pause_ends_with_an_outage():
    server = Recovery()
    server.failed()
    sleeping = asyncio.create_task(server.sleep(60))
    await asyncio.sleep(0.06)

    server.failed()
    assert not await ended(sleeping)
    server.answered()
    assert await ended(sleeping)


async def test_a_pause_has_its_length_without_one():
    server = Recovery()

    async with asyncio.timeout(1):
        await server.sleep(0.01)


async def test_what_fails_beside_others_that_work_is_no_outage():
    server = Recovery()
    sleeping = asyncio.create_task(server.sleep(60))

    for _ in range(30):
        server.failed()
        server.answered()
        await asyncio.sleep(0.002)

    assert not await ended(sleeping)
    sleeping.cancel()


async def test_a_pause_after_an_outage_is_not_ended_by_it():
    server = Recovery()
    server.failed()
    await asyncio.sleep(0.06)
    server.answered()
    sleeping = asyncio.create_task(server.sleep(60))

    server.answered()

    assert not await ended(sleeping)
    sleeping.cancel()


@pytest.mark.parametrize("how", ["call", "post", "stream"])
@pytest.mark.parametrize(
    "fault",
    [Fault("GET", "/nodes", cut=True), Fault("GET", "/nodes", status=503)],
    ids=["cut", "503"],
)
async def test_each_way_of_asking_tells_of_it(api: FakeApi, how: str, fault: Fault):
    server = Recovery()
    async with HttpTransport(Connection(api.url, FixedHeaders()), "test") as transport:
        client = Client(transport, recovery=server)
        await client.call(LIST)
        api.inject(Fault("GET", "/nodes", status=fault.status, cut=fault.cut, times=2))
        with pytest.raises(KubeError):
            await client.call(LIST)
        assert server.failing_since is not None
        server.failing_since -= 60
        sleeping = asyncio.create_task(server.sleep(60))
        await asyncio.sleep(0)

        other = Client(transport, recovery=server)
        if how == "call":
            await other.call(Request("list", "pods", "GET", "/api/v1/pods"))
        elif how == "post":
            await transport.send("GET", "/api/v1/pods", None, "")
            assert other.post(Request("create", "pods", "POST", "/api/v1/x", b"{}"), print)
        else:
            async with other.stream(Request("list", "pods", "GET", "/api/v1/pods"), 5):
                pass

        assert await ended(sleeping)


async def test_an_informer_lists_again_when_anything_else_works(api: FakeApi, view: View):
    server = Recovery()
    async with HttpTransport(Connection(api.url, FixedHeaders()), "test") as transport:
        client = Client(transport, recovery=server)
        pauses = Pauses(jitter=lambda: 0.0, sleep=lambda _: server.sleep(60))
        api.inject(Fault("GET", "/api/v1/pods", status=503))
        informer = Informer(PODS, client, view.take, pauses)
        running = asyncio.create_task(informer.run())
        await asyncio.sleep(0.1)
        assert not informer.synced.is_set()
        api.store.put("pods", pod("a"))

        await client.call(LIST)
        async with asyncio.timeout(1):
            await informer.synced.wait()

        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_stream_that_breaks_tells_of_an_outage(api: FakeApi):
    server = Recovery()
    async with HttpTransport(Connection(api.url, FixedHeaders()), "test") as transport:
        client = Client(transport, recovery=server)
        api.inject(Fault("GET", "/nodes", cut=True))

        with pytest.raises(KubeError):
            async with client.stream(LIST, 5):
                pass

    assert server.failing_since is not None
