"""Lists are complete in the end, whatever breaks them, and never in memory as a whole."""

import json
import re
from typing import Any

import pytest

from scheduler.kube.http import connection
from scheduler.kube.watch import lister
from scheduler.model.events import PodGone, PodObserved
from tests.kube.fixtures import STREAM, expired, until
from tests.support.fake_api import FakeApi, Fault, pod

END = {"k8s.io/initial-events-end": "true"}


def line(what: str, name: str, version: int, **metadata: Any) -> bytes:
    """Return a line about a pod."""
    made = pod(name)
    made["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": str(version), **metadata}
    return json.dumps({"type": what, "object": made}).encode() + b"\n"


def bookmark(version: int, **metadata: Any) -> bytes:
    made = {"metadata": {"resourceVersion": str(version), **metadata}, "spec": {"containers": None}}
    return json.dumps({"type": "BOOKMARK", "object": made}).encode() + b"\n"


def error(code: int, reason: str) -> bytes:
    status = {"kind": "Status", "code": code, "reason": reason, "message": "why"}
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


def stream(api: FakeApi, *lines: bytes) -> None:
    """Have the first list come by a stream, which sends these lines, and ends."""
    api.inject(expired("limit="))
    api.inject(Fault("GET", STREAM, status=200, body=b"".join(lines)))


def ways(api: FakeApi) -> list[str]:
    """Return how each list began, or went on."""
    names = (("stream", STREAM), ("page", "continue="), ("pages", "limit="))
    lists = [each.path for each in api.requests if "limit=1&" not in each.path]
    return [next((name for name, pattern in names if pattern in path), "watch") for path in lists]


# By a stream


async def test_changes_while_objects_are_listed_count_in_their_order(api, view, start):
    stream(
        api,
        line("ADDED", "deleted", 90),
        line("ADDED", "kept", 20),  # objects do not come in the order of their versions
        line("ADDED", "renewed", 70),
        line("DELETED", "deleted", 102),
        line("DELETED", "renewed", 103),
        bookmark(104),
        line("ADDED", "renewed", 105, uid="another"),
        line("MODIFIED", "kept", 106),
        bookmark(107, annotations=END),
        line("ADDED", "later", 108),
    )

    await start(page_objects=2)
    await until(lambda: api.watches == 1)

    assert view.pods == {"default/kept": "uid-kept", "default/renewed": "another"}
    assert [type(event) for event in view.events] == [PodObserved] * 3 + [PodGone] * 2 + [
        PodObserved
    ] * 2
    assert "resourceVersion=107&" in api.requests[-1].path


async def test_what_a_pod_says_does_not_end_a_list(api, view, start):
    stream(
        api,
        line("ADDED", "hostile", 20, annotations=END),
        bookmark(30),
        bookmark(30, annotations={"k8s.io/initial-events-end": "false"}),
        line("ADDED", "a", 40),
        bookmark(50, annotations=END),
    )

    await start()

    assert set(view.pods) == {"default/hostile", "default/a"}


@pytest.mark.parametrize("status", [400, 422])
async def test_a_server_that_streams_no_lists_is_asked_for_pages_at_once(
    api, view, start, waits, status
):
    for number in range(5):
        api.store.put("pods", pod(f"p{number}"))
    api.inject(expired("continue="))
    api.inject(Fault("GET", STREAM, status=status))

    await start(page_objects=2)

    assert view.equals(api)
    assert waits.slept == [0.5]
    assert ways(api)[:6] == ["pages", "page", "stream", "pages", "page", "page"]


async def test_the_next_list_comes_in_the_way_that_succeeded(api, view, start):
    api.inject(expired("limit="))
    informer = await start()

    await informer.list_again()

    assert [way for way in ways(api) if way != "watch"] == ["pages", "stream", "stream"]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        pytest.param([], "cannot list pods: the server ended the list too early", id="end"),
        pytest.param([error(410, "Expired")], "the watch ended: why", id="expired"),
        pytest.param([error(500, "InternalError")], "the watch ended: why", id="failure"),
        pytest.param([b"<html>\n"], "the watch sent something other than events", id="no event"),
    ],
)
async def test_a_stream_that_breaks_is_followed_by_pages(api, view, start, heard, lines, problem):
    kept = api.store.put("pods", pod("kept"))["metadata"]
    old = line("ADDED", "kept", kept["resourceVersion"], uid=kept["uid"])
    stream(api, old, line("ADDED", "gone", 30), *lines)

    await start()

    assert view.equals(api)
    assert [type(event) for event in view.events] == [PodObserved, PodObserved, PodGone]
    assert heard.interruptions[1].startswith(problem)
    assert ways(api)[:3] == ["pages", "stream", "pages"]


async def test_a_stream_that_is_silent_is_followed_by_pages(api, view, start, monkeypatch):
    monkeypatch.setattr(lister, "LIST_SECONDS", 0.1)
    api.store.put("pods", pod("a"))
    api.inject(expired("limit="))
    api.hangs_lists = True

    await start()

    assert view.equals(api)


# In pages


@pytest.fixture
def thousands(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """A server with more pods than a response may have, that streams no lists."""
    monkeypatch.setattr(connection, "ANSWER_BYTES", 2**21)
    for number in range(400):
        made = pod(f"p{number}")
        made["metadata"]["annotations"] = {"a": "x" * 16_000}
        api.store.put("pods", made)
    api.streams_lists = False
    return api


async def test_a_page_that_expires_begins_the_list_again_in_pages(thousands, view, start):
    thousands.inject(expired("continue="))

    await start(page_objects=100)

    assert view.equals(thousands)
    assert len(view.events) == 400
    assert ways(thousands)[:7] == ["pages", "page", "stream", "pages", "page", "page", "page"]


async def test_a_page_that_comes_again_and_again_is_no_list(api, view, start, waits):
    """As from a cache on the way that ignores the query."""
    api.store.put("pods", pod("a"))
    page = {"kind": "PodList", "metadata": {"resourceVersion": "9", "continue": "x"}, "items": []}
    api.inject(Fault("GET", "limit=", times=6, status=200, body=json.dumps(page).encode()))

    await start()

    assert view.equals(api)
    assert waits.slept == [0.5, 1.0, 2.0]


async def test_pages_that_are_too_large_get_smaller(thousands, view, start):
    informer = await start(page_objects=400)

    assert view.equals(thousands)
    limits = [
        limit for each in thousands.requests for limit in re.findall(r"limit=(\d+)&", each.path)
    ]
    assert limits[:5] == ["400", "200", "100", "100", "100"]

    before = len(thousands.requests)
    await informer.list_again()
    assert any("limit=400&" in each.path for each in thousands.requests[before:])


async def test_pages_that_are_too_large_are_followed_by_a_stream(thousands, view, start):
    thousands.streams_lists = True

    await start(page_objects=400)

    assert view.equals(thousands)
    assert ways(thousands)[:2] == ["pages", "stream"]


async def test_lists_that_break_again_and_again_are_at_most_one_in_half_a_minute(
    api, view, start, waits
):
    for number in range(4):
        api.store.put("pods", pod(f"p{number}"))
    api.inject(Fault("GET", STREAM, times=4, status=200, body=line("ADDED", "x", 30)))
    api.inject(expired("continue=", times=5))

    await start(page_objects=2)

    assert view.equals(api)
    assert waits.slept == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert ways(api)[:15] == ["pages", "page", "stream"] * 5
