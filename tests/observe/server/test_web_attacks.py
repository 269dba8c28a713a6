"""Attacks by clients without any right, against a server in a process of its own.

A probe is what a kubelet sends: a new connection, TLS, one request, an answer within a second.
"""

import asyncio
import contextlib
import itertools
import resource
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
#: One that sends probes and one that attacks may have one address, or two.
PROBER, OTHER = "127.0.0.1", "127.0.0.2"

TRUSTING = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
TRUSTING.check_hostname = False
TRUSTING.verify_mode = ssl.CERT_NONE


class Server:
    """A server in a process of its own."""

    def __init__(self, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.web_server", *arguments],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    async def get(self, path: str, seconds: float = 1.0) -> bytes:
        """Return the body of a page; everything has to be done within so many seconds."""
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(PROBER, self.port, ssl=TRUSTING)
            try:
                writer.write(
                    f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
                )
                head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            finally:
                writer.transport.abort()
        if not head:
            raise ConnectionResetError("closed without an answer")
        assert b" 200 " in head.partition(b"\r\n")[0], head
        return body

    def stop(self) -> str:
        """End the process, and return what it has logged."""
        _, log = self._process.communicate(timeout=20)
        return log


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def start(*arguments: str) -> Server:
        servers.append(Server(*arguments))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def descriptors() -> Iterator[None]:
    """Let the test itself have enough of them."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, before[1]), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def probe(server: Server) -> bytes:
    """Probe, and once more if no answer came in time: a kubelet acts after three such probes."""
    try:
        return await server.get("/livez")
    except TimeoutError:
        return await server.get("/livez")


async def probes(server: Server, control: Server, count: int) -> list[str]:
    """Probe some times in a row; return what went wrong.

    A server that is not attacked is probed at the same moments: where that is late, too, the
    machine was, and the probe does not count.
    """
    problems, counted = [], 0
    for _ in range(3 * count):
        await asyncio.sleep(0.1)
        answer, other = await asyncio.gather(
            probe(server), control.get("/livez"), return_exceptions=True
        )
        if not isinstance(other, TimeoutError):
            assert other == b"ok"
            counted += 1
            if answer != b"ok":
                problems.append(repr(answer))
            if counted == count:
                return problems
    raise TimeoutError("the machine is too slow")


async def again_and_again(
    attack: Callable[[], Awaitable[None]], clients: int
) -> AsyncIterator[None]:
    """Have many clients attack, each again when its attack has ended."""

    async def client() -> None:
        while True:
            try:
                await attack()
            except (OSError, TimeoutError):
                await asyncio.sleep(0.01)

    attacking = [asyncio.create_task(client()) for _ in range(clients)]
    yield
    for task in attacking:
        task.cancel()
    await asyncio.gather(*attacking, return_exceptions=True)


@pytest.mark.parametrize("address", [PROBER, OTHER], ids=["one address", "another address"])
async def test_silent_connections_that_are_opened_again_keep_no_probe_out(
    serve, descriptors, address
):
    server, control = serve(), serve()

    async def silent() -> None:
        reader, writer = await asyncio.open_connection(
            PROBER, server.port, ssl=TRUSTING, local_addr=(address, 0)
        )
        try:
            await reader.read()
        finally:
            writer.transport.abort()

    async for _ in again_and_again(silent, 130):
        await asyncio.sleep(1.0)
        problems = await probes(server, control, 10)

    assert problems == []


async def test_too_many_silent_connections_do_not_block_probes_of_another_address(
    serve, descriptors
):
    server, control = serve("1024"), serve()  # so that it keeps 256 connections
    addresses = itertools.cycle([f"127.0.0.{last}" for last in range(2, 10)])

    async def silent() -> None:
        reader, writer = await asyncio.open_connection(
            PROBER, server.port, local_addr=(next(addresses), 0)
        )
        try:
            await reader.read()
        finally:
            writer.transport.abort()
        await asyncio.sleep(0.5)  # the probes run in this process, too, and need some of its time

    async for _ in again_and_again(silent, 400):
        await asyncio.sleep(1.0)
        problems = await probes(server, control, 10)

    assert problems == []


async def test_connections_without_a_handshake_do_not_use_up_the_descriptors(serve, descriptors):
    server, control = serve("256"), serve()
    held = []
    for i in range(1500):
        sock = socket.create_connection((PROBER, server.port), source_address=(OTHER, 0))
        held.append(sock)
        if i % 100 == 0:
            await asyncio.sleep(0)

    problems = await probes(server, control, 4)
    left = int(await server.get("/debug/open?count=150"))
    for sock in held:
        sock.close()

    assert problems == []
    assert left == 150


async def test_probes_are_answered_while_the_schedulers_loop_is_busy_for_seconds(serve):
    server, control = serve(), serve()
    holding = asyncio.create_task(server.get("/debug/hold?seconds=2", seconds=60))

    await asyncio.sleep(0.5)
    problems, answered = [], -1
    while not holding.done():
        problems += await probes(server, control, 1)
        answered += 1  # the last one may have been answered after the end

    assert problems == []
    assert answered >= 3
    assert await holding == b"held up\n"


async def test_a_head_that_is_long_is_not_kept_and_requests_that_wait_are_served(serve):
    server = serve()
    reader, writer = await asyncio.open_connection(PROBER, server.port, ssl=TRUSTING)
    for _ in range(9):
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nA: %s\r\n\r\n" % (b"x" * 8000))
        async with asyncio.timeout(20):
            assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(2)

    writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n" + b"A: %s\r\n" % (b"x" * 8000) * 9)

    async with asyncio.timeout(20):
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
    writer.transport.abort()
    assert await server.get("/livez", 20.0) == b"ok"
