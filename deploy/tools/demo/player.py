"""Applies the steps of the example, each one when the previous one is done."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.demo import completion, installation
from deploy.tools.demo.example import Example
from deploy.tools.demo.feed import NOTHING, Log, Pages
from deploy.tools.demo.screens import Screen
from scheduler.model.times import Seconds

__all__ = ["DemoError", "Pace", "Player"]

Json: TypeAlias = dict[str, Any]

#: Seconds between two updates of the screen.
TICK_SECONDS: Final = 0.25
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
        self._pages = Pages(port)
        self._log: Log | None = None
        self._caption = ""
        #: What the scheduler has served last.
        self.snapshot = NOTHING

    def play(self) -> None:
        """Run all steps.

        Raises:
            DemoError: a step was not done in time, or the scheduler ended.
        """
        self._begin("scheduler starts")
        installation.install(self._cluster)
        self._log = Log(installation.start(self._cluster, self._port))
        self._watch_until(self._leadership)
        for number, step in enumerate(self._example.steps):
            self._begin(f"step {number + 1} of {len(self._example.steps)}")
            self._cluster.api.apply(step.documents)
            self._watch_until(lambda number=number: self._obstacle(number))  # type: ignore[misc]
            self._watch_for(self._pace.pause_seconds)

    def linger(self) -> None:
        """Show the cluster until Ctrl-C."""
        self._begin("settled; Ctrl-C ends")
        self._watch_for(float("inf"))

    def pods(self) -> list[Json]:
        """Return the pods of the scheduler."""
        pods = self._cluster.api.items("/api/v1/pods")
        return [pod for pod in pods if pod["spec"].get("schedulerName") == installation.NAME]

    def _leadership(self) -> str | None:
        leads = self.snapshot is not NOTHING and self.snapshot.summary.leader
        return None if leads else "the scheduler does not lead"

    def _obstacle(self, number: int) -> str | None:
        steps = self._example.steps
        return completion.obstacle(self.pods(), self._example.pods(number), steps[number].pods)

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

    def _begin(self, caption: str) -> None:
        self._caption = caption
        self._screen.show(caption, self.snapshot, ())

    def _watch(self) -> None:
        """Show the current state."""
        time.sleep(TICK_SECONDS)
        self.snapshot = self._pages.snapshot() or self.snapshot
        self._screen.show(self._caption, self.snapshot, self._log.news() if self._log else ())
        code = self._cluster.exit_code(installation.NAME)
        if code is not None:
            raise DemoError(
                f"the scheduler ended with {code}:\n{_tail(self._cluster.log(installation.NAME))}"
            )


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-LAST_LINES:])
