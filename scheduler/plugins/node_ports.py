"""NodePorts: two pods on a node cannot have the same host port.

Source: kube-scheduler v1.36.3 plugins/nodeports.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from scheduler.framework.cluster_events import Action, ClusterEventWithHint, Resource
from scheduler.framework.plugin import CompiledFilter, Reads
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.api.objects import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Codes
from scheduler.state.columns.pod_footprints import HostPort, WantedPorts, host_ports
from scheduler.state.views.node_view import NodeView

__all__ = ["NodePorts"]

REASON: Final = "node(s) didn't have free ports for the requested pod ports"


class NodePorts:
    """Rejects nodes where a host port of the pod is in use."""

    name: ClassVar[str] = "NodePorts"

    def compile_filter(
        self, pod: Pod, _cluster: Cluster, verdicts: Verdicts
    ) -> CompiledFilter | None:
        wanted = host_ports(pod)
        if not wanted:
            return None
        return _PortsTaken(wanted, verdicts.code(Verdict(self.name, (REASON,), resolvable=True)))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            ClusterEventWithHint(Resource.POD, Action.DELETE, _freed_a_port),
            ClusterEventWithHint(Resource.NODE, Action.ADD),
        )


class _PortsTaken(CompiledFilter):
    """Rejects nodes where one of the host ports is in use."""

    reads = Reads.PODS
    spec_only = True

    def __init__(self, wanted: Sequence[HostPort], code: int) -> None:
        self._wanted = WantedPorts(wanted)
        self._code = code

    def codes(self, nodes: NodeView) -> Codes:
        return nodes.port_conflicts(self._wanted) * np.uint16(self._code)


def _freed_a_port(pod: Pod, old: Pod | None, _new: Pod | None) -> bool:
    if old is None or not (old.spec.node_name or old.status.nominated_node_name):
        return False
    freed = host_ports(old)
    return bool(freed) and WantedPorts(host_ports(pod)).conflict(set(freed))
