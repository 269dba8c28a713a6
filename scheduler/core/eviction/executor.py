"""Carries out preemptions: nominate, count, evict, then wait for the victims to go.

    start -> Nominate (with the plan) -> SaveLedger, where the ledger counts it -> Evict each victim
          -> every answer has come -> `tracking` watches what becomes of it

`phases` has the table. A preemptor is held from its decision until every answer of its plan has
come. A plan that cannot be completed gives the nomination back, and the preemptor tries again after
a back-off. Victims that leave already are not evicted again; a victim that is not bound yet is
taken off its node instead. Right before victims are evicted, a plan whose node or preemptor has
changed is checked again: victims that are not needed are spared, and where the plan is not enough
any more, no pod is evicted and the preemptor is tried again.

The plan is written to the preemptor together with the nomination. The next leader checks it by the
rules that decide; it goes on with exactly this plan (`resume`), or cancels it, and never adds a
victim to it.

What the ledger has to count is written before the first victim is evicted. Plans that wait for
that share one write. Victims that a disruption budget may protect are asked for first: where the
API server refuses one of them, no other has been evicted.

Source: kube-scheduler v1.36.3 framework/preemption.Executor. Differs: the nomination is written
before the first eviction, and evictions name the victim's uid.
"""

from collections import Counter
from enum import Enum
from itertools import islice
from typing import Final

from scheduler.core.binding import BindingCycle
from scheduler.core.eviction.ledger_writer import LedgerWriter
from scheduler.core.eviction.phases import HOLDING, OPEN, PreemptionMove, PreemptionPhase
from scheduler.core.eviction.plan import PlanTable, PreemptionPlan
from scheduler.core.eviction.revalidation import FitChecker, PlanValidator
from scheduler.core.eviction.tracking import VictimTracker
from scheduler.core.preemption.evaluate.candidates import Candidate
from scheduler.core.requeue import pod_status
from scheduler.core.requeue.context import Context
from scheduler.model.api.objects import Pod
from scheduler.model.effects import ClearNomination, Evict, Nominate, SaveLedger
from scheduler.model.events import Failure, FailureKind
from scheduler.model.plan_record import CONDITION
from scheduler.model.times import Seconds
from scheduler.queue.scheduling_queue import QueuedPod

__all__ = ["Executor", "Resumed"]

#: An eviction without an answer is asked for again, but not more often than this.
ASK_AGAIN_AFTER: Final[Seconds] = 1.0
#: Failures that say nothing of the plan.
_PASSING: Final = frozenset({FailureKind.UNAVAILABLE, FailureKind.ABANDONED, FailureKind.GONE})
#: How many nodes with vacated room are looked at before other pods are evicted.
MOST_LOOKED_AT: Final = 16


class Resumed(Enum):
    """What became of the plan of an earlier leader."""

    #: There is none, or all its victims leave already.
    NOTHING_TO_DO = "nothing to do"
    GOES_ON = "goes on"
    #: It must not be carried out.
    CANCELLED = "cancelled"


