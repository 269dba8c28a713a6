"""A pod in the scheduling queue."""

from collections import deque
from typing import Final

from scheduler.model.api.objects import Pod
from scheduler.model.classified_pod import ClassifiedPod
from scheduler.model.phase_table import next_phase
from scheduler.model.times import Seconds
from scheduler.queue.phases import TABLE, PendingReason, QueueMove, QueuePhase

__all__ = ["QueuedPod"]

#: How many moves are kept, for the error about an illegal one.
_HISTORY: Final = 16


class QueuedPod:
    """A pod of ours that is not bound yet, with the results of its attempts."""

    __slots__ = (
        "attempts",
        "backoff_expiry",
        "classified",
        "consecutive_errors",
        "equivalence_key",
        "first_active",
        "flushed",
        "gate_checked",
        "history",
        "phase",
        "reason",
        "rejectors",
        "reported_condition",
        "sequence",
        "timestamp",
        "unschedulable_count",
        "unschedulable_since",
        "version",
        "victims_terminating",
        "wakeup_pending",
        "woken_by",
    )

    def __init__(self, classified: ClassifiedPod, now: Seconds, sequence: int) -> None:
        #: The last known state of the pod, with its class.
        self.classified = classified
        #: Of its equivalence set: its class, or several classes that are rejected together. An
        #: event that helps one pod of a set helps all, except for changes of the pods themselves.
        self.equivalence_key = classified.key
        self.phase = QueuePhase.NEW
        #: When it was added, or its last attempt failed.
        self.timestamp = now
        #: Order of arrival, the last sort criterion.
        self.sequence = sequence
        self.attempts = 0
        #: When it first became active; `None` before that.
        self.first_active: Seconds | None = None
        #: Rejections in all, and errors in a row; they decide the back-off.
        self.unschedulable_count = 0
        self.consecutive_errors = 0
        self.backoff_expiry: Seconds = 0.0
        #: Plugins that rejected it in its last attempt; empty after an error.
        self.rejectors: frozenset[str] = frozenset()
        #: Why it is pending, by its last attempt, also while it is gated or waits for its turn.
        self.reason = PendingReason.NOT_TRIED
        #: Whether victims that were evicted for it are still terminating.
        self.victims_terminating = False
        #: When an attempt first found that it fits nowhere; `None` before that.
        self.unschedulable_since: Seconds | None = None
        #: Reason and message of the `PodScheduled` condition that its status has, or gets by a
        #: write under way; `None` without one.
        self.reported_condition: tuple[str, str] | None = _reported_condition(classified.pod)
        #: Whether an event that can help it happened while its preemption was carried out, or
        #: while its attempt waited for extenders that the event concerns.
        self.wakeup_pending = False
        #: The plugin whose hint woke it since its last attempt, and the event of that hint.
        self.woken_by: tuple[str, str] | None = None
        #: Whether the periodic flush put it back into the queue.
        self.flushed = False
        #: When the periodic flush last checked the gates of the pod.
        self.gate_checked: Seconds = 0.0
        #: Grows with every move; heap entries of older versions are void.
        self.version = 0
        self.history: deque[tuple[Seconds, QueuePhase]] = deque(maxlen=_HISTORY)

    def __str__(self) -> str:
        return f"{self.pod.key} {list(self.history)}"

    @property
    def pod(self) -> Pod:
        """The last known state of the pod."""
        return self.classified.pod

    @property
    def key(self) -> bytes:
        """The key of its class."""
        return self.classified.key

    @property
    def uid(self) -> str:
        """The uid of the pod."""
        return self.classified.pod.metadata.uid

    def record_active(self, now: Seconds) -> None:
        """Record when the pod first became active."""
        if self.first_active is None:
            self.first_active = now

    def change_phase(self, move: QueueMove, now: Seconds) -> None:
        """Go to the phase that the table of `phases` has for a move.

        Raises:
            IllegalMoveError: The table has no such move.
        """
        self.phase = next_phase(TABLE, self.phase, move, self)
        self.version += 1
        self.history.append((now, self.phase))


def _reported_condition(pod: Pod) -> tuple[str, str] | None:
    condition = pod.condition("PodScheduled")
    if condition is None or condition.status != "False":
        return None
    return condition.reason, condition.message
