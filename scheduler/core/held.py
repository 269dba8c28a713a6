"""Pods whose preemption somebody objected to, and what ends that beside a change of the cluster.

A pod that is refused room by a policy, or because the like of it came to nothing, waits in the
queue like any pod that fits nowhere. Three things more can help it: time, a change of a policy,
and a disruption budget that allows more. Who is held says so once, when it is parked.
"""

import heapq
from typing import Final

from scheduler.model.refusals import Rule
from scheduler.model.times import Seconds
from scheduler.state.queue import SchedulingQueue

__all__ = ["Held"]

#: What moves pods, in the words of the queue's metric.
_TIME: Final = "PreemptionPolicyTimeout"


class Held:
    """All pods of the queue that are held."""

    def __init__(self, queue: SchedulingQueue) -> None:
        self._queue = queue
        #: The rules that hold a pod, and when the first of them ends, by uid.
        self._pods: dict[str, tuple[frozenset[Rule], Seconds | None]] = {}
        self._ends: list[tuple[Seconds, str]] = []

    def __len__(self) -> int:
        return len(self._pods)

    def hold(self, uid: str, rules: frozenset[Rule], until: Seconds | None) -> None:
        """Note that a pod is held, until then at the earliest; `None` where time ends nothing."""
        self._pods[uid] = (rules, until)
        if until is not None:
            heapq.heappush(self._ends, (until, uid))

    def let_go(self, uid: str) -> None:
        """Note that a pod is not held any more."""
        self._pods.pop(uid, None)

    def wake(self, now: Seconds, event: str, rule: Rule | None = None) -> None:
        """Wake the pods that are held by a rule, or all."""
        for uid, (rules, _) in list(self._pods.items()):
            if rule is None or rule in rules:
                self._wake(uid, now, event)

    def flush(self, now: Seconds) -> None:
        """Wake the pods for whom it was long enough."""
        while (end := self._next()) is not None and end <= now:
            self._wake(heapq.heappop(self._ends)[1], now, _TIME)

    def next_wakeup(self) -> Seconds | None:
        """Return when `flush` next has something to do; `None` when never."""
        return self._next()

    def _next(self) -> Seconds | None:
        """Return the first end that is still meant; drop void ones."""
        while self._ends:
            end, uid = self._ends[0]
            if uid in self._pods and self._pods[uid][1] == end:
                return end
            heapq.heappop(self._ends)
        return None

    def _wake(self, uid: str, now: Seconds, event: str) -> None:
        del self._pods[uid]
        queued = self._queue.get(uid)
        if queued is not None:
            self._queue.wake_one(queued, now, event)

    def check(self) -> None:
        """Assert the invariants: each end in time is known."""
        ends = set(self._ends)
        for uid, (_, until) in self._pods.items():
            assert until is None or (until, uid) in ends
