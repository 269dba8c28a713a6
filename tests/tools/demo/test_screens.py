"""What the demonstration shows."""

import io
import re
from collections.abc import Callable

import pytest
from rich.console import Console

from deploy.tools.demo import screens
from deploy.tools.demo.feed import NOTHING, LogLine
from scheduler.model.rest.common import PodView
from scheduler.model.rest.preemptions import PreemptionView, VictimView
from scheduler.terminal.top import live

NOW = 1_800_000_000.0
ODD = LogLine(NOW + 1.5, "failed", "odd: a\n\x1b[31mb")


def as_lines(console: Console) -> None:
    with screens.screen(console, NOW) as screen:
        screen.show("step 1", NOTHING, [ODD])
        screen.show("step 1", NOTHING, [])


def as_picture(console: Console) -> None:
    with live(console) as display:
        view = screens.LiveView(display, NOW)
        view.advise(["try it", "and this"])
        view.show("step 1", NOTHING, [ODD])


@pytest.mark.parametrize("show", [as_lines, as_picture])
def test_a_message_cannot_forge_lines(show: Callable[[Console], None]):
    stream = io.StringIO()
    show(Console(file=stream, width=120, height=20, force_terminal=show is as_picture))

    text = stream.getvalue()
    assert "1.5" in text
    assert r"odd: a\n\x1b[31mb" in text
    assert "\x1b[31mb" not in text
    assert text.count("step 1") == 1


def test_advice_is_below_the_picture_and_after_the_lines():
    pictured, listed = io.StringIO(), io.StringIO()

    as_picture(Console(file=pictured, width=40, height=12, force_terminal=True))
    with screens.screen(Console(file=listed, width=40), NOW) as screen:
        screen.show("settled", NOTHING, [])
        screen.advise(["try it", "and this"])

    frame = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", pictured.getvalue())
    assert [line.strip() for line in frame.splitlines()[-2:]] == ["try it", "and this"]
    assert listed.getvalue().splitlines()[1:] == ["", "try it", "and this"]


def test_the_summary_has_each_preemption_with_its_victims():
    stream = io.StringIO()
    victims = tuple(VictimView(PodView("demo", name)) for name in ("a", "b"))
    preemption = PreemptionView(
        "1", 1, PodView("demo", "high", priority=10), "n1", "done",
        decided_at="2026-01-01T00:00:00Z", ended_at="2026-01-01T00:00:04Z", victims=victims,
    )  # fmt: skip
    pods = [{"spec": {"nodeName": "n1"}}, {"spec": {}}]

    Console(file=stream, width=80).print(screens.summary([preemption], pods, 12.34))

    assert "high        10  n1     4 s  a, b" in stream.getvalue()
    assert stream.getvalue().endswith(
        "1 of 2 pods placed in 12.3 s, 1 waiting; 1 preemptions evicted 2 pods.\n"
    )


@pytest.mark.parametrize("is_terminal", [True, False])
def test_lines_are_wrapped_at_words_in_a_terminal_only(is_terminal: bool):
    stream = io.StringIO()
    console = Console(file=stream, width=40, force_terminal=is_terminal)
    lines = screens.Lines(console, NOW)

    lines.show(
        "step 1", NOTHING, [LogLine(NOW, "preempts", "urgent-1 evicting batch-12345 batch-2")]
    )

    shown = stream.getvalue()
    assert ("evicting batch-12345" in shown) is not is_terminal
    assert "batch-12345" in shown
