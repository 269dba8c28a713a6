"""Since when a pod runs."""

from scheduler.model import times
from scheduler.model.api.objects import SCHEDULED, Pod
from scheduler.model.times import Seconds

__all__ = ["runs_since"]


def runs_since(pod: Pod) -> Seconds | None:
    """Return since when a pod runs, `None` if it has not started.

    Two clocks tell: the kubelet writes when it has seen the pod, the API server when it has bound
    it. The later moment counts. So a kubelet whose clock is behind does not make a pod older.
    """
    status = pod.status
    started = times.parse(status.start_time)
    if started is None:
        return None
    for each in status.conditions:
        if each.last_transition_time is not None and each.type == SCHEDULED:
            bound = times.parse(each.last_transition_time)
            return started if bound is None else max(started, bound)
    return started
