"""The phases of a pod in the scheduling queue and every legal move between them, as one table.

`queued_pod.QueuedPod.change_phase` makes each move. A move that the table does not have raises.
"""

from enum import StrEnum
from typing import Final

__all__ = ["TABLE", "PendingReason", "QueueMove", "QueuePhase"]


class QueuePhase(StrEnum):
    """What happens to a pod of ours at present. Pages, logs and metrics show the values."""

    NEW = "new"
    #: A PreEnqueue plugin keeps it out of the queue.
    GATED = "gated"
    #: Waits for its turn.
    ACTIVE = "active"
    #: Waits until the back-off after its last failure is over.
    BACKOFF = "backoff"
    #: Waits for an event that can help.
    UNSCHEDULABLE = "unschedulable"
    #: Its attempt is running. Metrics and pages show this value and the next one.
    SCHEDULING = "deciding"
    #: Its attempt is suspended until extenders have answered.
    WAITING_FOR_EXTENDERS = "asking"
    #: Its preemption is being carried out; it is not tried meanwhile.
    PREEMPTING = "preempting"
    #: It is assumed on a node and being bound.
    BINDING = "binding"
    #: It was observed on a node, or deleted.
    REMOVED = "removed"


class PendingReason(StrEnum):
    """Why a pod is still pending, by its last attempt. Metrics show the values."""

    NOT_TRIED = "not_tried"
    #: A PreEnqueue plugin keeps it out of the queue; never the result of an attempt.
    GATED = "gated"
    #: On every node something is in the way that no other pod has taken, for example a taint, or a
    #: request that is larger than the node.
    NEVER_FITS = "never_fits"
    #: Other pods occupy what it needs on some node.
    BUSY = "busy"
    #: A policy refuses its preemption.
    POLICY = "policy"
    #: Its preemption is paused, because evictions were wasted or victims do not terminate.
    PAUSED = "paused"
    #: Victims were chosen for it.
    PREEMPTING = "preempting"
    #: Its last attempt, or its binding, has failed.
    ERROR = "error"


class QueueMove(StrEnum):
    """What can happen to a pending pod."""

    GATE = "gate"
    ACTIVATE = "activate"
    BACK_OFF = "back_off"
    MARK_UNSCHEDULABLE = "mark_unschedulable"
    POP = "pop"
    ASSUME = "assume"
    PREEMPT = "preempt"
    SUSPEND = "suspend"
    RESUME = "resume"
    DELETE = "delete"


#: (phase, move) -> phase; any other move is illegal.
TABLE: Final[dict[tuple[QueuePhase, QueueMove], QueuePhase]] = {
    (QueuePhase.NEW, QueueMove.ACTIVATE): QueuePhase.ACTIVE,
    (QueuePhase.NEW, QueueMove.GATE): QueuePhase.GATED,
    (QueuePhase.NEW, QueueMove.DELETE): QueuePhase.REMOVED,
    (QueuePhase.GATED, QueueMove.ACTIVATE): QueuePhase.ACTIVE,
    (QueuePhase.GATED, QueueMove.BACK_OFF): QueuePhase.BACKOFF,
    (QueuePhase.GATED, QueueMove.GATE): QueuePhase.GATED,
    (QueuePhase.GATED, QueueMove.DELETE): QueuePhase.REMOVED,
    (QueuePhase.ACTIVE, QueueMove.POP): QueuePhase.SCHEDULING,
    (QueuePhase.ACTIVE, QueueMove.DELETE): QueuePhase.REMOVED,
    (QueuePhase.BACKOFF, QueueMove.ACTIVATE): QueuePhase.ACTIVE,
    (QueuePhase.BACKOFF, QueueMove.POP): QueuePhase.SCHEDULING,
    (QueuePhase.BACKOFF, QueueMove.DELETE): QueuePhase.REMOVED,
    (QueuePhase.UNSCHEDULABLE, QueueMove.ACTIVATE): QueuePhase.ACTIVE,
    (QueuePhase.UNSCHEDULABLE, QueueMove.BACK_OFF): QueuePhase.BACKOFF,
    (QueuePhase.UNSCHEDULABLE, QueueMove.GATE): QueuePhase.GATED,
    (QueuePhase.UNSCHEDULABLE, QueueMove.DELETE): QueuePhase.REMOVED,
    (QueuePhase.SCHEDULING, QueueMove.ACTIVATE): QueuePhase.ACTIVE,
    (QueuePhase.SCHEDULING, QueueMove.GATE): QueuePhase.GATED,
    (QueuePhase.SCHEDULING, QueueMove.MARK_UNSCHEDULABLE): QueuePhase.UNSCHEDULABLE,
    (QueuePhase.SCHEDULING, QueueMove.BACK_OFF): QueuePhase.BACKOFF,
    (QueuePhase.SCHEDULING, QueueMove.PREEMPT): QueuePhase.PREEMPTING,
    (QueuePhase.SCHEDULING, QueueMove.ASSUME): QueuePhase.BINDING,
    (QueuePhase.SCHEDULING, QueueMove.DELETE): QueuePhase.REMOVED,
    (QueuePhase.SCHEDULING, QueueMove.SUSPEND): QueuePhase.WAITING_FOR_EXTENDERS,
    (QueuePhase.WAITING_FOR_EXTENDERS, QueueMove.RESUME): QueuePhase.SCHEDULING,
    (QueuePhase.WAITING_FOR_EXTENDERS, QueueMove.DELETE): QueuePhase.REMOVED,
    (QueuePhase.PREEMPTING, QueueMove.MARK_UNSCHEDULABLE): QueuePhase.UNSCHEDULABLE,
    (QueuePhase.PREEMPTING, QueueMove.BACK_OFF): QueuePhase.BACKOFF,
    (QueuePhase.PREEMPTING, QueueMove.ACTIVATE): QueuePhase.ACTIVE,
    (QueuePhase.PREEMPTING, QueueMove.GATE): QueuePhase.GATED,
    (QueuePhase.PREEMPTING, QueueMove.DELETE): QueuePhase.REMOVED,
    (QueuePhase.BINDING, QueueMove.BACK_OFF): QueuePhase.BACKOFF,
    (QueuePhase.BINDING, QueueMove.ACTIVATE): QueuePhase.ACTIVE,
    (QueuePhase.BINDING, QueueMove.GATE): QueuePhase.GATED,
    (QueuePhase.BINDING, QueueMove.DELETE): QueuePhase.REMOVED,
}
