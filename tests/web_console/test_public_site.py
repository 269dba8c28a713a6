"""Clients that are slow, many, or silent do not keep others from the console in a cluster."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from scheduler.observe.server.tls import CertificateFiles
from scheduler.web_console import public_site
from scheduler.web_console import server as console_server
from tests.support.api_stand_in import StandIn, serving
from tests.support.certificates import Authority
from tests.web_console.public_console import FORM, PublicConsole, public_console

ADA, BOB = "token-of-ada", "token-of-bob"


@pytest.fixture
async def scheduler() -> StandIn:
    stand_in = StandIn()
    stand_in.switches.token = "unused"
    stand_in.switches.users = {ADA: "ada", BOB: "bob"}
    return stand_in


@pytest.fixture
async def console(scheduler: StandIn) -> AsyncIterator[PublicConsole]:
    async with serving(scheduler) as url, public_console([url]) as console:
        yield console


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


async def test_a_user_has_one_plan_at_a_time_and_takes_no_others_place(console, scheduler):
    (_, ada), (_, bob) = await console.sign_in(ADA), await console.sign_in(BOB)
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
    other = await console.ask("POST", "/api/v1/plan", body, Cookie=bob, **headers)

    assert (second[0], other[0]) == (429, 200)
    writer.close()


async def test_it_serves_https_with_its_own_certificate(scheduler, tmp_path):
    authority = Authority(tmp_path)
    pair = CertificateFiles(str(tmp_path / "server.crt"), str(tmp_path / "server.key"))
    trusting = ssl.create_default_context(cafile=authority.certificate)
    async with serving(scheduler) as url, public_console([url], certificate=pair) as console:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", console.port, ssl=trusting, server_hostname="kubernetes"
        )
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")

        assert (await reader.read()).endswith(b"ok")
        writer.close()
