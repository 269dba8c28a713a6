"""The inputs of the history: objects from watches, and records of the scheduler's log.

One thread per source puts them into a queue; the owner of the `Feed` takes them out.
"""

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from deploy.tools.controlplane.api import ApiClient
from deploy.tools.demo.history import History
from scheduler.model import times
from scheduler.model.times import Seconds

__all__ = ["Feed", "records"]

Json: TypeAlias = dict[str, Any]

#: Longer than any demonstration.
WATCH_SECONDS: Final = 30 * 24 * 3600.0
#: Pause before a file without new content is read again.
LOOK_SECONDS: Final = 0.05


@dataclass(frozen=True)
class _News:
    apply: Callable[[History, Seconds], None]
    #: On the clock of `time.time`.
    at: Seconds


class Feed:
    """Watches a cluster and a log until the process ends.

    Args:
        began_at: when the demonstration began, on the clock of `time.time`.
    """

    def __init__(self, began_at: Seconds) -> None:
        self._began_at = began_at
        self._news: queue.SimpleQueue[_News] = queue.SimpleQueue()

    def elapsed(self) -> Seconds:
        """Return the seconds since the start of the demonstration."""
        return time.time() - self._began_at

    def watch(self, api: ApiClient) -> None:
        """Start to watch pods and nodes."""
        self._start(lambda: self._watch(api, "/api/v1/pods", _see_pods))
        self._start(lambda: self._watch(api, "/api/v1/nodes", _see_nodes))

    def follow(self, log: Path) -> None:
        """Start to read the records of a log file, which must exist."""
        self._start(lambda: self._follow(log))

    def pass_on(self, history: History, timeout: Seconds) -> None:
        """Add all that is in the queue to the history; wait for the first until the timeout."""
        try:
            news = self._news.get(timeout=timeout)
            while True:
                news.apply(history, news.at - self._began_at)
                news = self._news.get_nowait()
        except queue.Empty:
            return

    def _start(self, target: Callable[[], None]) -> None:
        threading.Thread(target=target, daemon=True).start()

    def _watch(
        self,
        api: ApiClient,
        path: str,
        see: Callable[[list[Json]], Callable[[History, Seconds], None]],
    ) -> None:
        def report(objects: list[Json]) -> bool:
            self._news.put(_News(see(objects), time.time()))
            return False

        api.wait_for_list(path, report, WATCH_SECONDS)

    def _follow(self, log: Path) -> None:
        rest = b""
        with log.open("rb") as file:
            while True:
                chunk = file.read()
                if not chunk:
                    time.sleep(LOOK_SECONDS)
                    continue
                complete, rest = records(rest + chunk)
                for record in complete:
                    at = times.parse(record.get("ts")) or time.time()
                    self._news.put(_News(_see_record(record), at))


def records(text: bytes) -> tuple[list[Json], bytes]:
    """Return the records of all complete lines, and the rest; invalid lines are skipped."""
    *lines, rest = text.split(b"\n")
    complete = []
    for line in lines:
        try:
            record = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        if isinstance(record, dict) and "event" in record:
            complete.append(record)
    return complete, rest


def _see_pods(pods: list[Json]) -> Callable[[History, Seconds], None]:
    return lambda history, at: history.see_pods(pods, at)


def _see_nodes(nodes: list[Json]) -> Callable[[History, Seconds], None]:
    return lambda history, _: history.see_nodes(nodes)


def _see_record(record: Json) -> Callable[[History, Seconds], None]:
    return lambda history, at: history.see_record(record, at)
