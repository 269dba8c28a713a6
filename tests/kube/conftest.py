"""Fixtures: an API server in this process, and a client that talks to it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from scheduler.kube.auth.cluster_access import ClusterAccess
from scheduler.kube.auth.credentials import FixedHeaders
from scheduler.kube.client.client import Client, Request
from scheduler.kube.client.transport import HttpTransport
from scheduler.kube.http.http1 import Http1
from scheduler.kube.watch.informer import Informer, InformerSettings
from scheduler.kube.watch.resources import PODS, ApiResource
from scheduler.kube.write.executor import Patience
from scheduler.kube.write.writer import Writer, WriterSettings
from scheduler.model.effects import Effect
from tests.kube.fixtures import NOW, Heard, Outcomes, Start, View, Waits, Write, expired, until
from tests.support.fake_api import FakeApi
from tests.support.scripted_api import Server


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    server = FakeApi()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
async def client(api: FakeApi, heard: Heard) -> AsyncIterator[Client]:
    async with HttpTransport(ClusterAccess(api.url, FixedHeaders()), "test") as transport:
        yield Client(transport, heard)


@pytest.fixture
def view() -> View:
    return View()


@pytest.fixture
async def start(client: Client, view: View, waits: Waits) -> AsyncIterator[Start]:
    """Start informers, and wait until they have listed everything."""
    tasks = []

    async def begin(
        resource: ApiResource[Any] = PODS, *, synced: bool = True, **settings: Any
    ) -> Informer[Any]:
        informer = Informer(
            resource, client, view.take, waits.sleeper, InformerSettings(**settings)
        )
        tasks.append(asyncio.create_task(informer.run()))
        if synced:
            async with asyncio.timeout(10):
                await informer.synced.wait()
        return informer

    yield begin
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(result, asyncio.CancelledError), result


@pytest.fixture
def outcomes() -> Outcomes:
    return Outcomes()


@pytest.fixture(params=["cold", "warm"])
async def writing_client(
    request: pytest.FixtureRequest, client: Client, api: FakeApi, heard: Heard
) -> Client:
    """Give a client without connections, and one over which a first write goes without a task."""
    if request.param == "warm":
        await client.call(Request("list", "nodes", "GET", "/api/v1/nodes"))
        api.requests.clear()
        heard.requests.clear()
    return client


@pytest.fixture
async def write(writing_client: Client, outcomes: Outcomes, waits: Waits) -> AsyncIterator[Write]:
    """Have one effect executed, and return the writer when its outcome is known."""
    writers = []

    async def execute(
        effect: Effect, *, patience: float = 1.0, leads: Callable[[], bool] = lambda: True
    ) -> Writer:
        writer = Writer(
            writing_client,
            outcomes.append,
            leads,
            lambda: NOW,
            waits.sleeper,
            WriterSettings(patience=Patience(seconds=patience, uncertain_seconds=0.05)),
        )
        writers.append(writer)
        told = len(outcomes)
        writer.submit(effect)
        await until(lambda: len(outcomes) > told)
        return writer

    yield execute
    for writer in writers:
        await writer.drain(0)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def http(server: Server) -> AsyncIterator[Http1]:
    made = Http1(server.url, None, None, {"User-Agent": "test"})
    yield made
    await made.close()


@pytest.fixture(params=["in pages", "by a stream"])
def ways(request: pytest.FixtureRequest, api: FakeApi) -> None:
    """Have the first list come in either way."""
    if request.param == "by a stream":
        api.inject(expired("limit="))
