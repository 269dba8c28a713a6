"""A pod of ours on its way through the scheduling queue."""

from collections import deque
from typing import Final

from scheduler.model.api.objects import Pod
from scheduler.model.classified_pod import ClassifiedPod
from scheduler.model.times import Seconds
from scheduler.queue.phases import QueueMove, QueuePhase, after

__all__ = ["QueuedPod"]

#: Moves that are remembered, for the message about an illegal one.
_STORY: Final = 16


class QueuedPod:
    """A pod of ours that is not on a node, and what happened to it so far."""

    __slots__ = (
        "attempts",
        "classified",
        "errors",
        "expiry",
        "failures",
        "first_active",
        "flushed",
        "kin",
        "phase",
        "promised",
        "rejectors",
        "sequence",
        "story",
        "timestamp",
        "told",
        "unschedulable_since",
        "version",
        "woken",
        "woken_by",
    )

    def __init__(self, classified: ClassifiedPod, now: Seconds, sequence: int) -> None:
        #: The last known state of the pod, with the class of that state.
        self.classified = classified
        #: Pods of one kin are judged alike by every event but their own changes: those of a class,
        #: or of all classes that the same rejections are about.
        self.kin = classified.key
        self.phase = QueuePhase.NEW
        #: When it last entered the queue, or last failed.
        self.timestamp = now
        #: Order of arrival, the last criterion of the order.
        self.sequence = sequence
        self.attempts = 0
        #: When it first became active; `None` while it never was.
        self.first_active: Seconds | None = None
        #: Verdicts in all, and errors in a row; they decide the back-off.
        self.failures = 0
        self.errors = 0
        self.expiry: Seconds = 0.0
        #: Plugins whose verdict the last attempt failed on; empty after an error.
        self.rejectors: frozenset[str] = frozenset()
        #: Whether room is being made for it: its victims leave, and are not gone yet.
        self.promised = False
        #: When an attempt first found that it fits nowhere; `None` while none has.
        self.unschedulable_since: Seconds | None = None
        #: Reason and message of the condition that its status carries, or soon will.
        self.told: tuple[str, str] | None = _told(classified.pod)
        #: Whether something happened that could help while its preemption was carried out, or
        #: that an extender could judge otherwise while it was asked.
        self.woken = False
        #: The plugin whose hint woke it since its last attempt, and the event that was about.
        self.woken_by: tuple[str, str] | None = None
        #: Whether it was last released by the periodic flush.
        self.flushed = False
        #: Heap entries of older versions are void.
        self.version = 0
        self.story: deque[tuple[Seconds, QueuePhase]] = deque(maxlen=_STORY)

    def __str__(self) -> str:
        return f"{self.pod.key} {list(self.story)}"

    @property
    def pod(self) -> Pod:
        """The last known state of the pod."""
        return self.classified.pod

    @property
    def key(self) -> bytes:
        """The class of that state."""
        return self.classified.key

    @property
    def uid(self) -> str:
        """The uid of the pod."""
        return self.classified.pod.metadata.uid

    def note_active(self, now: Seconds) -> None:
        """Note when the pod first had its turn in sight."""
        if self.first_active is None:
            self.first_active = now

    def move(self, move: QueueMove, now: Seconds) -> None:
        """Go to the next phase.

        Raises:
            IllegalTransitionError: The table of transitions does not have the move.
        """
        self.phase = after(self.phase, move, self)
        self.version += 1
        self.story.append((now, self.phase))


def _told(pod: Pod) -> tuple[str, str] | None:
    condition = pod.condition("PodScheduled")
    if condition is None or condition.status != "False":
        return None
    return condition.reason, condition.message
