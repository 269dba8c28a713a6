"""Carries out preemptions: nominate first, then evict, then wait for the victims to go.

A preemptor is held from its decision until every answer of its plan is there. A plan that cannot
be completed gives the nomination back, and the preemptor tries again after a back-off. Victims
that are gone already, or on their way, are not asked again.

Source: kube-scheduler v1.36.3 framework/preemption.Executor. Differs: the nomination is written
before the first victim is asked to leave, and evictions name the victim's uid.
"""

from dataclasses import dataclass, field

from scheduler.core import telling
from scheduler.core.context import Context, reference
from scheduler.core.preemption.choose import Candidate
from scheduler.model.effects import ClearNomination, Evict, Nominate
from scheduler.model.events import Failure
from scheduler.model.objects import Pod
from scheduler.model.times import Seconds
from scheduler.state.queue import QueuedPod

__all__ = ["Preempting"]


@dataclass(slots=True)
class _Plan:
    """One preemption under way."""

    preemptor: Pod
    node: str
    victims: tuple[Pod, ...]
    #: Victims whose eviction was asked for and not answered yet, by uid.
    outstanding: set[str] = field(default_factory=set)
    #: Why it cannot be completed; empty while it can.
    failure: str = ""
    #: Whether the preemptor is to be tried again at once when every answer is there.
    retry: bool = False


class Preempting:
    """All preemptions under way."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._plans: dict[str, _Plan] = {}

    def __len__(self) -> int:
        return len(self._plans)

    def nominating(self, uid: str) -> bool:
        """Tell whether a pod's nomination is ours and newer than what its status may say."""
        return uid in self._plans

    def start(self, queued: QueuedPod, candidate: Candidate, message: str) -> str:
        """Claim the candidate's node and ask for the nomination; return the node's name."""
        pod, context = queued.pod, self._context
        node = context.cluster.columns.names[candidate.row]
        context.cluster.nominate(pod, node)
        self._plans[pod.uid] = _Plan(pod, node, candidate.victims)
        queued.told = (telling.UNSCHEDULABLE, message)
        nominate = Nominate(reference(pod), node, message, pod.metadata.generation)
        context.outbox.append(nominate)
        return node

    def nominated(self, effect: Nominate, now: Seconds) -> None:
        """Go on when the API server has the nomination: ask the victims to leave."""
        plan = self._plans.get(effect.pod.uid)
        if plan is None or plan.node != effect.node:
            return
        context = self._context
        if plan.retry:
            self._end(plan, now)
            return
        placed = [context.cluster.placed(victim.uid) for victim in plan.victims]
        staying = [each for each in placed if each is not None and not context.cluster.leaves(each)]
        if staying:
            # Upstream leaves nominations alone where nobody has to be asked.
            self._unseat_lower(plan, now)
        for there in staying:
            plan.outstanding.add(there.uid)
            context.cluster.note_leaving(there.uid)
            context.outbox.append(
                Evict(
                    victim=reference(there),
                    node=plan.node,
                    preemptor=effect.pod,
                    scheduler_name=plan.preemptor.spec.scheduler_name,
                    generation=there.metadata.generation,
                )
            )
        if not plan.outstanding:
            self._end(plan, now)

    def not_nominated(self, effect: Nominate, failure: Failure, now: Seconds) -> None:
        """Give up a plan whose nomination the API server did not take."""
        plan = self._plans.get(effect.pod.uid)
        if plan is not None and plan.node == effect.node:
            plan.failure = f"nominating node {effect.node}: {failure.message}"
            self._end(plan, now, told_api_server=False)

    def evicted(self, effect: Evict, now: Seconds, *, changed: bool) -> None:
        """Take note that a victim leaves."""
        if changed:
            victim = self._context.cluster.placed(effect.victim.uid)
            telling.announce_preempted(self._context, effect, victim)
        self._answered(effect, "", now)

    def not_evicted(self, effect: Evict, failure: Failure, now: Seconds) -> None:
        """Take note that a victim stays."""
        self._context.cluster.note_staying(effect.victim.uid)
        self._answered(effect, f"evicting pod {effect.victim}: {failure.message}", now)

    def node_gone(self, node: str, now: Seconds) -> None:
        """Take back every nomination to a node that is gone; the pods are tried again."""
        context = self._context
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

    def preemptor_gone(self, uid: str) -> None:
        """Drop the plan of a preemptor that is gone; no further victim is asked to leave."""
        self._plans.pop(uid, None)

    def _unseat_lower(self, plan: _Plan, now: Seconds) -> None:
        """Take back nominations of less important pods of ours to the same node.

        Source: kube-scheduler v1.36.3 framework/preemption.getLowerPriorityNominatedPods.
        """
        context = self._context
        for claim in context.cluster.nominations.on_node(plan.node):
            if claim.pod.priority < plan.preemptor.priority and context.is_ours(claim.pod):
                context.cluster.withdraw(claim.pod.uid)
                if claim.pod.uid not in self._plans:
                    context.outbox.append(ClearNomination(reference(claim.pod)))
                    queued = context.queue.get(claim.pod.uid)
                    if queued is not None:
                        context.queue.wake_one(queued, now, "ForceActivate")
                else:
                    self._plans[claim.pod.uid].retry = True
                context.wake_below(claim, now)

    def _answered(self, effect: Evict, failure: str, now: Seconds) -> None:
        plan = self._plans.get(effect.preemptor.uid)
        if plan is None or effect.victim.uid not in plan.outstanding:
            return
        plan.outstanding.discard(effect.victim.uid)
        plan.failure = plan.failure or failure
        if not plan.outstanding:
            self._end(plan, now)

    def _end(self, plan: _Plan, now: Seconds, *, told_api_server: bool = True) -> None:
        """Let the preemptor go on: wait for its victims, or try again."""
        context, uid = self._context, plan.preemptor.uid
        del self._plans[uid]
        queued = context.queue.get(uid)
        if plan.failure or plan.retry:
            context.withdraw(uid, now)
            if told_api_server:
                context.outbox.append(ClearNomination(reference(plan.preemptor)))
        if queued is None:
            return
        if not told_api_server:
            # The condition went with the nomination.
            queued.told = None
        if plan.failure:
            context.queue.fail_held(queued, now)
            telling.announce_failure(context, queued.pod, f"preemption: {plan.failure}")
        else:
            context.queue.release(queued, now, retry=plan.retry)
