"""Applies the steps of the example, each one when the previous one is done."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.demo import completion, installation
from deploy.tools.demo.example import Example
from deploy.tools.demo.feed import Feed
from deploy.tools.demo.history import History
from deploy.tools.demo.screens import Screen
from scheduler.model.times import Seconds
from scheduler.terminal.values import ViewSnapshot

__all__ = ["DemoError", "Pace", "Player"]

#: Seconds between two updates of the clock on the screen.
TICK_SECONDS: Final = 0.1
#: How long a step must be complete before it counts as done. The scheduler flushes its log four
#: times a second, so all of it has been read by then.
CALM_SECONDS: Final = 0.6
#: Number of lines of the scheduler's log that are shown if it ends.
LAST_LINES: Final = 5


class DemoError(RuntimeError):
    """The demonstration failed; the message says why."""


@dataclass(frozen=True)
class Pace:
    """Pauses and timeouts."""

    #: Pause between two steps.
    pause_seconds: Seconds
    #: Timeout of the scheduler's start and of each step; None for no limit.
    limit_seconds: Seconds | None


class Player:
    """One run of the example on a cluster with nodes."""

    def __init__(
        self, cluster: ControlPlane, example: Example, pace: Pace, screen: Screen, port: int
    ) -> None:
        self._cluster = cluster
        self._port = port
        self._example = example
        self._pace = pace
        self._screen = screen
        self._history = History(installation.NAME, example.classes)
        self._feed = Feed(time.time())
        self._caption = ""

    def play(self) -> ViewSnapshot:
        """Run all steps.

        Returns:
            The state at the end.

        Raises:
            DemoError: a step was not done in time, or the scheduler ended.
        """
        self._caption = "scheduler starts"
        installation.install(self._cluster)
        self._feed.watch(self._cluster.api)
        self._feed.follow(installation.start(self._cluster, self._port))
        self._watch_until(lambda: None if self._history.leads else "the scheduler does not lead")
        for number, step in enumerate(self._example.steps):
            self._caption = f"step {number + 1} of {len(self._example.steps)}"
            self._cluster.api.apply(step.documents)
            self._watch_until(lambda number=number: self._obstacle(number))  # type: ignore[misc]
            self._watch_for(self._pace.pause_seconds)
        return self._snapshot()

    def linger(self) -> None:
        """Show the cluster until Ctrl-C."""
        self._caption = "settled; Ctrl-C ends"
        self._watch_for(float("inf"))

    def _snapshot(self) -> ViewSnapshot:
        return self._history.snapshot(self._caption, self._feed.elapsed())

    def _obstacle(self, number: int) -> str | None:
        return completion.obstacle(
            self._history.pods, self._example.pods(number), self._example.steps[number].pods
        )

    def _watch_until(self, obstacle: Callable[[], str | None]) -> None:
        """Update the screen until there has been no obstacle for a moment."""
        limit = self._pace.limit_seconds
        began = calm_since = time.monotonic()
        while time.monotonic() - calm_since < CALM_SECONDS:
            self._watch()
            reason = obstacle()
            if reason is None:
                continue
            calm_since = time.monotonic()
            if limit is not None and calm_since - began > limit:
                raise DemoError(f"not settled after {limit:g} s: {reason}")

    def _watch_for(self, seconds: Seconds) -> None:
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            self._watch()

    def _watch(self) -> None:
        """Collect changes, and show the current state."""
        self._feed.pass_on(self._history, TICK_SECONDS)
        self._screen.show(self._snapshot())
        code = self._cluster.exit_code(installation.NAME)
        if code is not None:
            raise DemoError(
                f"the scheduler ended with {code}:\n{_tail(self._cluster.log(installation.NAME))}"
            )


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-LAST_LINES:])
