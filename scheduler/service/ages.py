"""How long states last, for gauges that alerts compare with a limit.

A count does not show that the same pod is stuck: in a busy cluster others come and go beside it.
The age of the oldest one does. Times are those at which this process has seen a state at a scrape,
on its own monotonic clock, so neither a server's time stamp nor a step of the system clock counts.
"""

from collections.abc import Callable, Iterable

from scheduler.core.machine import Machine
from scheduler.model.times import Seconds

__all__ = ["Oldest", "held_nominations", "victims"]


class Oldest:
    """The age of the oldest of some keys.

    Each call of `read` compares the keys that are there with those of the call before: a key is as
    old as the first call that has seen it. So an age is too small by one interval of scraping at
    most, and a key that goes and returns between two calls keeps its age.

    Args:
        keys: Returns the keys that are there, uids of pods for example.
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


def victims(machine: Machine) -> Iterable[str]:
    """Return the uids of victims that were asked to leave and are still there, hanging or not."""
    cluster = machine.cluster
    return cluster.asked_to_leave() | cluster.overdue


def held_nominations(machine: Machine) -> Iterable[str]:
    """Return the uids of pods of our profiles that are nominated to a node and not bound."""
    nominations, queue = machine.cluster.nominations, machine.queue
    return [claim.pod.uid for claim in nominations if queue.get(claim.pod.uid) is not None]
