"""What follows from a decision: the pod is assumed, held, parked or tried again, and told so.

Source: kube-scheduler v1.36.3 schedule_one.go handleSchedulingFailure, handleBindingCycleError.
"""

from msgspec.structs import replace

from scheduler.core.attempt.scheduling_attempt import AttemptResult
from scheduler.core.binding import BindingCycle
from scheduler.core.eviction.executor import Executor, Resumed
from scheduler.core.requeue import pod_status
from scheduler.core.requeue.context import Bound, Context
from scheduler.framework import event_diff
from scheduler.model.api.objects import Pod
from scheduler.model.decisions import Decision, Failed, Placed, Preempting, Unschedulable
from scheduler.model.effects import Bind
from scheduler.model.events import Failure, FailureKind
from scheduler.model.times import Seconds
from scheduler.queue.scheduling_queue import QueuedPod

__all__ = ["DecisionCommitter"]


class DecisionCommitter:
    """Acts on decisions."""

    def __init__(self, context: Context, executor: Executor, binding: BindingCycle) -> None:
        self._context = context
        self._cluster = context.cluster
        self._queue = context.queue
        self._executor = executor
        self._binding = binding

    def act(self, queued: QueuedPod, outcome: AttemptResult, error: str, now: Seconds) -> Decision:
        """Carry out what an attempt has found; with an error, that nothing was found."""
        pod = queued.pod
        self._take_note(queued, outcome)
        if error:
            # An error says nothing of the plan that an earlier leader has made.
            clear = not self._executor.inherits(pod.uid) and self._give_back(queued, now)
            self._queue.retry(queued, now)
            self._tell_failure(queued, pod_status.SCHEDULER_ERROR, error, clear_nomination=clear)
            return Failed(error)
        if outcome.node is not None:
            return self._place(queued, outcome.node, now)
        resumed, plan = self._executor.resume(queued, now)
        if plan is not None and resumed is Resumed.GOES_ON:
            self._queue.begin_preemption(queued, outcome.rejectors, now)
            self._executor.go_on(plan, now)
            return Preempting(plan.node, plan.refs(), 0, outcome.message)
        if outcome.candidate is not None:
            candidate = self._executor.instead(queued, outcome.candidate)
            self._leave_other_claim(pod, self._cluster.columns.names[candidate.row], now)
            self._queue.begin_preemption(queued, outcome.rejectors, now)
            pod_status.announce_failure(self._context, pod, outcome.message)
            node = self._executor.start(queued, candidate, outcome.message, now)
            victims = tuple(victim.ref for victim in candidate.victims)
            return Preempting(node, victims, candidate.violations, outcome.message)
        if resumed is Resumed.CANCELLED:
            outcome = replace(outcome, keeps_nomination=False)
        return self._give_up(queued, outcome, now)

    def _place(self, queued: QueuedPod, node: str, now: Seconds) -> Decision:
        """Assume a pod on its node, and have it bound."""
        pod = queued.pod
        self._executor.tracking.assumed(pod.uid, node, now)
        self._leave_other_claim(pod, node, now)
        self._cluster.assume(pod, node)
        self._queue.mark_assumed(queued, now)
        self._context.binding[pod.uid] = queued
        problem = self._binding.placed(queued, node)
        if not problem:
            return Placed(node)
        self._context.binding.pop(pod.uid)
        self._leave_node(queued, problem, now)
        return Failed(problem)

    def _leave_node(self, queued: QueuedPod, problem: str, now: Seconds) -> None:
        """Take a pod off the node on which it was assumed, and try it again after a back-off."""
        left = self._cluster.forget(queued.uid)
        self._context.wake(event_diff.POD_DELETED, left, None, now)
        self._queue.retry(queued, now)
        nominated = bool(queued.pod.status.nominated_node_name)
        self._tell_failure(queued, pod_status.SCHEDULER_ERROR, problem, clear_nomination=nominated)

    def _take_note(self, queued: QueuedPod, outcome: AttemptResult) -> None:
        """Note what policies had to say; who was held before is not any more."""
        self._context.held.let_go(queued.uid)
        self._context.bounds.count(outcome.refusals)

    def _give_up(self, queued: QueuedPod, outcome: AttemptResult, now: Seconds) -> Decision:
        """Park a pod that fits nowhere."""
        # Without a claim there is nothing to keep: it was taken back, and that was not written.
        keeps = outcome.keeps_nomination and self._cluster.nominations.get(queued.uid) is not None
        clear = not keeps and self._give_back(queued, now)
        if outcome.rejectors:
            promised = outcome.keeps_nomination and self._executor.tracking.awaits(queued.uid)
            self._queue.reject(
                queued, outcome.rejectors, now, victims_terminating=promised, group_key=outcome.kin
            )
        else:
            self._queue.retry(queued, now)
        if outcome.held:
            rules = frozenset(each.rule for each in outcome.refusals)
            budgets = frozenset[str]().union(*(each.budgets for each in outcome.refusals))
            self._context.held.hold(queued.uid, rules, outcome.until, budgets)
        text = outcome.message
        self._tell_failure(queued, pod_status.UNSCHEDULABLE, text, clear_nomination=clear)
        return Unschedulable(text)

    def _give_back(self, queued: QueuedPod, now: Seconds) -> bool:
        """Drop the claim of a pod; tell whether its status may still carry the nomination."""
        claimed = self._cluster.nominations.get(queued.uid) is not None
        self._context.withdraw(queued.uid, now)
        return claimed or bool(queued.pod.status.nominated_node_name)

    def _leave_other_claim(self, pod: Pod, node: str, now: Seconds) -> None:
        """Let others use the room that a pod claimed on another node than the chosen one."""
        claim = self._cluster.nominations.get(pod.uid)
        if claim is not None and claim.node != node:
            self._context.withdraw(pod.uid, now)

    def _tell_failure(
        self, queued: QueuedPod, reason: str, text: str, *, clear_nomination: bool
    ) -> None:
        pod_status.announce_failure(self._context, queued.pod, text)
        pod_status.set_condition(
            self._context, queued, reason, text, clear_nomination=clear_nomination
        )

    def bound(self, effect: Bind, now: Seconds) -> None:
        """Let go of a pod that the API server has bound; the watch will confirm it."""
        context, uid = self._context, effect.pod.uid
        self._queue.drop(uid, now)
        self._executor.bound(uid, effect.node, now)
        queued = context.binding.pop(uid, None)
        if queued is None:
            return
        waited = now - (now if queued.first_active is None else queued.first_active)
        context.bound.append(
            Bound(
                pod=effect.pod,
                node=effect.node,
                scheduler_name=effect.scheduler_name,
                attempts=queued.attempts,
                waited_seconds=waited,
                flushed=queued.flushed,
            )
        )
        pod_status.announce_scheduled(context, queued.pod, effect.node)

    def not_bound(self, effect: Bind, failure: Failure, now: Seconds) -> None:
        """Take a pod off the node that it could not be bound to, and try it again later."""
        uid = effect.pod.uid
        self._context.binding.pop(uid, None)
        if not self._cluster.is_assumed(uid):
            return
        queued = self._queue.get(uid)
        if queued is None or failure.kind is FailureKind.GONE or queued.pod.terminating:
            left = self._cluster.forget(uid)
            self._context.wake(event_diff.POD_DELETED, left, None, now)
            self._queue.drop(uid, now)
            return
        error = failure.message
        if effect.extender is None:
            error = f'running Bind plugin "DefaultBinder": {error}'
        self._leave_node(queued, error, now)
