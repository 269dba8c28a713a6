"""Book-keeping of wasted evictions. It listens to the moves of preemptions.

Every eviction that did not lead to the preemptor's binding is counted against the preemptor at
once. If the ledger has too many of these, similar preemptions pause. Resources that another
preemptor of ours has used are not counted against owners, nodes and the cluster, since that
preemptor would have had to evict other pods: see `freed_resources`.
"""

from collections.abc import Set
from typing import Final

from msgspec.structs import replace

from scheduler.core.eviction.ledger_writer import LedgerWriter
from scheduler.core.eviction.phases import (
    PreemptionMove,
    PreemptionOutcome,
    PreemptionPhase,
    WasteReason,
)
from scheduler.core.eviction.plan import Placement, PreemptionPlan, owners
from scheduler.core.eviction.state import WasteState
from scheduler.core.eviction.transition import Transition
from scheduler.core.pod_status import StatusReporter
from scheduler.core.preemption.policy.loop_breaker import waste_veto
from scheduler.core.requeue.blocked_by_policy import BlockedByPolicy
from scheduler.model.api.owners import owner
from scheduler.model.times import Seconds
from scheduler.state.preemption.ledger import Ledger
from scheduler.state.preemption.wasted_evictions import WastePause

__all__ = ["Waste"]

#: Reasons that may repeat without end.
_LOOPS: Final = frozenset({WasteReason.ROOM_LOST, WasteReason.PLACED_ELSEWHERE})


