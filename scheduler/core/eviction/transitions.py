"""What happens to a preemption, as pure functions from a plan to a `Transition`.

    decided -> every nomination is answered -> the ledger is written -> batches of evictions
            -> every eviction is answered -> the victims terminate -> their claims are deallocated
            -> the preemptors are bound

Each answer and event has a function. `next_move` returns the move that a plan can make by itself
after that; `None` while it waits. No function here changes anything: what a move wants from others
is a value of its `Transition`, which `preemptions` applies.

A preemptor is not tried again between its decision and the last answer of its plan. When a plan
cannot be completed, its nominations are withdrawn, and its preemptors are tried again, after a
backoff if a step was refused. Victims that terminate already are not evicted again.

Right before victims are evicted, a plan whose nodes or preemptors have changed is checked again:
victims that are not needed are spared, and if the plan is no longer sufficient, no pod is evicted.
A plan waits until earlier nominations to its nodes are written, since its victims were chosen with
them. Victims that a disruption budget may protect are evicted first: where the API server refuses
one of them, no other has been evicted.

A plan with several preemptors goes on only if every placement holds. The functions that end a plan
are for one that was divided, so that it has the placements that end alike.

Source: kube-scheduler v1.36.3 framework/preemption.Executor. Differs: the nomination is written
before the first eviction, and evictions name the victim's uid.
"""

import math
from typing import Any, Final

from msgspec.structs import replace

from scheduler.core.eviction.facts import Facts, Needed
from scheduler.core.eviction.phases import (
    CLOSED,
    OPEN,
    PreemptionMove,
    PreemptionOutcome,
    PreemptionPhase,
    WasteReason,
)
from scheduler.core.eviction.plan import PreemptionPlan, Progress
from scheduler.core.eviction.transition import Then, Transition, moved, with_ledger_released
from scheduler.core.pod_status import not_evicted
from scheduler.model.effects import DeallocateClaim, Evict, Nominate
from scheduler.model.events import Failure, FailureKind
from scheduler.model.times import Seconds

__all__ = [
    "DEALLOCATE_AFTER",
    "DEALLOCATE_WITHIN",
    "TAKE_WITHIN",
    "TERMINATION_MARGIN",
    "next_move",
]

#: How long a victim may take beyond its grace period before its node is given up.
#: Kubelets take a few seconds; on a node that is not ready it takes minutes, or never ends.
TERMINATION_MARGIN: Final[Seconds] = 30.0
#: The shortest time between two checks whether a victim hangs.
_CHECK_AGAIN_AFTER: Final[Seconds] = 1.0
#: How long claims may stay allocated whose pods are gone. kube-controller-manager needs less than a
#: second, as a rule.
DEALLOCATE_WITHIN: Final[Seconds] = 60.0
#: How often such claims are looked at. One that nobody reserves any more is deallocated then.
DEALLOCATE_AFTER: Final[Seconds] = 5.0
#: How long devices that are free are kept for a preemptor which does not take them.
TAKE_WITHIN: Final[Seconds] = 60.0
#: An eviction without an answer is requested again, but not more often than this.
REQUEST_AGAIN_AFTER: Final[Seconds] = 1.0
_WAITS: Final = frozenset({PreemptionPhase.AWAITING, PreemptionPhase.DEALLOCATING})
#: Failures that say nothing about the plan.
_TRANSIENT: Final = frozenset({FailureKind.UNAVAILABLE, FailureKind.ABANDONED, FailureKind.GONE})
#: How a preemption has ended whose preemptor does not come; else it is given up.
_OUTCOMES: Final = {
    WasteReason.PREEMPTOR_GONE: PreemptionOutcome.GONE,
    WasteReason.PLACED_ELSEWHERE: PreemptionOutcome.ELSEWHERE,
}


# Moves that a plan makes by itself ----------------------------------------------------------------


