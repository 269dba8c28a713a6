"""The server of the console: whom it answers, and what it forwards."""

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping

import aiohttp
import pytest
from yarl import URL

from scheduler.kube.http.http1 import Incoming, Reply
from scheduler.kubectl.client import SchedulerClient
from scheduler.kubectl.connection import Reach
from scheduler.model.rest.shadow import MODE_HEADER, SHADOW
from scheduler.web_console import server as console_server
from scheduler.web_console.backend import BackendError
from scheduler.web_console.server import ConsoleServer, page_files
from scheduler.web_console.sign_in import KeySignIn
from tests.support.api_stand_in import StandIn, serving


class Page:
    """The console, and a browser that is signed in."""

    def __init__(self, server: ConsoleServer, browser: aiohttp.ClientSession) -> None:
        self.server = server
        self.browser = browser
        self.origin = server.url.rstrip("/")

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        async with self.browser.get(self.origin + path, headers=headers) as answer:
            return answer.status, await answer.text()

    async def post(self, path: str, body: bytes, **headers: str) -> tuple[int, str]:
        async with self.browser.post(self.origin + path, data=body, headers=headers) as answer:
            return answer.status, await answer.text()

    async def sign_in(self, key: str) -> int:
        async with self.browser.post(f"{self.origin}/session", data={"key": key}) as answer:
            return answer.status


@pytest.fixture
async def scheduler() -> StandIn:
    return StandIn()


@pytest.fixture
async def unknown(scheduler: StandIn, tmp_path) -> AsyncIterator[Page]:
    """The console, opened by a browser that has no cookie."""
    (tmp_path / "js").mkdir()
    (tmp_path / "index.html").write_text("<!DOCTYPE html><title>console</title>")
    (tmp_path / "js" / "main.js").write_text("export {};")
    (tmp_path / ".secret").write_text("not served")
    async with (
        serving(scheduler) as url,
        SchedulerClient(Reach((), float, server=url).open) as client,
    ):
        server = ConsoleServer(client, page_files(tmp_path))
        jar = aiohttp.CookieJar(unsafe=True)
        async with server.serving(), aiohttp.ClientSession(cookie_jar=jar) as browser:
            yield Page(server, browser)


@pytest.fixture
async def page(unknown: Page) -> Page:
    assert await unknown.sign_in(unknown.server.key) == 200
    return unknown


async def test_it_listens_on_this_machine_only(unknown):
    assert unknown.server.url == f"http://127.0.0.1:{unknown.server.port}/"
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncio.open_connection("127.0.0.2", unknown.server.port)


async def test_without_the_key_there_is_a_form_and_no_data(unknown, scheduler):
    form, api = await unknown.get("/"), await unknown.get("/api/v1/summary")

    assert form[0] == 200
    assert "Enter the key" in form[1]
    assert api[0] == 401
    assert scheduler.requests == []


async def test_the_key_opens_the_page_and_the_data(page):
    assert "console" in (await page.get("/"))[1]
    status, body = await page.get("/api/v1/summary")
    assert (status, '"nodes":12' in body) == (200, True)


async def test_the_cookie_is_for_this_site_and_not_for_scripts(unknown):
    data = {"key": unknown.server.key}
    async with unknown.browser.post(f"{unknown.origin}/session", data=data) as answer:
        (cookie,) = answer.cookies.values()

    assert cookie["httponly"]
    assert cookie["samesite"] == "Strict"
    assert unknown.server.key not in cookie.value


async def test_bytes_that_are_no_text_are_a_refusal(unknown):
    part = b'--x\r\nContent-Disposition: form-data; name="key"\r\n\r\n\xff\r\n--x--\r\n'
    form = {"Content-Type": "multipart/form-data; boundary=x"}
    assert (await unknown.post("/session", part, **form))[0] == 403

    reader, writer = await asyncio.open_connection("127.0.0.1", unknown.server.port)
    port = unknown.server.port
    writer.write(
        b"GET /api/v1 HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n"
        b"Cookie: preemptive-console-%d=\xff\r\n\r\n" % (port, port)
    )
    assert (await reader.read()).startswith(b"HTTP/1.1 401 ")
    writer.close()


async def test_wrong_keys_do_not_keep_the_user_out(unknown):
    """Each process of the machine can send wrong keys, so they must have no consequence."""
    wrong = [await unknown.sign_in("x") for _ in range(50)]

    assert wrong == [403] * 50
    assert (await unknown.get("/api/v1/summary"))[0] == 401
    assert await unknown.sign_in(unknown.server.key) == 200
    assert (await unknown.get("/api/v1/summary"))[0] == 200


async def test_the_key_is_too_long_to_be_guessed_and_new_for_each_server(unknown):
    """Wrong keys are not limited because of this."""
    other = ConsoleServer(unknown.server._backend, {})

    assert other.key != unknown.server.key
    assert len(base64.urlsafe_b64decode(other.key)) * 8 == 144


async def test_a_large_form_is_refused_before_it_is_read(unknown):
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    body = b"key=" + b"x" * KeySignIn.form.most_bytes

    assert (await unknown.post("/session", body, **form))[0] == 413


@pytest.mark.parametrize(
    "host", ["example.com", "127.0.0.1", "127.0.0.1:1", "localhost.example.com", ""]
)
async def test_another_host_is_refused(page, host):
    assert (await page.get("/api/v1/summary", Host=host))[0] == 403
    assert (await page.get("/", Host=host))[0] == 403


