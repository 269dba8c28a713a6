"""What listens to the moves of preemptions: the victims and the preemptors of a plan.

`ledger_writer` and `waste` listen as well.
"""

from typing import Protocol

from scheduler.core.binding import BindingCycle
from scheduler.core.eviction.cluster_facts import ClusterFacts
from scheduler.core.eviction.phases import CLOSED, HOLDING
from scheduler.core.eviction.plan import PreemptionPlan
from scheduler.core.eviction.transition import Then, Transition
from scheduler.core.outbox import Outbox
from scheduler.core.pod_status import StatusReporter
from scheduler.core.preemption.policy.engine import PolicyEngine
from scheduler.core.requeue.wakeups import Wakeups
from scheduler.model.times import Seconds
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.state.cluster import Cluster

__all__ = ["Listener", "Preemptors", "Victims"]


class Listener(Protocol):
    """Does its part of what a transition wants."""

    def moved(self, before: PreemptionPlan, transition: Transition, now: Seconds) -> None:
        """Process a transition.

        Args:
            before: The plan before it.
            transition: The plan after it, and what it wants.
            now: The time.
        """


class Victims:
    """Requests evictions, and keeps which of them are under way."""

    def __init__(
        self,
        cluster: Cluster,
        policies: PolicyEngine,
        wakeups: Wakeups,
        outbox: Outbox,
        binding: BindingCycle,
    ) -> None:
        self._cluster = cluster
        self._policies = policies
        self._wakeups = wakeups
        self._outbox = outbox
        self._binding = binding

    def moved(self, before: PreemptionPlan, transition: Transition, now: Seconds) -> None:
        """End the evictions in flight of a plan that has ended, then request evictions.

        A victim that is not bound yet is taken off its node instead.
        """
        plan = transition.plan
        steps_end = transition.move and plan.progress.phase not in HOLDING
        if steps_end and before.progress.phase not in CLOSED:
            for preemptor in plan.preemptors:
                self._wakeups.plan_ended(preemptor, now)
        if transition.spared:
            self._policies.victims_spared(transition.spared)
        for uid in transition.overdue:
            self._cluster.mark_overdue(uid)
        for effect in transition.evictions:
            uid = effect.victim.uid
            if uid not in plan.progress.outstanding:
                self._binding.preempt_unbound(effect, now)
                continue
            # One that is requested again may be gone meanwhile.
            if uid not in before.progress.outstanding:
                self._cluster.mark_evicting(uid)
            self._outbox.emit(effect)


class Preemptors:
    """Withdraws the nominations of preemptors, and lets them wait, retry or back off."""

    def __init__(
        self,
        queue: SchedulingQueue,
        wakeups: Wakeups,
        status: StatusReporter,
        facts: ClusterFacts,
    ) -> None:
        self._queue = queue
        self._wakeups = wakeups
        self._status = status
        self._facts = facts

    def moved(self, _before: PreemptionPlan, transition: Transition, now: Seconds) -> None:
        """Withdraw nominations, and decide what becomes of the preemptors in the queue."""
        plan, then = transition.plan, transition.then
        refused = plan.progress.refused
        for preemptor in transition.withdrawn:
            self._wakeups.withdraw(preemptor, now)
            if preemptor not in refused:
                self._status.clear_nomination(plan.placement(preemptor).preemptor.ref)
        uids = plan.preemptors if then is Then.WAIT else transition.withdrawn
        for queued in filter(None, map(self._queue.get, uids)):
            if queued.uid in refused:
                # The condition was in the same write as the nomination.
                self._status.forget_condition(queued)
            match then:
                case Then.WAIT:
                    leaving = self._facts.awaits_victims(queued.uid)
                    self._queue.end_preemption(
                        queued, now, retry=False, victims_terminating=leaving
                    )
                case Then.RETRY:
                    self._queue.end_preemption(queued, now, retry=True)
                case Then.BACK_OFF:
                    self._queue.fail_preemption(queued, now)
                    self._status.report_failed(queued.pod, f"preemption: {plan.progress.problem}")
                case _:
                    self._wakeups.retry(queued.uid, now, "ForceActivate")
