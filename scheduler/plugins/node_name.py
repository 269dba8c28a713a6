"""NodeName: a pod with a node name runs on that node only.

A pending pod never has a node name (with one it counts as placed on that node), so the rule never
rejects a pod. It exists so that a configuration can name it.

Source: kube-scheduler v1.36.3 plugins/nodename.
"""

from collections.abc import Sequence
from typing import ClassVar

from scheduler.framework.cluster_events import Action, ClusterEventWithHint, Resource
from scheduler.framework.plugin import CompiledFilter
from scheduler.framework.verdicts import Verdicts
from scheduler.model.api.objects import Pod
from scheduler.state.cluster import Cluster

__all__ = ["NodeName"]


class NodeName:
    """Never rejects: pending pods have no node name."""

    name: ClassVar[str] = "NodeName"

    def compile_filter(
        self, _pod: Pod, _cluster: Cluster, _verdicts: Verdicts
    ) -> CompiledFilter | None:
        return None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (ClusterEventWithHint(Resource.NODE, Action.ADD),)
