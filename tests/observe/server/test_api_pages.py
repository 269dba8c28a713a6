"""Documents of the API are served: errors as objects, watches without an end."""

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from scheduler.model.rest.cluster import LEADER_HEADER
from scheduler.observe.api.requests import ApiRequest, StatusError, Stream
from scheduler.observe.pages.routes import Routes
from scheduler.observe.server.access import (
    ALLOWED,
    UNAUTHENTICATED,
    AccessDecision,
    AccessVerdict,
    Caller,
)
from scheduler.observe.server.listen import Limits, Listen
from scheduler.observe.server.watch_places import WatchPlace


async def document(request: ApiRequest) -> object:
    match request.query.get("fail"):
        case "value":
            raise ValueError("limit must be a number")
        case "lookup":
            raise LookupError('node "n9" is not known')
        case "api":
            raise StatusError(429, "TooManyRequests", "later", 7)
    return {"query": dict(request.query), "seen": "a" in await request.names.visible(["a"])}


async def parts(request: ApiRequest) -> AsyncGenerator[bytes]:
    async def made() -> AsyncGenerator[bytes]:
        yield b"[1,"
        yield b"2]"

    return made()


class Events:
    """A page that is watched, and that knows how many watches were closed."""

    closed = 0
    size = 10

    async def page(self, request: ApiRequest) -> Stream:
        return Stream(self.events(), "text/event-stream", endless=True)

    async def events(self) -> AsyncGenerator[bytes]:
        try:
            while True:
                yield b"data: " + b"x" * self.size + b"\n\n"
                await asyncio.sleep(0.02)
        finally:
            self.closed += 1


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
def pages(pages: Routes, events: Events) -> Routes:
    api = {
        "/api/v1/things": document,
        "/api/v1/things/{name}": document,
        "/api/v1/parts": parts,
        "/api/v1/events": events.page,
    }
    return replace(pages, api=api)


async def test_a_document_gets_query_and_path(serve):
    served = await serve()

    status, text = await served.get("/api/v1/things/n1?limit=2")

    assert status == 200
    assert json.loads(text) == {"query": {"limit": "2", "name": "n1"}, "seen": True}


async def test_the_last_event_that_was_read_comes_before_the_revision_of_the_query(serve):
    served = await serve()

    _, text = await served.get("/api/v1/things?watch=1&revision=5", headers={"Last-Event-ID": "7"})

    assert json.loads(text)["query"] == {"watch": "1", "revision": "7"}


@pytest.mark.parametrize(
    ("fail", "code", "reason", "message"),
    [
        ("value", 400, "BadRequest", "limit must be a number"),
        ("lookup", 404, "NotFound", 'node "n9" is not known'),
        ("api", 429, "TooManyRequests", "later"),
    ],
)
async def test_errors_are_objects(serve, fail, code, reason, message):
    served = await serve()

    status, text = await served.get(f"/api/v1/things?fail={fail}")

    found = json.loads(text)
    assert status == found["code"] == code
    assert (found["kind"], found["reason"], found["message"]) == ("Status", reason, message)


@pytest.mark.parametrize("leads", [True, False])
async def test_each_answer_says_whether_this_replica_leads_and_refusals_do_too(serve, pages, leads):
    """Whoever looks for the leader needs no credentials for it."""

    async def judge(caller: Caller) -> AccessDecision:
        return UNAUTHENTICATED if caller.path.endswith("n1") else ALLOWED

    served = await serve(judge, pages=replace(pages, leads=lambda: leads))

    for path in ("/api/v1/things", "/api/v1/things/n1", "/api/v1/nothing"):
        assert (await served.headers(path))[LEADER_HEADER] == str(leads).lower()
    assert LEADER_HEADER not in await served.headers("/healthz")


async def test_names_are_those_of_the_decision(serve):
    async def judge(caller: Caller) -> AccessDecision:
        return AccessDecision(AccessVerdict.ALLOWED)

    served = await serve(judge)

    assert json.loads((await served.get("/api/v1/things"))[1])["seen"] is False


