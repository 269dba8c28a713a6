"""Applies the steps of the example, each one when the previous one is done."""

import select
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from deploy.tools.controlplane.api import ApiError
from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.demo import completion, example, installation
from deploy.tools.demo.example import Example
from deploy.tools.demo.feed import NOTHING, Log, LogLine, Pages
from deploy.tools.demo.screens import Screen
from scheduler.model.rest.preemptions import PreemptionView
from scheduler.model.times import Seconds

__all__ = ["DemoError", "Pace", "Player"]

Json: TypeAlias = dict[str, Any]

#: Seconds between two updates of the screen.
TICK_SECONDS: Final = 0.25
#: How long a step must be complete before it counts as done. The scheduler flushes its log four
#: times a second, so all of it has been read by then.
CALM_SECONDS: Final = 0.6
#: A scheduler that loses its lease is started again, but not more often than this in a minute of
#: the monotonic clock, which stops while a laptop is suspended.
RESTARTS: Final = 3
RESTART_SECONDS: Final = 60.0


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
        self._restarts: deque[float] = deque(maxlen=RESTARTS)
        #: Those that earlier schedulers have carried out.
        self._earlier: list[PreemptionView] = []
        self._snapshot = NOTHING

    def play(self, steps: int | None = None) -> None:
        """Run the first steps; `None` for all.

        Raises:
            DemoError: a step was not done in time, or the scheduler ended.
        """
        self._begin("scheduler starts")
        installation.install(self._cluster)
        self._log = Log(installation.start(self._cluster, self._port))
        self._watch_until(self._leadership)
        played = self._example.steps[:steps]
        for number, step in enumerate(played, 1):
            self._begin(f"step {number} of {len(played)}")
            self._cluster.api.apply(step.documents)
            self.settle(step.pods)
            self.rest()

    def settle(self, run: Mapping[str, int] | Sequence[str] = ()) -> None:
        """Wait until nothing changes any more, and the pods of some PriorityClasses run.

        Raises:
            DemoError: that was not so in time, or the scheduler ended.
        """
        self._watch_until(lambda: self._obstacle(run))

    def rest(self) -> None:
        """Pause between two steps."""
        self._watch_for(self._pace.pause_seconds)

    def await_enter(self) -> None:
        """Wait until the user presses Enter, or has closed standard input."""
        while not select.select([sys.stdin], [], [], 0.0)[0]:
            self._watch()
        sys.stdin.readline()

    def linger(self) -> None:
        """Show the cluster until Ctrl-C."""
        self._begin("settled; Ctrl-C ends")
        self._watch_for(float("inf"))

    def pods(self) -> list[Json]:
        """Return the pods of the scheduler."""
        pods = self._cluster.api.items("/api/v1/pods")
        return [pod for pod in pods if pod["spec"].get("schedulerName") == installation.NAME]

    def preemptions(self) -> list[PreemptionView]:
        """Return all preemptions, newest first, also those before a restart of the scheduler."""
        found = {
            (each.preemptor.namespace, each.preemptor.name, each.decided_at): each
            for each in (*self._earlier, *self._snapshot.preemptions)
        }
        return sorted(found.values(), key=lambda each: each.decided_at, reverse=True)

    def _leadership(self) -> str | None:
        leads = self._snapshot is not NOTHING and self._snapshot.summary.leader
        return None if leads else "the scheduler does not lead"

    def _obstacle(self, run: Mapping[str, int] | Sequence[str]) -> str | None:
        try:
            deployments = self._cluster.api.items("/apis/apps/v1/deployments")
            kinds = ({"kind": "Deployment", **each} for each in deployments)
            return completion.obstacle(self.pods(), example.pods(kinds), run)
        except (ApiError, OSError) as error:  # it may have been suspended
            return f"the API server does not answer: {error}"

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
        self._screen.show(caption, self._snapshot, ())

    def _watch(self) -> None:
        """Show the current state."""
        time.sleep(TICK_SECONDS)
        self._snapshot = self._pages.snapshot() or self._snapshot
        news = self._log.news() if self._log else []
        code = self._cluster.exit_code(installation.NAME)
        if code is not None and self._log:
            news.append(self._restart(code, self._log))
        self._screen.show(self._caption, self._snapshot, news)

    def _restart(self, code: int, log: Log) -> LogLine:
        """Start the scheduler again if it has lost its lease, as on a suspended laptop."""
        event, problem = log.last()
        if event != "lease_lost":
            said = " ".join(filter(None, (event, problem)))
            raise DemoError(f"the scheduler ended with {code}: {said}")
        now = time.monotonic()
        if len(self._restarts) == RESTARTS and now - self._restarts[0] < RESTART_SECONDS:
            raise DemoError(f"the scheduler has lost its lease again and again: {problem}")
        self._restarts.append(now)
        self._earlier += self._snapshot.preemptions
        installation.start(self._cluster, self._port)
        return LogLine(time.time(), "restarts", "the scheduler, which had lost its lease")