class Executor:
    """All preemptions that are carried out."""

    def __init__(self, context: Context, judge: FitChecker, binding: BindingCycle) -> None:
        self._context = context
        self._binding = binding
        self._plans: Final = PlanTable()
        #: When the last plan was decided.
        self._begun: Seconds = 0.0
        #: Plans that ended while evictions had no answer yet, by uid of the victim.
        self._ended: Final[dict[str, PreemptionPlan]] = {}
        self._ledger_writer = LedgerWriter(context)
        self.revalidation: Final = PlanValidator(context, judge)
        self.tracking: Final = VictimTracker(
            context, self._plans, self.revalidation, self._ledger_writer
        )

    def __len__(self) -> int:
        """Return how many preemptions have steps left to take."""
        return sum(number for phase, number in self.phases().items() if phase in HOLDING)

    def phases(self) -> Counter[PreemptionPhase]:
        """Return how many preemptions are in each phase."""
        return self._plans.phases()

    def nominating(self, uid: str) -> bool:
        """Tell whether a pod's nomination is ours and newer than what its status may say."""
        return self._plans.held(uid) is not None

    def inherits(self, uid: str) -> bool:
        """Tell whether the plan of an earlier leader for a pod was not checked yet."""
        plan = self._plans.get(uid)
        return plan is not None and plan.phase is PreemptionPhase.INHERITED

    def still_wanted(self, effect: Evict) -> bool:
        """Tell whether an eviction that was not sent yet is still part of a plan."""
        plan = self._plans.get(effect.preemptor.uid)
        return (
            plan is not None
            and plan.phase is PreemptionPhase.EVICTING
            and effect.victim.uid in plan.outstanding
        )

    # Beginning ------------------------------------------------------------------------------------

    def start(self, queued: QueuedPod, candidate: Candidate, message: str, now: Seconds) -> str:
        """Claim the candidate's node and ask for the nomination; return the node's name."""
        pod, context = queued.pod, self._context
        node = context.cluster.columns.names[candidate.row]
        charge = context.bounds.charge(pod, node, candidate.victims, now)
        # No two plans of this process are alike, so that each answer finds its own.
        self._begun = max(now, self._begun + 0.001)
        plan = PreemptionPlan.decided(
            pod, node, candidate.victims, charge, context.cluster, self._begun
        )
        self.tracking.superseded(plan, now)
        self._ledger_writer.count(plan, now)
        context.cluster.nominate(pod, node)
        self.revalidation.begin(plan, queued, self._plans.on_node(node))
        self._plans.add(plan)
        pod_status.remember_condition(context, queued, pod_status.UNSCHEDULABLE, message)
        generation = pod.metadata.generation
        plan.written = plan.record()
        context.outbox.append(Nominate(pod.ref, node, message, generation, plan.written))
        return node

    def instead(self, queued: QueuedPod, candidate: Candidate) -> Candidate:
        """Return room that is being vacated and that no preemptor needs, if there is any."""
        if all(map(self._context.cluster.leaves, candidate.victims)):
            return candidate
        nodes = islice(self.tracking.vacated(), MOST_LOOKED_AT)
        found = (self.revalidation.being_vacated(queued, node) for node in nodes)
        return next(filter(None, found), candidate)

    # After another leader -------------------------------------------------------------------------

    def take_over(self, now: Seconds) -> None:
        """Take over the plans that an earlier leader has written to the pods that wait."""
        for queued in self._context.queue:
            if queued.pod.condition(CONDITION) is not None:
                self._take_over(queued.pod, now)

    def _take_over(self, pod: Pod, now: Seconds) -> None:
        cluster = self._context.cluster
        plan = PreemptionPlan.inherited(pod, cluster, now)
        if plan is None or self._plans.get(pod.uid) is not None:
            return
        for each in plan.there(cluster):
            if cluster.leaves(each):
                cluster.note_leaving(each.uid)
        self._ledger_writer.inherit(plan)
        self._plans.add(plan)
        self.tracking.watch(plan, now)

    def resume(self, queued: QueuedPod, now: Seconds) -> tuple[Resumed, PreemptionPlan | None]:
        """Go on with the plan that an earlier leader has written to a pod that fits nowhere.

        Args:
            queued: The pod.
            now: The time.

        Returns:
            What is done about it, and the plan if there is one. The caller holds the pod when it
            goes on, and takes the nomination back when it is cancelled and no other follows.
        """
        pod, context = queued.pod, self._context
        plan = self._plans.get(pod.uid)
        if plan is None or plan.phase is not PreemptionPhase.INHERITED:
            return Resumed.NOTHING_TO_DO, None
        to_evict = tuple(plan.to_evict(context.cluster))
        if not to_evict:
            plan.move(PreemptionMove.RECOGNISE, now)
            return Resumed.NOTHING_TO_DO, plan
        if not self._may_resume(plan, queued, to_evict, now):
            plan.move(PreemptionMove.RELEASE, now)
            self.tracking.released(plan, now)
            return Resumed.CANCELLED, plan
        plan.move(PreemptionMove.RESUME, now)
        plan.nominated = True
        plan.policies = context.policies_version
        plan.charge = context.bounds.charge(pod, plan.node, to_evict, now)
        self._ledger_writer.count(plan, now)
        return Resumed.GOES_ON, plan

    def _may_resume(
        self, plan: PreemptionPlan, queued: QueuedPod, to_evict: tuple[Pod, ...], now: Seconds
    ) -> bool:
        """Tell whether the pod may evict the pods that stay, by the rules that decide.

        Without the nomination the plan is not on the preemptor any more, or will not be for long.
        """
        context, pod = self._context, queued.pod
        return (
            now < plan.deadline
            and context.may_preempt(pod)
            and context.cluster.nominations.node(pod.uid) == plan.node
            and all(each.priority < pod.priority for each in to_evict)
            and not self._refused(plan, pod, to_evict, now)
            and self.revalidation.needed(plan, queued) is not None
        )

    def _refused(
        self, plan: PreemptionPlan, pod: Pod, to_evict: tuple[Pod, ...], now: Seconds
    ) -> str:
        """Return why policies refuse to evict the pods now; those that count them have allowed it.

        Victims that the ledger does not count for the plan are weighed as in a new decision.
        """
        counted = all(each.uid in plan.counted for each in to_evict)
        return self._context.bounds.refuses(pod, plan.node, to_evict, now, counted=counted)

    # Answers --------------------------------------------------------------------------------------

    def nominated(self, effect: Nominate, now: Seconds) -> None:
        """Go on when the API server has the nomination and the plan."""
        plan = self._nominating(effect)
        if plan is not None:
            if plan.phase is PreemptionPhase.NOMINATING:
                plan.move(PreemptionMove.NOMINATED, now)
            self.go_on(plan, now)

    def _nominating(self, effect: Nominate) -> PreemptionPlan | None:
        """Return the plan that waits for the answer; one of an earlier plan means nothing."""
        plan = self._plans.held(effect.pod.uid)
        if plan is None or plan.nominated or plan.written != effect.plan:
            return None
        plan.nominated = plan.node == effect.node
        return plan if plan.nominated else None

    def failed(self, effect: Nominate | SaveLedger | Evict, failure: Failure, now: Seconds) -> None:
        """Note that a step of a plan could not be taken."""
        match effect:
            case Nominate():
                self._not_nominated(effect, failure, now)
            case SaveLedger():
                self._not_remembered(effect, failure, now)
            case Evict():
                self._not_evicted(effect, failure, now)

    def _not_nominated(self, effect: Nominate, failure: Failure, now: Seconds) -> None:
        """Give up a plan whose nomination the API server did not take."""
        plan = self._nominating(effect)
        if plan is not None:
            problem = f"nominating node {effect.node}: {failure.message}"
            self._fail(plan, problem, failure, now)
            self._end(plan, now, told_api_server=False)

    def go_on(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Evict the victims, as soon as what counts them is written."""
        if plan.phase not in OPEN:
            self._end(plan, now)
        elif not self._ledger_writer.waits(plan, now):
            plan.move(PreemptionMove.RECORDED, now)
            self._evict(plan, now)

    def remembered(self, effect: SaveLedger, now: Seconds) -> None:
        """Go on with the plans that waited for this state of the ledger to be written."""
        for plan in self._ledger_writer.done(effect):
            self.go_on(plan, now)
        self._ledger_writer.write(now)

    def _not_remembered(self, effect: SaveLedger, failure: Failure, now: Seconds) -> None:
        """Give up the plans that count for something that cannot be written.

        Others go on: what is remembered of loops holds as long as this process lives.
        """
        for plan in self._ledger_writer.failed(effect):
            if plan.phase in OPEN and (plan.charge.counts or failure.kind is FailureKind.ABANDONED):
                problem = f"remembering the preemption: {failure.message}"
                self._fail(plan, problem, failure, now)
                self._end(plan, now)
            elif plan.phase in OPEN:
                plan.move(PreemptionMove.RECORDED, now)
                self._evict(plan, now)
            else:
                self._end(plan, now)
        self._ledger_writer.write(now)

    def evicted(self, effect: Evict, now: Seconds, *, changed: bool) -> None:
        """Note that a victim leaves."""
        if changed:
            victim = self._context.cluster.placed(effect.victim.uid)
            pod_status.announce_preempted(self._context, effect, victim)
            self._context.bounds.evicted(effect, now)
        plan = self._asking(effect)
        if plan is not None:
            # Also a pod that was gone already: an earlier request, whose answer was lost, may have
            # evicted it.
            plan.asked.setdefault(effect.victim.uid, now)
            self._context.ledger.restamp(effect.victim.uid, now)
        self._answered(effect, None, now)

    def _not_evicted(self, effect: Evict, failure: Failure, now: Seconds) -> None:
        """Note that a victim stays, or ask for it once more where there was no answer."""
        uid, plan = effect.victim.uid, self._asking(effect)
        if plan is not None and failure.kind is FailureKind.UNAVAILABLE:
            waited = now - plan.outstanding[uid]
            patient = now < plan.deadline and waited >= ASK_AGAIN_AFTER
            if patient and plan.phase is PreemptionPhase.EVICTING:
                plan.outstanding[uid] = now
                self._context.outbox.append(effect)
                return
            # Perhaps only the answer was lost: it counts as evicted.
            plan.asked.setdefault(uid, now)
        self._context.cluster.note_staying(uid)
        self._answered(effect, failure, now)
        self.tracking.victim_stays(uid, effect.node, now)

    def _asking(self, effect: Evict) -> PreemptionPlan | None:
        """Return the plan that waits for the answer to an eviction, or has ended meanwhile."""
        uid = effect.victim.uid
        plan = self._plans.get(effect.preemptor.uid)
        return plan if plan is not None and uid in plan.outstanding else self._ended.get(uid)

    def _answered(self, effect: Evict, failure: Failure | None, now: Seconds) -> None:
        uid, plan = effect.victim.uid, self._asking(effect)
        if plan is None:
            return
        del plan.outstanding[uid]
        if self._ended.pop(uid, None) is not None:
            self._ledger_writer.take_back(plan, self._plans.on_node(plan.node), now)
            return
        if failure is not None:
            self._fail(plan, pod_status.not_evicted(effect, failure), failure, now)
        if not plan.outstanding:
            if plan.phase is PreemptionPhase.EVICTING:
                self._evict(plan, now)
            else:
                self._end(plan, now)

    # What else happens ----------------------------------------------------------------------------

    def node_gone(self, node: str, now: Seconds) -> None:
        """Take back every nomination to a node that is gone; the pods are tried again."""
        context = self._context
        for plan in self._plans.on_node(node):
            if plan.phase not in HOLDING:
                self.tracking.node_gone(plan, now)
        for claim in context.cluster.nominations.on_node(node):
            pod = claim.pod
            if not context.is_ours(pod):
                continue
            context.withdraw(pod.uid, now)
            held = self._plans.held(pod.uid)
            if held is not None:
                self._stop(held, now)
                continue
            context.outbox.append(ClearNomination(pod.ref))
            queued = context.queue.get(pod.uid)
            if queued is not None:
                context.queue.wake_pod(queued, now, "NodeDelete")

    def preemptor_gone(self, uid: str, now: Seconds) -> None:
        """Close the plan of a preemptor that is gone; no further victim is evicted."""
        plan = self._plans.get(uid)
        if plan is not None:
            self._abandon(plan)
            self.tracking.preemptor_gone(plan, now)

    def bound(self, uid: str, node: str, now: Seconds) -> None:
        """Close the plan of a pod that is on a node for good."""
        plan = self._plans.get(uid)
        if plan is not None:
            self._abandon(plan)
            self.tracking.bound(uid, node, now)

    # Evicting -------------------------------------------------------------------------------------

    def _evict(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Evict the victims that are still there and still needed."""
        context = self._context
        cluster = context.cluster
        staying = plan.to_evict(cluster)
        if staying and not plan.asked and plan.policies != context.policies_version:
            # What it counts for was worked out under other policies.
            self._stop(plan, now)
            self._end(plan, now)
            return
        if staying:
            kept = self.revalidation.to_evict(plan, staying, self._plans.on_node(plan.node))
            if kept is None:
                self._stop(plan, now)
                self._end(plan, now)
                return
            context.bounds.spared({each.uid for each in staying} - {each.uid for each in kept})
            staying = kept
        if staying:
            # Upstream leaves nominations alone where no pod has to be evicted.
            self._unseat_lower(plan, now)
        batch = _first(staying, plan.charge.strict)
        for each in batch:
            self._ask(plan, each, now)
        if plan.outstanding:
            return
        if len(batch) < len(staying):
            self._evict(plan, now)
        else:
            plan.move(PreemptionMove.EVICTED, now)
            self._end(plan, now)

    def _ask(self, plan: PreemptionPlan, victim: Pod, now: Seconds) -> None:
        """Ask for an eviction; a pod that is not bound yet is taken off its node instead."""
        effect = self._eviction(plan, victim)
        if not self._binding.release(effect, now):
            plan.outstanding[victim.uid] = now
            self._context.cluster.note_leaving(victim.uid)
            self._context.outbox.append(effect)

    @staticmethod
    def _eviction(plan: PreemptionPlan, victim: Pod) -> Evict:
        return Evict(
            victim=victim.ref,
            node=plan.node,
            preemptor=plan.preemptor.ref,
            scheduler_name=plan.preemptor.spec.scheduler_name,
            generation=victim.metadata.generation,
            strict=victim.uid in plan.charge.strict,
        )

    def _unseat_lower(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Take back nominations of less important pods of ours to the same node.

        Source: kube-scheduler v1.36.3 framework/preemption.getLowerPriorityNominatedPods.
        """
        context = self._context
        for claim in context.cluster.nominations.on_node(plan.node):
            if claim.pod.priority < plan.preemptor.priority and context.is_ours(claim.pod):
                context.cluster.withdraw(claim.pod.uid)
                theirs = self._plans.held(claim.pod.uid)
                if theirs is None:
                    context.outbox.append(ClearNomination(claim.pod.ref))
                    queued = context.queue.get(claim.pod.uid)
                    if queued is not None:
                        context.queue.wake_pod(queued, now, "ForceActivate")
                else:
                    self._stop(theirs, now)
                context.wake_below(claim, now)

    # Ending ---------------------------------------------------------------------------------------

    @staticmethod
    def _stop(plan: PreemptionPlan, now: Seconds) -> None:
        """Give a plan up; its preemptor is tried again when every answer has come."""
        if plan.phase in OPEN:
            plan.move(PreemptionMove.STOP, now)

    @staticmethod
    def _fail(plan: PreemptionPlan, problem: str, failure: Failure, now: Seconds) -> None:
        """Give a plan up that was refused; its preemptor backs off when every answer has come."""
        plan.problem = plan.problem or problem
        plan.refused = plan.refused or failure.kind not in _PASSING
        if plan.phase is not PreemptionPhase.FAILING:
            plan.move(PreemptionMove.FAIL, now)

    def _abandon(self, plan: PreemptionPlan) -> None:
        """Take no further step of a plan; evictions under way are answered all the same."""
        self._ledger_writer.drop(plan)
        self._ended.update(dict.fromkeys(plan.outstanding, plan))

    def _end(self, plan: PreemptionPlan, now: Seconds, *, told_api_server: bool = True) -> None:
        """Let the preemptor go on: wait for its victims, try again, or back off."""
        context, uid, phase = self._context, plan.uid, plan.phase
        self._ledger_writer.take_back(plan, self._plans.on_node(plan.node), now)
        context.promises_ended(uid, now)
        queued = context.queue.get(uid)
        if phase is PreemptionPhase.AWAITING:
            self.tracking.watch(plan, now)
            if queued is not None:
                promised = self.tracking.awaits(uid)
                context.queue.end_preemption(queued, now, retry=False, victims_terminating=promised)
            return
        context.withdraw(uid, now)
        if told_api_server:
            context.outbox.append(ClearNomination(plan.preemptor.ref))
        plan.move(PreemptionMove.RELEASE, now)
        self.tracking.released(plan, now, failed=phase is PreemptionPhase.FAILING)
        if queued is None:
            return
        if not told_api_server:
            # The condition went with the nomination.
            pod_status.forget_condition(context, queued)
        if phase is PreemptionPhase.FAILING:
            context.queue.fail_preemption(queued, now)
            pod_status.announce_failure(context, queued.pod, f"preemption: {plan.problem}")
        else:
            context.queue.end_preemption(queued, now, retry=True)


def _first(staying: list[Pod], strict: frozenset[str]) -> list[Pod]:
    """Return the victims to evict now: those first that a disruption budget may protect."""
    return [each for each in staying if each.uid in strict] or staying
