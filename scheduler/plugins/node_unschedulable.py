"""NodeUnschedulable: cordoned nodes accept only pods that tolerate it.

Source: kube-scheduler v1.36.3 plugins/nodeunschedulable.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from scheduler.framework.cluster_events import Action, ClusterEventWithHint, Resource
from scheduler.framework.plugin import CompiledFilter
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.api.objects import Node, Pod, Taint
from scheduler.model.api.selectors import Tolerations
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Codes
from scheduler.state.views.node_view import NodeView

__all__ = ["NodeUnschedulable"]

REASON: Final = "node(s) were unschedulable"
_CORDON: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class NodeUnschedulable:
    """Rejects cordoned nodes, unless the pod tolerates the taint of cordoned nodes."""

    name: ClassVar[str] = "NodeUnschedulable"

    def compile_filter(
        self, pod: Pod, _cluster: Cluster, verdicts: Verdicts
    ) -> CompiledFilter | None:
        if _tolerates_cordon(pod):
            return None
        return _Cordoned(verdicts.code(Verdict(self.name, (REASON,), resolvable=False)))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            ClusterEventWithHint(
                Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT, _became_schedulable
            ),
            ClusterEventWithHint(Resource.POD, Action.UPDATE_POD_TOLERATION, _now_tolerates),
        )


class _Cordoned(CompiledFilter):
    """Rejects cordoned nodes."""

    spec_only = True

    def __init__(self, code: int) -> None:
        self._code = code

    def codes(self, nodes: NodeView) -> Codes:
        return nodes.unschedulable() * np.uint16(self._code)


def _tolerates_cordon(pod: Pod) -> bool:
    return Tolerations(pod.spec.tolerations).cover(_CORDON)


def _became_schedulable(_pod: Pod, old: Node | None, new: Node) -> bool:
    return not new.spec.unschedulable and (old is None or old.spec.unschedulable)


def _now_tolerates(pod: Pod, _old: Pod | None, new: Pod | None) -> bool:
    return new is not None and new.uid == pod.uid and _tolerates_cordon(new)
