"""Decides when a step of the example is done, and what is missing until then."""

from collections import Counter
from collections.abc import Iterable, Mapping

from deploy.tools.demo.history import SeenPod

__all__ = ["obstacle"]


def obstacle(
    pods: Iterable[SeenPod], wanted: Mapping[str, int], running: Iterable[str]
) -> str | None:
    """Return the reason why the cluster has not settled, None if it has.

    It has settled if nothing changes any more: every pod exists, none is terminating, and each
    pod that does not run was reported as unschedulable.

    Args:
        pods: the existing pods.
        wanted: the required number of pods by PriorityClass.
        running: the PriorityClasses of which all pods must run.
    """
    pods = list(pods)
    staying = [each for each in pods if not each.pod.terminating]
    counts = Counter(each.priority_class for each in staying)
    for name, count in wanted.items():
        if counts[name] != count:
            return f"{counts[name]} of {count} pods of priority {name} exist"
    for each in staying:
        if each.priority_class in running and not _runs(each):
            return f"{each.pod.key} does not run: {_why(each)}"
    for each in pods:
        if each.pod.terminating:
            return f"{each.pod.key} is terminating"
        if not _runs(each) and not (each.unschedulable and each.nominated_at is None):
            return f"{each.pod.key}: {_why(each)}"
    return None


def _runs(seen: SeenPod) -> bool:
    return seen.pod.status.phase == "Running"


def _why(seen: SeenPod) -> str:
    pod = seen.pod
    if pod.spec.node_name:
        return f"it is {pod.status.phase or 'Pending'} on {pod.spec.node_name}"
    condition = pod.condition("PodScheduled")
    if condition is not None and condition.message:
        return condition.message
    return "the scheduler has not attempted it yet"
