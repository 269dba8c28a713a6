"""The phases of a preemption that is carried out and every legal move between them, as one table.

`transitions` makes each move. A move that the table does not have raises.

    INHERITED -> RECORDING, AWAITING or WITHDRAWN               the plan of an earlier leader

    NOMINATING -> RECORDING -> EVICTING -> AWAITING ----------> DONE     the preemptor is bound
        |             |           |           +-> DEALLOCATING -> DONE
        |             |           |           |        |
        +-------------+-----------+           +--------+-> WITHDRAWN     its nomination is
                      |                       |        |       |
              STOPPING or FAILING ------------+--------+-------+-> VACATED -> DONE
"""

from enum import StrEnum
from typing import Final

__all__ = [
    "AWAITING_VICTIMS",
    "CLOSED",
    "EVICTS",
    "HOLDING",
    "IN_PROGRESS",
    "KEEPS_DEVICES",
    "OPEN",
    "TABLE",
    "WAITING",
    "PreemptionMove",
    "PreemptionOutcome",
    "PreemptionPhase",
    "WasteReason",
]


class PreemptionPhase(StrEnum):
    """The progress of a preemption. Pages and metrics show the values."""

    #: An earlier leader wrote it to the preemptor; it is checked at the preemptor's next attempt.
    INHERITED = "inherited"
    #: The nomination was requested from the API server.
    NOMINATING = "nominating"
    #: The ledger is written before the first eviction that it counts.
    RECORDING = "recording"
    #: Evictions are requested.
    EVICTING = "evicting"
    #: It is given up; the preemptor is tried again as soon as every answer has come.
    STOPPING = "stopping"
    #: A step was refused; the preemptor backs off when every answer has come.
    FAILING = "failing"
    #: All evictions were accepted; the preemptor waits for its victims to be gone.
    AWAITING = "awaiting"
    #: The victims are gone, and their claims still have devices that the preemptor needs.
    DEALLOCATING = "deallocating"
    #: The nomination was withdrawn; victims that were evicted terminate anyway.
    WITHDRAWN = "withdrawn"
    #: The preemptor does not come; other preemptors may use the freed resources.
    VACATED = "vacated"
    DONE = "done"


class PreemptionOutcome(StrEnum):
    """How a preemption has ended. Pages show the values."""

    #: The preemptor is bound to the node.
    BOUND = "bound"
    #: The preemptor is placed on another node.
    ELSEWHERE = "elsewhere"
    #: A step was refused.
    FAILED = "failed"
    #: It does not help any more: other pods took the freed resources, a victim hangs, the node is
    #: gone, or another plan takes its place.
    GIVEN_UP = "given up"
    #: The preemptor is gone.
    GONE = "gone"


class WasteReason(StrEnum):
    """Why a preemptor did not use the resources that were freed for it."""

    #: Other pods took them.
    ROOM_LOST = "room_lost"
    #: The preemptor was placed on another node.
    PLACED_ELSEWHERE = "placed_elsewhere"
    #: The preemptor is gone.
    PREEMPTOR_GONE = "preemptor_gone"
    #: The node is gone.
    NODE_GONE = "node_gone"
    #: Not all victims could be evicted.
    PLAN_FAILED = "plan_failed"
    #: A victim does not finish terminating.
    VICTIM_HANGS = "victim_hangs"
    #: The claim of a victim that is gone was not deallocated.
    NOT_DEALLOCATED = "not_deallocated"


class PreemptionMove(StrEnum):
    """What can happen to a preemption."""

    #: The plan of an earlier leader is valid, and victims are still to be evicted.
    RESUME = "resume"
    #: All victims of an earlier leader's plan terminate already.
    RECOGNISE = "recognise"
    #: The API server has accepted the nomination.
    NOMINATED = "nominated"
    #: The ledger is written, or nothing has to be.
    RECORDED = "recorded"
    #: Every eviction was accepted.
    EVICTED = "evicted"
    #: The victims are gone.
    VICTIMS_GONE = "victims gone"
    STOP = "stop"
    FAIL = "fail"
    #: The nomination is withdrawn.
    WITHDRAW = "withdraw"
    #: The preemptor is on another node, or is gone, or other pods took the freed resources.
    VACATE = "vacate"
    #: Nothing is left to be watched: the preemptor is bound, or no pod was evicted for it.
    END = "end"


