"""Carries out preemptions: nominate, count, evict, then wait until the victims have terminated.

    start -> Nominate (with the plan) -> SaveLedger, where the ledger counts it -> Evict each victim
          -> every answer has come -> `victim_tracker` watches the victims and the preemptor

`phases` has the table. A preemptor is not tried again between its decision and the last outcome of
its plan. When a plan cannot be completed, its nomination is withdrawn, and the preemptor is tried
again after a backoff. Victims that terminate already are not evicted again; a victim that is not
bound yet is taken off its node instead. Right before victims are evicted, a plan whose node or
preemptor has changed is checked again: victims that are not needed are spared, and if the plan is
no longer sufficient, no pod is evicted and the preemptor is tried again. A plan waits until earlier
nominations to its node are written, since its victims were chosen with them.

The plan is written to the preemptor together with the nomination; `inherited_plans` describes what
the next leader does with it.

What the ledger has to count is written before the first victim is evicted. Plans that wait for
that share one write. Victims that a disruption budget may protect are evicted first: where the API
server refuses one of them, no other has been evicted.

`scheduler.kube.write.evictions` sends the evictions that are emitted here.

Source: kube-scheduler v1.36.3 framework/preemption.Executor. Differs: the nomination is written
before the first eviction, and evictions name the victim's uid.
"""

from collections import Counter, deque
from collections.abc import Mapping
from itertools import islice
from typing import Final

from scheduler.core.binding import BindingCycle
from scheduler.core.eviction.freed_resources import FreedResources
from scheduler.core.eviction.inherited_plans import InheritedPlans
from scheduler.core.eviction.ledger_writer import LedgerWriter
from scheduler.core.eviction.phases import (
    HOLDING,
    IN_PROGRESS,
    OPEN,
    WAITING,
    PreemptionMove,
    PreemptionPhase,
)
from scheduler.core.eviction.plan import EVICT_WITHIN, PlanTable, PreemptionPlan
from scheduler.core.eviction.plan_validator import FitChecker, PlanValidator
from scheduler.core.eviction.victim_tracker import VictimTracker
from scheduler.core.outbox import Outbox
from scheduler.core.pod_status import UNSCHEDULABLE, StatusReporter, not_evicted
from scheduler.core.preemption.evaluate.candidates import Candidate
from scheduler.core.preemption.policy.engine import PolicyEngine
from scheduler.core.requeue.wakeups import Wakeups
from scheduler.framework.profile import Profile
from scheduler.model.api.objects import Pod
from scheduler.model.effects import Evict, Nominate, SaveLedger
from scheduler.model.events import Failure, FailureKind
from scheduler.model.times import Seconds
from scheduler.queue.scheduling_queue import QueuedPod, SchedulingQueue
from scheduler.state.cluster import Cluster
from scheduler.state.preemption.ledger import Ledger

__all__ = ["PlanRunner"]

#: An eviction without an answer is requested again, but not more often than this.
REQUEST_AGAIN_AFTER: Final[Seconds] = 1.0
#: Failures that say nothing about the plan.
_TRANSIENT: Final = frozenset({FailureKind.UNAVAILABLE, FailureKind.ABANDONED, FailureKind.GONE})
#: How many durations are kept until they are read; nobody reads them outside the live scheduler.
_MOST_DURATIONS: Final = 1000
#: How many nodes with terminating victims are checked before other pods are evicted.
MAX_NODES_CHECKED: Final = 16


