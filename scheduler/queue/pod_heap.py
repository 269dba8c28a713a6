"""Pods in the order in which their turn comes."""

import heapq
from collections.abc import Iterator

from scheduler.model.times import Seconds
from scheduler.queue.queued_pod import QueuedPod

__all__ = ["PodHeap"]

_Entry = tuple[Seconds, int, Seconds, int, int, QueuedPod]


class PodHeap:
    """A heap of pods; who has moved on since is not in it any more.

    Earlier moments come first, then higher priorities, then who waits longer.
    """

    def __init__(self) -> None:
        self._entries: list[_Entry] = []

    def __iter__(self) -> Iterator[QueuedPod]:
        """Yield the pods in no order."""
        return (entry[-1] for entry in self._entries if entry[-2] == entry[-1].version)

    def push(self, queued: QueuedPod, moment: Seconds = 0.0) -> None:
        """Take in a pod in the phase in which it is; with its next move it is out again."""
        entry = (
            moment, -queued.pod.priority, queued.timestamp, queued.sequence, queued.version, queued,
        )  # fmt: skip
        heapq.heappush(self._entries, entry)

    def first(self) -> QueuedPod | None:
        """Return the pod that comes first; `None` when there is none."""
        entries = self._entries
        while entries:
            queued = entries[0][-1]
            if entries[0][-2] == queued.version:
                return queued
            heapq.heappop(entries)
        return None

    def pop(self) -> None:
        """Take out the pod that comes first."""
        heapq.heappop(self._entries)