def next_move(  # noqa: C901, PLR0911 - a case for each phase
    plan: PreemptionPlan, facts: Facts, now: Seconds
) -> Transition | None:
    """Return the next move of a plan; `None` while it waits for an answer or an event."""
    progress = plan.progress
    answered = plan.nominations_answered and not progress.outstanding
    match progress.phase:
        case PreemptionPhase.NOMINATING if answered:
            return moved(plan, PreemptionMove.NOMINATED, now)
        case PreemptionPhase.RECORDING if facts.may_begin(plan):
            return moved(plan, PreemptionMove.RECORDED, now)
        case PreemptionPhase.EVICTING if answered:
            return _evict(plan, facts, now)
        case PreemptionPhase.AWAITING:
            return _victims_gone(plan, facts, now)
        case PreemptionPhase.STOPPING if answered:
            return _withdraw(plan, Then.RETRY, now)
        case PreemptionPhase.FAILING if answered:
            return _withdraw(plan, Then.BACK_OFF, now)
        case PreemptionPhase.WITHDRAWN if not progress.evicted:
            return moved(plan, PreemptionMove.END, now)
        case PreemptionPhase.WITHDRAWN if not facts.nodes_exist(plan):
            return node_gone(plan, now)
        case _:
            return None


def _evict(plan: PreemptionPlan, facts: Facts, now: Seconds) -> Transition:
    """Request the next evictions: of the victims that still run and are still needed."""
    progress = plan.progress
    to_evict = {
        each.preemptor_uid: victims for each in plan.placements if (victims := facts.to_evict(each))
    }
    if not to_evict:
        seen, check_at = _watched(plan, facts, now)
        wants: dict[str, Any] = {"then": Then.WAIT, "check_at": check_at}
        return moved(plan, PreemptionMove.EVICTED, now, seen, **wants)
    # The charge may have been computed under other policies.
    if not progress.began and facts.is_outdated(plan):
        return stop(plan, now)
    placements, wanted = [], []
    # All whose eviction is not certain: else two preemptors might spare each other's victims.
    spared = {pod.uid for preemptor in to_evict for pod in to_evict[preemptor]}
    for each in plan.placements:
        victims = to_evict.get(each.preemptor_uid, [])
        needed = facts.needed(each, victims, spared, now) if victims else Needed([])
        if needed is None:
            return stop(plan, now)
        spared -= {pod.uid for pod in needed.victims}
        wanted += [(each, pod) for pod in needed.victims]
        is_less = len(needed.victims) < len(victims)
        own = spared.intersection([pod.uid for pod in victims]) if is_less else None
        placements.append(each.wait_instead(needed.awaited, own) if own else each)
    strict = plan.charge.strict
    batch = [(by, victim) for by, victim in wanted if victim.uid in strict] or wanted
    outstanding = {victim.uid: now for _, victim in batch if facts.is_bound(victim.uid)}
    progress = replace(progress, began=progress.began or bool(batch), outstanding=outstanding)
    return Transition(
        replace(plan, placements=tuple(placements), progress=progress),
        evictions=tuple(plan.eviction(by, victim) for by, victim in batch),
        # Also where all are spared: the preemptor takes the room all the same. Upstream leaves
        # nominations alone where all victims terminate already.
        claims_nodes=True,
        spared=frozenset(spared),
    )


def _victims_gone(plan: PreemptionPlan, facts: Facts, now: Seconds) -> Transition | None:
    """Wait until claims are deallocated, once all victims are gone; `None` while one is there."""
    if plan.progress.victims_gone_at is not None or not plan.devices_expected:
        return None
    if any(map(facts.remaining, plan.placements)):
        return None
    progress = replace(plan.progress, victims_gone_at=now)
    if any(map(facts.undeallocated, plan.placements)):
        check_at = now + DEALLOCATE_AFTER
        return moved(plan, PreemptionMove.VICTIMS_GONE, now, progress, check_at=check_at)
    return Transition(plan.at(progress), check_at=now + TAKE_WITHIN)


def _withdraw(plan: PreemptionPlan, then: Then, now: Seconds) -> Transition:
    return moved(plan, PreemptionMove.WITHDRAW, now, withdrawn=plan.preemptors, then=then)


# Answers ------------------------------------------------------------------------------------------


