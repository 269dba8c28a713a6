"""SchedulingGates: a pod with scheduling gates is not queued.

Source: kube-scheduler v1.36.3 plugins/schedulinggates.
"""

from collections.abc import Sequence
from typing import ClassVar

from scheduler.framework.cluster_events import Action, ClusterEventWithHint, Resource
from scheduler.model.api.objects import Pod
from scheduler.state.cluster import Cluster

__all__ = ["SchedulingGates"]


class SchedulingGates:
    """Keeps pods out of the queue until their last gate is removed."""

    name: ClassVar[str] = "SchedulingGates"

    def pre_enqueue(self, pod: Pod, _cluster: Cluster) -> str | None:
        gates = pod.spec.scheduling_gates
        if not gates:
            return None
        return f"waiting for scheduling gates: [{' '.join(gate.name for gate in gates)}]"

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        action = Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        return (ClusterEventWithHint(Resource.POD, action, _own),)


def _own(pod: Pod, _old: Pod | None, new: Pod | None) -> bool:
    return new is not None and new.uid == pod.uid