async def read_events(served, number: int) -> list[bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.web.port)
    writer.write(b"GET /api/v1/events?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n")
    async with asyncio.timeout(5):
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"Content-Type: text/event-stream" in head
        found = [await reader.readuntil(b"\n\n") for _ in range(number)]
    writer.close()
    await writer.wait_closed()
    return found


async def until(condition) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_watch_outlives_the_time_for_a_response(serve, events):
    served = await serve(listen=Listen(plain=True, answer_seconds=0.2))

    assert len(await read_events(served, 25)) == 25
    await until(lambda: events.closed == 1)


async def test_watches_beyond_the_limit_are_refused(serve):
    served = await serve(listen=Listen(plain=True, limits=Limits(watches=1)))
    reading = asyncio.create_task(read_events(served, 40))
    await asyncio.sleep(0.1)

    status, text = await served.get("/api/v1/events?watch=1")

    assert (status, json.loads(text)["reason"]) == (429, "TooManyRequests")
    await reading
    await asyncio.sleep(0.1)
    assert len(await read_events(served, 1)) == 1


async def test_a_client_that_does_not_read_is_cut_off(serve, events):
    events.size = 4_000_000
    served = await serve(listen=Listen(plain=True, limits=Limits(event_seconds=0.3)))
    _, writer = await asyncio.open_connection("127.0.0.1", served.web.port)
    writer.transport.pause_reading()
    writer.write(b"GET /api/v1/events?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n")

    await until(lambda: events.closed == 1)
    assert (await served.get("/api/v1/things"))[0] == 200
    writer.close()


@pytest.mark.parametrize(
    ("method", "path", "code", "reason"),
    [
        ("GET", "/api/v1/nothing", 404, "NotFound"),
        ("GET", "/api/v1/things/a/b", 404, "NotFound"),
        ("PUT", "/api/v1/things", 405, "MethodNotAllowed"),
        ("OPTIONS", "/api/v1/things", 405, "MethodNotAllowed"),
        ("DELETE", "/api/v1/things/n1", 405, "MethodNotAllowed"),
    ],
)
async def test_what_is_not_served_is_an_object_too(serve, method, path, code, reason):
    served = await serve()

    head, _, body = (
        await served.raw(
            f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
        )
    ).partition(b"\r\n\r\n")

    found = json.loads(body)
    assert b" %d " % code in head.partition(b"\r\n")[0]
    assert (found["kind"], found["code"], found["reason"]) == ("Status", code, reason)
    assert (b"Allow: GET" in head) == (code == 405)


async def open_watches(
    served, number: int, user: str = ""
) -> list[tuple[int, asyncio.StreamWriter]]:
    """Open watches at the same time; return the status of each."""

    async def one() -> tuple[int, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.web.port)
        request = f"GET /api/v1/events?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: {user}\r\n\r\n"
        writer.write(request.encode())
        head = await reader.readuntil(b"\r\n")
        return int(head.split()[1]), writer

    return await asyncio.gather(*(one() for _ in range(number)))


async def test_watches_that_are_asked_for_at_once_are_bounded(serve, pages, events):
    async def slow(request: ApiRequest) -> Stream:
        await asyncio.sleep(0.1)
        return await events.page(request)

    limits = Limits(watches=3)
    served = await serve(
        listen=Listen(plain=True, limits=limits),
        pages=replace(pages, api={"/api/v1/events": slow}),
    )

    opened = await open_watches(served, 12)

    assert sorted(status for status, _ in opened) == [200] * 3 + [429] * 9
    for _, writer in opened:
        writer.close()


async def test_a_watch_whose_client_is_gone_ends_at_once(serve, pages, events):
    closed = asyncio.Event()

    async def quiet(request: ApiRequest) -> Stream:
        async def parts() -> AsyncGenerator[bytes]:
            try:
                yield b": watching\n\n"
                await asyncio.sleep(60)
            finally:
                closed.set()

        return Stream(parts(), "text/event-stream", endless=True)

    served = await serve(
        listen=Listen(plain=True, limits=Limits(watches=1)),
        pages=replace(pages, api={"/api/v1/events": quiet}),
    )
    ((_, writer),) = await open_watches(served, 1)
    await asyncio.sleep(0.1)  # the first part is written

    writer.transport.abort()

    async with asyncio.timeout(10):
        await closed.wait()
    ((status, writer),) = await open_watches(served, 1)
    assert status == 200
    writer.close()