def nomination_accepted(plan: PreemptionPlan, effect: Nominate) -> Transition:
    """Record that the API server has accepted a nomination."""
    progress = plan.progress
    accepted = progress.nominated | {effect.pod.uid}
    return Transition(plan.at(replace(progress, nominated=accepted)))


def not_nominated(
    plan: PreemptionPlan, effect: Nominate, failure: Failure, now: Seconds
) -> Transition:
    """Give up a plan of which the API server has not accepted a nomination."""
    progress = replace(plan.progress, refused=plan.progress.refused | {effect.pod.uid})
    problem = f"nominating node {effect.node}: {failure.message}"
    return fail(plan.at(progress), problem, failure, now)


def ledger_not_saved(plan: PreemptionPlan, failure: Failure, now: Seconds) -> Transition:
    """Give up a plan that policies count, since the ledger cannot be written.

    Other plans go on: this process remembers failed preemptions without the ledger.
    """
    if plan.phase not in OPEN:
        return Transition(plan)
    if plan.charge.counts or failure.kind is FailureKind.ABANDONED:
        return fail(plan, f"saving the preemption ledger: {failure.message}", failure, now)
    return Transition(replace(plan, ledger_revision=0))


def eviction_accepted(plan: PreemptionPlan, uid: str, now: Seconds) -> Transition:
    """Record that a victim was evicted.

    Also a pod that was gone already: an earlier request, whose answer was lost, may have evicted
    it.
    """
    progress = plan.progress
    in_ledger, known = progress.in_ledger - {uid}, progress.evicted | {uid: now}
    progress = replace(progress.without(uid), evicted=known, in_ledger=in_ledger)
    return Transition(with_ledger_released(plan.at(progress)))


def evict_again(plan: PreemptionPlan, effect: Evict, now: Seconds) -> Transition | None:
    """Request an eviction again to which no answer came; `None` when it is too late for that."""
    uid, progress = effect.victim.uid, plan.progress
    waits = progress.phase is PreemptionPhase.EVICTING and now < plan.deadline
    if not waits or now - progress.outstanding[uid] < REQUEST_AGAIN_AFTER:
        return None
    # Perhaps only the answer was lost. That stays so, whatever the next answer is.
    outstanding, known = progress.outstanding | {uid: now}, {uid: now} | progress.evicted
    progress = replace(progress, outstanding=outstanding, evicted=known)
    return Transition(plan.at(progress), evictions=(effect,))


def eviction_failed(
    plan: PreemptionPlan, effect: Evict, failure: Failure, now: Seconds
) -> Transition:
    """Give a plan up of which a victim was not evicted."""
    uid, progress = effect.victim.uid, plan.progress.without(effect.victim.uid)
    if failure.kind is FailureKind.UNAVAILABLE:
        progress = replace(progress, evicted={uid: now} | progress.evicted)
    answered = with_ledger_released(plan.at(progress))
    if progress.phase in CLOSED:
        return Transition(answered)
    return fail(answered, not_evicted(effect, failure), failure, now)


# Giving up ----------------------------------------------------------------------------------------


def stop(plan: PreemptionPlan, now: Seconds) -> Transition:
    """Give a plan up; its preemptors are tried again when every answer has come."""
    return moved(plan, PreemptionMove.STOP, now) if plan.phase in OPEN else Transition(plan)


def fail(plan: PreemptionPlan, problem: str, failure: Failure, now: Seconds) -> Transition:
    """Give a plan up that failed; its preemptors back off when every answer has come."""
    if plan.phase is PreemptionPhase.STOPPING and failure.kind is FailureKind.ABANDONED:
        return Transition(plan)  # it was given up before: that is why nothing was sent
    progress = replace(
        plan.progress,
        problem=plan.progress.problem or problem,
        will_fail_again=plan.progress.will_fail_again or failure.kind not in _TRANSIENT,
    )
    if plan.phase is PreemptionPhase.FAILING:
        return Transition(plan.at(progress))
    return moved(plan, PreemptionMove.FAIL, now, progress)


def victim_stays(plan: PreemptionPlan, now: Seconds) -> Transition:
    """Give up a plan that waits for a pod which runs on."""
    return _withdraw(plan, Then.WAKE, now)


