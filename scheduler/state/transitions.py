"""The phases of a pending pod and every legal move between them, as one table.

An illegal move is a defect; it raises with the story of the pod.
"""

from enum import StrEnum
from typing import Final

__all__ = ["TABLE", "IllegalTransitionError", "Move", "Phase", "after"]


class Phase(StrEnum):
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


class Move(StrEnum):
    """What can happen to a pending pod."""

    GATE = "gate"
    ADMIT = "admit"
    DELAY = "delay"
    PARK = "park"
    POP = "pop"
    ASSUME = "assume"
    HOLD = "hold"
    ASK = "ask"
    RESUME = "resume"
    DROP = "drop"


#: (phase, move) -> phase; what is not here is illegal.
TABLE: Final[dict[tuple[Phase, Move], Phase]] = {
    (Phase.NEW, Move.ADMIT): Phase.ACTIVE,
    (Phase.NEW, Move.GATE): Phase.GATED,
    (Phase.NEW, Move.DROP): Phase.GONE,
    (Phase.GATED, Move.ADMIT): Phase.ACTIVE,
    (Phase.GATED, Move.DELAY): Phase.BACKOFF,
    (Phase.GATED, Move.GATE): Phase.GATED,
    (Phase.GATED, Move.DROP): Phase.GONE,
    (Phase.ACTIVE, Move.POP): Phase.DECIDING,
    (Phase.ACTIVE, Move.DROP): Phase.GONE,
    (Phase.BACKOFF, Move.ADMIT): Phase.ACTIVE,
    (Phase.BACKOFF, Move.POP): Phase.DECIDING,
    (Phase.BACKOFF, Move.DROP): Phase.GONE,
    (Phase.UNSCHEDULABLE, Move.ADMIT): Phase.ACTIVE,
    (Phase.UNSCHEDULABLE, Move.DELAY): Phase.BACKOFF,
    (Phase.UNSCHEDULABLE, Move.GATE): Phase.GATED,
    (Phase.UNSCHEDULABLE, Move.DROP): Phase.GONE,
    (Phase.DECIDING, Move.ADMIT): Phase.ACTIVE,
    (Phase.DECIDING, Move.GATE): Phase.GATED,
    (Phase.DECIDING, Move.PARK): Phase.UNSCHEDULABLE,
    (Phase.DECIDING, Move.DELAY): Phase.BACKOFF,
    (Phase.DECIDING, Move.HOLD): Phase.PREEMPTING,
    (Phase.DECIDING, Move.ASSUME): Phase.BINDING,
    (Phase.DECIDING, Move.DROP): Phase.GONE,
    (Phase.DECIDING, Move.ASK): Phase.ASKING,
    (Phase.ASKING, Move.RESUME): Phase.DECIDING,
    (Phase.ASKING, Move.DROP): Phase.GONE,
    (Phase.PREEMPTING, Move.PARK): Phase.UNSCHEDULABLE,
    (Phase.PREEMPTING, Move.DELAY): Phase.BACKOFF,
    (Phase.PREEMPTING, Move.ADMIT): Phase.ACTIVE,
    (Phase.PREEMPTING, Move.GATE): Phase.GATED,
    (Phase.PREEMPTING, Move.DROP): Phase.GONE,
    (Phase.BINDING, Move.DELAY): Phase.BACKOFF,
    (Phase.BINDING, Move.ADMIT): Phase.ACTIVE,
    (Phase.BINDING, Move.GATE): Phase.GATED,
    (Phase.BINDING, Move.DROP): Phase.GONE,
}


class IllegalTransitionError(Exception):
    """A move that the table does not have."""


def after(phase: Phase, move: Move, story: object) -> Phase:
    """Return the phase after a move.

    Raises:
        IllegalTransitionError: The table has no such move; the message tells the story, which is
            made into text only then.
    """
    found = TABLE.get((phase, move))
    if found is None:
        raise IllegalTransitionError(f"a pod that is {phase} cannot {move}: {story}")
    return found
