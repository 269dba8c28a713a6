"""Carries out a decision: assume the pod, preempt for it, make it wait or retry it, and report it.

Source: kube-scheduler v1.36.3 schedule_one.go handleSchedulingFailure, handleBindingCycleError.
"""

from scheduler.core.attempt.post_filters import placement_message
from scheduler.core.attempt.scheduling_attempt import AttemptResult
from scheduler.core.binding import BindingCycle
from scheduler.core.eviction.phases import PreemptionMove
from scheduler.core.eviction.preemptions import Preemptions
from scheduler.core.outbox import Outbox
from scheduler.core.pod_status import SCHEDULER_ERROR, UNSCHEDULABLE, StatusReporter
from scheduler.core.requeue.wakeups import Wakeups
from scheduler.framework import event_diff
from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.plugin import PluginError
from scheduler.model.api.objects import Pod
from scheduler.model.decisions import Decision, Failed, Placed, Preempting, Unschedulable
from scheduler.model.effects import Bind
from scheduler.model.events import Failure, FailureKind
from scheduler.model.times import Seconds
from scheduler.queue.phases import PendingReason
from scheduler.queue.scheduling_queue import QueuedPod, SchedulingQueue
from scheduler.state.cluster import Cluster

__all__ = ["DecisionCommitter"]


