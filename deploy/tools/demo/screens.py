"""The output of the demonstration: the live view in a terminal, lines elsewhere."""

import contextlib
import time
from types import TracebackType
from typing import Final, Protocol

from rich.console import Console

from deploy.tools.demo import progress
from scheduler.console import view
from scheduler.console.values import ViewSnapshot

__all__ = ["Lines", "LiveView", "Screen", "console", "screen"]

#: The width of tables if the output has no width.
PAGE_WIDTH: Final = 120
#: Shortest time between two pictures.
PICTURE_SECONDS: Final = 0.1


class Screen(Protocol):
    """Shows what happens while it is open."""

    def show(self, snapshot: ViewSnapshot) -> None:
        """Show this snapshot from now on; cheap enough to be called at any rate."""

    def __enter__(self) -> "Screen":
        """Open it."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        """Leave everything as it was."""


class LiveView:
    """The live view, all over the terminal."""

    def __init__(self, console: Console) -> None:
        self._live = view.live(console)
        self._shown_at = 0.0

    def __enter__(self) -> "LiveView":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, snapshot: ViewSnapshot) -> None:
        """Draw a picture, unless the last one is too young."""
        now = time.monotonic()
        if now - self._shown_at >= PICTURE_SECONDS:
            self._shown_at = now
            self._live.update(view.render(snapshot), refresh=True)


class Lines:
    """A line for each thing that happens."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = ViewSnapshot("", 0.0)

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to undo."""

    def show(self, snapshot: ViewSnapshot) -> None:
        """Print what is new."""
        news = progress.lines(self._last, snapshot)
        if snapshot.title != self._last.title:
            news.insert(0, f"{snapshot.elapsed:7.2f} s  -- {snapshot.title}")
        self._last = snapshot
        for line in news:
            # Not wrapped: a reader of a log has a scroll bar.
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def console() -> Console:
    """Return standard output as rich sees it."""
    found = Console()
    return found if found.is_terminal else Console(width=PAGE_WIDTH)


def screen(console: Console) -> contextlib.AbstractContextManager[Screen]:
    """Return what suits a console."""
    if console.is_terminal and not console.is_dumb_terminal:
        return LiveView(console)
    return Lines(console)
