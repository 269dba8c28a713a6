"""Decides when a step of the example is done, and what is missing until then."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from scheduler.model.api.objects import Pod

__all__ = ["obstacle"]

Json: TypeAlias = dict[str, Any]


def obstacle(objects: Iterable[Json], wanted: Mapping[str, int], run: Iterable[str]) -> str | None:
    """Return the reason why the cluster has not settled, None if it has.

    It has settled if nothing changes any more: every pod exists, none is terminating, and each
    pod that does not run was reported as unschedulable.

    Args:
        objects: the pods of the scheduler that exist, as the API has them.
        wanted: the required number of pods by PriorityClass.
        run: the PriorityClasses of which all pods must run.
    """
    pods = [(msgspec.convert(each, Pod), _priority_class(each)) for each in objects]
    pods = [(pod, name) for pod, name in pods if not pod.terminal]
    staying = [(pod, name) for pod, name in pods if not pod.terminating]
    counts = Counter(name for _, name in staying)
    for name, count in wanted.items():
        if counts[name] != count:
            return f"{counts[name]} of {count} pods of priority {name} exist"
    for pod, name in staying:
        if name in run and not _runs(pod):
            return f"{pod.key} does not run: {_why(pod)}"
    for pod, _ in pods:
        if pod.terminating:
            return f"{pod.key} is terminating"
        if not _runs(pod) and not (_unschedulable(pod) and not pod.status.nominated_node_name):
            return f"{pod.key}: {_why(pod)}"
    return None


def _priority_class(pod: Json) -> str:
    return str(pod["spec"].get("priorityClassName", ""))


def _runs(pod: Pod) -> bool:
    return pod.status.phase == "Running"


def _unschedulable(pod: Pod) -> bool:
    condition = pod.condition("PodScheduled")
    return condition is not None and condition.reason == "Unschedulable"


def _why(pod: Pod) -> str:
    if pod.spec.node_name:
        return f"it is {pod.status.phase or 'Pending'} on {pod.spec.node_name}"
    condition = pod.condition("PodScheduled")
    if condition is not None and condition.message:
        return condition.message
    return "the scheduler has not attempted it yet"