class DecisionCommitter:
    """Carries out decisions."""

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        wakeups: Wakeups,
        outbox: Outbox,
        status: StatusReporter,
        preemptions: Preemptions,
        binding: BindingCycle,
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._wakeups = wakeups
        self._outbox = outbox
        self._status = status
        self._preemptions = preemptions
        self._binding = binding

    def commit(
        self, queued: QueuedPod, result: AttemptResult, error: str, now: Seconds
    ) -> Decision:
        """Carry out the result of an attempt, or handle the error that it ended with."""
        pod = queued.pod
        # What blocked it before does not any more; the new attempt says what does.
        self._wakeups.blocked.unblock(queued.uid)
        if error:
            # An error says nothing about the plan that an earlier leader has made.
            unchecked = self._preemptions.state.unchecked(pod.uid)
            clear = unchecked is None and self._withdraw_nomination(queued, now)
            self._retry(queued, now)
            self._report_failure(queued, SCHEDULER_ERROR, error, clear_nomination=clear)
            return Failed(error)
        if result.node is not None and result.state is not None:
            return self._place(queued, result.node, result.state, now)
        post_filter = result.post_filter
        self._outbox.emit_all(post_filter.effects)
        queued.reason = PendingReason.PREEMPTING
        move, placement = self._preemptions.check_inherited(queued, result.rejectors, now)
        if move is PreemptionMove.RESUME and placement is not None:
            victims = tuple(victim.ref for victim in placement.victims)
            return Preempting(placement.node, victims, 0, result.message)
        if post_filter.candidate is not None:
            facts = self._preemptions.facts
            candidate = facts.prefer_terminating(queued, post_filter.candidate, now)
            text = result.message
            if candidate is not post_filter.candidate:
                other = placement_message(candidate, self._cluster)
                text = text.removesuffix(post_filter.message) + other
            self._withdraw_elsewhere(pod, self._cluster.columns.names[candidate.row], now)
            self._queue.begin_preemption(queued, result.rejectors, now)
            self._status.report_failed(pod, text)
            node = self._preemptions.start(queued, candidate, text, now)
            victims = tuple(victim.ref for victim in candidate.victims)
            return Preempting(node, victims, candidate.violations, text)
        keeps = post_filter.keeps_nomination and move is not PreemptionMove.WITHDRAW
        return self._mark_unschedulable(queued, result, now, keeps_nomination=keeps)

    def _place(self, queued: QueuedPod, node: str, state: AttemptState, now: Seconds) -> Decision:
        """Assume a pod on its node, and have it bound."""
        pod = queued.pod
        self._preemptions.preemptor_assumed(pod.uid, node, now)
        self._withdraw_elsewhere(pod, node, now)
        self._cluster.assume(pod, node)
        self._queue.mark_assumed(queued, now)
        try:
            reservations = self._binding.reserve(state, node)
        except PluginError as error:
            self._take_off_node(queued, str(error), now)
            return Failed(str(error))
        self._binding.bind(queued, node, reservations)
        return Placed(node)

    def _take_off_node(self, queued: QueuedPod, problem: str, now: Seconds) -> None:
        """Take a pod off the node on which it was assumed, and try it again after a backoff."""
        forgotten = self._cluster.forget(queued.uid)
        self._wakeups.wake(event_diff.POD_DELETED, forgotten, None, now)
        self._retry(queued, now)
        nominated = bool(queued.pod.status.nominated_node_name)
        self._report_failure(queued, SCHEDULER_ERROR, problem, clear_nomination=nominated)

    def _mark_unschedulable(
        self, queued: QueuedPod, result: AttemptResult, now: Seconds, *, keeps_nomination: bool
    ) -> Decision:
        """Park a pod that fits on no node."""
        # Without a nomination there is nothing to keep: its status may only be out of date.
        keeps = keeps_nomination and self._cluster.nominations.get(queued.uid) is not None
        clear = not keeps and self._withdraw_nomination(queued, now)
        queued.reason = result.reason
        if result.rejectors:
            victims_terminating = keeps_nomination and self._preemptions.facts.awaits_victims(
                queued.uid
            )
            self._queue.add_unschedulable(
                queued,
                result.rejectors,
                now,
                victims_terminating=victims_terminating,
                equivalence_key=result.equivalence_key,
            )
        else:
            self._queue.retry(queued, now)
        if result.post_filter.blocked:
            rules = frozenset(veto.rule for veto in result.vetoes)
            pdbs = frozenset[str]().union(*(veto.pdbs for veto in result.vetoes))
            self._wakeups.blocked.block(queued.uid, rules, result.post_filter.until, pdbs)
        text = result.message
        self._report_failure(queued, UNSCHEDULABLE, text, clear_nomination=clear)
        return Unschedulable(text)

    def _retry(self, queued: QueuedPod, now: Seconds) -> None:
        queued.reason = PendingReason.ERROR
        self._queue.retry(queued, now)

    def _withdraw_nomination(self, queued: QueuedPod, now: Seconds) -> bool:
        """Withdraw the nomination of a pod; return whether its status may still have it."""
        nominated = self._cluster.nominations.get(queued.uid) is not None
        self._wakeups.withdraw(queued.uid, now)
        return nominated or bool(queued.pod.status.nominated_node_name)

    def _withdraw_elsewhere(self, pod: Pod, node: str, now: Seconds) -> None:
        """Withdraw the nomination of a pod to another node than the chosen one."""
        nomination = self._cluster.nominations.get(pod.uid)
        if nomination is not None and nomination.node != node:
            self._wakeups.withdraw(pod.uid, now)

    def _report_failure(
        self, queued: QueuedPod, reason: str, text: str, *, clear_nomination: bool
    ) -> None:
        self._status.report_failed(queued.pod, text)
        self._status.set_condition(queued, reason, text, clear_nomination=clear_nomination)

    def bound(self, effect: Bind, now: Seconds) -> None:
        """Remove a pod that the API server has bound from the queue; the watch will confirm it."""
        self._queue.delete(effect.pod.uid, now)
        self._preemptions.pod_bound(effect.pod.uid, effect.node, now)
        self._binding.bound(effect, now)

    def not_bound(self, effect: Bind, failure: Failure, now: Seconds) -> None:
        """Take a pod off the node that it could not be bound to, and try it again later."""
        uid = effect.pod.uid
        self._binding.undo_reservations(uid)
        if not self._cluster.is_assumed(uid):
            return
        queued = self._queue.get(uid)
        if queued is None or failure.kind is FailureKind.GONE or queued.pod.terminating:
            forgotten = self._cluster.forget(uid)
            self._wakeups.wake(event_diff.POD_DELETED, forgotten, None, now)
            self._queue.delete(uid, now)
            return
        error = failure.message
        if effect.extender is None:
            error = f'running Bind plugin "DefaultBinder": {error}'
        self._take_off_node(queued, error, now)
