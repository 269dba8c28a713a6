"""What watchers are sent: what changed, once, and not more than they can read."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from scheduler.observe.api import watches
from scheduler.observe.api.history import History
from scheduler.observe.api.requests import EVERY_NAME, ApiRequest, NameAccess, StatusError, Stream
from tests.support.api_documents import Documents, Only
from tests.support.builders import node, pod


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    """Look at documents a hundred times a second."""
    monkeypatch.setattr(watches, "_EVERY_SECONDS", 0.01)
    monkeypatch.setattr("scheduler.observe.api.node_feed._EVERY_SECONDS", 0.005)


class Watch:
    """A watcher that reads events one by one."""

    def __init__(self, parts: AsyncGenerator[bytes]) -> None:
        self.parts = parts

    async def next(self) -> tuple[str, int, Any]:
        """Return kind, revision and content of the next event."""
        async with asyncio.timeout(5):
            async for part in self.parts:
                if not part.startswith(b":"):
                    return self._read(part)
        raise AssertionError("the watch has ended")

    def _read(self, part: bytes) -> tuple[str, int, Any]:
        assert part.endswith(b"\n\n")
        fields = dict(line.split(":", 1) for line in part.decode().strip().split("\n"))
        data = fields["data"].strip()
        number = int(fields.get("id", "0"))
        return fields["event"].strip(), number, json.loads(data) if data else None


async def watch(docs: Documents, path: str, names: NameAccess = EVERY_NAME, **query: str) -> Watch:
    page = docs.api.pages()[f"/api/v1/{path}"]
    stream = await page(ApiRequest({"watch": "1", **query}, names))
    assert isinstance(stream, Stream)
    assert stream.endless
    assert stream.content_type == "text/event-stream"
    return Watch(stream.parts)


async def test_a_list_can_be_kept_up_to_date():
    docs = Documents(node("n1").cpu("4"), node("n2"), node("n3"))
    listed = await docs.get("nodes")
    watching = await watch(docs, "nodes", revision=str(listed["revision"]), labels="zone")

    docs.cluster.add(pod("a").on("n1").cpu("1"), node("n4").label("zone", "z"))
    docs.cluster.delete_node("n2")
    kind, revision, found = await watching.next()

    assert kind == "update"
    assert revision == found["revision"] > listed["revision"]
    assert [item["name"] for item in found["items"]] == ["n1", "n4"]
    assert found["items"][1]["labels"] == {"zone": "z"}
    assert found["removed"] == ["n2"]


async def test_changes_meanwhile_are_sent_once():
    docs = Documents(node("n1").cpu("4"))
    watching = await watch(docs, "nodes")
    await watching.next()
    for i in range(20):
        docs.cluster.add(pod(f"p{i}").on("n1").cpu("10m"))

    _, revision, found = await watching.next()
    docs.cluster.add(node("n2"))
    _, later, next_one = await watching.next()

    assert found["items"][0]["resources"]["pods"]["requested"] == 20
    assert later > revision
    assert [item["name"] for item in next_one["items"]] == ["n2"]


async def test_a_node_that_is_deleted_and_made_again_is_changed():
    docs = Documents(node("n1").cpu("4"))
    watching = await watch(docs, "nodes")
    await watching.next()
    docs.cluster.delete_node("n1")
    docs.cluster.add(node("n1").cpu("8"))

    _, _, found = await watching.next()

    assert "removed" not in found
    assert found["items"][0]["resources"]["cpu"]["allocatable"] == 8000


@pytest.mark.parametrize("path", ["nodes", "preemptions"])
@pytest.mark.parametrize("revision", ["5", "999999999999999999"])
async def test_a_revision_of_another_process_has_to_list_again(path, revision):
    watching = await watch(Documents(node("n1")), path, revision=revision)

    assert await watching.next() == ("resync", 0, None)


async def test_a_revision_that_is_too_old_has_to_list_again(monkeypatch):
    monkeypatch.setattr("scheduler.observe.api.node_feed._MAX_CHANGES", 3)
    docs = Documents(node("n1"))
    old = (await docs.get("nodes"))["revision"]
    for i in range(10):
        docs.cluster.add(node(f"m{i}"))
        await docs.get("nodes")

    watching = await watch(docs, "nodes", revision=str(old))

    assert (await watching.next())[0] == "resync"


async def test_preemptions_are_sent_as_they_change():
    docs = Documents(node("n1").cpu("4"), pod("low").on("n1").cpu("4").priority(1))
    watching = await watch(docs, "preemptions")
    await watching.next()

    docs.cluster.schedule(pod("high").cpu("4").priority(9))
    _, _, first = await watching.next()
    docs.cluster.finish_terminating()
    docs.cluster.wait(2)
    docs.cluster.drain()
    _, _, second = await watching.next()

    assert first["items"][0]["phase"] == "awaiting"
    assert second["items"][0]["outcome"] == "bound"
    assert second["items"][0]["id"] == first["items"][0]["id"]


async def test_watchers_are_told_only_names_that_they_may_know():
    docs = Documents(
        node("n1").cpu("4"), pod("secret").namespace("other").on("n1").cpu("4").priority(1)
    )
    watching = await watch(docs, "preemptions", Only("default"))
    await watching.next()

    docs.cluster.schedule(pod("high").cpu("4").priority(9))
    _, _, found = await watching.next()

    assert found["items"][0]["hiddenVictims"] == 1
    assert "secret" not in str(found)


def two_tenants() -> Documents:
    """Return a cluster in which both tenants can preempt a pod of theirs."""
    docs = Documents(
        node("n1").cpu("4").label("of", "a"),
        node("n2").cpu("4").label("of", "b"),
        pod("low").namespace("a").on("n1").cpu("4").priority(1),
        pod("low").namespace("b").on("n2").cpu("4").priority(1),
    )
    docs.cluster.wait(1)
    return docs


def preempt(docs: Documents, tenant: str) -> None:
    high = pod("high").namespace(tenant).cpu("4").priority(9)
    docs.cluster.schedule(high.selects(of=tenant))


async def test_a_watcher_does_not_notice_preemptions_of_others():
    docs = two_tenants()
    watching = await watch(docs, "preemptions", Only("a"))
    _, begun, _ = await watching.next()

    preempt(docs, "b")
    waiting = asyncio.create_task(watching.next())
    await asyncio.sleep(0.05)
    docs.cluster.finish_terminating()
    docs.cluster.wait(2)
    docs.cluster.drain()
    await asyncio.sleep(0.05)
    assert not waiting.done()

    preempt(docs, "a")
    _, revision, found = await waiting

    assert [item["preemptor"]["name"] for item in found["items"]] == ["high"]
    assert "hidden" not in found
    again = await watch(docs, "preemptions", Only("a"), revision=str(begun))
    assert (await again.next())[2]["items"] == found["items"]
    assert revision > begun


@pytest.mark.parametrize("others", [0, 3])
async def test_a_revision_is_a_time_and_counts_nothing_of_others(others):
    docs = two_tenants()
    first = (await docs.get("preemptions", Only("a")))["revision"]
    for number in range(others):
        docs.cluster.schedule(
            pod(f"high{number}").namespace("b").cpu("4").priority(9 + number)
            .selects(of="b")
        )  # fmt: skip
        docs.cluster.finish_terminating()
        docs.cluster.drain()
    docs.cluster.wait(10)
    preempt(docs, "a")

    second = await docs.get("preemptions", Only("a"))

    assert second["revision"] - first == 10_000_000
    assert second["items"][0]["revision"] - first == 10_000_000


async def test_a_revision_of_another_leader_of_the_same_time_has_to_list_again():
    docs, other = Documents(), Documents()
    other.history = History(other.cluster.machine, other.cluster.now - 0.000_5)
    revision = other.history.revision(other.cluster.now)
    docs.cluster.wait(60)
    await docs.get("preemptions")

    watching = await watch(docs, "preemptions", revision=str(revision))

    assert (await watching.next())[0] == "resync"


@pytest.mark.parametrize("path", ["summary", "policies"])
async def test_whole_documents_are_sent_when_they_change(path):
    docs = Documents(node("n1").cpu("1"))
    watching = await watch(docs, path)
    _, revision, _ = await watching.next()

    again = await watch(docs, path, revision=str(revision))
    docs.cluster.wait(3)  # time alone is no news
    waiting = asyncio.create_task(again.next())
    await asyncio.sleep(0.05)

    assert not waiting.done()
    waiting.cancel()


async def test_a_silent_watch_is_pinged(monkeypatch):
    monkeypatch.setattr(watches, "_PING_SECONDS", 0.02)
    watching = await watch(Documents(node("n1")), "nodes")

    parts = [await anext(watching.parts) for _ in range(4)]

    assert parts[0] == b": watching\n\n"
    assert parts[2:] == [b": ping\n\n"] * 2


async def test_a_watch_ends_so_that_rights_are_reviewed_again(monkeypatch):
    monkeypatch.setattr(watches, "_LIFE_SECONDS", 0.05)
    watching = await watch(Documents(node("n1")), "nodes")

    parts = [part async for part in watching.parts]

    assert len(parts) >= 2


async def test_a_watch_ends_where_rights_cannot_be_reviewed():
    class Unavailable:
        async def visible(self, namespaces):
            raise StatusError(503, "ServiceUnavailable", "not now")

    watching = await watch(Documents(node("n1")), "preemptions", Unavailable())

    assert [part async for part in watching.parts] == [b": watching\n\n"]


@pytest.mark.parametrize("revision", ["x", "-1", "9" * 40])
async def test_malformed_revisions_are_refused(revision):
    with pytest.raises(ValueError, match="revision"):
        await watch(Documents(), "nodes", revision=revision)


async def test_many_lists_at_once_are_made_part_by_part(monkeypatch):
    docs = Documents(*(node(f"n{i}") for i in range(200)))
    running: list[int] = []
    inside = 0

    async def sleep(_seconds: float) -> None:
        nonlocal inside
        inside += 1
        running.append(inside)
        await pause(0)
        inside -= 1

    pause = asyncio.sleep
    monkeypatch.setattr("scheduler.observe.api.lists.asyncio.sleep", sleep)
    found = await asyncio.gather(*(docs.get("nodes") for _ in range(10)))

    assert all(len(each["items"]) == 200 for each in found)
    assert max(running) == 1
