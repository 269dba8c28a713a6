"""Pods as they are after a change that the scheduler makes: bound, nominated or evicted."""

from typing import Final

from msgspec.structs import replace

from scheduler.model.api.objects import (
    DISRUPTION_TARGET,
    PREEMPTION_BY_SCHEDULER,
    Condition,
    Pod,
)

__all__ = ["bound", "evicted", "nominated"]

#: The condition that a victim of preemption gets before it is deleted.
_PREEMPTED: Final = Condition(DISRUPTION_TARGET, "True", PREEMPTION_BY_SCHEDULER)


def bound(pod: Pod, node: str) -> Pod:
    """Return a pod that runs on a node; its nomination is cleared."""
    status = replace(pod.status, phase="Running", nominated_node_name="")
    return replace(pod, spec=replace(pod.spec, node_name=node), status=status)


def nominated(pod: Pod, node: str) -> Pod:
    """Return a pod that is nominated to a node; an empty name clears the nomination."""
    return replace(pod, status=replace(pod.status, nominated_node_name=node))


def evicted(pod: Pod, deleted_at: str) -> Pod:
    """Return a victim of preemption: it has the condition `DisruptionTarget` and terminates.

    Args:
        pod: The victim.
        deleted_at: Its `metadata.deletionTimestamp`.
    """
    metadata = replace(pod.metadata, deletion_timestamp=deleted_at)
    status = replace(pod.status, conditions=[*pod.status.conditions, _PREEMPTED])
    return replace(pod, metadata=metadata, status=status)
