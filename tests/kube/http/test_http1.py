"""HTTP/1.1: how answers end, and when a connection or a request is used twice."""

import asyncio
import gc
import weakref

import pytest

from scheduler.kube.errors import Unreachable
from scheduler.kube.http import http1
from scheduler.kube.http.connection import HttpResponse
from scheduler.kube.http.http1 import Http1, Reply
from tests.support.scripted_api import OK

ENDLESS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


async def get(http: Http1) -> Reply:
    return await http.send("GET", "/a?b=c", {}, None)


async def test_a_request_is_one_line_its_headers_and_its_body(server, http):
    server.script = [[OK]]

    reply = await http.send("POST", "/a?b=c", {"Authorization": "Bearer t"}, b"{}")

    assert reply == Reply(200, {"content-length": "2"}, b"ok")
    host = server.url.split("/")[2]
    assert server.connections == [
        [
            f"POST /base/a?b=c HTTP/1.1\r\nHost: {host}\r\nUser-Agent: test\r\n".encode()
            + b"Authorization: Bearer t\r\nContent-Length: 2\r\n\r\n{}"
        ]
    ]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc", id="by its length"),
        pytest.param(ENDLESS + b"1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", id="in chunks"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\nabc", id="with the connection"),
        pytest.param(
            b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
            id="after it was announced",
        ),
    ],
)
async def test_how_an_answer_ends(server, http, answer):
    server.script = [[answer]]

    reply = await get(http)

    assert (reply.status, reply.body, "x" in reply.headers) == (200, b"abc", False)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "closed", id="too short"),
        pytest.param(ENDLESS + b"9\r\nabc", "closed", id="half a chunk"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Le", "closed", id="half a head"),
        pytest.param(b"SSH-2.0-OpenSSH_9.6\r\n", "not HTTP", id="something else"),
        pytest.param(ENDLESS + b"zz\r\n", "not HTTP", id="broken chunks"),
    ],
)
async def test_half_an_answer_is_none(server, http, answer, problem):
    server.script = [[answer]]

    with pytest.raises(Unreachable, match=problem) as raised:
        await get(http)

    assert raised.value.sent


async def test_a_connection_is_used_again(server, http):
    server.script = [[OK, OK, OK]]

    for _ in range(3):
        await get(http)

    assert [len(requests) for requests in server.connections] == [3]


async def test_a_connection_that_the_server_does_not_keep_is_not_used_again(server, http):
    closing = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
    wait = asyncio.Event()
    server.script = [[closing, wait], [OK]]

    await get(http)
    await get(http)

    wait.set()
    assert [len(requests) for requests in server.connections] == [1, 1]


async def test_a_connection_that_was_idle_for_long_is_not_trusted(server, http, monkeypatch):
    server.script = [[OK, OK], [OK]]
    await get(http)
    monkeypatch.setattr(http1, "KEEP_ALIVE_SECONDS", 0.0)

    await get(http)

    assert [len(requests) for requests in server.connections] == [1, 1]


async def test_a_connection_with_unrequested_data_is_not_used_again(server, http):
    wait = asyncio.Event()
    server.script = [[OK + OK, wait], [OK]]

    assert [(await get(http)).body for _ in range(2)] == [b"ok", b"ok"]

    wait.set()
    assert [len(requests) for requests in server.connections] == [1, 1]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_what_may_be_repeated_is_when_a_kept_connection_is_cut(server, http, method):
    server.script = [[OK, None], [OK]]
    await get(http)

    reply = await http.send(method, "/", {}, None)

    assert reply.body == b"ok"
    assert [len(requests) for requests in server.connections] == [2, 1]


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_a_request_that_may_have_been_processed_is_not_retried(server, http, method):
    server.script = [[OK, None], [OK]]
    await get(http)

    with pytest.raises(Unreachable) as raised:
        await http.send(method, "/", {}, b"{}")

    assert raised.value.sent
    assert [len(requests) for requests in server.connections] == [2]


async def test_a_cancelled_request_cuts_its_connection(server, http):
    wait = asyncio.Event()
    server.script = [[wait], [OK]]
    task = asyncio.create_task(get(http))
    while not server.connections:
        await asyncio.sleep(0)

    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    reply = await get(http)

    wait.set()
    assert reply.body == b"ok"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(OK, id="complete"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", id="too short"),
    ],
)
def test_an_answer_that_has_ended_is_not_left_to_the_garbage_collector(data):
    answer = HttpResponse()
    gone = weakref.ref(answer)
    gc.disable()
    try:
        answer.feed(data)
        answer.end("")
        del answer
        assert gone() is None
    finally:
        gc.enable()