class PlanRunner:
    """All preemptions that are being carried out."""

    def __init__(  # noqa: PLR0913 - the one place where all of these meet
        self,
        *,
        profiles: Mapping[str, Profile],
        cluster: Cluster,
        queue: SchedulingQueue,
        ledger: Ledger,
        policies: PolicyEngine,
        wakeups: Wakeups,
        outbox: Outbox,
        status: StatusReporter,
        fit_checker: FitChecker,
        binding: BindingCycle,
    ) -> None:
        self._profiles = profiles
        self._cluster = cluster
        self._queue = queue
        self._ledger = ledger
        self._policies = policies
        self._wakeups = wakeups
        self._outbox = outbox
        self._status = status
        self._binding = binding
        self._plans: Final = PlanTable()
        #: When the last plan was decided.
        self._last_decision: Seconds = 0.0
        #: Plans that ended while evictions had no answer yet, by uid of the victim.
        self._ended_plans: Final[dict[str, PreemptionPlan]] = {}
        #: How long preemptions took until every eviction was accepted, or until they were given
        #: up, and whether they succeeded; for metrics, which remove them.
        self.durations: Final[deque[tuple[Seconds, bool]]] = deque(maxlen=_MOST_DURATIONS)
        self._ledger_writer = LedgerWriter(cluster, ledger, wakeups.blocked, outbox)
        self.revalidation: Final = PlanValidator(profiles, cluster, queue, policies, fit_checker)
        self.tracking: Final = VictimTracker(
            cluster=cluster,
            ledger=ledger,
            policies=policies,
            plans=self._plans,
            freed=FreedResources(cluster, self._is_ours),
            revalidation=self.revalidation,
            ledger_writer=self._ledger_writer,
            wakeups=wakeups,
            status=status,
        )
        self.inherited: Final = InheritedPlans(
            cluster, policies, self._plans, self._ledger_writer, self.revalidation, self.tracking
        )

    def __len__(self) -> int:
        """Return how many preemptions still have steps to take."""
        return sum(number for phase, number in self.phases().items() if phase in IN_PROGRESS)

    def phases(self) -> Counter[PreemptionPhase]:
        """Return how many preemptions are in each phase."""
        return self._plans.phases()

    def plan_of(self, uid: str) -> PreemptionPlan | None:
        """Return the plan of a preemptor that is not over."""
        return self._plans.get(uid)

    def plans(self) -> list[PreemptionPlan]:
        """Return all plans that are not over."""
        return list(self._plans)

    def owns_nomination(self, uid: str) -> bool:
        """Return whether a pod's nomination is ours and may be newer than its status."""
        return self._plans.in_progress(uid) is not None

    def is_still_planned(self, effect: Evict) -> bool:
        """Return whether an eviction that was not sent yet is still part of a plan."""
        plan = self._plans.get(effect.preemptor.uid)
        return (
            plan is not None
            and plan.phase is PreemptionPhase.EVICTING
            and effect.victim.uid in plan.outstanding
        )

    def check(self) -> None:
        """Assert that the ledger holds the victims of the plans under way, and no more."""
        plans = {id(plan): plan for plan in (*self._plans, *self._ended_plans.values())}
        held: dict[str, set[str]] = {}
        for plan in plans.values():
            if plan.in_ledger:
                assert plan.outstanding or plan.phase in HOLDING, plan
                held.setdefault(plan.uid, set()).update(plan.in_ledger)
        self._ledger.check(held)

    # Starting -------------------------------------------------------------------------------------

    def start(self, queued: QueuedPod, candidate: Candidate, message: str, now: Seconds) -> str:
        """Nominate a pod to the candidate's node; return the node's name."""
        pod, cluster = queued.pod, self._cluster
        node = cluster.columns.names[candidate.row]
        charge = self._policies.charge(pod, node, candidate.victims, now)
        # No two plans of this process are equal, so that each answer finds its own.
        self._last_decision = max(now, self._last_decision + 0.001)
        plan = PreemptionPlan.decided(
            pod, node, candidate.victims, charge, cluster, self._last_decision
        )
        self.tracking.close_former(plan, now)
        self._ledger_writer.count(plan, now)
        cluster.nominate(pod, node)
        self.revalidation.record_state(plan, queued)
        self._plans.add(plan)
        self._status.remember_condition(queued, UNSCHEDULABLE, message)
        generation = pod.metadata.generation
        plan.written_record = plan.record()
        self._outbox.emit(Nominate(pod.ref, node, message, generation, plan.written_record))
        return node

    def prefer_terminating(self, queued: QueuedPod, candidate: Candidate) -> Candidate:
        """Return a node where victims terminate that no preemptor needs, else the candidate."""
        if all(map(self._cluster.is_being_deleted, candidate.victims)):
            return candidate
        nodes = islice(self.tracking.nodes_with_unneeded_victims(), MAX_NODES_CHECKED)
        vacated = (self.revalidation.candidate_without_evictions(queued, node) for node in nodes)
        return next(filter(None, vacated), candidate)

    # Answers --------------------------------------------------------------------------------------

    def nominated(self, effect: Nominate, now: Seconds) -> None:
        """Go on when the API server has the nomination and the plan."""
        plan = self._plan_to_nominate(effect)
        if plan is not None:
            if plan.phase is PreemptionPhase.NOMINATING:
                plan.change_phase(PreemptionMove.NOMINATED, now)
            self.continue_plan(plan, now)
        self._continue_others(effect.node, now)

    def _plan_to_nominate(self, effect: Nominate) -> PreemptionPlan | None:
        """Return the plan that waits for the answer; `None` for the answer to an earlier plan."""
        plan = self._plans.in_progress(effect.pod.uid)
        if plan is None or plan.nominated or plan.written_record != effect.plan:
            return None
        plan.nominated = plan.node == effect.node
        return plan if plan.nominated else None

    def failed(self, effect: Nominate | SaveLedger | Evict, failure: Failure, now: Seconds) -> None:
        """Handle a step of a plan that failed."""
        match effect:
            case Nominate():
                self._not_nominated(effect, failure, now)
            case SaveLedger():
                self._ledger_not_saved(effect, failure, now)
            case Evict():
                self._not_evicted(effect, failure, now)

    def _not_nominated(self, effect: Nominate, failure: Failure, now: Seconds) -> None:
        """Give up a plan whose nomination the API server did not accept."""
        plan = self._plan_to_nominate(effect)
        if plan is not None:
            problem = f"nominating node {effect.node}: {failure.message}"
            self._fail(plan, problem, failure, now)
            self._end(plan, now, nominated=False)
        self._continue_others(effect.node, now)

    def continue_plan(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Evict the victims, as soon as what counts them is written."""
        if plan.phase not in OPEN:
            self._end(plan, now)
        elif not self._ledger_writer.must_wait(plan, now):
            self._recorded(plan, now)

    def _continue_others(self, node: str, now: Seconds) -> None:
        """Go on with plans that waited for the answer to another nomination, also if it is none."""
        for plan in self._plans.on_node(node):
            answered = plan.nominated and not plan.outstanding
            if plan.phase in WAITING and answered and plan.uid not in self._ledger_writer.unwritten:
                self.continue_plan(plan, now)

    def _recorded(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Evict the victims, unless an earlier nomination to the node is not written yet."""
        if not plan.builds_on_unwritten(self._plans.on_node(plan.node)):
            plan.change_phase(PreemptionMove.RECORDED, now)
            self._emit_evictions(plan, now)

    def ledger_saved(self, effect: SaveLedger, now: Seconds) -> None:
        """Go on with the plans that waited for this state of the ledger to be written."""
        for plan in self._ledger_writer.saved(effect):
            self.continue_plan(plan, now)
        self._ledger_writer.write(now)

    def _ledger_not_saved(self, effect: SaveLedger, failure: Failure, now: Seconds) -> None:
        """Give up the plans that policies count, since the ledger cannot be written.

        Other plans go on: this process remembers failed preemptions without the ledger.
        """
        for plan in self._ledger_writer.failed(effect):
            if plan.phase in OPEN and (plan.charge.counts or failure.kind is FailureKind.ABANDONED):
                problem = f"saving the preemption ledger: {failure.message}"
                self._fail(plan, problem, failure, now)
                self._end(plan, now)
            elif plan.phase in OPEN:
                self._recorded(plan, now)
            else:
                self._end(plan, now)
        self._ledger_writer.write(now)

    def evicted(self, effect: Evict, now: Seconds, *, changed: bool) -> None:
        """Record that a victim was evicted."""
        if changed:
            victim = self._cluster.find_pod(effect.victim.uid)
            self._status.report_preempted(effect, victim)
            self._policies.victim_evicted(effect, now)
        plan = self._plan_of(effect)
        if plan is not None:
            # Also a pod that was gone already: an earlier request, whose answer was lost, may have
            # evicted it.
            plan.evicted[effect.victim.uid] = now
        self._ledger_writer.evicted(effect.victim.uid, plan, now)
        self._eviction_answered(effect, None, now)

    def _not_evicted(self, effect: Evict, failure: Failure, now: Seconds) -> None:
        """Record that a victim was not evicted, or request it once more if there was no answer."""
        uid, plan = effect.victim.uid, self._plan_of(effect)
        if plan is not None and failure.kind is FailureKind.UNAVAILABLE:
            # Perhaps only the answer was lost. That stays so, whatever the next answer is.
            plan.evicted.setdefault(uid, now)
            self._ledger_writer.unanswered(uid, now)
            waited = now - plan.outstanding[uid]
            patient = now < plan.deadline and waited >= REQUEST_AGAIN_AFTER
            if patient and plan.phase is PreemptionPhase.EVICTING:
                plan.outstanding[uid] = now
                self._outbox.emit(effect)
                return
        self._cluster.unmark_evicting(uid)
        self._eviction_answered(effect, failure, now)
        self.tracking.victim_not_evicted(uid, effect.node, now)

    def _plan_of(self, effect: Evict) -> PreemptionPlan | None:
        """Return the plan that waits for the answer to an eviction, also if it has ended."""
        uid = effect.victim.uid
        plan = self._plans.get(effect.preemptor.uid)
        return plan if plan is not None and uid in plan.outstanding else self._ended_plans.get(uid)

    def _eviction_answered(self, effect: Evict, failure: Failure | None, now: Seconds) -> None:
        uid, plan = effect.victim.uid, self._plan_of(effect)
        if plan is None:
            return
        del plan.outstanding[uid]
        if self._ended_plans.pop(uid, None) is not None:
            self._ledger_writer.take_back(plan, now)
            return
        if failure is not None:
            self._fail(plan, not_evicted(effect, failure), failure, now)
        if not plan.outstanding:
            if plan.phase is PreemptionPhase.EVICTING:
                self._emit_evictions(plan, now)
            else:
                self._end(plan, now)

    # Other events ---------------------------------------------------------------------------------

    def node_gone(self, node: str, now: Seconds) -> None:
        """Withdraw every nomination to a node that is gone; the pods are tried again."""
        for plan in self._plans.on_node(node):
            if plan.phase not in IN_PROGRESS:
                self.tracking.node_gone(plan, now)
        for nomination in self._cluster.nominations.on_node(node):
            pod = nomination.pod
            if not self._is_ours(pod):
                continue
            self._wakeups.withdraw(pod.uid, now)
            plan_in_progress = self._plans.in_progress(pod.uid)
            if plan_in_progress is not None:
                self._stop(plan_in_progress, now)
                continue
            self._status.clear_nomination(pod.ref)
            self._wakeups.retry(pod.uid, now, "NodeDelete")

    def stop_all(self, now: Seconds) -> None:
        """Request no further eviction of any plan; its preemptor is tried again."""
        for plan in self._plans:
            self._stop(plan, now)

    def preemptor_gone(self, uid: str, now: Seconds) -> None:
        """Close the plan of a preemptor that is gone; no further victim is evicted.

        The pod may be a victim, too.
        """
        self._ledger_writer.observed(uid, now, gone=True)
        plan = self._plans.get(uid)
        if plan is not None:
            self._abandon(plan)
            self.tracking.preemptor_gone(plan, now)

    def bound(self, uid: str, node: str, now: Seconds) -> None:
        """Close the plan of a pod that is bound; it may be a victim, too."""
        self._ledger_writer.observed(uid, now)
        plan = self._plans.get(uid)
        if plan is not None:
            self._abandon(plan)
            self.tracking.preemptor_bound(uid, node, now)

    # Evicting -------------------------------------------------------------------------------------

    def _emit_evictions(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Emit the evictions of the victims that still run and are still needed."""
        to_evict = plan.to_evict(self._cluster)
        if to_evict:
            # The charge may have been computed under other policies.
            outdated = not plan.began and self.revalidation.is_outdated(plan)
            others = self._plans.on_node(plan.node)
            kept = None if outdated else self.revalidation.to_evict(plan, to_evict, others)
            if kept is None:
                self._stop(plan, now)
                self._end(plan, now)
                return
            spared = {victim.uid for victim in to_evict} - {victim.uid for victim in kept}
            self._policies.victims_spared(spared)
            to_evict = kept
            # Also where all are spared: the preemptor takes the room all the same. Upstream leaves
            # nominations alone where all victims terminate already.
            self._withdraw_lower_nominations(plan, now)
        batch = _next_batch(to_evict, plan.charge.strict)
        for victim in batch:
            self._emit_eviction(plan, victim, now)
        if plan.outstanding:
            return
        if len(batch) < len(to_evict):
            self._emit_evictions(plan, now)
        else:
            plan.change_phase(PreemptionMove.EVICTED, now)
            self._end(plan, now)

    def _emit_eviction(self, plan: PreemptionPlan, victim: Pod, now: Seconds) -> None:
        """Emit an eviction; a pod that is not bound yet is taken off its node instead."""
        effect = Evict(
            victim=victim.ref,
            node=plan.node,
            preemptor=plan.preemptor.ref,
            scheduler_name=plan.preemptor.spec.scheduler_name,
            generation=victim.metadata.generation,
            strict=victim.uid in plan.charge.strict,
        )
        plan.began = True
        if not self._binding.preempt_unbound(effect, now):
            plan.outstanding[victim.uid] = now
            self._cluster.mark_evicting(victim.uid)
            self._outbox.emit(effect)

    def _withdraw_lower_nominations(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Withdraw nominations of less important pods of ours to the same node.

        Source: kube-scheduler v1.36.3 framework/preemption.getLowerPriorityNominatedPods.
        """
        for nomination in self._cluster.nominations.on_node(plan.node):
            pod = nomination.pod
            if pod.priority < plan.preemptor.priority and self._is_ours(pod):
                self._cluster.withdraw(pod.uid)
                other = self._plans.in_progress(pod.uid)
                if other is None:
                    self._status.clear_nomination(pod.ref)
                    self._wakeups.retry(pod.uid, now, "ForceActivate")
                else:
                    self._stop(other, now)
                self._wakeups.wake_lower_priority(nomination, now)

    def _is_ours(self, pod: Pod) -> bool:
        """Return whether a pod names one of our profiles."""
        return pod.spec.scheduler_name in self._profiles

    # Ending ---------------------------------------------------------------------------------------

    @staticmethod
    def _stop(plan: PreemptionPlan, now: Seconds) -> None:
        """Give a plan up; its preemptor is tried again when every answer has come."""
        if plan.phase in OPEN:
            plan.change_phase(PreemptionMove.STOP, now)

    @staticmethod
    def _fail(plan: PreemptionPlan, problem: str, failure: Failure, now: Seconds) -> None:
        """Give a plan up that failed; its preemptor backs off when every answer has come."""
        if plan.phase is PreemptionPhase.STOPPING and failure.kind is FailureKind.ABANDONED:
            return  # it was given up before, and this is the reason why nothing was sent
        plan.problem = plan.problem or problem
        plan.will_fail_again = plan.will_fail_again or failure.kind not in _TRANSIENT
        if plan.phase is not PreemptionPhase.FAILING:
            plan.change_phase(PreemptionMove.FAIL, now)

    def _abandon(self, plan: PreemptionPlan) -> None:
        """Take no further step of a plan; evictions that were requested still get their answers."""
        self._ledger_writer.drop(plan)
        self._ended_plans.update(dict.fromkeys(plan.outstanding, plan))

    def _end(self, plan: PreemptionPlan, now: Seconds, *, nominated: bool = True) -> None:
        """End the steps of a plan: its preemptor waits for the victims, retries, or backs off."""
        uid, phase = plan.uid, plan.phase
        began = plan.deadline - EVICT_WITHIN
        self.durations.append((now - began, phase is PreemptionPhase.AWAITING))
        self.tracking.take_back_counts(plan, now)
        queued = self._queue.get(uid)
        if phase is PreemptionPhase.AWAITING:
            self.tracking.watch(plan, now)
            if queued is not None:
                victims_terminating = self.tracking.has_terminating_victims(uid)
                self._queue.end_preemption(
                    queued, now, retry=False, victims_terminating=victims_terminating
                )
            return
        self._wakeups.withdraw(uid, now)
        if nominated:
            self._status.clear_nomination(plan.preemptor.ref)
        plan.change_phase(PreemptionMove.WITHDRAW, now)
        failed = phase is PreemptionPhase.FAILING
        self.tracking.keep_withdrawn(plan, now, failed=failed, counts_taken_back=True)
        if queued is None:
            return
        if not nominated:
            # The condition was in the same write as the nomination.
            self._status.forget_condition(queued)
        if failed:
            self._queue.fail_preemption(queued, now)
            self._status.report_failed(queued.pod, f"preemption: {plan.problem}")
        else:
            self._queue.end_preemption(queued, now, retry=True)


def _next_batch(to_evict: list[Pod], strict: frozenset[str]) -> list[Pod]:
    """Return the victims to evict now: first those that a disruption budget may protect."""
    return [victim for victim in to_evict if victim.uid in strict] or to_evict
