"""Users of the console in a cluster: who is let in, for how long, and what others cannot change."""

import asyncio

import pytest
from aiohttp import web

from scheduler.web_console import server as console_server
from scheduler.web_console import token_sign_in
from tests.support.api_stand_in import StandIn, serving
from tests.web_console.public_console import ADA, BOB, public_console, signed_in


async def test_a_user_without_the_permission_is_told_which_one(console, scheduler):
    scheduler.switches.forbidden["/api/v1"] = 'User "ada" cannot get path "/x"'

    status, text = await console.sign_in(ADA)

    assert status == 403
    assert "User &quot;ada&quot; cannot get path &quot;/x&quot;" in text
    assert "preemptive-scheduler-viewer" in text
    assert console.cookies == 0


async def test_nothing_is_forwarded_for_a_user_without_the_permission(console, scheduler):
    """Such a user would hold the places of others, and have the scheduler review in vain."""
    scheduler.switches.forbidden["/api/v1"] = 'User "ada" cannot get path "/x"'
    headers = {"Authorization": f"Bearer {ADA}", "Origin": console.origin}

    for method, path in (("GET", "/api/v1/nodes/a"), ("POST", "/api/v1/plan"), ("GET", "/api/v1")):
        status, text, _ = await console.ask(method, path, **headers)
        assert (status, "preemptive-scheduler-viewer" in text) == (403, True)

    assert [each for each in scheduler.requests if each != "GET /api/v1"] == []
    assert scheduler.authorizations.count(f"Bearer {ADA}") == 1


async def test_a_user_without_the_permission_is_reviewed_no_faster_than_an_unknown_one(
    console, scheduler, monkeypatch
):
    monkeypatch.setattr(token_sign_in, "FORBIDDEN_SECONDS", -1.0)
    scheduler.switches.forbidden["/api/v1"] = 'User "ada" cannot get path "/x"'
    most = int(token_sign_in.SOURCE_TOKENS.burst)

    found = {(await console.sign_in(ADA))[0] for _ in range(most + 5)}

    assert found == {403}
    assert scheduler.authorizations.count(f"Bearer {ADA}") == most


@pytest.mark.parametrize("proxy", [{}, {"Authorization": f"Bearer {BOB}"}], ids=["", "and a token"])
async def test_signing_out_ends_the_session_and_what_is_sent_to_it(console, proxy):
    cookie = await signed_in(console)
    watch = await console.watch(cookie)

    out = await console.ask("POST", "/sign-out", Cookie=cookie, Origin=console.origin, **proxy)

    await console.ended(watch)
    assert out[0] == 204
    assert "Max-Age=0" in out[2]["Set-Cookie"]
    assert (await console.ask("GET", "/api/v1", Cookie=cookie))[0] == 401
    assert console.events("signed_out") == [{"user": "ada", "reason": "by the user"}]


async def test_a_token_that_has_expired_ends_the_session(console, scheduler):
    cookie = await signed_in(console)
    watch = await console.watch(cookie)
    del scheduler.switches.users[ADA]

    first = await console.ask("GET", "/api/v1/summary", Cookie=cookie)
    second = await console.ask("GET", "/api/v1/summary", Cookie=cookie)

    await console.ended(watch)  # that of another connection, too
    assert (first[0], second[0], console.cookies) == (401, 401, 0)
    assert token_sign_in.ENDED in second[1]


#: What is set, whether a page is open, and why the session ends.
ENDS = {
    "too old": ("SESSION_SECONDS", True, "after 12 hours"),
    "nobody looks": ("IDLE_SECONDS", False, "after an hour without a request"),
    "a page is open": ("IDLE_SECONDS", True, ""),
}


@pytest.mark.parametrize("sweep", [3600.0, 0.01], ids=["at a request", "without a request"])
@pytest.mark.parametrize("case", ENDS)
async def test_a_session_ends_by_itself(console, monkeypatch, case, sweep):
    limit, is_open, reason = ENDS[case]
    monkeypatch.setattr(token_sign_in, "SWEEP_SECONDS", sweep)
    cookie = await signed_in(console)
    watch = await console.watch(cookie) if is_open else None
    monkeypatch.setattr(token_sign_in, limit, 0.0)

    async with asyncio.timeout(10):
        while reason and console.cookies:
            await asyncio.sleep(0.01)
            if sweep > 1.0:
                await console.ask("GET", "/", Cookie=cookie)
    if watch is not None and reason:
        await console.ended(watch)
    assert (await console.ask("GET", "/api/v1", Cookie=cookie))[0] == (401 if reason else 200)
    assert [each["reason"] for each in console.events("signed_out")] == [reason][: bool(reason)]
    assert console.cookies == (not reason)
    if watch is not None:
        watch.close()