def give_up(plan: PreemptionPlan, now: Seconds) -> Transition:
    """Give up what is left of a plan of which a placement does not hold."""
    return (victim_stays if plan.phase in _WAITS else stop)(plan, now)


# After the evictions ------------------------------------------------------------------------------


def watch(plan: PreemptionPlan, facts: Facts, now: Seconds) -> Transition:
    """Plan the next check whether a victim hangs."""
    seen, check_at = _watched(plan, facts, now)
    return Transition(plan.at(seen), check_at=check_at)


def check_victims(plan: PreemptionPlan, facts: Facts, now: Seconds) -> Transition:
    """Give up the nodes of a plan with a victim that should be gone by now."""
    if plan.progress.victims_gone_at is not None:
        return _check_claims(plan, facts, plan.progress.victims_gone_at, now)
    if plan.phase is PreemptionPhase.INHERITED and plan.devices_expected and now >= plan.deadline:
        return victim_stays(plan, now)  # its preemptor is not tried: devices are not kept for ever
    seen, ends = _hang_times(plan, facts, now)
    hanging = frozenset(uid for uid, end in ends.items() if end is not None and end <= now)
    if hanging:
        return moved(
            plan,
            PreemptionMove.END,
            now,
            seen,
            overdue=hanging,
            withdrawn=plan.preemptors,
            then=Then.WAKE,
            reason=WasteReason.VICTIM_HANGS,
            wasted=frozenset(seen.evicted),
        )
    if plan.phase is PreemptionPhase.AWAITING and facts.is_stuck(plan):
        return victim_stays(plan, now)
    return watch(plan, facts, now)


def _check_claims(plan: PreemptionPlan, facts: Facts, since: Seconds, now: Seconds) -> Transition:
    """Deallocate claims that nobody uses; give up a plan that waits for devices for too long."""
    if facts.is_placed(plan):
        return Transition(plan, check_at=now + TAKE_WITHIN)
    left = [(each, claim) for each in plan.placements for claim in facts.undeallocated(each)]
    if left and now >= since + DEALLOCATE_WITHIN:
        reason, wasted = WasteReason.NOT_DEALLOCATED, frozenset(plan.progress.evicted)
        then: dict[str, Any] = {"withdrawn": plan.preemptors, "then": Then.WAKE}
        then |= {"undeallocated": tuple(left)}
        return moved(plan, PreemptionMove.END, now, reason=reason, wasted=wasted, **then)
    if now >= since + DEALLOCATE_WITHIN + TAKE_WITHIN:
        return victim_stays(plan, now)
    # A former request may have failed. One that comes late names an old version of the claim.
    deallocations = tuple(
        DeallocateClaim(placement.preemptor.ref, claim.ref)
        for placement, claim in left
        if not claim.status.reserved_for
    )
    told = plan.progress.told_of_claims
    return Transition(
        plan.at(replace(plan.progress, told_of_claims=told or bool(left))),
        deallocations=deallocations,
        undeallocated=() if told else tuple(left),
        check_at=now + (DEALLOCATE_AFTER if left else TAKE_WITHIN),
    )


def _watched(plan: PreemptionPlan, facts: Facts, now: Seconds) -> tuple[Progress, Seconds | None]:
    """Return the progress after a look at the victims, and when to look again."""
    seen, ends = _hang_times(plan, facts, now)
    if not ends and plan.devices_expected:
        return seen, max(plan.deadline, now + _CHECK_AGAIN_AFTER)
    soonest = min((end for end in ends.values() if end is not None), default=math.inf)
    check_at = max(min(soonest, now + TERMINATION_MARGIN), now + _CHECK_AGAIN_AFTER)
    return seen, check_at if ends else None


