"""Pods as they are after a change that the scheduler makes: bound, nominated, evicted, waiting."""

from typing import Final

from msgspec.structs import replace

from scheduler.model import plan_record
from scheduler.model.api.objects import (
    DISRUPTION_TARGET,
    PREEMPTION_BY_SCHEDULER,
    SCHEDULED,
    Condition,
    Pod,
)

__all__ = ["bound", "evicted", "nominated", "unscheduled"]

#: The condition that a victim of preemption gets before it is deleted.
_PREEMPTED: Final = Condition(DISRUPTION_TARGET, "True", PREEMPTION_BY_SCHEDULER)


def bound(pod: Pod, node: str) -> Pod:
    """Return a pod that runs on a node; its nomination is cleared."""
    status = replace(pod.status, phase="Running", nominated_node_name="")
    return replace(pod, spec=replace(pod.spec, node_name=node), status=status)


def nominated(pod: Pod, node: str, plan: str = "") -> Pod:
    """Return a pod that is nominated to a node; an empty name clears the nomination.

    Args:
        pod: The pod.
        node: The name of the node.
        plan: The plan of its preemption (`model/plan_record`); empty for none.
    """
    pod = _without(pod, plan_record.CONDITION)
    if plan:
        pod = _with(pod, Condition(plan_record.CONDITION, "True", "Planned", plan))
    return replace(pod, status=replace(pod.status, nominated_node_name=node))


def unscheduled(pod: Pod, reason: str, message: str) -> Pod:
    """Return a pod with the condition that it is not scheduled, and why."""
    return _with(pod, Condition(SCHEDULED, "False", reason, message))


def evicted(pod: Pod, deleted_at: str) -> Pod:
    """Return a victim of preemption: it has the condition `DisruptionTarget` and terminates.

    Args:
        pod: The victim.
        deleted_at: Its `metadata.deletionTimestamp`.
    """
    metadata = replace(pod.metadata, deletion_timestamp=deleted_at)
    return _with(replace(pod, metadata=metadata), _PREEMPTED)


def _with(pod: Pod, condition: Condition) -> Pod:
    """Return a pod with a condition; it replaces one of the same type."""
    others = _without(pod, condition.type).status
    return replace(pod, status=replace(others, conditions=[*others.conditions, condition]))


def _without(pod: Pod, kind: str) -> Pod:
    """Return a pod without the condition of a type."""
    if all(each.type != kind for each in pod.status.conditions):
        return pod
    conditions = [each for each in pod.status.conditions if each.type != kind]
    return replace(pod, status=replace(pod.status, conditions=conditions))
