"""Carries out preemptions: nominate, remember, evict, then wait for the victims to go.

    start -> Nominate (with the plan) -> Remember, where anything is to be remembered -> Evict each
          -> every answer is there -> `settling` waits for what becomes of it

A preemptor is held from its decision until every answer of its plan is there. A plan that cannot
be completed gives the nomination back, and the preemptor tries again after a back-off. Victims
that are gone already, or on their way, are not asked again. Right before victims are asked, a plan
whose node has changed is looked at again: whoever need not go is spared, and where the plan is not
enough any more, nobody is asked and the preemptor is tried again.

The plan is written to the preemptor together with the nomination. Whoever leads next goes on with
exactly this plan (`resume`), or cancels it, and never adds a victim to it.

What the ledger has to remember is written down before the first victim is asked. Plans that wait
for that share one write.

Source: kube-scheduler v1.36.3 framework/preemption.Executor. Differs: the nomination is written
before the first victim is asked to leave, and evictions name the victim's uid.
"""

from collections.abc import Iterable
from enum import Enum
from itertools import islice
from typing import Final

from scheduler.core import telling
from scheduler.core.context import Context, reference
from scheduler.core.plans import Plan, Plans
from scheduler.core.preemption.choose import Candidate
from scheduler.core.remembering import Remembering
from scheduler.core.reviewing import Judge, Reviewing
from scheduler.core.settling import Settling
from scheduler.model.effects import ClearNomination, Evict, Nominate, Remember
from scheduler.model.events import Failure, FailureKind
from scheduler.model.objects import Pod
from scheduler.model.plan_record import ANNOTATION, decode
from scheduler.model.times import Seconds
from scheduler.state.queue import QueuedPod

__all__ = ["Preempting", "Resumed"]


#: An eviction without an answer is asked for again, but not more often than this.
ASK_AGAIN_AFTER: Final[Seconds] = 1.0


#: So many nodes with room that is vacated for nobody are looked at before others must leave.
MOST_LOOKED_AT: Final = 16


class Resumed(Enum):
    """What became of the plan that an earlier leader has left."""

    #: There is none, or all its victims were asked to leave.
    NOTHING_TO_DO = "nothing to do"
    GOES_ON = "goes on"
    #: It must not be carried out any more.
    CANCELLED = "cancelled"


