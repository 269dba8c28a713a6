"""Progress as lines."""

from dataclasses import replace

from deploy.tools.demo import progress
from scheduler.terminal.values import AttemptResult, AttemptView, VictimView, ViewSnapshot

NOTHING = ViewSnapshot("", 0.0)
PLACED = AttemptView(1.0, "demo/low", AttemptResult.PLACED, "n1")
PREEMPTING = AttemptView(2.0, "demo/high", AttemptResult.PREEMPTING, "n1", ("demo/low",))
WAITING = AttemptView(3.0, "demo/low-2", AttemptResult.UNSCHEDULABLE, message="no room")
VICTIM = VictimView("demo/low", 1, "n1", "demo/high", evicted_at=2.0, gone_at=2.5)
STORY = replace(NOTHING, attempts=(WAITING, PREEMPTING, PLACED), victims=(VICTIM,))


def test_everything_new_is_told_in_order_of_time_without_the_common_namespace():
    assert progress.lines(NOTHING, STORY) == [
        "   1.00 s  placed    low on n1",
        "   2.00 s  preempts  high on n1, evicting low",
        "   2.50 s  gone      low from n1 after 0.50 s",
        "   3.00 s  waits     low-2: no room",
    ]


def test_what_was_told_is_not_told_again():
    assert progress.lines(STORY, STORY) == []


def test_an_attempt_with_the_same_end_is_no_news():
    again = replace(STORY, attempts=(replace(WAITING, at=9.0), PREEMPTING, PLACED))
    worse = replace(STORY, attempts=(replace(WAITING, at=9.0, message="none"), *STORY.attempts))

    assert progress.lines(STORY, again) == []
    assert progress.lines(STORY, worse) == ["   9.00 s  waits     low-2: none"]


def test_a_victim_that_is_still_there_is_no_news():
    leaving = replace(NOTHING, victims=(replace(VICTIM, gone_at=None),))

    assert progress.lines(NOTHING, leaving) == []


def test_a_message_cannot_forge_lines():
    odd = AttemptView(1.0, "demo/odd", AttemptResult.FAILED, message="a\n\x1b[31mb")

    (line,) = progress.lines(NOTHING, replace(NOTHING, attempts=(odd,)))

    assert line.startswith("   1.00 s  failed    odd: a")
    assert "\n" not in line
    assert "\x1b" not in line
