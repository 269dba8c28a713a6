"""Decisions in the words of the API."""

import pytest

from scheduler.model.decisions import (
    Decision,
    Failed,
    Gated,
    Placed,
    Preempting,
    Unschedulable,
    Waiting,
    summary,
)


@pytest.mark.parametrize(
    ("decision", "want"),
    [
        (Placed("n1"), ("Scheduled", "n1", "")),
        (Preempting("n1", (), 1, "full"), ("Preempting", "n1", "full")),
        (Unschedulable("full"), ("Unschedulable", "", "full")),
        (Gated("gates"), ("Gated", "", "gates")),
        (Failed("broken"), ("Error", "", "broken")),
        (Waiting((0,)), ("Waiting", "", "")),
    ],
)
def test_each_decision_has_a_word(decision: Decision, want: tuple[str, str, str]):
    assert summary(decision) == want
