"""A watch of the queue: what changed, to those who may see it, and nothing without a reader."""

import asyncio
import json
from collections.abc import Collection, Container

import pytest

from scheduler.observe.api import pod_feed, watches
from scheduler.observe.api.requests import EVERY_NAME, ApiRequest, NameAccess, Stream
from tests.support.api_documents import Documents, Only
from tests.support.builders import node, pod


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    """Look at the queue a hundred times a second."""
    monkeypatch.setattr(watches, "_EVERY_SECONDS", 0.01)
    monkeypatch.setattr(pod_feed, "_EVERY_SECONDS", 0.005)
    monkeypatch.setattr(pod_feed, "_SHARE", 100.0)


class Reader:
    """Keeps the pods that a watch describes, by name."""

    def __init__(self, stream: Stream) -> None:
        self._parts = stream.parts
        self.by_uid: dict[str, dict] = {}
        self.hidden = 0

    @property
    def pods(self) -> dict[str, str]:
        """The phase of each pod."""
        return {each["pod"]["name"]: each["phase"] for each in self.by_uid.values()}

    async def next(self) -> dict | None:
        """Apply the next event, and return its document."""
        async with asyncio.timeout(5):
            async for part in self._parts:
                if part.startswith(b":"):
                    continue
                fields = dict(line.split(":", 1) for line in part.decode().strip().split("\n"))
                assert "id" not in fields
                if fields["event"].strip() == "resync":
                    return None
                found = json.loads(fields["data"])
                self._apply(found)
                return found
        raise AssertionError("the watch has ended")

    def _apply(self, found: dict) -> None:
        self.by_uid |= {each["pod"]["uid"]: each for each in found.get("items", ())}
        for uid in found.get("removed", ()):
            self.by_uid.pop(uid, None)
        self.hidden = found.get("hidden", 0)

    async def close(self) -> None:
        await self._parts.aclose()


async def watch(docs: Documents, names: NameAccess = EVERY_NAME, **query: str) -> Reader:
    stream = await docs.api.pages()["/api/v1/pods"](ApiRequest({"watch": "1", **query}, names))
    assert isinstance(stream, Stream)
    assert stream.endless
    return Reader(stream)


def waiting_pods() -> Documents:
    docs = Documents(node("n1").cpu("1"), pod("a").cpu("2"), pod("b").namespace("other").cpu("2"))
    docs.cluster.drain()
    return docs


async def test_a_watch_begins_with_all_pods_and_follows_them():
    docs = waiting_pods()
    reader = await watch(docs)
    first = await reader.next()
    assert {*reader.pods} == {"a", "b"}
    assert first["items"][0]["message"].startswith("0/1 nodes are available")

    docs.cluster.add(pod("c").gated("wait"))
    await reader.next()
    assert reader.pods["c"] == "gated"

    docs.cluster.add(node("n2").cpu("2"))
    docs.cluster.wait(20)
    docs.cluster.drain()
    found = await reader.next()
    assert set(found["removed"]) <= {"uid:default/a", "uid:other/b"}
    listed = await docs.get("pods")
    assert reader.pods == {each["pod"]["name"]: each["phase"] for each in listed["items"]}
    await reader.close()


async def test_other_pods_are_only_counted():
    docs = waiting_pods()
    reader = await watch(docs, Only("default"))
    await reader.next()
    assert (list(reader.pods), reader.hidden) == (["a"], 1)

    docs.cluster.add(pod("d").namespace("other").cpu("3"))
    found = await reader.next()

    assert found == {"items": [], "hidden": 2}
    docs.cluster.drain()  # its phase changes
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await reader.next()


async def test_pods_that_others_delete_are_not_named():
    docs = waiting_pods()
    reader = await watch(docs, Only("default"))
    await reader.next()

    docs.cluster.delete("other/b")
    found = await reader.next()

    assert found == {"items": []}


async def test_a_selection_is_followed_and_counts_no_others():
    docs = waiting_pods()
    reader = await watch(docs, Only("default"), phase="gated")
    assert await reader.next() == {"items": []}

    docs.cluster.add(pod("c").gated("wait"))
    await reader.next()
    assert reader.pods == {"c": "gated"}
    docs.cluster.change("c", lambda each: each.spec(scheduling_gates=[]))
    await reader.next()

    assert reader.pods == {}


class Changing:
    """Rights that change."""

    def __init__(self, *namespaces: str) -> None:
        self.namespaces = set(namespaces)

    async def visible(self, namespaces: Collection[str]) -> Container[str]:
        return self.namespaces & set(namespaces)


async def test_rights_that_change_change_what_is_seen(monkeypatch):
    monkeypatch.setattr(pod_feed, "_REVIEW_SECONDS", 0.02)
    docs, rights = waiting_pods(), Changing("default")
    reader = await watch(docs, rights)
    await reader.next()

    rights.namespaces = {"other"}
    await reader.next()

    assert list(reader.pods) == ["b"]
    assert reader.hidden == 1


async def test_what_another_reader_finds_during_a_review_is_not_missed():
    docs = waiting_pods()
    other = await watch(docs)
    await other.next()

    class Slow(Changing):
        async def visible(self, namespaces: Collection[str]) -> Container[str]:
            docs.cluster.add(pod("new").namespace("fresh").gated("wait"))
            await other.next()
            return await super().visible(namespaces)

    reader = await watch(docs, Slow("default", "fresh"))
    await reader.next()
    await reader.next()

    assert {*reader.pods} == {"a", "new"}


async def test_many_pods_come_in_parts(monkeypatch):
    monkeypatch.setattr(pod_feed, "_AT_ONCE", 2)
    docs = Documents(*(pod(f"p{i}").gated("wait") for i in range(5)))
    reader = await watch(docs)

    parts = [await reader.next() for _ in range(3)]

    assert [len(part["items"]) for part in parts] == [2, 2, 1]
    assert [part.get("remaining", 0) for part in parts] == [3, 1, 0]


async def test_a_reader_that_has_missed_too_much_begins_again(monkeypatch):
    monkeypatch.setattr(pod_feed, "_MAX_REMOVED", 3)
    docs = Documents(*(pod(f"p{i}").gated("wait") for i in range(9)))
    slow, fast = await watch(docs), await watch(docs)
    await slow.next()
    await fast.next()
    for i in range(9):
        docs.cluster.delete(f"p{i}")
    await fast.next()

    assert await slow.next() is None


async def test_nothing_is_kept_without_readers():
    docs = waiting_pods()
    feed = docs.api._pod_feed
    one, two = await watch(docs), await watch(docs)
    await one.next()
    await two.next()
    assert len(feed) == 2
    await one.close()
    assert len(feed) == 2
    await two.close()

    assert len(feed) == 0
    assert not feed.namespaces


async def test_a_reader_that_takes_too_long_for_one_change_is_ended(monkeypatch):
    monkeypatch.setattr(pod_feed, "_AT_ONCE", 1)
    monkeypatch.setattr(watches, "_READ_SECONDS", 0.05)
    docs = Documents(*(pod(f"p{i}").gated("wait") for i in range(5)))
    reader = await watch(docs)
    await reader.next()
    await asyncio.sleep(0.1)

    with pytest.raises(AssertionError, match="has ended"):
        await reader.next()