class Preempting:
    """All preemptions under way."""

    def __init__(self, context: Context, judge: Judge) -> None:
        self._context = context
        self._plans: Final = Plans()
        self._remembering = Remembering(context)
        self._reviewing = Reviewing(context, judge)
        self.settling: Final = Settling(
            context, self._release, self._reviewing.has_room, self._remembering.write_soon
        )

    def __len__(self) -> int:
        return len(self._plans)

    def nominating(self, uid: str) -> bool:
        """Tell whether a pod's nomination is ours and newer than what its status may say."""
        return uid in self._plans

    def served(self, node: str) -> list[str]:
        """Return the preemptors, by uid, whose victims on a node are gone, or gone far enough."""
        cluster = self._context.cluster
        plans = (*self._plans.on_node(node), *self.settling.on_node(node))
        return [
            plan.preemptor.uid
            for plan in plans
            if not plan.there(cluster) or self._reviewing.has_room(plan)
        ]

    def fit_beside(self, pods: Iterable[QueuedPod], node: str) -> bool:
        """Tell whether pods of one class fit on a node that is not the one they are nominated to.

        Claims count, and whoever has one on the node is left to `served`.
        """
        claims = self._context.cluster.nominations
        other = next((each for each in pods if claims.node(each.uid) != node), None)
        return other is not None and self._reviewing.fits(other, node)

    def start(self, queued: QueuedPod, candidate: Candidate, message: str, now: Seconds) -> str:
        """Claim the candidate's node and ask for the nomination; return the node's name."""
        pod, context = queued.pod, self._context
        node = context.cluster.columns.names[candidate.row]
        charge = context.bounds.charge(pod, node, candidate.victims, now)
        plan = Plan.decided(pod, node, candidate.victims, charge, context.cluster, now)
        self.settling.superseded(plan, now)
        self._remembering.count(plan)
        context.cluster.nominate(pod, node)
        self._reviewing.begin(plan)
        self._plans.add(plan)
        telling.remember_condition(context, queued, telling.UNSCHEDULABLE, message)
        generation = pod.metadata.generation
        context.outbox.append(Nominate(reference(pod), node, message, generation, plan.record()))
        return node

    def look_back(self, queued: QueuedPod, now: Seconds, *, goes_on: bool) -> bool:
        """Look what became of a pod's last preemption, before it is decided what follows.

        Args:
            queued: The pod whose turn it is.
            now: The time.
            goes_on: Whether it fits somewhere, or goes on waiting on the node of its nomination.

        Returns:
            Whether the preemption has come to nothing, so that another one may be no good idea.
        """
        return not goes_on and self.settling.lost(queued.uid, now)

    def take_over(self, now: Seconds) -> None:
        """Take over the plans that an earlier leader has written to the pods that wait."""
        for queued in self._context.queue:
            if ANNOTATION in queued.pod.metadata.annotations:
                self._take_over(queued.pod, now)

    def _take_over(self, pod: Pod, now: Seconds) -> None:
        cluster = self._context.cluster
        record = decode(pod.metadata.annotations.get(ANNOTATION))
        if record is None or cluster.nominations.node(pod.uid) != record.node:
            return
        plan = Plan.recorded(pod, record, cluster)
        for each in plan.there(cluster):
            if cluster.leaves(each):
                cluster.note_leaving(each.uid)
        self.settling.add(plan, now)

    def resume(self, queued: QueuedPod, now: Seconds) -> tuple[Resumed, Plan | None]:
        """Go on with the plan that an earlier leader has written to a pod that fits nowhere.

        Args:
            queued: The pod; this is the first attempt for it.
            now: The time.

        Returns:
            What is done about it, and the plan if there is one. The caller holds the pod when it
            goes on, and takes the nomination back when it is cancelled and no other follows.
        """
        pod, context = queued.pod, self._context
        plan = self.settling.get(pod.uid)
        to_ask = () if plan is None else tuple(plan.staying(context.cluster))
        if plan is None or not to_ask:
            return Resumed.NOTHING_TO_DO, plan
        # Without the nomination the plan is not on the preemptor any more, or will not be for long.
        void = now >= plan.deadline or context.cluster.nominations.node(pod.uid) != plan.node
        refused = void or context.bounds.refuses(pod, plan.node, to_ask, now)
        if refused or self._reviewing.needed(plan, queued.key) is None:
            plan.released = True
            return Resumed.CANCELLED, plan
        self.settling.take(pod.uid)
        plan.charge = context.bounds.charge(pod, plan.node, to_ask, now)
        self._remembering.count(plan)
        self._plans.add(plan)
        return Resumed.GOES_ON, plan

    def instead(self, queued: QueuedPod, candidate: Candidate) -> Candidate:
        """Return room that is being vacated for nobody, rather than make others leave."""
        if all(map(self._context.cluster.leaves, candidate.victims)):
            return candidate
        nodes = islice(self.settling.left(), MOST_LOOKED_AT)
        found = (self._reviewing.being_vacated(queued, node) for node in nodes)
        return next(filter(None, found), candidate)

    def nominated(self, effect: Nominate, now: Seconds) -> None:
        """Go on when the API server has the nomination and the plan."""
        plan = self._plans.get(effect.pod.uid)
        if plan is not None and plan.node == effect.node:
            self.go_on(plan, now)

    def failed(self, effect: Nominate | Remember | Evict, failure: Failure, now: Seconds) -> None:
        """Take note that a step of a plan could not be taken."""
        match effect:
            case Nominate():
                self._not_nominated(effect, failure, now)
            case Remember():
                self._not_remembered(effect, failure, now)
            case Evict():
                self._not_evicted(effect, failure, now)

    def _not_nominated(self, effect: Nominate, failure: Failure, now: Seconds) -> None:
        """Give up a plan whose nomination the API server did not take."""
        plan = self._plans.get(effect.pod.uid)
        if plan is not None and plan.node == effect.node:
            plan.failure = f"nominating node {effect.node}: {failure.message}"
            self._end(plan, now, told_api_server=False)

    def go_on(self, plan: Plan, now: Seconds) -> None:
        """Ask the victims to leave, as soon as what counts them is written down."""
        if plan.retry:
            self._end(plan, now)
        elif not self._remembering.waits(plan, now):
            self._ask(plan, now)

    def remembered(self, effect: Remember, now: Seconds) -> None:
        """Go on with the plans that waited for this state of the ledger to be written down."""
        for plan in self._remembering.done(effect):
            self.go_on(plan, now)
        self._remembering.write_down(now)

    def _not_remembered(self, effect: Remember, failure: Failure, now: Seconds) -> None:
        """Give up the plans that count for something that cannot be written down.

        Others go on: what is remembered of loops holds as long as this process lives.
        """
        for plan in self._remembering.failed(effect):
            if plan.charge.counts or failure.kind is FailureKind.ABANDONED:
                plan.failure = f"remembering the preemption: {failure.message}"
                self._end(plan, now)
            else:
                self._ask(plan, now)
        self._remembering.write_down(now)

    def evicted(self, effect: Evict, now: Seconds, *, changed: bool) -> None:
        """Take note that a victim leaves."""
        if changed:
            victim = self._context.cluster.placed(effect.victim.uid)
            telling.announce_preempted(self._context, effect, victim)
            self._context.bounds.evicted(effect, now)
            plan = self._plans.get(effect.preemptor.uid)
            if plan is not None and effect.victim.uid in plan.outstanding:
                plan.asked.add(effect.victim.uid)
                self._context.ledger.restamp(effect.victim.uid, now)
        self._answered(effect, "", now)

    def _not_evicted(self, effect: Evict, failure: Failure, now: Seconds) -> None:
        """Take note that a victim stays, or ask it once more where there was no answer."""
        uid = effect.victim.uid
        plan = self._plans.get(effect.preemptor.uid)
        if plan is not None and uid in plan.outstanding and not plan.retry and not plan.failure:
            waited = now - plan.outstanding[uid]
            patient = now < plan.deadline and waited >= ASK_AGAIN_AFTER
            if failure.kind is FailureKind.UNAVAILABLE and patient:
                plan.outstanding[uid] = now
                self._context.outbox.append(effect)
                return
        self._context.cluster.note_staying(uid)
        self._answered(effect, f"evicting pod {effect.victim}: {failure.message}", now)

    def node_gone(self, node: str, now: Seconds) -> None:
        """Take back every nomination to a node that is gone; the pods are tried again."""
        context = self._context
        self.settling.node_gone(node, now)
        for claim in context.cluster.nominations.on_node(node):
            pod = claim.pod
            if not context.is_ours(pod):
                continue
            context.withdraw(pod.uid, now)
            plan = self._plans.get(pod.uid)
            if plan is not None:
                plan.retry = True
                continue
            context.outbox.append(ClearNomination(reference(pod)))
            queued = context.queue.get(pod.uid)
            if queued is not None:
                context.queue.wake_one(queued, now, "NodeDelete")

    def preemptor_gone(self, uid: str, now: Seconds) -> None:
        """Drop the plan of a preemptor that is gone; no further victim is asked to leave."""
        self._drop(uid, now)
        self.settling.preemptor_gone(uid, now)

    def arrived(self, uid: str, node: str, now: Seconds) -> None:
        """Settle the plan of a pod that is on a node for good."""
        self._drop(uid, now)
        self.settling.arrived(uid, node, now)

    # Evicting -------------------------------------------------------------------------------------

    def _ask(self, plan: Plan, now: Seconds) -> None:
        """Ask the victims to leave that are still there and still needed."""
        context = self._context
        cluster = context.cluster
        staying = plan.staying(cluster)
        if staying:
            others = (*self._plans.on_node(plan.node), *self.settling.on_node(plan.node))
            kept = self._reviewing.to_ask(plan, staying, others)
            if kept is None:
                plan.retry = True
                self._end(plan, now)
                return
            staying = kept
        if staying:
            # Upstream leaves nominations alone where nobody has to be asked.
            self._unseat_lower(plan, now)
        strict = plan.strict
        for each in staying:
            plan.outstanding[each.uid] = now
            cluster.note_leaving(each.uid)
            context.outbox.append(
                Evict(
                    victim=reference(each),
                    node=plan.node,
                    preemptor=reference(plan.preemptor),
                    scheduler_name=plan.preemptor.spec.scheduler_name,
                    generation=each.metadata.generation,
                    strict=each.uid in strict,
                )
            )
        if not plan.outstanding:
            self._end(plan, now)

    def _unseat_lower(self, plan: Plan, now: Seconds) -> None:
        """Take back nominations of less important pods of ours to the same node.

        Source: kube-scheduler v1.36.3 framework/preemption.getLowerPriorityNominatedPods.
        """
        context = self._context
        for claim in context.cluster.nominations.on_node(plan.node):
            if claim.pod.priority < plan.preemptor.priority and context.is_ours(claim.pod):
                context.cluster.withdraw(claim.pod.uid)
                theirs = self._plans.get(claim.pod.uid)
                if theirs is None:
                    context.outbox.append(ClearNomination(reference(claim.pod)))
                    queued = context.queue.get(claim.pod.uid)
                    if queued is not None:
                        context.queue.wake_one(queued, now, "ForceActivate")
                else:
                    theirs.retry = True
                context.wake_below(claim, now)

    def _answered(self, effect: Evict, failure: str, now: Seconds) -> None:
        plan = self._plans.get(effect.preemptor.uid)
        if plan is None or effect.victim.uid not in plan.outstanding:
            return
        del plan.outstanding[effect.victim.uid]
        plan.failure = plan.failure or failure
        if not plan.outstanding:
            self._end(plan, now)

    # Ending ---------------------------------------------------------------------------------------

    def _drop(self, uid: str, now: Seconds) -> None:
        """Let go of a plan under way; whoever is being asked to leave counts as asked."""
        plan = self._plans.pop(uid)
        if plan is not None:
            self._remembering.drop(uid)
            plan.asked |= plan.outstanding.keys()
            self._remembering.take_back(plan, self._plans.on_node(plan.node))
            self.settling.add(plan, now)

    def _release(self, plan: Plan, now: Seconds) -> None:
        """Give the nomination of a plan back whose victims were all asked, and try again."""
        context, uid = self._context, plan.preemptor.uid
        context.withdraw(uid, now)
        context.outbox.append(ClearNomination(reference(plan.preemptor)))
        queued = context.queue.get(uid)
        if queued is not None:
            context.queue.wake_one(queued, now, "ForceActivate")

    def _end(self, plan: Plan, now: Seconds, *, told_api_server: bool = True) -> None:
        """Let the preemptor go on: wait for its victims, or try again."""
        context, uid = self._context, plan.preemptor.uid
        self._plans.pop(uid)
        self._remembering.take_back(plan, self._plans.on_node(plan.node))
        queued = context.queue.get(uid)
        if plan.failure or plan.retry:
            plan.released = True
            context.withdraw(uid, now)
            if told_api_server:
                context.outbox.append(ClearNomination(reference(plan.preemptor)))
        if plan.asked or not plan.released:
            self.settling.add(plan, now)
        if queued is None:
            return
        if not told_api_server:
            # The condition went with the nomination.
            telling.forget_condition(context, queued)
        if plan.failure:
            context.queue.fail_held(queued, now)
            telling.announce_failure(context, queued.pod, f"preemption: {plan.failure}")
        else:
            promised = self.settling.awaits(uid)
            context.queue.release(queued, now, retry=plan.retry, promised=promised)
