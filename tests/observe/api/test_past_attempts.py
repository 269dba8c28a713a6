"""The attempts of pods that are remembered are bounded in bytes; pods that are gone go first."""

import sys
from collections.abc import Iterable

import msgspec
import pytest

from scheduler.model import times
from scheduler.model.api.objects import LocalObject, ObjectMeta
from scheduler.model.decisions import Attempt, Decision, Placed, Unschedulable
from scheduler.model.effects import PodRef
from scheduler.model.events import NamespaceGone, NamespaceObserved
from scheduler.observe.api import kept_preemptions, past_attempts
from scheduler.observe.api.past_attempts import PastAttempts
from scheduler.observe.api.requests import StatusError
from tests.support.api_documents import Documents, Only
from tests.support.builders import node, pod

TEXT = "0/5000 nodes are available: {} Insufficient cpu. preemption: not helpful. " + "x" * 100


def attempt(number: int, message: str = "", decision: Decision | None = None) -> Attempt:
    """Return an attempt of the pod with a number."""
    return Attempt(
        pod=PodRef("default", f"web-{number}", f"uid-{number:032d}"),
        scheduler_name="preemptive-scheduler",
        priority=1,
        decision=decision or Unschedulable(message or TEXT.format(number)),
        effects=(),
        number=1,
        nodes=5000,
        feasible=0,
    )


def kept_bytes(found: PastAttempts, numbers: Iterable[int]) -> tuple[int, int]:
    """Return how many pods of these are kept, and what their messages and names take."""
    pods, texts = 0, {}
    for number in numbers:
        attempts = found.of(f"uid-{number:032d}")
        pods += bool(attempts)
        texts.update((id(each.message), sys.getsizeof(each.message)) for each in attempts)
    return pods, sum(texts.values()) + pods * 200


def test_a_hundred_thousand_pods_with_messages_of_their_own_take_four_mebibytes():
    found = PastAttempts()
    for number in range(100_000):
        found.add(attempt(number), float(number))

    pods, size = kept_bytes(found, range(100_000))

    assert 3_500 < pods < 10_000
    assert size < found.size <= past_attempts.MAX_BYTES == 4 << 20
    # The ones that were tried last.
    assert kept_bytes(found, range(95_000, 100_000))[0] > 3_500


def test_equal_messages_are_kept_once():
    found = PastAttempts()
    for number in range(5_000):
        found.add(attempt(number, TEXT.format("".join(["5", "000"]))), 1.0)

    pods, _ = kept_bytes(found, range(5_000))
    texts = {id(found.of(f"uid-{number:032d}")[0].message) for number in range(5_000)}

    assert (pods, len(texts)) == (5_000, 1)


def test_what_is_forgotten_is_not_counted_any_more():
    found = PastAttempts()
    for at in range(40):
        for number in range(10):
            found.add(attempt(number, f"message {number % 3} {at}"), float(at))
    for number in range(10):
        assert len(found.of(f"uid-{number:032d}")) == past_attempts.MAX_ATTEMPTS
        found.leave(f"uid-{number:032d}", 50.0)

    found.drop_old(50.0 + past_attempts.MAX_LEFT_AGE + 1)

    assert found.size == 0
    assert not found


def test_a_message_as_long_as_a_list_of_nodes_is_cut():
    found = PastAttempts()
    for at in range(3):
        found.add(attempt(1, "x" * 500_000), float(at))

    (only,) = found.of(f"uid-{1:032d}")

    assert only.repeated == 2
    assert len(only.message) <= past_attempts.MAX_MESSAGE + 3
    assert found.size < 10_000


def test_pods_that_have_left_the_queue_are_forgotten_before_those_that_wait(monkeypatch):
    monkeypatch.setattr(past_attempts, "MAX_PODS", 4)
    found = PastAttempts()
    for number in range(4):
        found.add(attempt(number), float(number))
    found.leave(f"uid-{3:032d}", 4.0)
    found.leave(f"uid-{2:032d}", 5.0)

    found.add(attempt(4), 6.0)
    found.add(attempt(5), 7.0)
    found.add(attempt(6), 8.0)

    kept = [bool(found.of(f"uid-{number:032d}")) for number in range(7)]
    assert kept == [False, True, False, False, True, True, True]


def test_of_the_pods_that_wait_the_one_that_was_tried_last_is_kept(monkeypatch):
    monkeypatch.setattr(past_attempts, "MAX_PODS", 2)
    found = PastAttempts()
    for number in (0, 1, 0, 2):
        found.add(attempt(number), 1.0)

    assert [bool(found.of(f"uid-{number:032d}")) for number in range(3)] == [True, False, True]


