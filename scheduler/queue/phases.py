"""The phases of a pending pod and every legal move between them, as one table.

An illegal move is a defect; it raises with the story of the pod.
"""

from enum import StrEnum
from typing import Final

__all__ = ["TABLE", "IllegalTransitionError", "QueueMove", "QueuePhase", "after"]


class QueuePhase(StrEnum):
    """Where a pod of ours is."""

    NEW = "new"
    #: A PreEnqueue plugin keeps it out of the queue.
    GATED = "gated"
    #: Waits for its turn.
    ACTIVE = "active"
    #: Waits until its last failure is long enough ago.
    BACKOFF = "backoff"
    #: Waits for an event that can help.
    UNSCHEDULABLE = "unschedulable"
    #: Is the pod of the attempt that runs.
    DECIDING = "deciding"
    #: Its attempt waits for the answers of extenders, and goes on with them.
    ASKING = "asking"
    #: Its preemption is being carried out; nothing may be decided for it meanwhile.
    PREEMPTING = "preempting"
    #: Is assumed on a node and being bound.
    BINDING = "binding"
    #: Was seen on a node, or is gone.
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


#: (phase, move) -> phase; what is not here is illegal.
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


def after(phase: QueuePhase, move: QueueMove, story: object) -> QueuePhase:
    """Return the phase after a move.

    Raises:
        IllegalTransitionError: The table has no such move; the message tells the story, which is
            made into text only then.
    """
    found = TABLE.get((phase, move))
    if found is None:
        raise IllegalTransitionError(f"a pod that is {phase} cannot {move}: {story}")
    return found
