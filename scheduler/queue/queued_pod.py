"""A pod in the scheduling queue."""

from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from scheduler.model.api.objects import Pod
from scheduler.model.classified_pod import ClassifiedPod
from scheduler.model.phase_table import next_phase
from scheduler.model.times import Seconds
from scheduler.queue.phases import TABLE, PendingReason, QueueMove, QueuePhase

__all__ = ["QueuedPod", "reported_condition"]

#: How many moves are kept, for the error about an illegal one.
_HISTORY: Final = 16


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A pod of ours that is not bound yet, with the results of its attempts."""

    #: The last known state of the pod, with its class.
    classified: ClassifiedPod
    #: When it was added, or its last attempt failed.
    timestamp: Seconds
    #: Order of arrival, the last sort criterion.
    sequence: int
    #: Of its equivalence set: its class, or several classes that are rejected together. An
    #: event that helps one pod of a set helps all, except for changes of the pods themselves.
    equivalence_key: bytes = b""
    phase: QueuePhase = QueuePhase.NEW
    attempts: int = 0
    #: When it first became active; `None` before that.
    first_active: Seconds | None = None
    #: Rejections in all, and errors in a row; they decide the back-off.
    unschedulable_count: int = 0
    consecutive_errors: int = 0
    backoff_expiry: Seconds = 0.0
    #: Plugins that rejected it in its last attempt; empty after an error.
    rejectors: frozenset[str] = frozenset()
    #: Why it is pending, by its last attempt, also while it is gated or waits for its turn.
    reason: PendingReason = PendingReason.NOT_TRIED
    #: Whether victims that were evicted for it are still terminating.
    victims_terminating: bool = False
    #: When an attempt first found that it fits nowhere; `None` before that.
    unschedulable_since: Seconds | None = None
    #: Reason and message of the `PodScheduled` condition that its status has, or gets by a
    #: write under way; `None` without one.
    reported_condition: tuple[str, str] | None = None
    #: Whether an event that can help it happened while its preemption was carried out, or
    #: while its attempt waited for extenders that the event concerns.
    wakeup_pending: bool = False
    #: The plugin whose hint woke it since its last attempt, and the event of that hint.
    woken_by: tuple[str, str] | None = None
    #: Whether the periodic flush put it back into the queue.
    flushed: bool = False
    #: When the periodic flush last checked the gates of the pod.
    gate_checked: Seconds = 0.0
    #: Grows with every move; heap entries of older versions are void.
    version: int = 0
    history: deque[tuple[Seconds, QueuePhase]] = field(
        default_factory=partial(deque, maxlen=_HISTORY), compare=False
    )

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


def reported_condition(pod: Pod) -> tuple[str, str] | None:
    """Return reason and message of the condition that the status of a pod has; `None` without."""
    condition = pod.condition("PodScheduled")
    if condition is None or condition.status != "False":
        return None
    return condition.reason, condition.message
