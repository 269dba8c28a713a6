"""All preemptions: the table of plans, their timers, and the order in which others are called.

`transitions` decides what a plan does next. Here each answer and event is given to the plans that
it concerns, and `_apply` is the one place where a transition takes effect:

    start    -> Nominate (with the plan) -> SaveLedger, where the ledger counts it
             -> Evict each victim -> every answer has come -> the victims terminate
    answer   -> transitions.<answer> -> _apply -> _go_on: transitions.next_move -> _apply, ...
    event    -> transitions.<event>  -> _apply
    _apply   -> the table and the timer -> nominations that are outranked -> the listeners in turn:
                the ledger, the victims, the preemptors, the waste

The plan of a preemptor is open until the preemptor is bound, is deleted, or preempts elsewhere. It
is written to the preemptor together with the nomination. The next leader checks it at the
preemptor's attempt by the rules for new decisions. It continues with exactly this plan, or cancels
it, and never adds a victim to it.
"""

import functools
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Final

from msgspec.structs import replace

from scheduler.core.attempt.fit_checks import FitChecks
from scheduler.core.binding import BindingCycle
from scheduler.core.eviction import transitions
from scheduler.core.eviction.cluster_facts import ClusterFacts
from scheduler.core.eviction.freed_devices import KeptDevices
from scheduler.core.eviction.freed_resources import FreedResources
from scheduler.core.eviction.ledger_writer import LedgerWriter
from scheduler.core.eviction.listeners import Listener, Preemptors, Victims
from scheduler.core.eviction.phases import (
    AWAITING_VICTIMS,
    IN_PROGRESS,
    WAITING,
    PreemptionMove,
    PreemptionPhase,
    WasteReason,
)
from scheduler.core.eviction.plan import EVICT_WITHIN, Placement, PreemptionPlan
from scheduler.core.eviction.state import PreemptionsState
from scheduler.core.eviction.transition import Transition
from scheduler.core.eviction.waste import Waste
from scheduler.core.outbox import Outbox
from scheduler.core.pod_status import UNSCHEDULABLE, StatusReporter
from scheduler.core.preemption.evaluate.candidates import Candidate
from scheduler.core.preemption.policy.charge import Charge
from scheduler.core.preemption.policy.engine import PolicyEngine
from scheduler.core.requeue.wakeups import Wakeups
from scheduler.framework.profile import Profile
from scheduler.model.api.devices import ResourceClaim
from scheduler.model.api.objects import Pod
from scheduler.model.effects import Evict, Nominate, SaveLedger
from scheduler.model.events import Failure, FailureKind
from scheduler.model.plan_record import CONDITION
from scheduler.model.times import Seconds, earliest
from scheduler.queue.scheduling_queue import QueuedPod, SchedulingQueue
from scheduler.state.cluster import Cluster
from scheduler.state.preemption.ledger import Ledger

__all__ = ["Preemptions"]

#: How many durations are kept; nobody reads them outside the live scheduler.
_MOST_DURATIONS: Final = 1000
#: How many vacated plans are checked in one call; the others follow in the next.
MAX_AT_ONCE: Final = 64


