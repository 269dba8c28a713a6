"""A priority queue of pods."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from scheduler.model.times import Seconds
from scheduler.queue.queued_pod import QueuedPod

__all__ = ["PodHeap"]

_Entry: TypeAlias = tuple[Seconds, int, Seconds, int, int, QueuedPod]


@dataclass(slots=True)
class PodHeap:
    """A heap of pods, from which a pod drops out with its next move.

    Earlier moments come first, then higher priorities, then pods that wait longer.
    """

    _entries: list[_Entry] = field(default_factory=list)

    def __iter__(self) -> Iterator[QueuedPod]:
        """Yield the pods in no particular order."""
        return (entry[-1] for entry in self._entries if entry[-2] == entry[-1].version)

    def push(self, queued: QueuedPod, moment: Seconds = 0.0) -> None:
        """Add a pod in its present phase; its next move removes it."""
        entry = (
            moment, -queued.pod.priority, queued.timestamp, queued.sequence, queued.version, queued,
        )  # fmt: skip
        heapq.heappush(self._entries, entry)

    def first(self) -> QueuedPod | None:
        """Return the first pod; `None` if there is none."""
        entries = self._entries
        while entries:
            queued = entries[0][-1]
            if entries[0][-2] == queued.version:
                return queued
            heapq.heappop(entries)
        return None

    def drop_void(self) -> None:
        """Drop the entries of pods that have moved on, if they are most of all.

        `first` drops them only at the top. A replica that stands by never takes a pod.
        """
        alive = [entry for entry in self._entries if entry[-2] == entry[-1].version]
        if len(alive) < len(self._entries) // 2:
            heapq.heapify(alive)
            self._entries = alive

    def pop(self) -> None:
        """Remove the first pod."""
        heapq.heappop(self._entries)
