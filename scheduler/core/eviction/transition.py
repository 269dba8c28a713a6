"""A transition of a plan as a value: the plan after it, and what that wants from others."""

from enum import Enum
from typing import Any, Final

from msgspec.structs import replace

from scheduler.core.eviction.phases import (
    CLOSED,
    HOLDING,
    TABLE,
    PreemptionMove,
    PreemptionOutcome,
    WasteReason,
)
from scheduler.core.eviction.plan import Placement, PreemptionPlan, Progress
from scheduler.model.api.devices import ResourceClaim
from scheduler.model.base import Record
from scheduler.model.effects import DeallocateClaim, Evict
from scheduler.model.phase_table import next_phase
from scheduler.model.times import Seconds

__all__ = ["Then", "Transition", "moved", "with_ledger_released"]

#: How many moves are remembered, for the message about an illegal move.
_HISTORY: Final = 16


class Then(Enum):
    """What becomes of preemptors in the queue."""

    #: They wait for their victims.
    WAIT = "wait"
    #: Every answer has come; they are tried again.
    RETRY = "retry"
    #: A step was refused; they are tried again after a backoff.
    BACK_OFF = "back off"
    #: They lose what they waited for, and are tried again.
    WAKE = "wake"


class Transition(Record, frozen=True):
    """A plan after a move, an answer or an event, and what that wants from others."""

    #: Victims in `progress.in_ledger` stay counted; the ledger uncounts those that left it.
    plan: PreemptionPlan
    #: `None` where the phase stays.
    move: PreemptionMove | None = None
    #: Evictions to request. One that the plan does not count as outstanding is that of a pod which
    #: is not bound yet: it is taken off its node instead.
    evictions: tuple[Evict, ...] = ()
    #: Claims to deallocate, which no pod uses and nobody else deallocates.
    deallocations: tuple[DeallocateClaim, ...] = ()
    #: Claims that are still allocated, with the placement that needs their devices, if that is to
    #: be told: once while a plan waits, and when it is given up for that.
    undeallocated: tuple[tuple[Placement, ResourceClaim], ...] = ()
    #: Whether less important nominations to the nodes are withdrawn first.
    claims_nodes: bool = False
    #: Victims, by uid, that are not evicted after all, and those that hang.
    spared: frozenset[str] = frozenset()
    overdue: frozenset[str] = frozenset()
    #: Preemptors, by uid, whose nomination is withdrawn, in their status as well.
    withdrawn: tuple[str, ...] = ()
    #: What becomes of those, or of all that have to wait.
    then: Then | None = None
    #: When to check next whether a victim hangs.
    check_at: Seconds | None = None
    #: Why the preemptors do not use the resources, and the victims for which that is certain.
    reason: WasteReason | None = None
    wasted: frozenset[str] = frozenset()


def moved(
    plan: PreemptionPlan,
    move: PreemptionMove,
    now: Seconds,
    progress: Progress | None = None,
    **wants: Any,
) -> Transition:
    """Return the move of a plan to the phase that the table of `phases` has for it.

    Args:
        plan: The plan.
        move: The move.
        now: The time.
        progress: Replaces that of the plan.
        **wants: The other attributes of the transition.

    Raises:
        IllegalMoveError: The table does not have the move.
    """
    before = progress or plan.progress
    phase = next_phase(TABLE, before.phase, move, plan)
    after = replace(before, phase=phase, history=(*before.history, (now, phase))[-_HISTORY:])
    if phase in CLOSED and after.ended_at is None:
        failed = PreemptionOutcome.FAILED if after.problem else PreemptionOutcome.GIVEN_UP
        after = replace(after, ended_at=now, outcome=after.outcome or failed)
    return Transition(with_ledger_released(replace(plan, progress=after)), move, **wants)


def with_ledger_released(plan: PreemptionPlan) -> PreemptionPlan:
    """Return a plan whose counted victims are uncounted, if it takes no further step.

    Evictions that have no answer yet stay counted.
    """
    progress = plan.progress
    if progress.phase in HOLDING or not progress.in_ledger:
        return plan
    in_ledger = progress.in_ledger.intersection(progress.outstanding)
    return replace(plan, progress=replace(progress, in_ledger=in_ledger))