#: The plan is being carried out, and its preemptor is not tried meanwhile.
IN_PROGRESS: Final = frozenset(
    {
        PreemptionPhase.NOMINATING,
        PreemptionPhase.RECORDING,
        PreemptionPhase.EVICTING,
        PreemptionPhase.STOPPING,
        PreemptionPhase.FAILING,
    }
)
#: The plan goes on as it was decided.
OPEN: Final = frozenset(
    {PreemptionPhase.NOMINATING, PreemptionPhase.RECORDING, PreemptionPhase.EVICTING}
)
#: The plan may wait for the answer to the nomination of another one.
WAITING: Final = frozenset({PreemptionPhase.RECORDING, PreemptionPhase.STOPPING})
#: The victims terminate, or will.
EVICTS: Final = OPEN | {PreemptionPhase.AWAITING, PreemptionPhase.DEALLOCATING}
#: The ledger counts the victims whatever their age.
HOLDING: Final = IN_PROGRESS | {PreemptionPhase.INHERITED}
#: Nothing is left to be done for the preemptor.
CLOSED: Final = frozenset({PreemptionPhase.VACATED, PreemptionPhase.DONE})
#: The preemptor is nominated, and its victims terminate or are about to, or their devices.
AWAITING_VICTIMS: Final = frozenset(
    {PreemptionPhase.INHERITED, PreemptionPhase.AWAITING, PreemptionPhase.DEALLOCATING}
)
#: Devices are kept for the preemptors.
KEEPS_DEVICES: Final = OPEN | AWAITING_VICTIMS

#: It is not over, and its freed resources are kept for its preemptors.
_UNDER_WAY: Final = IN_PROGRESS | AWAITING_VICTIMS | {PreemptionPhase.WITHDRAWN}
#: The next step may be to withdraw the nominations.
_WITHDRAWABLE: Final = AWAITING_VICTIMS | {PreemptionPhase.STOPPING, PreemptionPhase.FAILING}

#: (phase, move) -> phase; any other move is illegal.
TABLE: Final[dict[tuple[PreemptionPhase, PreemptionMove], PreemptionPhase]] = {
    (PreemptionPhase.INHERITED, PreemptionMove.RESUME): PreemptionPhase.RECORDING,
    (PreemptionPhase.INHERITED, PreemptionMove.RECOGNISE): PreemptionPhase.AWAITING,
    (PreemptionPhase.NOMINATING, PreemptionMove.NOMINATED): PreemptionPhase.RECORDING,
    (PreemptionPhase.RECORDING, PreemptionMove.RECORDED): PreemptionPhase.EVICTING,
    (PreemptionPhase.EVICTING, PreemptionMove.EVICTED): PreemptionPhase.AWAITING,
    (PreemptionPhase.AWAITING, PreemptionMove.VICTIMS_GONE): PreemptionPhase.DEALLOCATING,
    **{(phase, PreemptionMove.STOP): PreemptionPhase.STOPPING for phase in OPEN},
    **{(phase, PreemptionMove.FAIL): PreemptionPhase.FAILING for phase in OPEN},
    (PreemptionPhase.STOPPING, PreemptionMove.FAIL): PreemptionPhase.FAILING,
    **{(phase, PreemptionMove.WITHDRAW): PreemptionPhase.WITHDRAWN for phase in _WITHDRAWABLE},
    **{(phase, PreemptionMove.VACATE): PreemptionPhase.VACATED for phase in _UNDER_WAY},
    **{(phase, PreemptionMove.END): PreemptionPhase.DONE for phase in _UNDER_WAY},
    (PreemptionPhase.VACATED, PreemptionMove.END): PreemptionPhase.DONE,
}