def test_the_pods_that_have_left_are_bounded_by_number(monkeypatch):
    monkeypatch.setattr(past_attempts, "MAX_LEFT", 2)
    found = PastAttempts()
    for number in range(5):
        found.add(attempt(number), 1.0)
        found.leave(f"uid-{number:032d}", 2.0)

    assert found.left("default", "web-2") is None
    assert found.left("default", "web-3") is not None


def test_a_pod_that_never_waited_is_not_kept():
    found = PastAttempts()
    found.add(attempt(1, decision=Placed("n1")), 1.0)
    found.leave(f"uid-{1:032d}", 1.0)

    assert not found
    assert found.size == 0


async def test_why_a_pod_has_waited_can_be_asked_after_it_was_bound():
    docs = Documents(node("n1").cpu("1"))
    docs.cluster.schedule(pod("p").cpu("2").priority(7))
    docs.cluster.add(node("n2").cpu("4"))
    docs.cluster.wait(20)
    docs.cluster.drain()

    found = await docs.get("pods/{namespace}/{name}", namespace="default", name="p")

    assert found["message"] == "the pod was bound to node n2"
    assert (found["state"], found["placement"]["node"]) == ("running", "n2")
    assert found["pending"]["pod"]["priority"] == 7
    assert found["pending"]["attempts"] == 2
    assert [each["decision"] for each in found["history"]] == ["Unschedulable", "Scheduled"]
    assert found["history"][0]["message"].startswith("0/1 nodes are available")
    assert "node" not in found


async def test_what_is_remembered_needs_the_right_to_get_the_pod():
    docs = Documents(node("n1").cpu("1"))
    docs.cluster.schedule(pod("p").cpu("2"))
    docs.cluster.delete("p")

    with pytest.raises(StatusError, match="namespace"):
        await docs.get("pods/{namespace}/{name}", Only("other"), namespace="default", name="p")


async def unknown(docs: Documents, path: str, **query: str) -> None:
    with pytest.raises(LookupError):
        await docs.get(path, Only("default"), **query)


async def test_a_namespace_that_is_made_again_does_not_show_the_pods_of_the_old_one():
    docs = Documents(node("n1").cpu("1"))
    docs.cluster.schedule(pod("p").cpu("2"))
    docs.cluster.delete("p")
    docs.cluster.observe(NamespaceGone("default"))

    await unknown(docs, "pods/{namespace}/{name}", namespace="default", name="p")


@pytest.mark.parametrize("is_read", [False, True], ids=["known", "read by a later leader"])
async def test_a_namespace_that_is_made_again_does_not_show_old_evictions(is_read):
    low = pod("web-0").on("n1").cpu("4").priority(1).owner("StatefulSet", "secret")
    docs = Documents(node("n1").cpu("4"), low)
    docs.cluster.schedule(pod("high").namespace("vip").cpu("4").priority(9))
    docs.cluster.finish_terminating()
    docs.cluster.drain()
    if is_read:
        items = [kept_preemptions.encoded(past) for past in docs.history.newest(docs.cluster.now)]
        docs = Documents(node("n1").cpu("4"))
        docs.cluster.wait(3600)
        new = times.stamp(docs.cluster.now)
        meta = ObjectMeta(name="default", creation_timestamp=new)
        docs.cluster.observe(NamespaceObserved(LocalObject(meta)))
        for item in items:
            found = kept_preemptions.decoded(msgspec.Raw(item), docs.cluster.now, 0.0)
            cluster = docs.cluster.machine.cluster
            past = kept_preemptions.restored(found, -1, cluster, docs.cluster.now)
            docs.history.restore(past, docs.cluster.now)
    else:
        docs.cluster.observe(NamespaceGone("default"))

    await unknown(docs, "pods/{namespace}/{name}", namespace="default", name="web-0")
    await unknown(docs, "find", owner="StatefulSet/secret")
    assert "secret" not in str(await docs.get("report", Only("default")))
    (past,) = (await docs.get("preemptions"))["items"]
    assert past["victims"][0]["pod"]["namespace"] == "default (deleted)"
    (past,) = docs.history.newest(docs.cluster.now)
    written = msgspec.Raw(kept_preemptions.encoded(past))
    kept = kept_preemptions.decoded(written, docs.cluster.now, 0.0)
    assert kept.victims[0].pod.namespace == "default (deleted)"
