"""The phases of a pending pod: what is in the table is legal, everything else raises."""

from itertools import product

import pytest

from scheduler.queue.phases import TABLE, IllegalTransitionError, QueueMove, QueuePhase, after

#: Phase -> its moves, as text; repeated here on purpose.
LEGAL = {
    "new": "admit:active gate:gated drop:gone",
    "gated": "admit:active delay:backoff gate:gated drop:gone",
    "active": "pop:deciding drop:gone",
    "backoff": "admit:active pop:deciding drop:gone",
    "unschedulable": "admit:active delay:backoff gate:gated drop:gone",
    "deciding": (
        "admit:active gate:gated park:unschedulable delay:backoff preempt:preempting "
        "assume:binding suspend:asking drop:gone"
    ),
    "asking": "resume:deciding drop:gone",
    "preempting": "park:unschedulable delay:backoff admit:active gate:gated drop:gone",
    "binding": "delay:backoff admit:active gate:gated drop:gone",
    "gone": "",
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
        assert after(phase, move, "") is want
    else:
        with pytest.raises(
            IllegalTransitionError, match=f"a pod that is {phase} cannot {move}: once"
        ):
            after(phase, move, "once upon a time")


def test_the_table_has_no_other_moves():
    assert TABLE == MOVES


def test_every_phase_can_be_reached():
    assert set(TABLE.values()) | {QueuePhase.NEW} == set(QueuePhase)


def test_every_phase_but_the_last_can_be_left_for_good():
    assert {phase for phase, move in TABLE if move is QueueMove.DROP} == set(QueuePhase) - {
        QueuePhase.GONE
    }
