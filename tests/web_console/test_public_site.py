"""Clients that are slow, many, or silent do not keep others from the console in a cluster."""

import asyncio
import contextlib
from dataclasses import replace

import pytest

from scheduler.kube.http.http1 import Incoming
from scheduler.web_console import public_site
from scheduler.web_console import server as console_server
from tests.support.api_stand_in import StandIn
from tests.web_console.public_console import ADA, BOB, FORM, signed_in


@pytest.fixture
def few_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public_site, "LIMITS", replace(public_site.LIMITS, connections=16))


@pytest.mark.usefixtures("few_connections")
@pytest.mark.parametrize(
    "begun",
    [
        pytest.param(b"", id="silent"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: ", id="half a request"),
        pytest.param(
            b"POST /session HTTP/1.1\r\nHost: %s\r\nOrigin: http://%s\r\nContent-Type: "
            + FORM.encode()
            + b"\r\nContent-Length: 999\r\n\r\ntoken=",
            id="half a form",
        ),
    ],
)
async def test_connections_that_do_nothing_make_room(console, begun):
    host = console.origin.removeprefix("http://").encode()
    opened = []
    for _ in range(40):
        reader, writer = await asyncio.open_connection("127.0.0.1", console.port)
        writer.write(begun.replace(b"%s", host))
        opened.append((reader, writer))

    assert (await console.sign_in(ADA))[0] == 303
    ended = [reader for reader, _ in opened if reader.at_eof()]
    for _, writer in opened:
        writer.close()
    assert len(ended) >= 40 - 16


@pytest.mark.usefixtures("few_connections")
async def test_a_watch_is_not_closed_for_others(console, scheduler):
    _, cookie = await console.sign_in(ADA)
    url = f"{console.origin}/api/v1/summary?watch=1"
    async with console.client.get(url, headers={"Cookie": cookie}) as watch:
        event = (line async for line in watch.content if line.startswith(b"data: "))
        await anext(event)
        opened = [await asyncio.open_connection("127.0.0.1", console.port) for _ in range(40)]
        await console.ask("GET", "/healthz")

        scheduler.tick()
        assert (await anext(event)).startswith(b"data: ")
    for _, writer in opened:
        writer.close()


@pytest.mark.parametrize("path", ["/session", "/api/v1/plan"])
async def test_a_body_that_does_not_come_is_not_waited_for(console, monkeypatch, path):
    _, cookie = await console.sign_in(ADA)
    monkeypatch.setattr(console_server, "BODY_SECONDS", 0.05)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {console.origin[7:]}\r\nOrigin: {console.origin}\r\n"
        f"Cookie: {cookie}\r\nContent-Type: {FORM}\r\nContent-Length: 100\r\n\r\ntoken="
    )

    answer = await console.send(head.encode())

    assert answer.startswith(b"HTTP/1.1 408 ")


async def test_an_answer_that_is_not_read_is_given_up(console, scheduler, monkeypatch):
    _, cookie = await console.sign_in(ADA)
    monkeypatch.setattr(console_server, "READ_SECONDS", 0.05)

    async def endless(request):
        response = console_server.web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 2**16)

    monkeypatch.setattr(StandIn, "_stream", lambda _self, request, _document: endless(request))
    reader, writer = await asyncio.open_connection("127.0.0.1", console.port, limit=1)
    writer.write(
        f"GET /api/v1/summary?watch=1 HTTP/1.1\r\nHost: {console.origin[7:]}\r\n"
        f"Cookie: {cookie}\r\n\r\n".encode()
    )

    async with asyncio.timeout(20):
        assert await reader.readexactly(12) == b"HTTP/1.1 200"
        while console.forwarded:
            await asyncio.sleep(0.01)
        while not reader.at_eof():
            await reader.read(2**20)
    writer.close()


async def test_a_user_has_one_plan_at_a_time_and_takes_no_others_place(
    console, scheduler, monkeypatch
):
    monkeypatch.setattr(console_server, "GROUP_PLANS", 1)
    scheduler.switches.users |= {each: f"system:serviceaccount:team:{each}" for each in (ADA, "c")}
    (_, ada), (_, bob) = await console.sign_in(ADA), await console.sign_in(BOB)
    (_, colleague) = await console.sign_in("c")
    headers = {"Origin": console.origin, "Content-Type": "application/yaml"}
    body = b"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"
    head = (
        f"POST /api/v1/plan HTTP/1.1\r\nHost: {console.origin[7:]}\r\nOrigin: {console.origin}\r\n"
        f"Cookie: {ada}\r\nContent-Length: 100\r\n\r\n"
    )
    _, writer = await asyncio.open_connection("127.0.0.1", console.port)
    writer.write(head.encode())
    async with asyncio.timeout(20):
        while not console.forwarded:
            await asyncio.sleep(0.01)

    second = await console.ask("POST", "/api/v1/plan", body, Cookie=ada, **headers)
    third = await console.ask("POST", "/api/v1/plan", body, Cookie=colleague, **headers)
    other = await console.ask("POST", "/api/v1/plan", body, Cookie=bob, **headers)

    assert (second[0], third[0], other[0]) == (429, 429, 200)
    writer.close()


