"""What pods are told: the condition in their status, and events."""

from scheduler.core.requeue.context import Context
from scheduler.model import times
from scheduler.model.api.objects import Pod
from scheduler.model.api.owners import owner, told_to
from scheduler.model.effects import Evict, RecordEvent, SetCondition
from scheduler.model.events import Failure
from scheduler.model.times import Seconds
from scheduler.queue.scheduling_queue import QueuedPod

__all__ = [
    "SCHEDULER_ERROR",
    "UNSCHEDULABLE",
    "announce_failure",
    "announce_loop",
    "announce_preempted",
    "announce_released",
    "announce_scheduled",
    "announce_stop",
    "condition_not_set",
    "forget_condition",
    "not_evicted",
    "remember_condition",
    "set_condition",
]

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"


def announce_failure(context: Context, pod: Pod, message: str) -> None:
    """Announce that an attempt failed."""
    _announce_of(context, pod, "Warning", "FailedScheduling", "Scheduling", message)


def announce_scheduled(context: Context, pod: Pod, node: str) -> None:
    """Announce that a pod was bound."""
    note = f"Successfully assigned {pod.key} to {node}"
    _announce_of(context, pod, "Normal", "Scheduled", "Binding", note)


def announce_preempted(context: Context, eviction: Evict, victim: Pod | None) -> None:
    """Announce that a victim was asked to leave; its last known state where it is still there."""
    version = victim.metadata.resource_version if victim is not None else ""
    _announce_victim(context, eviction, version)


def announce_released(context: Context, eviction: Evict, resource_version: str) -> None:
    """Announce that a victim was taken off its node before it was bound.

    Args:
        context: Where the effect goes.
        eviction: What would have been asked for.
        resource_version: Of the victim.
    """
    _announce_victim(context, eviction, resource_version, " (in kube-scheduler memory).")


def announce_loop(context: Context, pod: Pod, victims: str) -> None:
    """Announce that pods of an owner are not evicted for a pod any more: it never got the room."""
    theirs = told_to(owner(pod), victims)
    note = (
        f"Evicting pods of {theirs} came to nothing again and again: their room was taken "
        "by others. Preemption of such pods is stopped for a while."
    )
    _announce_of(context, pod, "Warning", "PreemptionLoop", "Preempting", note)


def announce_stop(context: Context, pod: Pod, why: str, until: Seconds) -> None:
    """Announce that no pod is evicted for a pod any more, because too much was in vain."""
    reason, _, text = why.partition(": ")
    note = f"{text}. Preemption is stopped until {times.stamp(until)}."
    _announce_of(context, pod, "Warning", reason, "Preempting", note)


def _announce_of(
    context: Context, pod: Pod, kind: str, reason: str, action: str, note: str
) -> None:
    """Announce something of a pod of ours."""
    context.outbox.append(
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


def _announce_victim(
    context: Context, eviction: Evict, resource_version: str, where: str = ""
) -> None:
    """Announce to a victim for whom it leaves."""
    context.outbox.append(
        RecordEvent(
            regarding=eviction.victim,
            type="Normal",
            reason="Preempted",
            action="Preempting",
            note=f"Preempted by pod {eviction.preemptor.uid} on node {eviction.node}{where}",
            scheduler_name=eviction.scheduler_name,
            resource_version=resource_version,
        )
    )


def not_evicted(eviction: Evict, failure: Failure) -> str:
    """Return what a preemptor is told of a victim that could not be evicted.

    Users who read this need not be allowed to read other namespaces. So a victim of another one
    is named by its uid, and what the API server said, which names it too, is left out.
    """
    victim = eviction.victim
    if victim.namespace == eviction.preemptor.namespace:
        return f"evicting pod {victim}: {failure.message}"
    return f"evicting a pod of another namespace (uid {victim.uid}): {failure.kind.value}"


def set_condition(
    context: Context, queued: QueuedPod, reason: str, message: str, *, clear_nomination: bool
) -> None:
    """Write the condition of a pod that was not placed, unless it says so already.

    Args:
        context: Where the effect goes.
        queued: The pod.
        reason: `UNSCHEDULABLE` or `SCHEDULER_ERROR`.
        message: The full text.
        clear_nomination: Whether a nomination in its status is to be taken back.
    """
    if queued.reported_condition == (reason, message) and not clear_nomination:
        return
    remember_condition(context, queued, reason, message)
    pod = queued.pod
    context.outbox.append(
        SetCondition(pod.ref, reason, message, pod.metadata.generation, clear_nomination)
    )


def condition_not_set(context: Context, effect: SetCondition) -> None:
    """Take note that a condition could not be written, so that the next one is."""
    queued = context.queue.get(effect.pod.uid)
    if queued is not None:
        forget_condition(context, queued)


def remember_condition(context: Context, queued: QueuedPod, reason: str, message: str) -> None:
    """Take note that a pod's status soon says what its last attempt has found."""
    queued.reported_condition = (reason, message)
    context.queue.unreported.discard(queued.uid)


def forget_condition(context: Context, queued: QueuedPod) -> None:
    """Take note that a pod's status does not say what its last attempt has found."""
    queued.reported_condition = None
    context.queue.unreported.add(queued.uid)