@pytest.mark.parametrize("origin", [None, "null", "http://example.com", "http://127.0.0.1:1"])
async def test_a_plan_of_another_origin_is_refused(page, scheduler, origin):
    headers = {} if origin is None else {"Origin": origin}

    status, _ = await page.post("/api/v1/plan", b"{}", **headers)

    assert status == 403
    assert scheduler.requests == []


async def test_a_plan_of_the_page_is_forwarded(page):
    body = b"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"
    headers = {"Origin": page.origin, "Content-Type": "application/yaml"}

    status, text = await page.post("/api/v1/plan", body, **headers)

    assert status == 200
    assert '"decision":"Scheduled"' in text


async def test_data_for_other_sites_are_refused(page):
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}

    assert (await page.get("/api/v1/summary", **headers))[0] == 403


@pytest.mark.parametrize(
    "path",
    ["/api/v2", "/metrics", "/apis", "/api/v1x", "/.secret", "/js/../.secret", "/%2e%2e/x", "/js/"],
)
async def test_other_paths_are_not_forwarded(page, scheduler, path):
    address = URL(page.origin + path, encoded=True)
    async with page.browser.get(address) as answer:
        assert answer.status == 404
    assert scheduler.requests == []


@pytest.mark.parametrize("path", ["/api/v1/../../metrics", "/api/v1/%2e%2e/x", "/api/v1/a%2fb"])
async def test_a_path_that_servers_may_read_differently_is_refused(page, scheduler, path):
    reader, writer = await asyncio.open_connection("127.0.0.1", page.server.port)
    cookies = page.browser.cookie_jar.filter_cookies(URL(page.origin))
    cookie = "; ".join(f"{name}={each.value}" for name, each in cookies.items())
    host = page.origin.removeprefix("http://")
    head = [f"GET {path} HTTP/1.1", f"Host: {host}", f"Cookie: {cookie}", "Connection: close"]
    writer.write("\r\n".join([*head, "", ""]).encode())

    answer = await reader.read()
    writer.close()

    assert answer.split(b" ")[1] in {b"400", b"404"}
    assert scheduler.requests == []


async def test_only_get_and_plans_are_forwarded(page, scheduler):
    for method in ("PUT", "DELETE", "PATCH", "POST"):
        async with page.browser.request(
            method, f"{page.origin}/api/v1/summary", headers={"Origin": page.origin}
        ) as answer:
            assert answer.status == 405, method
    assert scheduler.requests == []


@pytest.mark.parametrize("path", ["/", "/js/main.js", "/api/v1/summary", "/nothing"])
async def test_each_answer_has_the_headers_that_protect_the_page(page, path):
    async with page.browser.get(page.origin + path) as answer:
        headers = answer.headers

    assert headers["Content-Security-Policy"] == console_server.POLICY
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("shadow", [True, False])
async def test_the_page_learns_whether_this_is_shadow_mode(page, scheduler, shadow):
    scheduler.switches.shadow = shadow

    async with page.browser.get(f"{page.origin}/api/v1/summary") as answer:
        assert answer.headers.get(MODE_HEADER) == (SHADOW if shadow else None)


async def test_refusals_of_the_scheduler_are_forwarded(page, scheduler):
    scheduler.switches.failures["/api/v1/pods"] = 403
    scheduler.switches.failures["/api/v1/plan"] = 429

    status, text = await page.get("/api/v1/pods")
    async with page.browser.post(
        f"{page.origin}/api/v1/plan", headers={"Origin": page.origin}
    ) as plan:
        retry = plan.headers["Retry-After"]

    assert status == 403
    assert "cannot get path" in text
    assert (plan.status, retry) == (429, "1")


async def test_a_browser_that_goes_away_ends_the_request(page, scheduler):
    async with page.browser.get(f"{page.origin}/api/v1/summary?watch=1") as answer:
        await answer.content.readline()
        assert len(asyncio.all_tasks()) > 1
        answer.close()

    for _ in range(100):
        scheduler.tick()
        await asyncio.sleep(0.01)


async def test_a_scheduler_that_cannot_be_reached_is_a_503():
    class Gone:
        async def send(
            self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
        ) -> Reply:
            raise BackendError("gone")

        async def open(self, path: str, headers: Mapping[str, str]) -> Incoming:
            raise BackendError("gone: try again")

    server = ConsoleServer(Gone(), {}, KeySignIn("k"))
    jar = aiohttp.CookieJar(unsafe=True)
    async with server.serving(), aiohttp.ClientSession(cookie_jar=jar) as browser:
        page = Page(server, browser)
        await page.sign_in("k")
        status, text = await page.get("/api/v1/summary")

    assert status == 503
    assert '"message":"gone: try again"' in text


FORM = b"POST /session HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-www-form-urlencoded\r\n"


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(b"GET /\xff HTTP/1.1\r\nHost: %s\r\n\r\n", id="path"),
        pytest.param(b"GET / HTTP/9.9\r\nHost: %s\r\n\r\n", id="version"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: %s\r\n" + b"a: b\r\n" * 500 + b"\r\n", id="headers"),
        pytest.param(FORM + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", id="chunk"),
        pytest.param(
            FORM + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nabcde", id="compression"
        ),
    ],
)
async def test_a_request_that_cannot_be_read_leaves_no_trace_in_the_terminal(
    unknown, request_, caplog
):
    host = b"127.0.0.1:%d" % unknown.server.port
    reader, writer = await asyncio.open_connection("127.0.0.1", unknown.server.port)
    writer.write(request_.replace(b"%s", host))
    async with asyncio.timeout(10):
        answer = await reader.readline()
    writer.close()

    assert b" 400 " in answer
    assert caplog.records == []