class Waste:
    """Counts wasted evictions: the only writer of waste to the ledger."""

    def __init__(
        self,
        state: WasteState,
        ledger: Ledger,
        status: StatusReporter,
        blocked: BlockedByPolicy,
        ledger_writer: LedgerWriter,
    ) -> None:
        self._ledger_writer = ledger_writer
        self._state = state
        self._ledger = ledger
        self._status = status
        self._blocked = blocked

    def moved(self, before: PreemptionPlan, transition: Transition, now: Seconds) -> None:
        """Count what a transition wastes."""
        if transition.move is not None and self._has_counted(before, transition, now):
            self._ledger_writer.write_soon(now)

    def _has_counted(self, before: PreemptionPlan, transition: Transition, now: Seconds) -> bool:
        """Count what a transition wastes; return whether the ledger should be written soon."""
        plan, reason, wasted = transition.plan, transition.reason, transition.wasted
        match transition.move:
            case PreemptionMove.WITHDRAW:
                return self._withdrawn(plan, now, failed=before.phase is PreemptionPhase.FAILING)
            case PreemptionMove.END if plan.progress.outcome is PreemptionOutcome.BOUND:
                self._record_success(plan, now)
            case PreemptionMove.VACATE | PreemptionMove.END if reason is not None:
                # Then the preemptor needs another preemption; a plan that failed counts already.
                lost = reason is WasteReason.ROOM_LOST and not before.progress.vacated_for
                if lost:
                    self._record_possible(plan, now)
                if wasted:
                    self._count(plan, reason, wasted, now)
                return lost or bool(wasted)
        return False

    def _withdrawn(self, plan: PreemptionPlan, now: Seconds, *, failed: bool) -> bool:
        """Count the evictions of a plan that was given up; return whether anything was counted."""
        evicted = plan.progress.evicted.keys()
        if failed and (evicted or plan.progress.will_fail_again):
            # Also where no victim was evicted: then other nodes come first.
            for placement, uids in plan.by_placement(evicted):
                self._record(plan, placement, uids, now)
            return True
        self._record_possible(plan, now)
        return bool(evicted)

    def _record_success(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Record that the preemptors are bound to the nodes that a plan was for."""
        ledger = self._ledger
        before = ledger.revision
        for placement, evicted in plan.by_placement(plan.progress.evicted.keys()):
            preemptor = owner(placement.preemptor)
            ledger.record_success(preemptor, owners(placement, evicted))
            for entry in self._state.of(plan, placement).entries:
                ledger.resolve_waste(entry, 0, now)
            if evicted:
                ledger.record_binding(preemptor, placement.node)
        if ledger.revision != before:
            self._blocked.wake_count_limited(now)

    def _count(self, plan: PreemptionPlan, why: WasteReason, uids: Set[str], now: Seconds) -> None:
        """Count wasted evictions, and remember those whose reason may repeat."""
        self._state.wasted_evictions[why] += len(uids)
        if why in _LOOPS:
            self._state.failed_preemptions[why] += 1
        for placement, own in plan.by_placement(uids):
            if own:
                self._count_placement(plan, placement, why, own, now)

    def _count_placement(
        self,
        plan: PreemptionPlan,
        placement: Placement,
        why: WasteReason,
        uids: frozenset[str],
        now: Seconds,
    ) -> None:
        if why in _LOOPS:
            self._record_failure(placement, why, uids, now)
        counted = self._state.of(plan, placement)
        counted = replace(counted, in_vain=counted.in_vain | uids)
        self._state.put(plan, placement, counted)
        fresh = uids - counted.certain
        if not counted.entries:
            self._record(plan, placement, uids, now)
        elif fresh:
            # The other evictions still count against the preemptor alone.
            *left, entry = counted.entries
            self._state.put(plan, placement, replace(counted, entries=tuple(left)))
            pause = self._ledger.resolve_waste(entry, len(fresh), now)
            self._report_pause(placement, pause)

    def _record_failure(
        self, placement: Placement, why: WasteReason, uids: Set[str], now: Seconds
    ) -> None:
        """Remember the owners of a failed preemption, since it may repeat without end."""
        ledger, preemptor = self._ledger, owner(placement.preemptor)
        victims = owners(placement, uids)
        before = {victim: self._is_stopped(placement, victim, now) for victim in victims}
        lost = why is WasteReason.ROOM_LOST
        ledger.record_failure(preemptor, placement.node, victims, now, lost=lost)
        for victim in victims:
            if not before[victim] and self._is_stopped(placement, victim, now):
                self._state.stops += 1
                self._status.report_loop(placement.preemptor, victim)

    def _record(
        self, plan: PreemptionPlan, placement: Placement, uids: Set[str], now: Seconds
    ) -> None:
        """Count wasted evictions, each victim once, and back the node off."""
        counted, preemptor = self._state.of(plan, placement), placement.preemptor
        fresh = uids - counted.certain
        self._state.put(plan, placement, replace(counted, certain=counted.certain | fresh))
        pause = self._ledger.record_waste(
            preemptor.uid, owner(preemptor), placement.node, len(fresh), now
        )
        self._report_pause(placement, pause)

    def _record_possible(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Count victims against the preemptor alone, until it is certain whether they were wasted.

        Another preemptor of ours may use the resources; this one needs another preemption anyway.
        """
        for placement, evicted in plan.by_placement(plan.progress.evicted.keys()):
            counted, preemptor = self._state.of(plan, placement), placement.preemptor
            fresh = evicted - counted.certain - counted.possible
            if fresh:
                entry = self._ledger.record_possible_waste(
                    preemptor.uid, owner(preemptor), placement.node, len(fresh), now
                )
                possible, entries = counted.possible | fresh, (*counted.entries, entry)
                self._state.put(
                    plan, placement, replace(counted, possible=possible, entries=entries)
                )

    def _report_pause(self, placement: Placement, pause: WastePause | None) -> None:
        """Report that preemption for a pod is paused from now on."""
        if pause is not None:
            self._state.stops += 1
            text = waste_veto(pause).text
            self._status.report_pause(placement.preemptor, text, pause.until)

    def _is_stopped(self, placement: Placement, victim: str, now: Seconds) -> bool:
        preemptor = owner(placement.preemptor)
        pause = self._ledger.backoff.pause(preemptor, placement.node, victim, now)
        return pause is not None and pause.stopped
