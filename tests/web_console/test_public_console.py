"""The console in a cluster: whom it answers, with whose token it asks, and which replica."""

import asyncio
import contextlib
import ssl

import pytest

from scheduler.kube.http.tls import Tls, client_context
from scheduler.web_console import replicas, token_sign_in
from scheduler.web_console import server as console_server
from scheduler.web_console.token_sign_in import COOKIE
from tests.support.api_stand_in import StandIn, serving
from tests.support.certificates import Authority
from tests.web_console.public_console import ADA, BOB, FORM, public_console, signed_in

#: What no one may do, as method, path, headers and body, and the status. `{origin}`, `{host}` and
#: `{cookie}` are those of a user who has signed in.
HOSTILE = {
    "no token": ("GET", "/api/v1/summary", {}, b"", 401),
    "a cookie that was made up": ("GET", "/api/v1", {"Cookie": f"{COOKIE}=x"}, b"", 401),
    "an empty cookie": ("GET", "/api/v1", {"Cookie": f"{COOKIE}="}, b"", 401),
    "a cookie of bytes": ("GET", "/api/v1", {"Cookie": f"{COOKIE}=\xff"}, b"", 401),
    "the cookie under another name": ("GET", "/api/v1", {"Cookie": "a{cookie}"}, b"", 401),
    "a wrong token": ("GET", "/api/v1", {"Authorization": "Bearer wrong"}, b"", 401),
    "an empty token": ("GET", "/api/v1", {"Authorization": "Bearer "}, b"", 401),
    "two words": ("GET", "/api/v1", {"Authorization": f"Bearer {ADA} x"}, b"", 401),
    "two headers with a token": (
        "GET", "/api/v1",
        {"Cookie": "{cookie}", "Authorization": f"Bearer {ADA}\r\nAuthorization: Bearer {BOB}"},
        b"", 401,
    ),
    "a token after a tab": (
        "GET", "/api/v1", {"Cookie": "{cookie}", "Authorization": f"Bearer\t{BOB}"}, b"", 401,
    ),
    "a cookie within the value of another host's": (
        "GET", "/api/v1", {"Cookie": "a=b {cookie}"}, b"", 401,
    ),
    "a cookie after a space that is none": (
        "GET", "/api/v1", {"Cookie": "\u2000{cookie}"}, b"", 401,
    ),
    "two cookies of the name": ("GET", "/api/v1", {"Cookie": "{cookie}; {cookie}"}, b"", 401),
    "a password": ("GET", "/api/v1", {"Authorization": "Basic YTpi"}, b"", 401),
    "a token that is too long": ("GET", "/", {"Authorization": "Bearer " + "x" * 8100}, b"", 401),
    "a token in the URL": ("GET", f"/api/v1?token={ADA}&access_token={ADA}", {}, b"", 401),
    "another host": ("GET", "/", {"Host": "evil.example"}, b"", 403),
    "another port": ("GET", "/", {"Host": "127.0.0.1"}, b"", 403),
    "another host, forwarded as ours": (
        "GET", "/", {"Host": "evil.example", "X-Forwarded-Host": "{host}"}, b"", 403,
    ),
    "another site": (
        "GET", "/api/v1/summary", {"Cookie": "{cookie}", "Sec-Fetch-Site": "cross-site"}, b"", 403,
    ),
    "another host of our domain": (
        "GET", "/api/v1/summary", {"Cookie": "{cookie}", "Sec-Fetch-Site": "same-site"}, b"", 403,
    ),
    "a link to the data": (
        "GET", "/api/v1/summary",
        {"Cookie": "{cookie}", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, b"",
        403,
    ),
    "a plan of no origin": ("POST", "/api/v1/plan", {"Cookie": "{cookie}"}, b"{{}}", 403),
    "a plan of another origin": (
        "POST", "/api/v1/plan", {"Cookie": "{cookie}", "Origin": "http://evil.example"}, b"{{}}",
        403,
    ),
    "a plan of another scheme": (
        "POST", "/api/v1/plan", {"Cookie": "{cookie}", "Origin": "https://{host}"}, b"{{}}", 403,
    ),
    "a plan of an origin that was forwarded": (
        "POST", "/api/v1/plan",
        {"Cookie": "{cookie}", "Origin": "https://{host}", "X-Forwarded-Proto": "https"}, b"{{}}",
        403,
    ),
    "a form of another site": (
        "POST", "/session", {"Origin": "http://evil.example", "Content-Type": FORM},
        f"token={BOB}".encode(), 403,
    ),
    "a form of a file": (
        "POST", "/", {"Origin": "null", "Content-Type": FORM}, f"token={BOB}".encode(), 403,
    ),
    "a form of no origin": (
        "POST", "/", {"Content-Type": FORM}, f"token={BOB}".encode(), 403,
    ),
    "a sign-out of another site": (
        "POST", "/sign-out", {"Cookie": "{cookie}", "Origin": "http://evil.example"}, b"", 403,
    ),
    "a form that is too large": (
        "POST", "/session", {"Origin": "{origin}", "Content-Type": FORM},
        b"token=" + b"x" * token_sign_in.FORM_BYTES, 413,
    ),
    "a form that is not text": (
        "POST", "/session", {"Origin": "{origin}", "Content-Type": FORM}, b"token=%ff%00\xff", 401,
    ),
    "a token with a line break": (
        "POST", "/session", {"Origin": "{origin}", "Content-Type": FORM},
        b"token=a%0d%0aX-Remote-User:+admin", 401,
    ),
    "a plan that is too large": (
        "POST", "/api/v1/plan", {"Cookie": "{cookie}", "Origin": "{origin}"},
        b"x" * (console_server.BODY_BYTES + 1), 413,
    ),
    "a write": ("PUT", "/api/v1/summary", {"Cookie": "{cookie}", "Origin": "{origin}"}, b"", 405),
    "a deletion": ("DELETE", "/api/v1/pods/a/b", {"Cookie": "{cookie}"}, b"", 405),
    "a post that is no plan": (
        "POST", "/api/v1/stop", {"Cookie": "{cookie}", "Origin": "{origin}"}, b"", 405,
    ),
    "metrics": ("GET", "/metrics", {"Cookie": "{cookie}"}, b"", 404),
    "debug pages": ("GET", "/debug/pods", {"Cookie": "{cookie}"}, b"", 404),
    "a path up": ("GET", "/api/v1/../../metrics", {"Cookie": "{cookie}"}, b"", 400),
    "a path up, encoded": ("GET", "/api/v1/%2e%2e/metrics", {"Cookie": "{cookie}"}, b"", 400),
    "a path up, encoded twice": ("GET", "/api/v1/%252e%252e", {"Cookie": "{cookie}"}, b"", 404),
    "a slash that is encoded": ("GET", "/api/v1%2fsummary", {"Cookie": "{cookie}"}, b"", 404),
    "a file of the server": ("GET", "/../../../etc/passwd", {"Cookie": "{cookie}"}, b"", 404),
    "another server in the path": (
        "GET", "http://evil.example/api/v1", {"Cookie": "{cookie}"}, b"", 400,
    ),
    "a path that is not plain": ("GET", "/api/v1/\xe9", {"Cookie": "{cookie}"}, b"", 400),
    "a header that is not plain": (
        "GET", "/api/v1", {"Cookie": "{cookie}", "Accept": "\u20ac"}, b"", 400,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_request_is_refused_and_nothing_is_said(console, scheduler, name):
    cookie = await signed_in(console)
    method, path, headers, body, status = HOSTILE[name]
    known = {"origin": console.origin, "host": console.origin[7:], "cookie": cookie}
    filled = {"Host": "{host}"} | headers
    lines = [f"{key}: {value.format_map(known)}" for key, value in filled.items()]
    head = [
        f"{method} {path} HTTP/1.1",
        *lines,
        "Connection: close",
        f"Content-Length: {len(body)}",
    ]
    asked = len(scheduler.requests)

    answer = await console.send("\r\n".join([*head, "", ""]).encode() + body)

    assert int(answer.split(b" ", 2)[1]) == status, answer[:300]
    assert b"preemptive-scheduler-0" not in answer  # what the scheduler says
    assert b"aiohttp" not in answer
    if name not in {"a wrong token", "a path up, encoded twice"}:
        assert scheduler.requests[asked:] == []
    assert f"{ADA}" not in str(console.log)
    assert (await console.ask("GET", "/api/v1", Cookie=cookie))[0] == 200


@pytest.mark.parametrize(
    "others",
    ["{}", 'a="x; {}; b=y"', "a=(; {}", "=x; {}", ";;; {} ;", 'a={{"k":"v"}}; {}', "é=1;{}"],
)
async def test_cookies_of_other_hosts_of_the_domain_do_not_hide_ours(console, others):
    cookie = await signed_in(console)

    assert (await console.ask("GET", "/api/v1", Cookie=others.format(cookie)))[0] == 200


async def test_each_user_asks_with_the_own_token(console, scheduler):
    ada, bob = await signed_in(console, ADA), await signed_in(console, BOB)
    scheduler.authorizations.clear()

    for cookie in (ada, bob):
        assert (await console.ask("GET", "/api/v1/summary", Cookie=cookie))[0] == 200

    assert scheduler.authorizations == [f"Bearer {ADA}", f"Bearer {BOB}"]
    assert [each["user"] for each in console.events("signed_in")] == ["ada", "bob"]


async def test_the_cookie_says_nothing_and_goes_to_this_server_only(console):
    body = f"token={ADA}".encode()
    headers = {"Origin": console.origin, "Content-Type": FORM}
    _, _, answered = await console.ask("POST", "/session", body, **headers)

    cookie, *flags = (part.strip() for part in answered["Set-Cookie"].split(";"))
    assert cookie.startswith("__Host-preemptive-console=")
    assert ADA not in cookie
    assert {flag.lower() for flag in flags} == {"httponly", "secure", "samesite=strict", "path=/"}
    assert answered["Location"] == "/"


async def test_a_proxy_sends_the_token_and_no_session_is_needed(console, scheduler):
    token = {"Authorization": f"bearer {ADA}"}

    page = await console.ask("GET", "/", **token)
    data = await console.ask("GET", "/api/v1/summary", **token)

    assert page[0] == data[0] == 200
    assert "&quot;session&quot;:&quot;proxy&quot;" in page[1]
    assert "&quot;user&quot;:&quot;ada&quot;" in page[1]
    assert scheduler.authorizations[-1] == f"Bearer {ADA}"
    assert console.cookies == 0


async def test_the_requests_of_a_page_with_a_new_token_cause_one_review(console, scheduler):
    scheduler.switches.delay_seconds = 0.05
    most = int(token_sign_in.UNKNOWN_TOKENS.burst)

    answers = await asyncio.gather(
        *(
            console.ask("GET", "/api/v1/labels", Authorization=f"Bearer {ADA}")
            for _ in range(most + 5)
        )
    )

    assert {answer[0] for answer in answers} == {200}
    reviews = zip(scheduler.requests, scheduler.authorizations, strict=True)
    assert [each for each in reviews if each == ("GET /api/v1", f"Bearer {ADA}")] == [
        ("GET /api/v1", f"Bearer {ADA}")
    ]


async def test_the_token_of_a_proxy_counts_for_more_than_a_cookie(console, scheduler):
    cookie = await signed_in(console, ADA)

    await console.ask("GET", "/api/v1", Cookie=cookie, Authorization=f"Bearer {BOB}")

    assert scheduler.authorizations[-1] == f"Bearer {BOB}"


async def test_without_a_session_there_is_a_form_and_after_it_the_page(console):
    form = await console.ask("GET", "/")
    cookie = await signed_in(console)
    page = await console.ask("GET", "/", Cookie=cookie)

    assert 'name="token"' in form[1]
    assert "prod" in form[1]
    assert "main.js" not in form[1]
    assert form[2]["Content-Security-Policy"] == console_server.FORM_POLICY % "'self'"
    assert "main.js" in page[1]
    assert "&quot;user&quot;:&quot;ada&quot;" in page[1]
    assert ADA not in page[1]


async def test_who_follows_a_link_gets_the_page_which_asks_with_the_cookie(console):
    """A browser withholds a strict cookie then; the page itself has no data."""
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}

    page = await console.ask("GET", "/", **link)
    form = await console.ask("GET", "/session", **link)

    assert "main.js" in page[1]
    assert "&quot;user&quot;:&quot;&quot;" in page[1]
    assert 'name="token"' in form[1]


async def test_one_user_cannot_take_all_requests(console, scheduler, monkeypatch):
    monkeypatch.setattr(console_server, "USER_FORWARDS", 2)
    ada, bob = await signed_in(console, ADA), await signed_in(console, BOB)
    path = "/api/v1/summary?watch=1"
    scheduler.switches.users["another"] = "ada"
    cookies = (ada, await signed_in(console, "another"))
    watches = [
        await console.client.get(console.origin + path, headers={"Cookie": each})
        for each in cookies
    ]

    status, _, headers = await console.ask("GET", "/api/v1", Cookie=ada)

    assert (status, headers["Retry-After"]) == (429, "1")
    assert (await console.ask("GET", "/api/v1", Cookie=bob))[0] == 200
    monkeypatch.setattr(console_server, "FORWARDS", 2)
    assert (await console.ask("GET", "/api/v1", Cookie=bob))[0] == 429
    for each in watches:
        each.close()


async def test_a_kubelet_is_answered_by_the_address_of_the_pod_without_a_word(console, scheduler):
    status, text, _ = await console.ask("GET", "/healthz", Host="10.0.0.7:8080")

    assert (status, text, scheduler.requests) == (200, "ok", [])


class TestReplicas:
    """Several replicas, of which one leads."""

    @pytest.fixture
    async def second(self) -> StandIn:
        stand_in = StandIn()
        stand_in.switches.users = {ADA: "ada"}
        stand_in.switches.token = "unused"
        stand_in.switches.leader = False
        return stand_in

    async def test_only_the_leader_gets_tokens(self, scheduler, second):
        async with (
            serving(second) as other,
            serving(scheduler) as url,
            public_console([other, url]) as console,
        ):
            cookie = await signed_in(console)
            await console.ask("GET", "/api/v1/summary", Cookie=cookie)

        assert set(second.authorizations) == {""}
        assert scheduler.requests[-1] == "GET /api/v1/summary"

    async def test_a_leader_that_ends_is_replaced_and_the_session_goes_on(self, scheduler, second):
        async with (
            serving(second) as other,
            serving(scheduler) as url,
            public_console([url, other]) as console,
        ):
            cookie = await signed_in(console)
            # One process ends, and another one starts behind the same address.
            scheduler.switches.leader, second.switches.leader = False, True

            status, _, _ = await console.ask("GET", "/api/v1/summary", Cookie=cookie)
            body, yaml = b"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", "application/yaml"
            headers = {"Cookie": cookie, "Origin": console.origin, "Content-Type": yaml}
            plan, _, _ = await console.ask("POST", "/api/v1/plan", body, **headers)

            assert (status, plan) == (200, 200)
            assert second.requests[-1] == "POST /api/v1/plan"
            assert [each["address"] for each in console.events("leader_found")] == [url, other]

    async def test_without_a_leader_users_are_told_and_its_return_is_noticed(
        self, scheduler, second, monkeypatch
    ):
        monkeypatch.setattr("scheduler.web_console.replicas.NONE_SECONDS", 0.0)
        async with (
            serving(second) as other,
            serving(scheduler) as url,
            public_console([url, other]) as console,
        ):
            cookie = await signed_in(console)
            scheduler.switches.leader = False

            none = await console.ask("GET", "/api/v1/summary", Cookie=cookie)
            scheduler.switches.leader = True
            again = await console.ask("GET", "/api/v1/summary", Cookie=cookie)

        assert none[0] == 503
        assert "No replica of the scheduler leads" in none[1]
        assert again[0] == 200

    async def test_a_scheduler_that_is_away_ends_no_session(self, scheduler, monkeypatch):
        monkeypatch.setattr("scheduler.web_console.replicas.NONE_SECONDS", 0.0)
        async with contextlib.AsyncExitStack() as running:
            url = await running.enter_async_context(serving(scheduler))
            async with public_console([url]) as console:
                cookie = await signed_in(console)
                await running.aclose()

                page = await console.ask("GET", "/", Cookie=cookie)
                proxied = await console.ask("GET", "/", Authorization="Bearer new")
                data = await console.ask("GET", "/api/v1/summary", Cookie=cookie)
                form = await console.sign_in(BOB)
                async with serving(scheduler, int(url.rpartition(":")[2])):
                    again = await console.ask("GET", "/api/v1/summary", Cookie=cookie)

        assert (page[0], proxied[0], data[0], form[0], again[0]) == (200, 200, 503, 503, 200)
        assert "The scheduler does not answer" in data[1]
        assert "The scheduler does not answer" in form[1]
        assert "127.0.0.1" not in data[1] + form[1]

    async def test_no_token_is_sent_to_a_server_with_another_certificate(self, scheduler, tmp_path):
        """The tokens of users are worth more than anything that the console shows."""
        theirs, other = Authority(tmp_path / "a"), Authority(tmp_path / "b")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(theirs.folder / "server.crt", theirs.folder / "server.key")
        tls = Tls(lambda: client_context(other.certificate))
        right = Tls(lambda: client_context(theirs.certificate))
        async with serving(scheduler, context=context) as url:
            async with public_console([url], tls=tls, server_name="kubernetes") as console:
                untrusted = await console.sign_in(ADA)
            async with public_console([url], tls=right, server_name="other") as console:
                misnamed = await console.sign_in(ADA)
            assert scheduler.requests == []
            async with public_console([url], tls=right, server_name="kubernetes") as console:
                await signed_in(console)

        for status, text in (untrusted, misnamed):
            assert status == 503
            assert "The certificate of the scheduler cannot be verified" in text

    async def test_a_name_that_is_not_resolved_leaves_the_addresses_of_before(
        self, scheduler, monkeypatch
    ):
        monkeypatch.setattr("scheduler.web_console.replicas.NONE_SECONDS", 0.0)
        async with serving(scheduler) as url, public_console([url]) as console:
            cookie = await signed_in(console)

            async def fails(_: str) -> dict[str, str]:
                raise OSError("Temporary failure in name resolution")

            monkeypatch.setattr(replicas, "_addresses", fails)
            scheduler.switches.leader = False
            assert (await console.ask("GET", "/api/v1", Cookie=cookie))[0] == 503
            scheduler.switches.leader = True

            assert (await console.ask("GET", "/api/v1", Cookie=cookie))[0] == 200
            (told,) = console.events("no_leader")
            assert "Temporary failure in name resolution" in told["problem"]