async def by_name(caller: Caller) -> AccessDecision:
    return AccessDecision(AccessVerdict.ALLOWED, user=caller.headers.get("Authorization", ""))


async def test_one_user_cannot_take_all_watches(serve):
    limits = Limits(watches=6, user_watches=2)
    served = await serve(by_name, listen=Listen(plain=True, limits=limits))

    ada = await open_watches(served, 5, "ada")
    bob = await open_watches(served, 1, "bob")

    assert sorted(status for status, _ in ada) == [200] * 2 + [429] * 3
    assert bob[0][0] == 200
    for _, writer in (*ada, *bob):
        writer.close()
    await asyncio.sleep(0.2)
    again = await open_watches(served, 2, "ada")
    assert [status for status, _ in again] == [200, 200]
    for _, writer in again:
        writer.close()


async def test_the_last_watch_of_a_user_with_several_yields_to_a_user_without_any(serve):
    limits = Limits(watches=4, user_watches=3)
    served = await serve(by_name, listen=Listen(plain=True, limits=limits))
    opened = await open_watches(served, 3, "ada") + await open_watches(served, 1, "bob")

    found = {}
    for user in ("cyd", "bob", "cyd", "dan", "eve", "ada"):
        ((found[user], writer),) = await open_watches(served, 1, user)
        opened.append((200, writer))

    # Ada has lost two of three to Cyd and Dan. Then each user has one, and nobody has to yield.
    assert found == {"cyd": 429, "bob": 429, "dan": 200, "eve": 429, "ada": 429}
    for _, writer in opened:
        writer.close()


async def test_a_place_that_is_lost_may_lose_its_right_as_well():
    place, ada = WatchPlace(), AccessDecision(AccessVerdict.ALLOWED, user="ada")

    async def review() -> AccessDecision:
        return ada

    async with place.kept(ada, review, 60.0):
        place.end()
        try:
            await asyncio.sleep(60.0)
        finally:
            place.end()


class Rights:
    """Authorizes everybody until told otherwise."""

    def __init__(self) -> None:
        self.verdict, self.user = AccessVerdict.ALLOWED, "ada"

    async def __call__(self, caller: Caller) -> AccessDecision:
        return AccessDecision(self.verdict, user=self.user)


@pytest.mark.parametrize(
    ("verdict", "user", "reviews"),
    [
        (AccessVerdict.UNAUTHENTICATED, "", 1),
        (AccessVerdict.FORBIDDEN, "", 1),
        (AccessVerdict.ALLOWED, "bob", 1),
        (AccessVerdict.UNAVAILABLE, "", 6),
        (AccessVerdict.THROTTLED, "", 6),
    ],
)
async def test_a_watch_ends_with_the_right_to_open_it(serve, events, verdict, user, reviews):
    rights = Rights()
    limits = Limits(rights_seconds=0.1)
    served = await serve(rights, listen=Listen(plain=True, limits=limits))
    reader, writer = await asyncio.open_connection("127.0.0.1", served.web.port)
    writer.write(b"GET /api/v1/events?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n")
    await asyncio.sleep(0.3)
    assert events.closed == 0
    began = asyncio.get_running_loop().time()

    rights.verdict, rights.user = verdict, user
    async with asyncio.timeout(5):
        answer = await reader.read()

    assert answer.endswith(b"\r\n0\r\n\r\n")  # the response is complete
    assert events.closed == 1
    assert asyncio.get_running_loop().time() - began > (reviews - 1) * 0.1
    writer.close()


async def test_a_watch_that_nobody_reads_ends_with_the_right_to_open_it(serve, events):
    rights = Rights()
    events.size = 4_000_000
    served = await serve(rights, listen=Listen(plain=True, limits=Limits(rights_seconds=0.1)))
    _, writer = await asyncio.open_connection("127.0.0.1", served.web.port)
    writer.transport.pause_reading()
    writer.write(b"GET /api/v1/events?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n")
    await asyncio.sleep(0.2)

    rights.verdict = AccessVerdict.FORBIDDEN

    await until(lambda: events.closed == 1)
    writer.close()