async def posted(http: Http1, seconds: float = 10.0) -> Reply | Unreachable:
    """Post without a task; there must be a connection."""
    answer: asyncio.Future[Reply | Unreachable] = asyncio.get_running_loop().create_future()
    assert http.dispatch(
        "POST", "/a", {"Authorization": "Bearer t"}, b"{}", seconds, answer.set_result
    )
    assert not answer.done()
    async with asyncio.timeout(5):
        return await answer


async def test_without_an_open_connection_nothing_is_posted(server, http):
    told: list[object] = []

    assert not http.dispatch("POST", "/a", {}, b"{}", 10.0, told.append)

    assert told == server.connections == []


async def test_a_post_uses_a_connection_that_was_kept(server, http):
    server.script = [[OK, OK, OK, OK]]
    await get(http)

    answers = [await posted(http), await posted(http)]
    await get(http)

    assert answers == [Reply(200, {"content-length": "2"}, b"ok")] * 2
    (requests,) = server.connections
    host = server.url.split("/")[2]
    assert requests[1] == requests[2]
    assert requests[1] == (
        f"POST /base/a HTTP/1.1\r\nHost: {host}\r\nUser-Agent: test\r\n".encode()
        + b"Authorization: Bearer t\r\nContent-Length: 2\r\n\r\n{}"
    )


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param(None, "closed", id="none"),
        pytest.param(OK[:-1], "closed", id="half"),
        pytest.param(b"what?\r\n\r\n", "not HTTP", id="no HTTP"),
    ],
)
async def test_what_is_posted_is_not_repeated(server, http, answer, problem):
    server.script = [[OK, answer], [OK]]
    await get(http)

    told = await posted(http)

    assert isinstance(told, Unreachable)
    assert told.sent
    assert problem in str(told)
    assert (await get(http)).body == b"ok"
    assert [len(requests) for requests in server.connections] == [2, 1]


async def test_a_request_whose_answer_is_overdue_fails(server, http, monkeypatch):
    monkeypatch.setattr(http1, "OVERDUE_SECONDS", 0.01)
    never = asyncio.Event()
    server.script = [[OK, OK, never], [OK]]
    await get(http)
    assert isinstance(await posted(http), Reply)

    told = await posted(http, 0.05)

    assert isinstance(told, Unreachable)
    assert "in time" in str(told)
    assert (await get(http)).body == b"ok"
    assert len(server.connections) == 2


async def test_nothing_was_sent_to_a_server_that_does_not_exist(server, http):
    await server.stop()

    with pytest.raises(Unreachable, match=r"cannot connect to 127\.0\.0\.1:") as raised:
        await get(http)

    assert not raised.value.sent


# Streams


async def test_a_stream_is_read_as_it_arrives(server, http):
    more = asyncio.Event()
    server.script = [[ENDLESS + b"1\r\na\r\n", more]]

    stream = await http.stream("/", {}, 5)

    assert (stream.status, await stream.read()) == (200, b"a")
    more.set()
    with pytest.raises(Unreachable, match="closed the connection"):
        await stream.read()
    stream.close()


async def test_a_silent_stream_fails(server, http):
    wait = asyncio.Event()
    server.script = [[ENDLESS, wait], [wait]]

    stream = await http.stream("/", {}, 1)
    with pytest.raises(Unreachable, match="silent for too long"):
        await stream.read()
    stream.close()
    with pytest.raises(Unreachable, match="did not respond in time"):
        await http.stream("/", {}, 0.01)
    wait.set()


async def test_a_slow_reader_slows_the_stream_down_and_loses_nothing(server, http):
    size = 4_000_000
    server.script = [[ENDLESS + b"%x\r\n" % size + b"x" * size + b"\r\n0\r\n\r\n"]]

    stream = await http.stream("/", {}, 5, 1000)
    for _ in range(50):
        await asyncio.sleep(0)
    parts = []
    while part := await stream.read():
        parts.append(len(part))

    stream.close()
    assert sum(parts) == size
    assert max(parts) < size / 2
