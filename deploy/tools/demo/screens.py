"""The output of the demonstration: a live view in a terminal, lines otherwise."""

import contextlib
import time
from types import TracebackType
from typing import Final, Protocol

from rich.console import Console

from deploy.tools.demo import progress
from scheduler.terminal import view
from scheduler.terminal.values import ViewSnapshot

__all__ = ["Lines", "LiveView", "Screen", "console", "screen"]

#: The width of tables if the output has no width.
PAGE_WIDTH: Final = 120
#: Shortest time between two frames.
FRAME_SECONDS: Final = 0.1


class Screen(Protocol):
    """Shows snapshots while it is open."""

    def show(self, snapshot: ViewSnapshot) -> None:
        """Show this snapshot; it may be called at any rate."""

    def __enter__(self) -> "Screen":
        """Open it."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        """Restore the terminal."""


class LiveView:
    """The live view, on the whole terminal.

    Args:
        console: The terminal.
        footer: Its last line.
    """

    def __init__(self, console: Console, footer: str = "") -> None:
        self._footer = footer
        self._live = view.live(console)
        self._shown_at = 0.0

    def __enter__(self) -> "LiveView":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, snapshot: ViewSnapshot) -> None:
        """Draw a frame, unless the last one was drawn just before."""
        now = time.monotonic()
        if now - self._shown_at >= FRAME_SECONDS:
            self._shown_at = now
            self._live.update(view.render(snapshot, self._footer), refresh=True)


class Lines:
    """A line for each change."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = ViewSnapshot("", 0.0)

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

    def show(self, snapshot: ViewSnapshot) -> None:
        """Print the changes."""
        news = progress.lines(self._last, snapshot)
        if snapshot.title != self._last.title:
            news.insert(0, f"{snapshot.elapsed:7.2f} s  -- {snapshot.title}")
        self._last = snapshot
        for line in news:
            # Not wrapped: the output may be a log file.
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def console() -> Console:
    """Return the console for standard output."""
    found = Console()
    return found if found.is_terminal else Console(width=PAGE_WIDTH)


def screen(console: Console, footer: str) -> contextlib.AbstractContextManager[Screen]:
    """Return the kind of output for a console; lines have no footer."""
    if console.is_terminal and not console.is_dumb_terminal:
        return LiveView(console, footer)
    return Lines(console)
