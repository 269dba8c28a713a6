"""Gauges of how long states last, for alerts.

A count does not show that one pod is stuck, because in a busy cluster other pods enter and leave
the same state. The age of the oldest pod shows it. An age begins when a scrape of this process
first sees the state, on its own monotonic clock, so neither a server's time stamp nor a step of the
system clock counts.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from scheduler.core.machine import Machine
from scheduler.model.times import Seconds
from scheduler.observe.metrics.metrics import Metrics

__all__ = ["Oldest", "provide"]


class Oldest:
    """The age of the oldest of some keys.

    Each call of `read` compares the current keys with those of the call before: a key is as old as
    the first call that has seen it. So an age is too small by one scrape interval at most, and a
    key that disappears and returns between two calls keeps its age.

    Args:
        keys: Returns the current keys, such as uids of pods.
        now: Reads a monotonic clock.
    """

    def __init__(self, keys: Callable[[], Iterable[str]], now: Callable[[], Seconds]) -> None:
        self._keys = keys
        self._now = now
        self._since: dict[str, Seconds] = {}

    def read(self) -> dict[tuple[()], Seconds]:
        """Return the age of the oldest key in seconds, 0 where there is none, as a gauge wants."""
        now, known = self._now(), self._since
        self._since = {key: known.get(key, now) for key in self._keys()}
        return {(): now - min(self._since.values(), default=now)}


def provide(metrics: Metrics, machine: Machine, now: Callable[[], Seconds]) -> None:
    """Provide the gauges of age; `now` reads a monotonic clock."""
    for name, keys in _GAUGES.items():
        metrics.provide(name, Oldest(functools.partial(keys, machine), now).read)


def _victims(machine: Machine) -> Iterable[str]:
    """Return the uids of evicted victims that still exist, overdue or not."""
    cluster = machine.cluster
    return cluster.evicting_uids() | cluster.overdue


def _nominations(machine: Machine) -> Iterable[str]:
    """Return the uids of pods of our profiles that are nominated and not bound."""
    queue = machine.queue
    uids = (claim.pod.uid for claim in machine.cluster.nominations)
    return [uid for uid in uids if queue.get(uid) is not None]


_GAUGES: Final[Mapping[str, Callable[[Machine], Iterable[str]]]] = {
    "scheduler_preemption_oldest_victim_leaving_seconds": _victims,
    "scheduler_oldest_nomination_seconds": _nominations,
}
