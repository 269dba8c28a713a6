"""The phases of a pending pod and every legal move between them, as one table.

An illegal move is a defect; it raises an error that contains the history of the pod.
"""

from enum import StrEnum
from typing import Final

__all__ = ["TABLE", "IllegalTransitionError", "QueueMove", "QueuePhase", "after"]


class QueuePhase(StrEnum):
    """What happens to a pod of ours at present."""

    NEW = "new"
    #: A PreEnqueue plugin keeps it out of the queue.
    GATED = "gated"
    #: Waits for its turn.
    ACTIVE = "active"
    #: Waits until the back-off after its last failure is over.
    BACKOFF = "backoff"
    #: Waits for an event that can help.
    UNSCHEDULABLE = "unschedulable"
    #: Its attempt is running.
    DECIDING = "deciding"
    #: Its attempt is suspended until extenders have answered.
    ASKING = "asking"
    #: Its preemption is being carried out; it is not tried meanwhile.
    PREEMPTING = "preempting"
    #: It is assumed on a node and being bound.
    BINDING = "binding"
    #: It was observed on a node, or deleted.
    GONE = "gone"


class QueueMove(StrEnum):
    """What can happen to a pending pod."""

    GATE = "gate"
    ADMIT = "admit"
    DELAY = "delay"
    PARK = "park"
    POP = "pop"
    ASSUME = "assume"
    PREEMPT = "preempt"
    SUSPEND = "suspend"
    RESUME = "resume"
    DROP = "drop"


#: (phase, move) -> phase; any other move is illegal.
TABLE: Final[dict[tuple[QueuePhase, QueueMove], QueuePhase]] = {
    (QueuePhase.NEW, QueueMove.ADMIT): QueuePhase.ACTIVE,
    (QueuePhase.NEW, QueueMove.GATE): QueuePhase.GATED,
    (QueuePhase.NEW, QueueMove.DROP): QueuePhase.GONE,
    (QueuePhase.GATED, QueueMove.ADMIT): QueuePhase.ACTIVE,
    (QueuePhase.GATED, QueueMove.DELAY): QueuePhase.BACKOFF,
    (QueuePhase.GATED, QueueMove.GATE): QueuePhase.GATED,
    (QueuePhase.GATED, QueueMove.DROP): QueuePhase.GONE,
    (QueuePhase.ACTIVE, QueueMove.POP): QueuePhase.DECIDING,
    (QueuePhase.ACTIVE, QueueMove.DROP): QueuePhase.GONE,
    (QueuePhase.BACKOFF, QueueMove.ADMIT): QueuePhase.ACTIVE,
    (QueuePhase.BACKOFF, QueueMove.POP): QueuePhase.DECIDING,
    (QueuePhase.BACKOFF, QueueMove.DROP): QueuePhase.GONE,
    (QueuePhase.UNSCHEDULABLE, QueueMove.ADMIT): QueuePhase.ACTIVE,
    (QueuePhase.UNSCHEDULABLE, QueueMove.DELAY): QueuePhase.BACKOFF,
    (QueuePhase.UNSCHEDULABLE, QueueMove.GATE): QueuePhase.GATED,
    (QueuePhase.UNSCHEDULABLE, QueueMove.DROP): QueuePhase.GONE,
    (QueuePhase.DECIDING, QueueMove.ADMIT): QueuePhase.ACTIVE,
    (QueuePhase.DECIDING, QueueMove.GATE): QueuePhase.GATED,
    (QueuePhase.DECIDING, QueueMove.PARK): QueuePhase.UNSCHEDULABLE,
    (QueuePhase.DECIDING, QueueMove.DELAY): QueuePhase.BACKOFF,
    (QueuePhase.DECIDING, QueueMove.PREEMPT): QueuePhase.PREEMPTING,
    (QueuePhase.DECIDING, QueueMove.ASSUME): QueuePhase.BINDING,
    (QueuePhase.DECIDING, QueueMove.DROP): QueuePhase.GONE,
    (QueuePhase.DECIDING, QueueMove.SUSPEND): QueuePhase.ASKING,
    (QueuePhase.ASKING, QueueMove.RESUME): QueuePhase.DECIDING,
    (QueuePhase.ASKING, QueueMove.DROP): QueuePhase.GONE,
    (QueuePhase.PREEMPTING, QueueMove.PARK): QueuePhase.UNSCHEDULABLE,
    (QueuePhase.PREEMPTING, QueueMove.DELAY): QueuePhase.BACKOFF,
    (QueuePhase.PREEMPTING, QueueMove.ADMIT): QueuePhase.ACTIVE,
    (QueuePhase.PREEMPTING, QueueMove.GATE): QueuePhase.GATED,
    (QueuePhase.PREEMPTING, QueueMove.DROP): QueuePhase.GONE,
    (QueuePhase.BINDING, QueueMove.DELAY): QueuePhase.BACKOFF,
    (QueuePhase.BINDING, QueueMove.ADMIT): QueuePhase.ACTIVE,
    (QueuePhase.BINDING, QueueMove.GATE): QueuePhase.GATED,
    (QueuePhase.BINDING, QueueMove.DROP): QueuePhase.GONE,
}


class IllegalTransitionError(Exception):
    """A move that the table does not have."""


def after(phase: QueuePhase, move: QueueMove, history: object) -> QueuePhase:
    """Return the phase after a move.

    Raises:
        IllegalTransitionError: The table has no such move; the message contains the history, which
            is converted to text only then.
    """
    target = TABLE.get((phase, move))
    if target is None:
        raise IllegalTransitionError(f"a pod that is {phase} cannot {move}: {history}")
    return target
