"""The phases of a pending pod: what is in the table is legal, everything else raises."""

from itertools import product

import pytest

from scheduler.model.phase_table import IllegalMoveError, next_phase
from scheduler.queue.phases import TABLE, QueueMove, QueuePhase

#: Phase -> its moves, as text; repeated here on purpose.
LEGAL = {
    "new": "activate:active gate:gated delete:removed",
    "gated": "activate:active back_off:backoff gate:gated delete:removed",
    "active": "pop:deciding delete:removed",
    "backoff": "activate:active pop:deciding delete:removed",
    "unschedulable": "activate:active back_off:backoff gate:gated delete:removed",
    "deciding": (
        "activate:active gate:gated mark_unschedulable:unschedulable back_off:backoff "
        "preempt:preempting assume:binding suspend:asking delete:removed"
    ),
    "asking": "resume:deciding delete:removed",
    "preempting": (
        "mark_unschedulable:unschedulable back_off:backoff activate:active gate:gated "
        "delete:removed"
    ),
    "binding": "back_off:backoff activate:active gate:gated delete:removed",
    "removed": "",
}
MOVES = {
    (QueuePhase(phase), QueueMove(move.split(":")[0])): QueuePhase(move.split(":")[1])
    for phase, moves in LEGAL.items()
    for move in moves.split()
}


@pytest.mark.parametrize(("phase", "move"), list(product(QueuePhase, QueueMove)), ids=str)
def test_a_move_leads_to_its_phase_or_raises(phase, move):
    want = MOVES.get((phase, move))

    if want is not None:
        assert next_phase(TABLE, phase, move, "") is want
    else:
        with pytest.raises(IllegalMoveError, match=f"once: cannot {move} in the phase {phase}"):
            next_phase(TABLE, phase, move, "once")


def test_the_table_has_no_other_moves():
    assert TABLE == MOVES


def test_every_phase_can_be_reached():
    assert set(TABLE.values()) | {QueuePhase.NEW} == set(QueuePhase)


def test_a_pod_can_be_deleted_in_every_phase_but_the_last():
    assert {phase for phase, move in TABLE if move is QueueMove.DELETE} == set(QueuePhase) - {
        QueuePhase.REMOVED
    }
