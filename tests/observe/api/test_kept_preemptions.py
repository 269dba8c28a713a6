"""What is written down of preemptions is read again as it was, and as if a stranger wrote it."""

import json
from typing import Any

import msgspec
import pytest
import zstandard

from scheduler.observe.api import kept_preemptions
from scheduler.observe.api.history import History
from scheduler.observe.api.kept_fields import KeptError
from scheduler.observe.api.past_preemption import PastPreemption
from tests.support.api_documents import Documents
from tests.support.builders import node, pod

WHO = {"namespace": "team-a", "name": "web", "uid": "u-1"}
GOOD = {"id": "6a1-7", "node": "n1", "preemptor": WHO, "decidedAt": 1000.0, "endedAt": 1001.5}
NOW = 1100.0


def preempted(*, wait: bool = True) -> Documents:
    docs = Documents(
        node("n1").cpu("4"),
        pod("low").on("n1").cpu("4").memory("1Gi").priority(1).started(1000),
    )
    docs.cluster.schedule(pod("high").cpu("4").priority(9))
    if wait:
        docs.cluster.finish_terminating()
        docs.cluster.wait(2)
        docs.cluster.drain()
    docs.history.tick(docs.cluster.now)
    return docs


def written(history: History) -> list[bytes]:
    """Return all preemptions as they are written down and read again."""
    items = [kept_preemptions.encoded(past) for past in history.known()]
    return [bytes(each) for each in kept_preemptions.unpacked(kept_preemptions.packed(items)).items]


def read(item: bytes, docs: Documents, number: int = -1) -> PastPreemption:
    now = docs.cluster.now
    found = kept_preemptions.decoded(msgspec.Raw(item), now, 0.0)
    assert found is not None
    return kept_preemptions.restored(found, number, docs.cluster.machine.cluster, now)


async def test_the_next_leader_shows_the_same_preemptions():
    docs = preempted()
    before = (await docs.get("preemptions"))["items"]

    docs.cluster.restart()
    later = Documents()
    later.cluster.wait(docs.cluster.now - later.cluster.now)
    (item,) = written(docs.history)
    later.history.restore(read(item, later), later.cluster.now)

    after = (await later.get("preemptions"))["items"]
    own = {"revision": 0}
    assert [each | own for each in after] == [each | own for each in before]


def test_a_name_is_not_given_twice_even_by_a_process_that_began_in_the_same_second():
    docs, later = preempted(), preempted()
    (first,) = docs.history.known()
    (same,) = later.history.known()
    assert same.name == first.name

    later = Documents()
    later.history.reserve([first.name, "0-99"], later.cluster.now)
    later.cluster.add(node("n1").cpu("1"), pod("low").on("n1").cpu("1").priority(1))
    later.cluster.schedule(pod("high").cpu("1").priority(9))

    (own,) = later.history.known()
    prefix, _, number = first.name.rpartition("-")
    assert own.name == f"{prefix}-{int(number) + 1}"


@pytest.mark.parametrize("late", [False, True], ids=["read first", "read later"])
async def test_a_plan_that_goes_on_keeps_its_name_and_the_comparison(late):
    docs = preempted(wait=False)
    (before,) = (await docs.get("preemptions"))["items"]
    (item,) = written(docs.history)
    docs.cluster.restart()
    later = docs.history = docs.cluster.history = History(docs.cluster.machine, docs.cluster.now)
    docs.api.history = later
    docs.api.__post_init__()

    steps = [lambda: later.restore(read(item, docs), docs.cluster.now), docs.cluster.drain]
    for step in reversed(steps) if late else steps:
        step()
        later.tick(docs.cluster.now)

    (after,) = (await docs.get("preemptions"))["items"]
    assert after["id"] == before["id"]
    assert after["candidates"] == before["candidates"]
    assert "outcome" not in after


def test_one_that_did_not_go_on_has_ended_with_an_unknown_outcome():
    docs = preempted(wait=False)
    (item,) = written(docs.history)

    past = read(item, Documents())

    assert (past.outcome, past.ended_at) == ("unknown", past.decided_at)


