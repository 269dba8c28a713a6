"""The plans of an earlier leader: taken over, and resumed or cancelled at the preemptor's attempt.

A plan is written to the preemptor together with the nomination. The next leader checks it by the
rules for new decisions. It continues with exactly this plan, or cancels it, and never adds a victim
to it.
"""

from collections.abc import Iterable
from enum import Enum

from scheduler.core.eviction.ledger_writer import LedgerWriter
from scheduler.core.eviction.phases import PreemptionMove, PreemptionPhase
from scheduler.core.eviction.plan import PlanTable, PreemptionPlan
from scheduler.core.eviction.plan_validator import PlanValidator
from scheduler.core.eviction.victim_tracker import VictimTracker
from scheduler.core.preemption.policy.engine import PolicyEngine
from scheduler.model.api.objects import Pod
from scheduler.model.plan_record import CONDITION
from scheduler.model.times import Seconds
from scheduler.queue.scheduling_queue import QueuedPod
from scheduler.state.cluster import Cluster

__all__ = ["InheritedPlans", "ResumeResult"]


class ResumeResult(Enum):
    """What was decided about the plan of an earlier leader."""

    #: There is none, or all its victims terminate already.
    NOTHING_TO_DO = "nothing to do"
    GOES_ON = "goes on"
    #: It must not be carried out.
    CANCELLED = "cancelled"


class InheritedPlans:
    """Takes over the plans of an earlier leader."""

    def __init__(
        self,
        cluster: Cluster,
        policies: PolicyEngine,
        plans: PlanTable,
        ledger_writer: LedgerWriter,
        revalidation: PlanValidator,
        tracking: VictimTracker,
    ) -> None:
        self._cluster = cluster
        self._policies = policies
        self._plans = plans
        self._ledger_writer = ledger_writer
        self._revalidation = revalidation
        self._tracking = tracking

    def take_over(self, waiting: Iterable[QueuedPod], now: Seconds) -> None:
        """Take over the plans that an earlier leader has written to waiting pods."""
        self._ledger_writer.take_over(now)
        for queued in waiting:
            if queued.pod.condition(CONDITION) is not None:
                self._take_over(queued.pod, now)

    def _take_over(self, pod: Pod, now: Seconds) -> None:
        cluster = self._cluster
        plan = PreemptionPlan.inherited(pod, cluster, now)
        if plan is None or self._plans.get(pod.uid) is not None:
            return
        for victim in plan.remaining(cluster):
            if cluster.is_being_deleted(victim):
                cluster.mark_evicting(victim.uid)
        self._ledger_writer.inherit(plan, now)
        self._plans.add(plan)
        self._tracking.watch(plan, now)

    def has_unchecked(self, uid: str) -> bool:
        """Return whether a pod has a plan of an earlier leader that was not checked yet."""
        plan = self._plans.get(uid)
        return plan is not None and plan.phase is PreemptionPhase.INHERITED

    def resume(self, queued: QueuedPod, now: Seconds) -> tuple[ResumeResult, PreemptionPlan | None]:
        """Go on with the plan that an earlier leader has written to a pod that fits on no node.

        Args:
            queued: The pod.
            now: The time.

        Returns:
            The decision, and the plan if there is one. When the plan goes on, the caller holds the
            pod in the queue. When it is cancelled and no other follows, the caller withdraws the
            nomination.
        """
        plan = self._plans.get(queued.uid)
        if plan is None or plan.phase is not PreemptionPhase.INHERITED:
            return ResumeResult.NOTHING_TO_DO, None
        to_evict = tuple(plan.to_evict(self._cluster))
        if not to_evict:
            plan.change_phase(PreemptionMove.RECOGNISE, now)
            self._ledger_writer.take_back(plan, now)
            return ResumeResult.NOTHING_TO_DO, plan
        if not self._revalidation.may_resume(plan, queued, to_evict, now):
            plan.change_phase(PreemptionMove.WITHDRAW, now)
            self._tracking.keep_withdrawn(plan, now)
            return ResumeResult.CANCELLED, plan
        plan.change_phase(PreemptionMove.RESUME, now)
        plan.nominated = True
        # Whatever the clock says, what this process has decided already came before. Times that
        # earlier leaders have written do not count.
        others = self._plans.on_node(plan.node)
        decided = [each.decided_at for each in others if each.phase is PreemptionPhase.NOMINATING]
        plan.taken_up_at = max([now, *decided])
        plan.charged_under = self._revalidation.policy_inputs(plan)
        plan.charge = self._policies.charge(queued.pod, plan.node, to_evict, now)
        self._ledger_writer.count(plan, now)
        return ResumeResult.GOES_ON, plan
