"""The CA of client certificates is read from the cluster, again and again."""

import asyncio
import json
from dataclasses import dataclass, field

import pytest

from scheduler.kube.client.backoff import Sleeper
from scheduler.kube.client.client import Client
from scheduler.kube.client.transport import Reply
from scheduler.kube.client_ca import PATH, ClientCaReader

MISSING = Reply(404, {}, b'{"kind":"Status","reason":"NotFound","message":"not found"}')
FORBIDDEN = Reply(403, {}, b'{"kind":"Status","reason":"Forbidden","message":"no right"}')


def published(pem: str) -> Reply:
    return Reply(200, {}, json.dumps({"data": {"client-ca-file": pem}}).encode())


@dataclass
class Server:
    """An API server with scripted answers."""

    answers: list[Reply]
    asked: list[tuple[str, str]] = field(default_factory=list)

    async def send(self, method: str, path: str, body: bytes | None, content_type: str) -> Reply:
        self.asked.append((method, path))
        return self.answers.pop(0)


@dataclass
class World:
    """A reader, what it has found, and what it has reported."""

    server: Server
    found: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def take(self, pem: str) -> None:
        if pem == "broken":
            raise ValueError("this is no certificate")
        self.found.append(pem)

    def reader(self) -> ClientCaReader:
        async def paused(_: float) -> None:
            if not self.server.answers:
                await asyncio.Event().wait()

        client = Client(self.server)  # type: ignore[arg-type]
        return ClientCaReader(client, self.take, self.problems.append, Sleeper(lambda: 0.0, paused))


async def read(*answers: Reply) -> World:
    world = World(Server(list(answers)))
    reader = world.reader()
    for _ in answers:
        await reader.read()
    return world


async def test_the_ca_is_read_where_the_api_server_publishes_it():
    world = await read(published("PEM"))

    assert world.server.asked == [("GET", PATH)]
    assert (world.found, world.problems) == (["PEM"], [])


async def test_it_is_read_again():
    world = World(Server([published("old"), published("new")]))

    running = asyncio.create_task(world.reader().run())
    async with asyncio.timeout(5):
        while len(world.found) < 2:
            await asyncio.sleep(0)
    running.cancel()

    assert world.found == ["old", "new"]


@pytest.mark.parametrize(
    "answer",
    [FORBIDDEN, Reply(500, {}, b"{}"), Reply(200, {}, b"nonsense"), published("broken")],
    ids=["no right", "error", "no object", "no certificate"],
)
async def test_a_failure_is_reported_once_and_keeps_what_was_read(answer):
    world = await read(published("PEM"), answer, answer, published("PEM"), answer)

    assert world.found == ["PEM", "PEM"]
    assert len(world.problems) == 2


async def test_a_cluster_without_one_has_no_client_certificates():
    world = await read(published("PEM"), MISSING, MISSING)

    assert world.found == ["PEM", "", ""]
    assert len(world.problems) == 1


async def test_an_object_without_the_key_means_that_there_is_none():
    world = await read(Reply(200, {}, b'{"data":{}}'))

    assert (world.found, world.problems) == ([""], [])
