"""The time since which a pod runs."""

from scheduler.model import times
from scheduler.model.api.objects import SCHEDULED, Pod
from scheduler.model.times import Seconds

__all__ = ["runs_since"]


def runs_since(pod: Pod) -> Seconds | None:
    """Return the time since which a pod runs, `None` if it has not started.

    It depends on two clocks: the kubelet writes when it has seen the pod, the API server when it
    has bound it. The later time counts, so a kubelet whose clock is behind does not make a pod
    older.
    """
    status = pod.status
    started = times.parse(status.start_time)
    if started is None:
        return None
    for condition in status.conditions:
        if condition.last_transition_time is not None and condition.type == SCHEDULED:
            bound = times.parse(condition.last_transition_time)
            return started if bound is None else max(started, bound)
    return started
