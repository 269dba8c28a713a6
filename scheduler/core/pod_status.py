"""What users see of a pod's scheduling: the `PodScheduled` condition, and Events."""

from collections.abc import Sequence
from typing import Final

from scheduler.core.outbox import Outbox
from scheduler.model import times
from scheduler.model.api.devices import ResourceClaim
from scheduler.model.api.objects import Pod
from scheduler.model.api.owners import owner, shown_to
from scheduler.model.effects import ClearNomination, Evict, PodRef, RecordEvent, SetCondition
from scheduler.model.events import Failure
from scheduler.model.messages import count, joined
from scheduler.model.times import Seconds
from scheduler.queue.scheduling_queue import QueuedPod, SchedulingQueue

__all__ = ["SCHEDULER_ERROR", "UNSCHEDULABLE", "StatusReporter", "not_evicted"]

#: Reasons of the condition.
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"
#: How many claims an Event names.
_NAMED: Final = 3


class StatusReporter:
    """Reports decisions in the status of pods and in Events."""

    def __init__(self, queue: SchedulingQueue, outbox: Outbox) -> None:
        self._queue = queue
        self._outbox = outbox

    # Events ---------------------------------------------------------------------------------------

    def report_failed(self, pod: Pod, message: str) -> None:
        """Report that an attempt failed."""
        self._report(pod, "Warning", "FailedScheduling", "Scheduling", message)

    def report_scheduled(self, pod: Pod, node: str) -> None:
        """Report that a pod was bound."""
        note = f"Successfully assigned {pod.key} to {node}"
        self._report(pod, "Normal", "Scheduled", "Binding", note)

    def report_preempted(self, eviction: Evict, victim: Pod | None) -> None:
        """Report that a victim was evicted; `victim` is `None` where it is gone already."""
        version = victim.metadata.resource_version if victim is not None else ""
        self._report_victim(eviction, version)

    def report_preempted_unbound(self, eviction: Evict, resource_version: str) -> None:
        """Report that a victim was taken off its node before it was bound.

        Args:
            eviction: What would have been requested.
            resource_version: Of the victim.
        """
        self._report_victim(eviction, resource_version, " (in kube-scheduler memory).")

    def report_loop(self, pod: Pod, victims: str) -> None:
        """Report that preemption of an owner's pods is paused: other pods used the resources."""
        theirs = shown_to(owner(pod), victims)
        note = (
            f"Preempting pods of {theirs} failed repeatedly because other pods took the freed "
            "resources; preemption is paused."
        )
        self._report(pod, "Warning", "PreemptionLoop", "Preempting", note)

    def report_pause(self, pod: Pod, why: str, until: Seconds) -> None:
        """Report that no pod is evicted for a pod until a time: too many evictions were wasted."""
        reason, _, text = why.partition(": ")
        note = f"{text}. Preemption is paused until {times.stamp(until)}."
        self._report(pod, "Warning", reason, "Preempting", note)

    def report_claims(
        self, pod: Pod, node: str, claims: Sequence[ResourceClaim], *, given_up: bool
    ) -> None:
        """Report that claims of evicted pods keep devices that a pod waits for.

        Those who read it may not be allowed to read other namespaces, so their claims are counted.
        """
        own = [each.metadata for each in claims if each.metadata.namespace == pod.ref.namespace]
        named, others = [each.name for each in own[:_NAMED]], len(claims) - len(own)
        more = [f"{len(own) - _NAMED} more"] if len(own) > _NAMED else []
        parts = [f"ResourceClaim{'s' * (len(own) > 1)} {joined(named + more)}"] if own else []
        parts += [f"{count(others, 'ResourceClaim')} of other namespaces"] if others else []
        where, verb = f"devices of evicted pods on node {node}", "is" if len(claims) == 1 else "are"
        why = f"{joined(parts)} {verb} not deallocated"
        if given_up:
            note = f"Gave up {where}: {why}."
            self._report(pod, "Warning", "NotDeallocated", "Preempting", note)
        else:
            note = f"Waits for {where}: {why} yet; kube-controller-manager does that."
            self._report(pod, "Normal", "WaitingForDeallocation", "Preempting", note)

    def _report(self, pod: Pod, kind: str, reason: str, action: str, note: str) -> None:
        """Emit an Event of a pod of ours."""
        self._outbox.emit(
            RecordEvent(
                regarding=pod.ref,
                type=kind,
                reason=reason,
                action=action,
                note=note,
                scheduler_name=pod.spec.scheduler_name,
                resource_version=pod.metadata.resource_version,
            )
        )

    def _report_victim(self, eviction: Evict, resource_version: str, where: str = "") -> None:
        """Emit an Event of a victim that names its preemptor."""
        self._outbox.emit(
            RecordEvent(
                regarding=eviction.victim,
                type="Normal",
                reason="Preempted",
                action="Preempting",
                note=f"Preempted by pod {eviction.preemptor.uid} on node {eviction.node}{where}",
                scheduler_name=eviction.scheduler_name,
                resource_version=resource_version,
                related=eviction.preemptor,
            )
        )

    # Status ---------------------------------------------------------------------------------------

    def set_condition(
        self, queued: QueuedPod, reason: str, message: str, *, clear_nomination: bool
    ) -> None:
        """Write the condition of a pod that was not placed, unless its status says so already.

        Args:
            queued: The pod.
            reason: `UNSCHEDULABLE` or `SCHEDULER_ERROR`.
            message: The full text.
            clear_nomination: Whether to clear a nomination in its status.
        """
        if queued.reported_condition == (reason, message) and not clear_nomination:
            return
        self.remember_condition(queued, reason, message)
        pod = queued.pod
        self._outbox.emit(
            SetCondition(pod.ref, reason, message, pod.metadata.generation, clear_nomination)
        )

    def condition_not_set(self, effect: SetCondition, _failure: Failure, _now: Seconds) -> None:
        """Record that a condition could not be written, so that the next one is."""
        queued = self._queue.get(effect.pod.uid)
        if queued is not None:
            self.forget_condition(queued)

    def remember_condition(self, queued: QueuedPod, reason: str, message: str) -> None:
        """Record that the result of a pod's last attempt is in its status, or soon will be."""
        queued.reported_condition = (reason, message)
        self._queue.unreported.discard(queued.uid)

    def forget_condition(self, queued: QueuedPod) -> None:
        """Record that the result of a pod's last attempt is not in its status."""
        queued.reported_condition = None
        self._queue.unreported.add(queued.uid)

    def clear_nomination(self, pod: PodRef) -> None:
        """Clear the nomination in the status of a pod."""
        self._outbox.emit(ClearNomination(pod))


def not_evicted(eviction: Evict, failure: Failure) -> str:
    """Return the message for a preemptor whose victim could not be evicted.

    Users who read it may not be allowed to read other namespaces. So a victim of another namespace
    is named by its uid, and the message of the API server, which names the victim too, is left out.
    """
    victim = eviction.victim
    if victim.namespace == eviction.preemptor.namespace:
        return f"evicting pod {victim}: {failure.message}"
    return f"evicting a pod of another namespace (uid {victim.uid}): {failure.kind.value}"
