"""Which address of a server is connected to."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from scheduler.kube.errors import Unreachable
from scheduler.kube.http import dialing
from scheduler.kube.http.dialing import Dialer, ServerAddress
from tests.support.scripted_api import Server

FIRST, SECOND = "127.0.0.2", "127.0.0.3"


class Named(Dialer):
    """A dialer whose host has these addresses."""

    def __init__(self, port: int, *addresses: str) -> None:
        super().__init__(ServerAddress("api.example", port, None, None))
        self.addresses = addresses
        self.tried: list[str] = []

    async def _resolve(self) -> list[str]:
        return list(self.addresses)

    async def _open(self, address: str) -> Any:
        self.tried.append(address)
        return await super()._open(address)


@pytest.fixture
async def second() -> AsyncIterator[Server]:
    server = Server()
    server.script = [[] for _ in range(9)]
    await server.start(SECOND)
    yield server
    await server.stop()


def port_of(server: Server) -> int:
    return int(server.url.rpartition(":")[2].partition("/")[0])


@pytest.fixture
def hole(second: Server) -> Iterator[None]:
    """Listen at the first address, and never accept: its queue is full, so SYNs are dropped."""
    address = (FIRST, port_of(second))
    with socket.socket() as listening:
        listening.bind(address)
        listening.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(address)
        yield
        for each in waiting:
            each.close()


async def test_a_dead_address_does_not_keep_others_from_being_tried(second, hole, monkeypatch):
    monkeypatch.setattr(dialing, "HEAD_START_SECONDS", 0.02)
    dialer = Named(port_of(second), FIRST, SECOND)

    async with asyncio.timeout(dialing.CONNECT_SECONDS / 2):
        (await dialer.connect()).abort()
    assert dialer.tried == [FIRST, SECOND]
    (await dialer.connect()).abort()
    assert dialer.tried == [FIRST, SECOND, SECOND]


async def test_an_address_that_refuses_is_passed_over_at_once(second, monkeypatch):
    monkeypatch.setattr(dialing, "CONNECT_SECONDS", 120.0)
    monkeypatch.setattr(dialing, "HEAD_START_SECONDS", 30.0)
    dialer = Named(port_of(second), FIRST, SECOND)

    async with asyncio.timeout(10):
        (await dialer.connect()).abort()

    assert dialer.tried == [FIRST, SECOND]


async def test_where_no_address_answers_the_last_problem_is_reported(second):
    port = port_of(second)
    await second.stop()

    with pytest.raises(Unreachable, match=f"cannot connect to api.example:{port}: .*111") as e:
        await Named(port, FIRST, SECOND).connect()

    assert not e.value.sent


async def test_there_is_an_end_to_waiting(second, hole, monkeypatch):
    monkeypatch.setattr(dialing, "CONNECT_SECONDS", 0.05)

    with pytest.raises(Unreachable, match=r"no connection to api\.example"):
        await Named(port_of(second), FIRST, FIRST).connect()


async def test_a_name_that_cannot_be_one_is_no_defect():
    with pytest.raises(Unreachable, match=r"cannot connect to a\.\.b:80"):
        await Dialer(ServerAddress("a..b", 80, None, None)).connect()


async def test_the_kernel_watches_over_idle_connections(second):
    connection = await Dialer(ServerAddress(SECOND, port_of(second), None, None)).connect()

    assert connection._transport is not None
    made = connection._transport.get_extra_info("socket")
    assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 20_000
    connection.abort()