def _hang_times(
    plan: PreemptionPlan, facts: Facts, now: Seconds
) -> tuple[Progress, dict[str, Seconds | None]]:
    """Return the progress after a look at the victims, and when each one counts as hanging.

    The grace period is that of its deletion, which only the API server writes. Victims that do not
    terminate yet have `None`.
    """
    remaining = [pod for each in plan.placements for pod in facts.remaining(each)]
    terminating = [pod for pod in remaining if pod.terminating]
    evicted_at, seen = plan.progress.evicted, plan.progress.seen_terminating
    # Those that the plan did not evict terminate for another reason, perhaps since long ago.
    seen = {pod.uid: now for pod in terminating if pod.uid not in evicted_at} | seen
    ends: dict[str, Seconds | None] = {pod.uid: None for pod in remaining}
    for pod in terminating:
        since = evicted_at.get(pod.uid, seen.get(pod.uid, now))
        grace = pod.metadata.deletion_grace_period_seconds or 0
        ends[pod.uid] = since + grace + TERMINATION_MARGIN
    return replace(plan.progress, seen_terminating=seen), ends


def bound(plan: PreemptionPlan, now: Seconds) -> Transition:
    """End a plan whose preemptor is bound to its node."""
    progress = replace(plan.progress, outcome=PreemptionOutcome.BOUND)
    return moved(plan, PreemptionMove.END, now, progress)


def node_gone(plan: PreemptionPlan, now: Seconds) -> Transition:
    """End a plan whose node is gone; its caller withdraws the nominations to it."""
    reason, wasted = WasteReason.NODE_GONE, frozenset(plan.progress.evicted)
    return moved(plan, PreemptionMove.END, now, reason=reason, wasted=wasted)


def lost(plan: PreemptionPlan, wasted: frozenset[str] | None, now: Seconds) -> Transition:
    """End a plan whose preemptor, which is being decided for, did not get the freed resources.

    Args:
        plan: The plan.
        wasted: The victims whose resources no other preemptor uses; `None` while that is not
            certain: then other preemptors may use them.
        now: The time.
    """
    reason = WasteReason.ROOM_LOST
    if wasted is None or plan.phase is PreemptionPhase.WITHDRAWN:
        return vacate(plan, reason, now)
    return moved(plan, PreemptionMove.END, now, reason=reason, wasted=wasted)


def vacate(plan: PreemptionPlan, reason: WasteReason, now: Seconds) -> Transition:
    """Close a plan whose preemptor does not come: other preemptors may use the freed resources."""
    progress = replace(plan.progress, outcome=_OUTCOMES.get(reason))
    if not progress.evicted and not progress.outstanding:
        return moved(plan, PreemptionMove.END, now, progress)
    if plan.phase is PreemptionPhase.WITHDRAWN:
        reason = WasteReason.PLAN_FAILED
    progress = replace(progress, vacated_for=reason)
    return moved(plan, PreemptionMove.VACATE, now, progress, reason=reason)


def settle(plan: PreemptionPlan, wasted: frozenset[str], now: Seconds) -> Transition:
    """End a vacated plan when it is certain which pods use the freed resources."""
    reason = plan.progress.vacated_for
    return moved(plan, PreemptionMove.END, now, reason=reason, wasted=wasted)


def absorb(plan: PreemptionPlan, now: Seconds) -> Transition:
    """End a plan whose evictions serve a new plan of its preemptor, too."""
    return moved(plan, PreemptionMove.END, now)


# Plans of an earlier leader -----------------------------------------------------------------------


def check_inherited(plan: PreemptionPlan, facts: Facts, now: Seconds) -> Transition:
    """Check a plan by the rules for new decisions: it goes on as it is, or is given up.

    Where all victims terminate already, the preemptors wait for them.
    """
    to_evict = [(each, tuple(facts.to_evict(each))) for each in plan.placements]
    if not any(victims for _, victims in to_evict):
        return moved(plan, PreemptionMove.RECOGNISE, now)
    if not all(facts.may_resume(plan, each, victims, now) for each, victims in to_evict):
        return moved(plan, PreemptionMove.WITHDRAW, now)
    resumed = replace(
        plan,
        charged_under=facts.policy_inputs(plan),
        # Whatever the clock says, what this process has decided already came before. Times that
        # earlier leaders have written do not count.
        taken_up_at=max((now, *facts.nominating_since(plan))),
    )
    progress = replace(plan.progress, nominated=frozenset(plan.preemptors))
    return moved(resumed, PreemptionMove.RESUME, now, progress)