async def test_sessions_are_limited_and_those_of_one_user_take_no_others_place(
    console, scheduler, monkeypatch
):
    monkeypatch.setattr(token_sign_in, "USER_SESSIONS", 2)
    bob = await signed_in(console, BOB)
    ada = [await signed_in(console, ADA) for _ in range(3)]

    answers = [(await console.ask("GET", "/api/v1", Cookie=each))[0] for each in (*ada, bob)]
    assert answers == [401, 200, 200, 200]

    monkeypatch.setattr(token_sign_in, "SESSIONS", 3)
    for i in range(2):
        account = f"system:serviceaccount:team:{i}"
        scheduler.switches.users[account] = account
        await signed_in(console, account)
        assert (await console.ask("GET", "/api/v1", Cookie=bob))[0] == 200
    assert console.cookies == 3
    assert (await console.ask("GET", "/api/v1", Cookie=bob))[0] == 200
    reasons = [(each["user"], each["reason"]) for each in console.events("signed_out")]
    assert reasons == [
        ("ada", "too many of the user"),
        ("ada", "too many sessions"),  # she has most of them
        ("ada", "too many sessions"),  # hers was used longest ago
    ]


async def test_many_accounts_of_a_namespace_take_the_sessions_of_that_namespace_alone(
    console, scheduler, monkeypatch
):
    monkeypatch.setattr(token_sign_in, "SESSIONS", 3)
    bob = await signed_in(console, BOB)
    for i in range(10):
        account = f"system:serviceaccount:team:{i}"
        scheduler.switches.users[account] = account
        await signed_in(console, account)

    assert (await console.ask("GET", "/api/v1", Cookie=bob))[0] == 200


async def test_invented_tokens_do_not_use_up_the_reviews_of_known_ones_and_of_other_sources(
    console, scheduler
):
    cookie = await signed_in(console)
    most = int(token_sign_in.SOURCE_TOKENS.burst)

    async def with_token(token: str, source: str = "") -> int:
        headers = {"Authorization": f"Bearer {token}", "X-Forwarded-For": source}
        return (await console.ask("GET", "/api/v1", **headers))[0]

    # Whatever the client has said itself is before what the proxy says.
    found = [await with_token(f"x{i}", f"192.0.2.{i}, 198.51.100.7") for i in range(most + 5)]

    assert found[:most] == [401] * most
    assert found[-1] == 429
    assert (await console.ask("GET", "/api/v1", Cookie=cookie))[0] == 200
    assert await with_token(ADA, "198.51.100.7") == 200  # accepted before
    assert (await console.sign_in(BOB, X_Forwarded_For="198.51.100.8"))[0] == 303

    several = [await with_token(f"y{i}", f"192.0.2.{i}") for i in range(30)]
    assert several[-1] == 429  # the scheduler is asked no faster


@pytest.mark.parametrize("index", [None, {"kind": "another"}], ids=["no user", "another document"])
async def test_an_answer_of_the_scheduler_that_says_no_user_signs_nobody_in(
    scheduler, monkeypatch, index
):
    async def another(*_: object) -> web.Response:
        return web.json_response(index)

    if index is not None:
        monkeypatch.setattr(StandIn, "_index", another)
    async with serving(scheduler) as url, public_console([url]) as console:
        status, text = await console.sign_in(scheduler.switches.token)

    assert status == 503
    assert "The scheduler cannot answer now" in text


@pytest.mark.parametrize(
    ("url", "transport", "sent_to"),
    [
        ("https://a.example", console_server.TRANSPORT, "https://a.example"),
        # It would count for other ports of the host.
        ("https://a.example:8443", None, "https://a.example:8443"),
        ("http://localhost:8080", None, "'self'"),
    ],
)
async def test_a_token_is_not_sent_in_the_clear_where_the_address_is_https(
    scheduler, url, transport, sent_to
):
    async with serving(scheduler) as api, public_console([api], url=url) as console:
        _, form, headers = await console.ask("GET", "/", Host=url.partition("//")[2])

    assert 'name="token"' in form
    assert headers.get("Strict-Transport-Security") == transport
    assert f"form-action {sent_to};" in headers["Content-Security-Policy"]
