"""Tables of phases: how a phase follows from the one before it and a move.

`scheduler.queue.phases` has the table of a pending pod, `scheduler.core.eviction.phases` that of a
preemption. An illegal move is a bug, and raises.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

__all__ = ["IllegalMoveError", "next_phase"]

PhaseT = TypeVar("PhaseT", bound=StrEnum)
MoveT = TypeVar("MoveT", bound=StrEnum)


class IllegalMoveError(Exception):
    """A move that the table does not have."""


def next_phase(
    table: Mapping[tuple[PhaseT, MoveT], PhaseT], phase: PhaseT, move: MoveT, subject: object
) -> PhaseT:
    """Return the phase after a move.

    Args:
        table: The phase by phase and move; a move that is not in it is illegal.
        phase: The phase before the move.
        move: The move.
        subject: What changes its phase, with its history; it is converted to text only for the
            message of the error.

    Raises:
        IllegalMoveError: The table has no such move.
    """
    target = table.get((phase, move))
    if target is None:
        raise IllegalMoveError(f"{subject}: cannot {move} in the phase {phase}")
    return target