class Preemptions:
    """All preemptions, from the decision until it is certain which pods use what they freed."""

    def __init__(  # noqa: PLR0913 - the one place where all of these meet
        self,
        *,
        profiles: Mapping[str, Profile],
        is_ours: Callable[[Pod], bool],
        cluster: Cluster,
        queue: SchedulingQueue,
        ledger: Ledger,
        policies: PolicyEngine,
        wakeups: Wakeups,
        outbox: Outbox,
        status: StatusReporter,
        fit_checker: FitChecks,
        binding: BindingCycle,
    ) -> None:
        self._is_ours = is_ours
        self._cluster = cluster
        self._queue = queue
        self._ledger = ledger
        self._policies = policies
        self._wakeups = wakeups
        self._outbox = outbox
        self._status = status
        #: What others may read.
        self.state: Final = PreemptionsState()
        state = self.state
        self.facts: Final = ClusterFacts(
            profiles, cluster, queue, policies, binding, fit_checker, state
        )
        self._freed_resources = FreedResources(cluster, state, is_ours)
        self._ledger_writer = LedgerWriter(
            state.ledger_writer, cluster, ledger, wakeups.blocked, outbox
        )
        #: The devices that preemptors wait for.
        self.devices: Final = KeptDevices(cluster, queue, fit_checker, wakeups, outbox, status)
        #: They do what a transition wants, in this order. Who reports preemptions adds a listener.
        self.listeners: Final[list[Listener]] = [
            self._ledger_writer,
            Victims(cluster, policies, wakeups, outbox, binding),
            Preemptors(queue, wakeups, status, self.facts),
            Waste(state.waste, ledger, status, wakeups.blocked, self._ledger_writer),
        ]
        #: How long the steps of preemptions took, and whether they succeeded; for metrics, which
        #: remove them.
        self.durations: Final[deque[tuple[Seconds, bool]]] = deque(maxlen=_MOST_DURATIONS)

    def check(self) -> None:
        """Assert that the ledger holds the victims of the plans under way, and no more."""
        self._ledger.check(self.state.in_ledger())

    # Decisions ------------------------------------------------------------------------------------

    def start(self, queued: QueuedPod, candidate: Candidate, message: str, now: Seconds) -> str:
        """Nominate a pod to the candidate's node; return the node's name."""
        pod, victims = queued.pod, candidate.victims
        node = self._cluster.columns.names[candidate.row]
        charge = self._policies.charge(pod, node, victims, now)
        placement = Placement.of(pod, node, victims, self._cluster)
        if self._cluster.held_devices.is_used:
            placement = self.devices.expected(placement, now)
        self.carry_out((placement,), charge, message, now)
        return node

    def carry_out(
        self, placements: tuple[Placement, ...], charge: Charge, message: str, now: Seconds
    ) -> None:
        """Begin a plan whose preemptors wait in the queue for it: nominate each of them."""
        state = self.state
        # No two plans of this process are equal, so that each answer finds its own.
        state.last_decision = decided_at = max(now, state.last_decision + 0.001)
        plan = PreemptionPlan.decided(state.next_number(), placements, charge, decided_at)
        for preemptor in plan.preemptors:
            plan = self._replace_former(plan, preemptor, now)
        plan = self._ledger_writer.hold(plan, now)
        for placement in plan.placements:
            self._cluster.nominate(placement.preemptor, placement.node)
        if self._cluster.held_devices.is_used:
            self.devices.keep(plan)
        plan = self.facts.at_decision(plan.with_records())
        self.state.add(plan)
        for placement in plan.placements:
            queued, pod = self._queue.get(placement.preemptor_uid), placement.preemptor
            if queued is not None:
                self._status.remember_condition(queued, UNSCHEDULABLE, message)
            generation, node = pod.metadata.generation, placement.node
            self._outbox.emit(Nominate(pod.ref, node, message, generation, placement.record))

    def _replace_former(self, plan: PreemptionPlan, preemptor: str, now: Seconds) -> PreemptionPlan:
        """Close the former plan of a preemptor that has a new one, which may take it over."""
        former = self.state.plan_of(preemptor)
        if former is None:
            return plan
        before = self._part(former, {preemptor}, now)
        old, new = before.placement(preemptor), plan.placement(preemptor)
        if old.node != new.node:
            self._close_as_lost(before, now)
        elif (
            before.phase is PreemptionPhase.WITHDRAWN
            or new.victim_uids <= old.victim_uids
            or self.facts.preemptor_fits(old, now)
        ):
            # The former evictions still serve this preemptor.
            running = {pod.uid for pod in self.facts.not_terminating(old)}
            terminating = {pod.uid for pod in self.facts.remaining(old)} - running
            plan = plan.absorbing(before, preemptor, terminating)
            self.state.waste.inherit(before, plan, preemptor)
            self._apply(transitions.absorb(before, now), now)
        else:
            self._apply(transitions.lost(before, None, now), now)
        return plan

    # Plans of an earlier leader -------------------------------------------------------------------

    def take_over(self, waiting: Iterable[QueuedPod], now: Seconds) -> None:
        """Take over the plans that an earlier leader has written to waiting pods."""
        self._ledger_writer.take_over(now)
        for queued in waiting:
            if queued.pod.condition(CONDITION) is not None:
                self._take_over(queued.pod, now)

    def _take_over(self, pod: Pod, now: Seconds) -> None:
        cluster, state = self._cluster, self.state
        plan = PreemptionPlan.inherited(state.last_number + 1, pod, cluster, now)
        if plan is None or state.plan_of(pod.uid) is not None:
            return
        marks = plan.progress.evicted.keys()
        placement = self.devices.expected(plan.placement(pod.uid), now, marks)
        plan = replace(plan, placements=(placement,))
        for victim in self.facts.remaining(placement):
            if cluster.is_being_deleted(victim):
                cluster.mark_evicting(victim.uid)
        running = [victim.uid for victim in self.facts.not_terminating(placement)]
        plan = self._ledger_writer.inherit(plan, running, now)
        state.next_number()
        state.add(plan)
        self._apply(transitions.watch(plan, self.facts, now), now)

    def check_inherited(
        self, queued: QueuedPod, rejectors: frozenset[str], now: Seconds
    ) -> tuple[PreemptionMove | None, Placement | None]:
        """Check the plan that an earlier leader has written to a pod, if there is one.

        The plan goes on, waits for its victims, or is withdrawn.

        Returns:
            The move, `None` without such a plan, and the placement of the pod. After `WITHDRAW` the
            caller withdraws the nomination if no other plan follows.
        """
        if (plan := self.state.unchecked(queued.uid)) is None:
            return None, None
        checked = transitions.check_inherited(plan, self.facts, now)
        if checked.move is PreemptionMove.RESUME:
            placement = plan.placement(queued.uid)
            to_evict = self.facts.to_evict(placement)
            charge = self._policies.charge(queued.pod, placement.node, to_evict, now)
            self._queue.begin_preemption(queued, rejectors, now)
            counted = self._ledger_writer.hold(replace(checked.plan, charge=charge), now)
            checked = replace(checked, plan=counted)
        plan = self._step(checked, now)
        return checked.move, plan.placement(queued.uid)

    # Answers --------------------------------------------------------------------------------------

    def nominated(self, effect: Nominate, now: Seconds) -> None:
        """Go on when the API server has a nomination and the plan."""
        if (plan := self.state.nominating(effect)) is not None:
            self._step(transitions.nomination_accepted(plan, effect), now)
        self._go_on_with_others(effect.node, now)

    def not_nominated(self, effect: Nominate, failure: Failure, now: Seconds) -> None:
        """Give up a plan of which the API server did not accept a nomination."""
        if (plan := self.state.nominating(effect)) is not None:
            self._step(transitions.not_nominated(plan, effect, failure, now), now)
        self._go_on_with_others(effect.node, now)

    def _go_on_with_others(self, node: str, now: Seconds) -> None:
        """Go on with plans that waited for the answer to another nomination, also if it is none."""
        for other in self.state.on_node(node):
            # What another one does may stop it.
            plan = self.state.plans[other.number]
            waits = plan.progress.phase in WAITING and plan.nominations_answered
            if waits and plan.number not in self.state.ledger_writer.waiting:
                self._go_on(plan, now)

    def ledger_saved(self, effect: SaveLedger, now: Seconds) -> None:
        """Go on with the plans that waited for this state of the ledger to be written."""
        for number in self._ledger_writer.saved(effect):
            self._go_on(self.state.plans[number], now)
        self._ledger_writer.write(now)

    def ledger_not_saved(self, effect: SaveLedger, failure: Failure, now: Seconds) -> None:
        """Go on with the plans that do not need the ledger, give up the others."""
        for number in self._ledger_writer.failed(effect):
            plan = self.state.plans[number]
            self._step(transitions.ledger_not_saved(plan, failure, now), now)
        self._ledger_writer.write(now)

    def evicted(self, effect: Evict, now: Seconds) -> None:
        """Go on when a victim is gone or terminates."""
        self._ledger_writer.evicted(effect.victim.uid, now)
        if (plan := self.state.evicting(effect)) is not None:
            self._step(transitions.eviction_accepted(plan, effect.victim.uid, now), now)

    def victim_deleted(self, effect: Evict, now: Seconds) -> None:
        """Report a victim that an eviction has deleted; it may have been gone before."""
        self._status.report_preempted(effect, self._cluster.find_pod(effect.victim.uid))
        self._policies.victim_evicted(effect, now)

    def not_evicted(self, effect: Evict, failure: Failure, now: Seconds) -> None:
        """Give up a plan of which a victim was not evicted, unless the request is repeated."""
        uid, plan = effect.victim.uid, self.state.evicting(effect)
        if plan is not None and failure.kind is FailureKind.UNAVAILABLE:
            self._ledger_writer.unanswered(uid, now)
            again = transitions.evict_again(plan, effect, now)
            if again is not None:
                self._apply(again, now)
                return
        self._cluster.unmark_evicting(uid)
        if plan is not None:
            self._step(transitions.eviction_failed(plan, effect, failure, now), now)
        for other in self.state.on_node(effect.node):
            if other.phase is PreemptionPhase.AWAITING and uid in other.victim_uids:
                self._step(transitions.victim_stays(other, now), now)

    # Events ---------------------------------------------------------------------------------------

    def node_gone(self, node: str, now: Seconds) -> None:
        """Withdraw every nomination to a node that is gone; the pods are tried again."""
        for plan in self.state.on_node(node):
            if plan.phase not in IN_PROGRESS:
                there = {each.preemptor_uid for each in plan.on_node(node)}
                self._apply(transitions.node_gone(self._part(plan, there, now), now), now)
        for nomination in self._cluster.nominations.on_node(node):
            if self._is_ours(nomination.pod):
                self._wakeups.withdraw(nomination.pod.uid, now)
                self._lose_nomination(nomination.pod, "NodeDelete", now)

    def _lose_nomination(self, pod: Pod, event: str, now: Seconds) -> None:
        """Stop the plan of a pod that is not nominated any more, or try the pod again."""
        if (plan := self.state.in_progress(pod.uid)) is not None:
            self._apply(transitions.stop(plan, now), now)
        else:
            self._status.clear_nomination(pod.ref)
            self._wakeups.retry(pod.uid, now, event)

    def resources_freed(self, victim: Pod, now: Seconds) -> None:
        """Wake the preemptors, and others, that can use the resources of a pod that left a node."""
        node = victim.spec.node_name
        for plan in self.state.on_node(node):
            if plan.progress.phase is PreemptionPhase.AWAITING:
                self._go_on(plan, now)
        fits = functools.partial(self.facts.equivalents_fit, node=node, now=now)
        done_waiting = self.facts.done_waiting(node, now)
        self._wakeups.wake_by_freed_resources(victim, done_waiting, fits, now)

    def devices_freed(self, claim: ResourceClaim, now: Seconds, *, gone: bool) -> None:
        """Wake the preemptors, and others, that the devices can help which a claim had before."""
        waiting = self._cluster.devices.nominations.waiting_for(claim.key)
        done = [*filter(self.facts.has_victims_gone, waiting)]
        self.devices.deallocated(map(self.state.plan_of, done), now)
        fits = functools.partial(self.facts.fit_where_freed, freed=claim, now=now)
        self._wakeups.wake_by_freed_claim(claim, gone, done, fits, now)

    def stop_all(self, now: Seconds) -> None:
        """Request no further eviction of any plan; its preemptors are tried again."""
        for plan in [*self.state]:
            self._apply(transitions.stop(plan, now), now)

    def pod_gone(self, uid: str, now: Seconds) -> None:
        """Process that a pod is gone: close its plan if it is a preemptor, note it as a victim."""
        self._ledger_writer.observed(uid, now, gone=True)
        if (plan := self.state.plan_of(uid)) is not None:
            own = self._part(plan, {uid}, now)
            self._apply(transitions.vacate(own, WasteReason.PREEMPTOR_GONE, now), now)

    def preemptor_assumed(self, uid: str, node: str, now: Seconds) -> None:
        """Let other pods use the freed resources when the preemptor is placed elsewhere.

        A plan for others as well goes on without a preemptor that is placed on its node.
        """
        if (plan := self.state.plan_of(uid)) is None:
            return
        if plan.placement(uid).node != node:
            own = self._part(plan, {uid}, now)
            self._apply(transitions.vacate(own, WasteReason.PLACED_ELSEWHERE, now), now)
        elif len(plan.placements) > 1:
            own, others = self.state.divide(plan, {uid})
            self._apply(transitions.watch(own, self.facts, now), now)
            self._go_on(others, now)

    def pod_bound(self, uid: str, node: str, now: Seconds) -> None:
        """Process that a pod is bound: close its plan if it is a preemptor."""
        self._ledger_writer.observed(uid, now)
        self.preemptor_assumed(uid, node, now)
        if (plan := self.state.plan_of(uid)) is not None:
            self._apply(transitions.bound(plan, now), now)

    def close_if_lost(self, uid: str, now: Seconds) -> None:
        """Close the plan of a preemptor whose victims are gone but that still does not fit.

        To be called before the preemptor's next attempt, which then knows the wasted evictions.
        """
        plan = self.state.plan_of(uid)
        if plan is not None and plan.phase in AWAITING_VICTIMS:
            placement = plan.placement(uid)
            if placement.devices:
                self.devices.keep_for(placement)
            if not self.facts.may_come(placement, now):
                self._close_as_lost(self._part(plan, {uid}, now), now)

    def _close_as_lost(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Close a plan whose preemptor did not get the freed resources."""
        wasted = self._freed_resources.certainly_wasted(plan)
        self._apply(transitions.lost(plan, wasted, now), now)

    def _part(self, plan: PreemptionPlan, preemptors: Set[str], now: Seconds) -> PreemptionPlan:
        """Return the part of a plan that ends, for some preemptors; the others are tried again."""
        if len(preemptors) == len(plan.placements):
            return plan
        part, others = self.state.divide(plan, preemptors)
        self._step(transitions.give_up(others, now), now)
        return part

    # Time -----------------------------------------------------------------------------------------

    def flush(self, now: Seconds) -> None:
        """Give up nodes on which a victim hangs, and count the evictions that were wasted."""
        # This runs for every event, and mostly finds nothing to do: so it makes few calls then.
        state = self.state
        self._ledger.renew(now)
        if self._policies.may_relieve_pdbs:
            self._wakeups.wake_relieved(now)
        if state.ledger_writer.wanted:
            self._ledger_writer.write(now)
        if state.vacated:
            self._settle(now)
        due = state.due.entries
        if due and due[0][0] <= now:
            for number in state.due.pop_until(now):
                plan = state.plans[number]
                checked = transitions.check_victims(plan, self.facts, now)
                if checked.overdue:
                    hanging = {
                        each.preemptor_uid
                        for each in plan.placements
                        if each.victim_uids & checked.overdue
                    }
                    part = self._part(plan, hanging, now)
                    checked = transitions.check_victims(part, self.facts, now)
                self._step(checked, now)

    def next_wakeup(self) -> Seconds | None:
        """Return when `flush` next has something to do; `None` when never."""
        state = self.state
        vacated = state.vacated[0][0] if state.vacated else None
        return earliest((vacated, state.due.first(), self._ledger_writer.next_wakeup()))

    def _settle(self, now: Seconds) -> None:
        """End the vacated plans for which it is certain which pods use the freed resources."""
        state = self.state
        for _ in range(MAX_AT_ONCE):
            if not state.vacated or state.vacated[0][0] > now:
                return
            plan = state.plans[state.vacated.popleft()[1]]
            if plan.progress.outstanding or self._freed_resources.are_awaited(plan):
                # An eviction has no answer, or a pod is nominated to the nodes.
                state.await_others(plan, now)
            else:
                self._apply(
                    transitions.settle(plan, self._freed_resources.wasted_victims(plan), now), now
                )

    # Applying transitions -------------------------------------------------------------------------

    def _step(self, transition: Transition, now: Seconds) -> PreemptionPlan:
        """Apply a transition, and go on with the plan as far as it can."""
        return self._go_on(self._apply(transition, now), now)

    def _go_on(self, plan: PreemptionPlan, now: Seconds) -> PreemptionPlan:
        """Make all moves that a plan can make by itself."""
        while (transition := transitions.next_move(plan, self.facts, now)) is not None:
            plan = self._apply(transition, now)
        return plan

    def _apply(self, transition: Transition, now: Seconds) -> PreemptionPlan:
        """Keep a plan after a transition, and let the listeners do their parts, in their order."""
        state = self.state
        before = state.plans[transition.plan.number]
        if self._cluster.held_devices.is_used:
            transition = self.devices.moved(before, transition, now)
        plan = transition.plan
        state.replace(plan, now)
        if transition.check_at is not None:
            state.due.put(plan.number, transition.check_at)
        if transition.claims_nodes:
            self._withdraw_lower_nominations(plan, now)
        for listener in self.listeners:
            listener.moved(before, transition, now)
        if plan.number not in state.plans:
            state.waste.forget(plan)
        if before.progress.phase in IN_PROGRESS and transition.move in _ENDS_STEPS:
            succeeded = transition.move is PreemptionMove.EVICTED
            self.durations.append((now - (plan.deadline - EVICT_WITHIN), succeeded))
        # What was evicted for one preemptor does not depend on the others any more.
        while transition.move is PreemptionMove.WITHDRAW and len(plan.placements) > 1:
            own, plan = state.divide(plan, {plan.preemptors[0]})
            self._go_on(own, now)
        return plan

    def _withdraw_lower_nominations(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Withdraw nominations of less important pods of ours to the nodes of a plan.

        Source: kube-scheduler v1.36.3 framework/preemption.getLowerPriorityNominatedPods.
        """
        for placement in plan.placements:
            for nomination in self._cluster.nominations.on_node(placement.node):
                pod = nomination.pod
                lower = pod.priority < placement.preemptor.priority and self._is_ours(pod)
                if lower and pod.uid not in plan.preemptors:
                    self._cluster.withdraw(pod.uid)
                    self._lose_nomination(pod, "ForceActivate", now)
                    self._wakeups.wake_lower_priority(nomination, now)


#: Moves that end the steps of a plan, apart from those of its preemptors.
_ENDS_STEPS: Final = frozenset({PreemptionMove.EVICTED, PreemptionMove.WITHDRAW})