@pytest.mark.parametrize(
    "change",
    [
        {"id": "x" * 40}, {"id": "6a1-7\n"}, {"id": ""}, {"id": 7},
        {"node": "\x1b[2J"}, {"node": "n" * 300}, {"node": None},
        {"preemptor": {**WHO, "namespace": ""}}, {"preemptor": {**WHO, "namespace": "a\n"}},
        {"preemptor": {**WHO, "uid": ""}}, {"preemptor": {**WHO, "priority": 2**40}},
        {"preemptor": {**WHO, "requests": {"cpu": -1}}},
        {"preemptor": {**WHO, "requests": {f"r{i}": 1 for i in range(100)}}},
        {"preemptor": {**WHO, "requests": {"cpu": 2**70}}},
        {"decidedAt": -1.0}, {"decidedAt": 1e300}, {"decidedAt": NOW + 3600}, {"decidedAt": "now"},
        {"endedAt": 999.0}, {"endedAt": 1e12}, {"phase": "asleep"}, {"outcome": "<b>"},
        {"problem": "x" * 3000}, {"victims": [{"pod": WHO}] * 2}, {"victims": "all"},
        {"victims": [{"pod": {**WHO, "uid": f"u{i}"}} for i in range(2000)]},
        {"victims": [{"pod": WHO, "state": "eaten"}]}, {"victims": [{"pod": WHO, "since": -1}]},
        {"comparison": {"criteria": ["victims"], "candidates": [], "total": 1}},
        {"comparison": {"criteria": ["victims"], "candidates": [["n", [1e300]]], "total": 1}},
        {"comparison": {"criteria": ["victims"], "candidates": [["n", []]] * 99, "total": 1}},
    ],
    ids=lambda change: str(change)[:50],
)  # fmt: skip
def test_an_entry_that_no_scheduler_writes_is_left_out(change):
    item = msgspec.Raw(json.dumps({**GOOD, **change}).encode())

    assert kept_preemptions.decoded(msgspec.Raw(json.dumps(GOOD).encode()), NOW, 0.0) is not None
    assert kept_preemptions.decoded(item, NOW, 0.0) is None
    assert kept_preemptions.decoded(msgspec.Raw(json.dumps(GOOD).encode()), NOW, 2000.0) is None


@pytest.mark.parametrize(
    "comparison",
    [
        {"criteria": ["beauty"], "candidates": [["n", [1.0]]], "total": 1},
        {"criteria": ["victims"], "candidates": [["n", [1.0], "beauty"]], "total": 1},
        {"criteria": ["earliestStart"], "candidates": [["n", [1e15]]], "total": 1},
        {"criteria": ["earliestStart"], "candidates": [["n", [-1.0]]], "total": 1},
    ],
)
async def test_a_comparison_that_cannot_be_shown_is_left_out(comparison):
    docs = Documents()
    item = json.dumps({**GOOD, "comparison": comparison}).encode()

    docs.history.restore(read(item, docs), docs.cluster.now)

    assert [past.comparison for past in docs.history.known()] == [None]
    assert "items" in await docs.get("preemptions")


@pytest.mark.parametrize(
    "refusals",
    [
        b"[]", b'{"rows":"all"}', b'{"since":-1}', b'{"rows":[[1e300,"p","Enforce",1]]}',
        b'{"rows":[[1.0,"p","Never",1]]}', b'{"rows":[[1.0,"p","Audit",-1]]}',
        b'{"rows":[[1.0,"' + b"p" * 300 + b'","Audit",1]]}',
        b'{"rows":[' + b'[1.0,"p","Audit",1],' * 5000 + b'[1.0,"p","Audit",1]]}',
    ],
    ids=lambda refusals: str(refusals[:40]),
)  # fmt: skip
def test_refusals_that_no_scheduler_writes_are_left_out(refusals):
    text = b'{"version":1,"items":[],"refusals":' + refusals + b"}"

    found = kept_preemptions.unpacked(zstandard.compress(text))

    assert (found.items, found.refusals) == ([], kept_preemptions.KeptRefusals())


@pytest.mark.parametrize(
    "content",
    [
        b"", b"noise", zstandard.compress(b""), zstandard.compress(b"[]"),
        zstandard.compress(b'{"version":2,"items":[]}'),
        zstandard.compress(b'{"version":1e400,"items":[]}'),
        zstandard.compress(b'{"version":1,"items":{}}'),
        zstandard.compress(b'{"version":1,"items":' + b"[" * 100_000),
        zstandard.compress(b'{"version":1,"items":[]}' + b" " * (20 << 20)),
    ],
    ids=lambda content: str(content[:20]),
)  # fmt: skip
def test_a_text_that_is_no_history_is_refused(content: Any):
    with pytest.raises(KeptError):
        kept_preemptions.unpacked(content)
