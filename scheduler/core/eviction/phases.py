"""The phases of a preemption that is carried out and every legal move between them, as one table.

An illegal move is a defect; it raises with the story of the preemption.

    NOMINATING -> RECORDING -> EVICTING -> AWAITING -> DONE     the preemptor is bound
        |             |           |           |
        +-------------+-----------+           +-> RELEASED      the nomination is given back
                      |                       |       |
              STOPPING or FAILING ------------+-------+-> VACATED -> DONE
"""

from enum import StrEnum
from typing import Final

__all__ = ["HOLDING", "OPEN", "WAITING", "IllegalMoveError", "Move", "Phase", "after"]


class Phase(StrEnum):
    """How far a preemption has come."""

    #: An earlier leader wrote it to the preemptor; it is checked at the preemptor's next attempt.
    INHERITED = "inherited"
    #: The API server is asked to take the nomination.
    NOMINATING = "nominating"
    #: The ledger is written before the first eviction that it counts.
    RECORDING = "recording"
    #: Evictions are asked for.
    EVICTING = "evicting"
    #: It is given up and the preemptor is tried again at once, when every answer has come.
    STOPPING = "stopping"
    #: A step was refused; the preemptor backs off when every answer has come.
    FAILING = "failing"
    #: All evictions were accepted; the preemptor waits for its victims to be gone.
    AWAITING = "awaiting"
    #: The nomination was given back; its victims leave all the same.
    RELEASED = "released"
    #: The preemptor does not come; other preemptors may use the room.
    VACATED = "vacated"
    DONE = "done"


class Move(StrEnum):
    """What can happen to a preemption."""

    #: The plan of an earlier leader is valid, and victims are still to be evicted.
    RESUME = "resume"
    #: All victims of an earlier leader's plan leave already.
    RECOGNISE = "recognise"
    #: The API server has taken the nomination.
    NOMINATED = "nominated"
    #: The ledger is written, or nothing has to be.
    RECORDED = "recorded"
    #: Every eviction was accepted.
    EVICTED = "evicted"
    STOP = "stop"
    FAIL = "fail"
    RELEASE = "release"
    #: The preemptor has another place, or is gone, or the room was lost.
    VACATE = "vacate"
    #: Nothing is left to be observed: the preemptor is bound, or nothing was evicted for it.
    END = "end"


#: The nomination and the room belong to the preemptor, and it is not tried meanwhile.
HOLDING: Final = frozenset(
    {Phase.NOMINATING, Phase.RECORDING, Phase.EVICTING, Phase.STOPPING, Phase.FAILING}
)
#: The plan goes on as it was decided.
OPEN: Final = frozenset({Phase.NOMINATING, Phase.RECORDING, Phase.EVICTING})
#: The preemptor is nominated, and its victims are leaving or about to.
WAITING: Final = frozenset({Phase.INHERITED, Phase.AWAITING})

#: (phase, move) -> phase; what is not here is illegal.
TABLE: Final[dict[tuple[Phase, Move], Phase]] = {
    (Phase.INHERITED, Move.RESUME): Phase.RECORDING,
    (Phase.INHERITED, Move.RECOGNISE): Phase.AWAITING,
    (Phase.INHERITED, Move.RELEASE): Phase.RELEASED,
    (Phase.INHERITED, Move.VACATE): Phase.VACATED,
    (Phase.INHERITED, Move.END): Phase.DONE,
    (Phase.NOMINATING, Move.NOMINATED): Phase.RECORDING,
    (Phase.NOMINATING, Move.STOP): Phase.STOPPING,
    (Phase.NOMINATING, Move.FAIL): Phase.FAILING,
    (Phase.NOMINATING, Move.VACATE): Phase.VACATED,
    (Phase.NOMINATING, Move.END): Phase.DONE,
    (Phase.RECORDING, Move.RECORDED): Phase.EVICTING,
    (Phase.RECORDING, Move.STOP): Phase.STOPPING,
    (Phase.RECORDING, Move.FAIL): Phase.FAILING,
    (Phase.RECORDING, Move.VACATE): Phase.VACATED,
    (Phase.RECORDING, Move.END): Phase.DONE,
    (Phase.EVICTING, Move.EVICTED): Phase.AWAITING,
    (Phase.EVICTING, Move.STOP): Phase.STOPPING,
    (Phase.EVICTING, Move.FAIL): Phase.FAILING,
    (Phase.EVICTING, Move.VACATE): Phase.VACATED,
    (Phase.EVICTING, Move.END): Phase.DONE,
    (Phase.STOPPING, Move.FAIL): Phase.FAILING,
    (Phase.STOPPING, Move.RELEASE): Phase.RELEASED,
    (Phase.STOPPING, Move.VACATE): Phase.VACATED,
    (Phase.STOPPING, Move.END): Phase.DONE,
    (Phase.FAILING, Move.RELEASE): Phase.RELEASED,
    (Phase.FAILING, Move.VACATE): Phase.VACATED,
    (Phase.FAILING, Move.END): Phase.DONE,
    (Phase.AWAITING, Move.RELEASE): Phase.RELEASED,
    (Phase.AWAITING, Move.VACATE): Phase.VACATED,
    (Phase.AWAITING, Move.END): Phase.DONE,
    (Phase.RELEASED, Move.VACATE): Phase.VACATED,
    (Phase.RELEASED, Move.END): Phase.DONE,
    (Phase.VACATED, Move.END): Phase.DONE,
}


class IllegalMoveError(Exception):
    """A move that the table does not have."""


def after(phase: Phase, move: Move, story: object) -> Phase:
    """Return the phase after a move.

    Raises:
        IllegalMoveError: The table has no such move; the message tells the story, which is made
            into text only then.
    """
    found = TABLE.get((phase, move))
    if found is None:
        raise IllegalMoveError(f"a preemption that is {phase} cannot {move}: {story}")
    return found
