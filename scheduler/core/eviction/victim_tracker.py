"""Tracks each preemption after its evictions until its victims have terminated and it is bound.

The plan of a preemptor stays in the table until the preemptor is bound, is deleted, or preempts
elsewhere. When a victim still terminates `TERMINATION_MARGIN` after the end of its grace period,
the plan withdraws its nomination. That time is measured here, from the moment at which the victim
was first seen to terminate. With the time stamps of other machines, a clock that is ahead could
cause one eviction after the other.

Every eviction that did not lead to the preemptor's binding is counted against the preemptor at
once. If the ledger has too many of these, similar preemptions pause. Resources that another
preemptor of ours has used are not counted against owners, nodes and the cluster, since that
preemptor would have had to evict other pods: see `freed_resources`.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final

from scheduler.core.eviction.freed_resources import FreedResources, WasteReason
from scheduler.core.eviction.ledger_writer import LedgerWriter
from scheduler.core.eviction.phases import (
    AWAITING_VICTIMS,
    PreemptionMove,
    PreemptionOutcome,
    PreemptionPhase,
)
from scheduler.core.eviction.plan import PlanTable, PreemptionPlan, victims_of_others
from scheduler.core.eviction.plan_validator import PlanValidator
from scheduler.core.pod_status import StatusReporter
from scheduler.core.preemption.policy.engine import PolicyEngine
from scheduler.core.preemption.policy.loop_breaker import waste_veto
from scheduler.core.requeue.wakeups import Wakeups
from scheduler.model.api.objects import Pod
from scheduler.model.api.owners import owner
from scheduler.model.times import Seconds
from scheduler.queue.deadlines import Deadlines
from scheduler.state.cluster import Cluster
from scheduler.state.preemption.ledger import Ledger
from scheduler.state.preemption.wasted_evictions import WastePause

__all__ = ["TERMINATION_MARGIN", "VictimTracker"]

#: How long a victim may take beyond its grace period before its node is given up.
#: Kubelets take a few seconds; on a node that is not ready it takes minutes, or never ends.
TERMINATION_MARGIN: Final[Seconds] = 30.0
#: The shortest time between two checks whether a victim hangs.
_CHECK_AGAIN_AFTER: Final[Seconds] = 1.0

#: Reasons that may repeat without end.
_LOOPS: Final = frozenset({WasteReason.ROOM_LOST, WasteReason.PLACED_ELSEWHERE})


class VictimTracker:
    """Watches the plans whose victims terminate, and counts the evictions of those that failed."""

    def __init__(  # noqa: PLR0913 - the accounting of preemptions needs all of them
        self,
        *,
        cluster: Cluster,
        ledger: Ledger,
        policies: PolicyEngine,
        plans: PlanTable,
        freed: FreedResources,
        revalidation: PlanValidator,
        ledger_writer: LedgerWriter,
        wakeups: Wakeups,
        status: StatusReporter,
    ) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._policies = policies
        self._plans = plans
        self._freed = freed
        self._revalidation = revalidation
        self._ledger_writer = ledger_writer
        self._wakeups = wakeups
        self._status = status
        #: When to check next whether a victim of a plan hangs.
        self._due: Final[Deadlines[PreemptionPlan]] = Deadlines(self._is_watched)
        #: Victims whose preemptor did not use the freed resources, by reason.
        self.wasted_evictions: Final[Counter[str]] = Counter()
        #: Failed preemptions that the ledger remembers, by reason.
        self.failed_preemptions: Final[Counter[str]] = Counter()
        #: How often preemption was stopped, for a pair of owners or for a pod.
        self.stops = 0

    def has_terminating_victims(self, uid: str) -> bool:
        """Return whether victims of a preemptor terminate, and are not gone yet."""
        plan = self._plans.get(uid)
        return (
            plan is not None
            and plan.phase in AWAITING_VICTIMS
            and bool(plan.remaining(self._cluster))
        )  # fmt: skip

    def done_waiting(self, node: str) -> list[str]:
        """Return the preemptors, by uid, that need not wait for victims on a node any more."""
        cluster = self._cluster
        return [
            plan.uid
            for plan in self._plans.on_node(node)
            if not plan.remaining(cluster) or self._revalidation.preemptor_fits(plan)
        ]

    def nodes_with_unneeded_victims(self) -> Iterator[str]:
        """Yield nodes with victims that are still there although their preemptor does not come."""
        cluster = self._cluster
        for node in self._freed.nodes():
            plans = (*self._freed.on_node(node), *self._plans.on_node(node))
            if any(plan.remaining(cluster) for plan in plans):
                yield node

    # Events ---------------------------------------------------------------------------------------

    def watch(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Plan the next check whether a victim of a plan hangs."""
        victims = plan.remaining(self._cluster)
        if victims:
            ends = [end for pod in victims if (end := self._hangs_at(plan, pod, now)) is not None]
            moment = min((*ends, now + TERMINATION_MARGIN))
            self._due.put(plan, max(moment, now + _CHECK_AGAIN_AFTER))

    def close_former(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Close the former plan of a preemptor that has a new one."""
        before, cluster = self._plans.get(plan.uid), self._cluster
        if before is None:
            return
        if before.node != plan.node:
            self.close_as_lost(before, now)
        elif (
            before.phase is PreemptionPhase.WITHDRAWN
            or plan.uids <= before.uids
            or self._preemptor_fits(before)
        ):
            # The former evictions still serve this preemptor.
            self._close(before, PreemptionMove.END, now)
            plan.evicted |= before.evicted
            plan.seen_terminating |= before.seen_terminating
            plan.wasted |= before.wasted
            plan.maybe_wasted |= before.maybe_wasted
            plan.maybe_wasted_entries += before.maybe_wasted_entries
            plan.victim_pods = before.victim_pods | plan.victim_pods
            terminating = {
                pod.uid for pod in before.remaining(cluster) if cluster.is_being_deleted(pod)
            }
            plan.victims += tuple(
                victim for victim in before.victims
                if victim.uid not in plan.uids and victim.uid in terminating
            )  # fmt: skip
        else:
            self._record_possible_waste(before, now)
            self._vacate(before, WasteReason.ROOM_LOST, now)

    def preemptor_assumed(self, uid: str, node: str, now: Seconds) -> None:
        """Let other pods use the freed resources when the preemptor is placed elsewhere."""
        plan = self._plans.get(uid)
        if plan is not None and plan.node != node:
            plan.outcome = PreemptionOutcome.ELSEWHERE
            self._vacate(plan, WasteReason.PLACED_ELSEWHERE, now)

    def preemptor_bound(self, uid: str, node: str, now: Seconds) -> None:
        """Close the plan of a preemptor that is bound."""
        self.preemptor_assumed(uid, node, now)
        plan = self._plans.get(uid)
        if plan is not None:
            plan.outcome = PreemptionOutcome.BOUND
            self._close(plan, PreemptionMove.END, now)
            self._record_success(plan, now)

    def _record_success(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Record that a preemptor is bound to the node that its plan was for."""
        ledger, preemptor = self._ledger, owner(plan.preemptor)
        before = ledger.revision
        ledger.record_success(preemptor, plan.owners(plan.evicted))
        for entry in plan.maybe_wasted_entries:
            ledger.resolve_waste(entry, 0, now)
        if plan.evicted:
            ledger.record_binding(preemptor, plan.node)
        if ledger.revision != before:
            self._wakeups.blocked.wake_count_limited(now)

    def preemptor_gone(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Let other pods use the freed resources of a preemptor that is gone."""
        plan.outcome = PreemptionOutcome.GONE
        self._vacate(plan, WasteReason.PREEMPTOR_GONE, now)

    def victim_not_evicted(self, uid: str, node: str, now: Seconds) -> None:
        """Retry preemptors that wait for a victim which was not evicted after all."""
        for plan in self._plans.on_node(node):
            if plan.phase is PreemptionPhase.AWAITING and uid in plan.uids:
                self._withdraw(plan, now)

    def _is_stuck(self, plan: PreemptionPlan) -> bool:
        """Return whether a plan waits for a pod that runs on and that no plan evicts any more."""
        if plan.phase is not PreemptionPhase.AWAITING:
            return False
        cluster = self._cluster
        planned = victims_of_others(plan, self._plans.on_node(plan.node), cluster)
        return any(pod.uid not in planned for pod in plan.not_terminating(cluster))

    def _withdraw(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Give up a plan that waits for a pod which runs on, and retry its preemptor."""
        plan.change_phase(PreemptionMove.WITHDRAW, now)
        self._withdraw_nomination(plan, now)
        self.keep_withdrawn(plan, now)

    def node_gone(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Close a plan for a node that is gone."""
        self._close(plan, PreemptionMove.END, now)
        self._count_wasted(plan, WasteReason.NODE_GONE, plan.evicted, now)

    def close_if_lost(self, uid: str, now: Seconds) -> None:
        """Close the plan of a preemptor whose victims are gone but that still does not fit.

        To be called before the preemptor's next attempt, which then knows the wasted evictions.
        """
        plan = self._plans.get(uid)
        if plan is None or plan.phase not in AWAITING_VICTIMS:
            return
        if not plan.remaining(self._cluster) and not self._preemptor_fits(plan):
            self.close_as_lost(plan, now)

    def close_as_lost(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Close a plan whose preemptor did not get the freed resources.

        Where pods have come that could not have evicted the victims, the wasted evictions are
        certain at once.
        """
        self._record_possible_waste(plan, now)
        if plan.phase is PreemptionPhase.WITHDRAWN or not self._freed.is_taken(plan):
            self._vacate(plan, WasteReason.ROOM_LOST, now)
        else:
            wasted = self._freed.wasted_victims(plan)
            self._close(plan, PreemptionMove.END, now)
            self._count_wasted(plan, WasteReason.ROOM_LOST, wasted, now)
        self._ledger_writer.write_soon(now)

    def keep_withdrawn(
        self,
        plan: PreemptionPlan,
        now: Seconds,
        *,
        failed: bool = False,
        counts_taken_back: bool = False,
    ) -> None:
        """Keep a plan that was given up, as long as its evictions may still help its preemptor.

        Args:
            plan: The plan.
            now: The time.
            failed: Whether a step was refused; else the preemptor is tried again at once.
            counts_taken_back: Whether the caller has called `take_back_counts` for it.
        """
        if failed and (plan.evicted or plan.will_fail_again):
            # Also where no victim was evicted: then other nodes come first.
            self._record_waste(plan, plan.evicted, now)
            self._ledger_writer.write_soon(now)
        elif plan.evicted:
            self._record_possible_waste(plan, now)
            self._ledger_writer.write_soon(now)
        if not counts_taken_back:
            self.take_back_counts(plan, now)
        if not plan.evicted:
            self._plans.close(plan, PreemptionMove.END, now)
        elif self._cluster.columns.node(plan.node) is None:
            self.node_gone(plan, now)

    def flush(self, now: Seconds) -> None:
        """Give up nodes on which a victim hangs, and count the evictions that were wasted."""
        # This runs for every event, and mostly finds nothing to do: so it makes few calls then.
        self._ledger.renew(now)
        if self._policies.may_relieve_pdbs:
            self._wakeups.wake_relieved(now)
        writer = self._ledger_writer
        if writer.wanted or writer.unwritten:
            writer.write(now)
        if self._freed.pending:
            for plan, why, uids in self._freed.due(now):
                self._count_wasted(plan, why, uids, now)
        due = self._due.entries
        if due and due[0][0] <= now:
            self._give_up_hanging(now)

    def _give_up_hanging(self, now: Seconds) -> None:
        """Give up the nodes of plans with a victim that should be gone by now."""
        cluster = self._cluster
        for plan in self._due.pop_until(now):
            hanging = [
                pod for pod in plan.remaining(cluster)
                if (end := self._hangs_at(plan, pod, now)) is not None and end <= now
            ]  # fmt: skip
            if not hanging:
                if self._is_stuck(plan):
                    self._withdraw(plan, now)
                else:
                    self.watch(plan, now)
                continue
            for pod in hanging:
                cluster.mark_overdue(pod.uid)
            self._withdraw_nomination(plan, now)
            self._close(plan, PreemptionMove.END, now)
            self._count_wasted(plan, WasteReason.VICTIM_HANGS, plan.evicted, now)

    def next_wakeup(self) -> Seconds | None:
        """Return when `flush` next has something to do; `None` when never."""
        moments = (
            self._freed.next_wakeup(),
            self._due.first(),
            self._ledger_writer.next_wakeup(),
        )
        return min((moment for moment in moments if moment is not None), default=None)

    # Helpers --------------------------------------------------------------------------------------

    def _hangs_at(self, plan: PreemptionPlan, victim: Pod, now: Seconds) -> Seconds | None:
        """Return when a victim counts as hanging; `None` where it does not terminate yet.

        The grace period is that of its deletion, which only the API server writes.
        """
        if not victim.terminating:
            return None
        since = plan.evicted.get(victim.uid)
        if since is None:
            # It terminates for another reason, perhaps since long after the decision.
            since = plan.seen_terminating.setdefault(victim.uid, now)
        return since + (victim.metadata.deletion_grace_period_seconds or 0) + TERMINATION_MARGIN

    def _is_watched(self, plan: PreemptionPlan, _moment: Seconds) -> bool:
        return self._plans.get(plan.uid) is plan and plan.phase in AWAITING_VICTIMS

    def _preemptor_fits(self, plan: PreemptionPlan) -> bool:
        return self._revalidation.preemptor_fits(plan)

    def _withdraw_nomination(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Withdraw the nomination of a plan, and retry its preemptor."""
        self._wakeups.withdraw(plan.uid, now)
        self._status.clear_nomination(plan.preemptor.ref)
        self._wakeups.retry(plan.uid, now, "ForceActivate")

    def _close(self, plan: PreemptionPlan, move: PreemptionMove, now: Seconds) -> None:
        """Take a plan out of the table, and take back what it did not use."""
        self._plans.close(plan, move, now)
        self.take_back_counts(plan, now)

    def take_back_counts(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Take back what was counted for victims that a plan will not evict any more.

        These are their entries in the ledger, and their evictions in flight.
        """
        self._ledger_writer.take_back(plan, now)
        self._wakeups.plan_ended(plan.uid, now)

    def _vacate(self, plan: PreemptionPlan, why: WasteReason, now: Seconds) -> None:
        """Close a plan, and keep its freed resources for preemptors that come soon."""
        failed = plan.phase is PreemptionPhase.WITHDRAWN
        left = bool(plan.evicted or plan.outstanding)
        self._close(plan, PreemptionMove.VACATE if left else PreemptionMove.END, now)
        if left:
            self._freed.add(plan, WasteReason.PLAN_FAILED if failed else why, now)

    def _count_wasted(
        self, plan: PreemptionPlan, why: WasteReason, uids: Collection[str], now: Seconds
    ) -> None:
        """Count wasted evictions, and remember those whose reason may repeat."""
        if not uids:
            return
        self.wasted_evictions[why] += len(uids)
        plan.in_vain |= frozenset(uids)
        if why in _LOOPS:
            self._record_failure(plan, why, uids, now)
        certain = len(frozenset(uids) - plan.wasted)
        if not plan.maybe_wasted_entries:
            self._record_waste(plan, uids, now)
        elif certain:
            # The other evictions still count against the preemptor alone.
            entry = plan.maybe_wasted_entries.pop()
            self._report_pause(plan, self._ledger.resolve_waste(entry, certain, now))
        self._ledger_writer.write_soon(now)

    def _record_failure(
        self, plan: PreemptionPlan, why: WasteReason, uids: Collection[str], now: Seconds
    ) -> None:
        """Remember the owners of a failed preemption, since it may repeat without end."""
        self.failed_preemptions[why] += 1
        ledger, preemptor = self._ledger, owner(plan.preemptor)
        owners = plan.owners(uids)
        before = {victim: self._is_stopped(plan, victim, now) for victim in owners}
        lost = why is WasteReason.ROOM_LOST
        ledger.record_failure(preemptor, plan.node, owners, now, lost=lost)
        for victim in owners:
            if not before[victim] and self._is_stopped(plan, victim, now):
                self.stops += 1
                self._status.report_loop(plan.preemptor, victim)

    def _record_waste(self, plan: PreemptionPlan, uids: Collection[str], now: Seconds) -> None:
        """Count wasted evictions, each victim once, and back the node off."""
        fresh = frozenset(uids) - plan.wasted
        plan.wasted |= fresh
        ledger, preemptor = self._ledger, plan.preemptor
        pause = ledger.record_waste(preemptor.uid, owner(preemptor), plan.node, len(fresh), now)
        self._report_pause(plan, pause)

    def _record_possible_waste(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Count victims against the preemptor alone, until it is certain whether they were wasted.

        Another preemptor of ours may use the resources; this one needs another preemption anyway.
        """
        fresh = plan.evicted.keys() - plan.wasted - plan.maybe_wasted
        if fresh:
            ledger, preemptor = self._ledger, plan.preemptor
            plan.maybe_wasted |= fresh
            plan.maybe_wasted_entries.append(
                ledger.record_possible_waste(
                    preemptor.uid, owner(preemptor), plan.node, len(fresh), now
                )
            )

    def _report_pause(self, plan: PreemptionPlan, pause: WastePause | None) -> None:
        """Report that preemption for a pod is paused from now on."""
        if pause is not None:
            self.stops += 1
            self._status.report_pause(plan.preemptor, waste_veto(pause).text, pause.until)

    def _is_stopped(self, plan: PreemptionPlan, victim: str, now: Seconds) -> bool:
        pause = self._ledger.backoff.pause(owner(plan.preemptor), plan.node, victim, now)
        return pause is not None and pause.stopped
