"""What is written down of attempts is read again as it was, and as if a stranger wrote it."""

import json
from typing import Any

import msgspec
import pytest
import zstandard

from scheduler.model.decisions import DecisionSummary
from scheduler.model.effects import PodRef
from scheduler.observe.api import kept_attempts
from scheduler.observe.api.kept_fields import KeptError
from scheduler.observe.api.past_attempts import MAX_BYTES, PastAttempt, PastAttempts, PastPod

NOW = 10_000.0
GOOD: dict[str, Any] = {
    "namespace": "team-a",
    "name": "web",
    "uid": "u-1",
    "schedulerName": "s",
    "began": NOW - 50,
    "attempts": [[NOW - 40, "Unschedulable", "", "0/1 nodes", 3]],
}


def tried(number: int = 0, message: str = "0/1 nodes", left_at: float = 0.0) -> PastPod:
    past = PastPod(PodRef("default", f"p-{number}", f"u-{number}"), "s", NOW - 50)
    past.attempts = (PastAttempt(NOW - 40, DecisionSummary("Unschedulable", "", message), 3),)
    past.priority, past.number, past.left_at = -7, 4, left_at
    return past


def decoded(item: bytes) -> PastPod | None:
    return kept_attempts.decoded(msgspec.Raw(item), NOW)


@pytest.mark.parametrize("left_at", [0.0, NOW - 10])
def test_a_pod_is_read_as_it_was_written(left_at):
    item = kept_attempts.encoded(tried(left_at=left_at))

    found = decoded(item)

    assert found is not None
    assert kept_attempts.encoded(found) == item
    assert (found.left_at, found.number, found.attempts[0].repeated) == (left_at, 4, 3)


def test_the_first_pods_are_written_that_have_a_place():
    items = [kept_attempts.encoded(tried(i, f"{i * 7919:x}" * 300)) for i in range(100)]

    content = kept_attempts.packed(items, 1024)

    assert len(content) <= 1024
    found = [bytes(each) for each in kept_attempts.unpacked(content)]
    assert 0 < len(found) < 100
    assert found == items[: len(found)]


@pytest.mark.parametrize(
    "changes",
    [
        {"namespace": "no/namespace"}, {"namespace": 1}, {"name": ""}, {"name": "x" * 300},
        {"uid": "a b"}, {"began": -1.0}, {"began": NOW + 100}, {"leftAt": NOW + 100},
        {"leftAt": NOW - 4000}, {"priority": 2**40}, {"number": -1},
        {"attempts": []}, {"attempts": [[NOW, "Unschedulable"]] * 17},
        {"attempts": [[NOW, "Deleted"]]}, {"attempts": [[NOW + 100, "Unschedulable"]]},
        {"attempts": [[NOW, "Error", "", "x" * 3000]]},
        {"attempts": [[NOW, "Error", "n" * 300, "x"]]},
        {"attempts": [[NOW, "Error", "", "x", -1]]}, {"attempts": "all"},
    ],
    ids=lambda changes: str(changes)[:40],
)  # fmt: skip
def test_a_pod_that_no_scheduler_writes_is_left_out(changes):
    assert decoded(json.dumps(GOOD).encode()) is not None
    assert decoded(json.dumps({**GOOD, **changes}).encode()) is None


@pytest.mark.parametrize(
    "content",
    [b"noise", zstandard.compress(b"{}"), zstandard.compress(b'{"version":2,"items":[]}'),
     zstandard.compress(b'{"version":1,"items":' + b"[" * 100_000)],
    ids=lambda content: str(content[:20]),
)  # fmt: skip
def test_a_text_that_has_no_attempts_is_refused(content):
    with pytest.raises(KeptError):
        kept_attempts.unpacked(content)


def test_what_is_restored_counts_and_has_limits():
    found = PastAttempts()
    for first in range(0, 4000, 100):
        found.restore(tried(i, f"{i} {'x' * 1900}") for i in range(first, first + 100))
    found.order()

    assert MAX_BYTES * 0.9 < found.size <= MAX_BYTES
    found.drop_namespace("default")
    assert (len(found), found.size) == (0, 0)