LONG = b"".join(b"A%d: %s\r\n" % (i, b"x" * 8000) for i in range(9))
#: What a client without a token sends: more than is kept of it before a response.
TOO_LONG = {
    "a head": b"GET / HTTP/1.1\r\nHost: %s\r\n" + LONG,
    "a form that goes on behind its end": (
        b"POST /session HTTP/1.1\r\nHost: %s\r\nOrigin: http://%s\r\nTransfer-Encoding: chunked\r\n"
        b"Content-Type: " + FORM.encode() + b"\r\n\r\n6\r\ntoken=\r\n0\r\n"
        + LONG
    ),
    "requests that do not wait": b"GET / HTTP/1.1\r\nHost: %s\r\n\r\n" * 1000,
}  # fmt: skip


@pytest.mark.parametrize("case", TOO_LONG)
async def test_what_a_stranger_sends_is_not_kept_without_limit(console, case):
    host = console.origin.removeprefix("http://").encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", console.port)
    writer.write(TOO_LONG[case].replace(b"%s", host))

    async with asyncio.timeout(20):
        with contextlib.suppress(ConnectionError):
            await reader.read()
    writer.close()
    assert (await console.sign_in(ADA))[0] == 303


async def test_requests_that_wait_and_the_body_of_a_plan_may_be_long(console):
    _, cookie = await console.sign_in(ADA)
    body = b"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n" + b"#" * 2**18
    headers = {"Cookie": cookie, "Origin": console.origin, "Content-Type": "application/yaml"}

    for _ in range(5):
        assert (await console.ask("GET", "/api/v1", Cookie=cookie, A="x" * 8000))[0] == 200
        assert (await console.ask("POST", "/api/v1/plan", body, **headers))[0] == 200


async def test_of_an_answer_that_is_not_read_little_is_kept(console, monkeypatch):
    _, cookie = await console.sign_in(ADA)
    size, parts = 2**25, list[int]()

    async def read(incoming: Incoming) -> bytes:
        parts.append(len(part := await whole(incoming)))
        return part

    whole = Incoming.read
    monkeypatch.setattr(Incoming, "read", read)
    monkeypatch.setattr(StandIn, "_summary", lambda _: {"long": "x" * size})
    reader, writer = await asyncio.open_connection("127.0.0.1", console.port)
    writer.write(
        f"GET /api/v1/summary HTTP/1.1\r\nHost: {console.origin[7:]}\r\nConnection: close\r\n"
        f"Cookie: {cookie}\r\n\r\n".encode()
    )

    async with asyncio.timeout(30):
        assert await reader.readexactly(12) == b"HTTP/1.1 200"
        ((session,)) = console.users._sessions.values()
        (transport,) = session.login.connections
        assert transport.get_write_buffer_limits() == (0, 1)
        while not reader.at_eof():
            await reader.read(2**20)
    writer.close()
    assert sum(parts) > size
    assert max(parts) < 2**20


async def test_the_accounts_of_one_namespace_leave_places_for_others(
    console, scheduler, monkeypatch
):
    monkeypatch.setattr(console_server, "GROUP_FORWARDS", 2)
    users = [f"system:serviceaccount:{each}" for each in ("team:a", "team:b", "team:c", "team-b:c")]
    scheduler.switches.users |= {each: each for each in users}
    *cookies, refused, served = [await signed_in(console, each) for each in users]
    watches = [await console.watch(each) for each in cookies]

    answers = [(await console.ask("GET", "/api/v1", Cookie=each))[0] for each in (refused, served)]

    assert answers == [429, 200]
    for each in watches:
        each.close()


async def test_few_recordings_are_forwarded_at_a_time(console, scheduler, monkeypatch):
    monkeypatch.setattr(console_server, "RECORDINGS", 1)
    (_, ada), (_, bob) = await console.sign_in(ADA), await console.sign_in(BOB)
    scheduler.switches.delay_seconds = 3600.0
    held = asyncio.create_task(console.ask("GET", "/api/v1/recording", Cookie=ada))
    async with asyncio.timeout(20):
        while not console.forwarded:
            await asyncio.sleep(0.01)
    scheduler.switches.delay_seconds = 0.0

    assert (await console.ask("GET", "/api/v1/recording?last=5m", Cookie=bob))[0] == 429
    assert (await console.ask("GET", "/api/v1", Cookie=bob))[0] == 200
    held.cancel()
    await asyncio.gather(held, return_exceptions=True)
