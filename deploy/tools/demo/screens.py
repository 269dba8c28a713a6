"""The output of the demonstration: a live view in a terminal, lines otherwise; then a summary."""

import contextlib
import time
from collections import deque
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol, TypeAlias

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from deploy.tools.demo.feed import LogLine
from scheduler.model import times
from scheduler.model.rest.preemptions import PreemptionView
from scheduler.model.times import Seconds
from scheduler.observe.logs import escape
from scheduler.terminal.layout import ACCENT, BAD, BUSY, GOOD, MUTED
from scheduler.terminal.top import TopPicture, TopSnapshot, live

__all__ = ["Lines", "LiveView", "Screen", "console", "screen", "summary"]

Json: TypeAlias = dict[str, Any]

#: The width of tables if the output has no width.
PAGE_WIDTH: Final = 120
#: Lines of the log that the live view keeps.
LOG_LINES: Final = 100
#: Signs and colours of what the scheduler does.
SIGNS: Final = {
    "placed": ("●", GOOD),
    "preempts": ("▲", BUSY),
    "evicted": ("▼", BUSY),
    "waits": ("○", MUTED),
    "failed": ("!", BAD),
    "restarts": ("!", BUSY),
}
#: What is shown of the log during a story.
TOLD: Final = frozenset({"preempts", "evicted", "failed", "restarts"})


class Screen(Protocol):
    """Shows what happens."""

    def show(self, caption: str, snapshot: TopSnapshot, news: Sequence[LogLine], /) -> None:
        """Show what the scheduler serves, and what is new in its log."""

    def advise(self, lines: Sequence[str], /) -> None:
        """Show what a user may do now."""


class LiveView:
    """The live view, on the whole terminal."""

    def __init__(self, display: Live, began_at: Seconds) -> None:
        self._display = display
        self._footer = ""
        self._began_at = began_at
        self._log: deque[Text] = deque(maxlen=LOG_LINES)

    def show(self, caption: str, snapshot: TopSnapshot, news: Sequence[LogLine], /) -> None:
        """Draw a frame."""
        for line in news:
            sign, style = SIGNS[line.verb]
            text = Text(f"{line.at - self._began_at:6.1f} ", MUTED).append(f"{sign} ", style)
            text.append(f"{line.verb:<8} ", style).append(escape.printable(line.text))
            self._log.appendleft(text)
        picture = TopPicture(replace(snapshot, log=tuple(self._log)), caption, self._footer)
        self._display.update(picture, refresh=True)

    def advise(self, lines: Sequence[str], /) -> None:
        """Show it below the picture from now on."""
        self._footer = "\n".join(lines)


class Lines:
    """A line for each change.

    Args:
        console: Where to.
        began_at: Times are relative to it.
        verbs: What of the log is shown.
    """

    def __init__(self, console: Console, began_at: Seconds, verbs: Container[str] = SIGNS) -> None:
        self._console = console
        self._began_at = began_at
        self._verbs = verbs
        self._caption = ""

    def show(self, caption: str, _snapshot: TopSnapshot, news: Sequence[LogLine], /) -> None:
        """Print the caption if it is a new one, and the changes."""
        if caption != self._caption:
            self._caption = caption
            self._print(time.time() - self._began_at, f"-- {caption}")
        for line in news:
            if line.verb in self._verbs:
                text = f"{line.verb:<9} {escape.printable(line.text)}"
                self._print(line.at - self._began_at, text)

    def advise(self, lines: Sequence[str], /) -> None:
        """Print it."""
        for line in ("", *lines):
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _print(self, at: Seconds, text: str) -> None:
        # A terminal gets it wrapped at words, a log file in one line.
        line = f"{at:7.2f} s  {text}"
        one = not self._console.is_terminal
        self._console.print(line, markup=False, highlight=False, soft_wrap=one)


def console() -> Console:
    """Return the console for standard output."""
    found = Console()
    return found if found.is_terminal else Console(width=PAGE_WIDTH)


@contextlib.contextmanager
def screen(console: Console, began_at: Seconds, *, story: bool = False) -> Iterator[Screen]:
    """Give the kind of output for a console, while it is open; a story is told in lines."""
    if story:
        yield Lines(console, began_at, TOLD)
    elif console.is_terminal and not console.is_dumb_terminal:
        with live(console) as display:
            yield LiveView(display, began_at)
    else:
        yield Lines(console, began_at)


def summary(
    preemptions: Sequence[PreemptionView], pods: Iterable[Json], elapsed: Seconds
) -> RenderableType:
    """Return the preemptions as a table, and a line about the pods."""
    table = Table(
        title="Preemptions", title_justify="left", title_style="bold", box=None, pad_edge=False
    )
    for name in ("pod", "priority", "node", "took", "in place of"):
        right = name in {"priority", "took"}
        table.add_column(name, header_style=ACCENT, justify="right" if right else "left")
    evicted = 0
    for each in reversed(preemptions):
        began, ended = times.parse(each.decided_at), times.parse(each.ended_at)
        took = f"{ended - began:.0f} s" if began and ended else each.phase
        victims = [victim.pod.name for victim in each.victims]
        evicted += len(victims)
        cells = (each.preemptor.name, str(each.preemptor.priority), each.node, took)
        table.add_row(*map(Text, map(escape.printable, (*cells, ", ".join(victims)))))
    placed = [bool(pod["spec"].get("nodeName")) for pod in pods]
    closing = (
        f"{sum(placed)} of {len(placed)} pods placed in {elapsed:.1f} s, "
        f"{len(placed) - sum(placed)} waiting; {len(preemptions)} preemptions evicted "
        f"{evicted} pods."
    )
    return Group(*([table] if preemptions else []), Text(closing, "bold"))
