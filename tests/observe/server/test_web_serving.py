import asyncio
import dataclasses
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
import structlog
from structlog.testing import CapturingLogger

from scheduler.observe.server.listen import Limits, Listen
from scheduler.observe.server.rates import RateLimit
from scheduler.observe.server.web import Web
from scheduler.service.clock import Clock
from tests.support.live import free_port


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"X-Long: " + b"x" * 10_000, id="one long header"),
        pytest.param(b"\r\n".join(b"X-%d: x" % i for i in range(1_000)), id="many headers"),
    ],
)
async def test_too_large_heads_are_refused_and_the_next_request_is_served(serve, head):
    served = await serve()

    answer = await served.raw(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n\r\n")

    assert answer.startswith(b"HTTP/1.0 400")
    assert await served.get("/healthz") == (200, "ok")


@pytest.mark.parametrize("begun", [b"", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Sl"])
async def test_a_client_that_never_ends_a_request_is_disconnected(serve, begun):
    served = await serve(listen=Listen(plain=True, idle_seconds=0.2))

    assert await served.raw(begun) == b""


async def test_a_new_connection_is_served_and_the_one_idle_longest_is_closed(serve):
    served = await serve(listen=Listen(plain=True, limits=Limits(connections=20)))
    held = [await asyncio.open_connection("127.0.0.1", served.web.port) for _ in range(15)]

    newcomer = await served.get("/livez")
    first = await held[0][0].read()
    for _, writer in held[1:]:
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    others = [await reader.read() for reader, _ in held[1:]]
    for _, writer in held:
        writer.close()

    assert newcomer == (200, "ok")
    assert first == b""
    assert all(answer.endswith(b"ok") for answer in others)


async def test_connections_without_a_handshake_are_counted_and_end_soon(serve):
    limits = Limits(connections=20, handshake_seconds=0.3)
    served = await serve(listen=Listen(limits=limits))
    silent, most = [], 0
    for _ in range(40):
        silent.append(await asyncio.open_connection("127.0.0.1", served.web.port))
        most = max(most, served.web.connections)

    async with asyncio.timeout(5):
        ended = [await reader.read() for reader, _ in silent]
    for _, writer in silent:
        writer.close()

    assert ended == [b""] * 40
    assert most <= 20
    assert served.web.connections == 0


async def half_read(serve, limits):
    """Return a server of which a slow page is being read, and what reads the page to its end."""
    goes_on = asyncio.Event()

    async def slow(query: Mapping[str, str]) -> AsyncIterator[bytes]:
        yield b"[1,"
        await goes_on.wait()
        yield b"2]"

    served = await serve(
        listen=Listen(plain=True, limits=limits),
        pages=dataclasses.replace(serve.pages, debug={"/debug/x": slow}),
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", served.web.port)
    writer.write(b"GET /debug/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    await reader.readuntil(b"[1,")

    async def rest() -> bytes:
        goes_on.set()
        try:
            return await reader.read()
        finally:
            writer.close()

    return served, rest


async def test_an_admitted_reader_keeps_its_connection(serve):
    served, rest = await half_read(serve, Limits(connections=20))

    others = [await asyncio.open_connection("127.0.0.1", served.web.port) for _ in range(40)]
    assert await served.get("/livez") == (200, "ok")
    end = await rest()
    for _, each in others:
        each.close()

    assert b"2]" in end


async def test_more_pages_than_may_be_read_at_a_time_are_refused_and_health_is_not(serve):
    served, rest = await half_read(serve, Limits(pages=1))

    crowded, _ = await served.get("/configz")
    health = await served.get("/livez")
    await rest()
    afterwards, _ = await served.get("/configz")

    assert (crowded, health, afterwards) == (503, (200, "ok"), 200)


async def test_requests_of_one_peer_that_are_too_many_wait(serve):
    limits = Limits(peer_requests=RateLimit(per_second=0.001, burst=3))
    served = await serve(listen=Listen(plain=True, limits=limits))

    answers = [await served.get("/livez") for _ in range(3)]

    assert answers == [(200, "ok")] * 3
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await served.get("/livez")


async def test_handshakes_of_one_peer_that_are_too_many_wait(serve):
    limits = Limits(peer_handshakes=RateLimit(per_second=0.001, burst=3), handshake_seconds=1.0)
    served = await serve(listen=Listen(limits=limits))

    certificates = {await served.certificate() for _ in range(3)}

    assert len(certificates) == 1
    with pytest.raises(ConnectionError):
        await served.certificate()


async def test_a_page_waits_for_the_schedulers_loop_and_is_refused_where_that_takes_too_long(serve):
    served = await serve(listen=Listen(plain=True, review_seconds=0.2))
    answers: list[bytes] = []

    def ask() -> None:
        with socket.create_connection(("127.0.0.1", served.web.port)) as sock:
            sock.sendall(b"GET /configz HTTP/1.0\r\n\r\n")
            while part := sock.recv(10_000):
                answers.append(part)

    asking = threading.Thread(target=ask)
    asking.start()
    hold_up(asking.is_alive)
    await asyncio.to_thread(asking.join)

    assert b"".join(answers).startswith(b"HTTP/1.0 503")


def hold_up(wanted: Callable[[], bool]) -> None:
    """Keep the loop that calls busy while this is wanted, 30 seconds at most; it never waits."""
    clock = Clock()
    end = clock.perf() + 30.0
    while wanted() and clock.perf() < end:
        sum(range(1000))


async def test_a_renewed_certificate_is_served_without_a_restart(serve, tmp_path, write_pair):
    cert_file, key_file = write_pair(tmp_path, "first")
    served = await serve(
        listen=Listen(cert_file=cert_file, key_file=key_file, refresh_seconds=0.02)
    )

    first = await served.certificate()
    write_pair(tmp_path, "second")
    async with asyncio.timeout(5):
        while not serve.events:
            await served.certificate()
    second = await served.certificate()

    assert b"first" in first
    assert b"second" in second
    assert serve.events == [("info", "certificate_reloaded", "")]


async def test_a_broken_certificate_is_reported_and_not_used(serve, tmp_path, write_pair):
    cert_file, key_file = write_pair(tmp_path, "first")
    served = await serve(
        listen=Listen(cert_file=cert_file, key_file=key_file, refresh_seconds=0.02)
    )

    Path(cert_file).write_text("half")
    async with asyncio.timeout(5):
        while not serve.events:
            current = await served.certificate()

    assert b"first" in current
    level, event, problem = serve.events[0]
    assert (level, event) == ("warning", "certificate_not_reloaded")
    assert "PEM" in problem


async def test_answers_are_not_cached_and_do_not_contain_versions(serve):
    served = await serve()

    headers = await served.headers("/healthz")

    assert headers["Server"] == "preemptive-scheduler"
    assert headers["Cache-Control"] == "no-cache, private"
    assert headers["X-Content-Type-Options"] == "nosniff"


async def test_a_page_that_breaks_is_an_error_and_the_next_is_served(serve, caplog):
    def broken(query: Mapping[str, str]) -> object:
        raise RuntimeError("a defect")

    served = await serve(pages=dataclasses.replace(serve.pages, debug={"/debug/x": broken}))

    status, text = await served.get("/debug/x")

    assert status == 500
    assert "a defect" not in text
    assert await served.get("/healthz") == (200, "ok")


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
async def test_it_listens_on_the_configured_address(pages, address):
    port = free_port()
    web = Web(pages, structlog.wrap_logger(CapturingLogger()))

    await web.start(Listen(address, port, plain=True), Clock().wall)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /livez HTTP/1.0\r\n\r\n")
    answer = await reader.read()
    writer.close()
    await web.close()

    assert answer.endswith(b"ok")


async def test_no_connection_is_accepted_after_closing(serve):
    served = await serve()
    port = served.web.port

    await served.web.close()

    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_plain_text_does_not_get_through_tls(serve):
    served = await serve(listen=Listen(idle_seconds=2.0))

    try:
        answer = await served.raw(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    except (ConnectionResetError, ssl.SSLError):
        answer = b""

    assert b"ok" not in answer


async def endless(query: Mapping[str, str]) -> AsyncIterator[bytes]:
    while True:
        yield b" " * 100_000


@pytest.mark.parametrize(
    "page", [lambda query: "x" * 50_000_000, endless], ids=["whole", "in parts"]
)
async def test_a_client_that_does_not_read_the_answer_is_disconnected(serve, page, caplog):
    served = await serve(
        listen=Listen(plain=True, answer_seconds=0.3),
        pages=dataclasses.replace(serve.pages, debug={"/debug/x": page}),
    )
    _, writer = await asyncio.open_connection("127.0.0.1", served.web.port, limit=1024)

    writer.write(b"GET /debug/x HTTP/1.1\r\nHost: x\r\n\r\n")
    async with asyncio.timeout(5):
        while served.web.connections:
            await asyncio.sleep(0.01)
    writer.close()

    assert await served.get("/healthz") == (200, "ok")
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
    assert serve.events == []


async def test_a_client_that_disconnects_during_an_answer_is_not_logged_as_an_error(serve, caplog):
    ended = asyncio.Event()

    async def watched(query: Mapping[str, str]) -> AsyncIterator[bytes]:
        try:
            while True:
                yield b" " * 100_000
        finally:
            ended.set()

    served = await serve(pages=dataclasses.replace(serve.pages, debug={"/debug/x": watched}))
    reader, writer = await asyncio.open_connection("127.0.0.1", served.web.port)

    writer.write(b"GET /debug/x HTTP/1.1\r\nHost: x\r\n\r\n")
    await reader.read(1000)
    writer.transport.abort()
    async with asyncio.timeout(5):
        await ended.wait()

    assert await served.get("/healthz") == (200, "ok")
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
    assert serve.events == []


async def test_a_stream_that_breaks_does_not_look_whole(serve):
    async def broken(query: Mapping[str, str]) -> AsyncIterator[bytes]:
        yield b"[1"
        raise RuntimeError("a defect")

    served = await serve(pages=dataclasses.replace(serve.pages, debug={"/debug/x": broken}))

    answer = await served.raw(b"GET /debug/x HTTP/1.1\r\nHost: x\r\n\r\n")

    assert b"[1" in answer
    assert not answer.endswith(b"0\r\n\r\n")
    assert b"a defect" not in answer


async def test_port_zero_serves_nothing(pages):
    web = Web(pages, structlog.wrap_logger(CapturingLogger()))

    await web.start(Listen(port=0), Clock().wall)

    assert web.port == 0
    await web.close()
