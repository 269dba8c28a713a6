"""NodeDeclaredFeatures: a pod that needs a kubelet feature runs only where it is declared.

Source: kube-scheduler v1.36.3 plugins/nodedeclaredfeatures; component-helpers v0.36.3
nodedeclaredfeatures/features.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from scheduler.framework.cluster_events import Action, ClusterEventWithHint, Resource
from scheduler.framework.plugin import CompiledFilter
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.api.objects import Node, Pod
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Codes
from scheduler.state.views.node_view import NodeView

__all__ = ["NodeDeclaredFeatures"]

REASON: Final = "node(s) didn't match Pod's required features"

_HOST_NETWORK_WITH_USER_NAMESPACE: Final = "UserNamespacesHostNetworkSupport"
_RESTART_ALL: Final = "RestartAllContainersOnContainerExits"


class NodeDeclaredFeatures:
    """Rejects nodes that do not declare what the pod needs."""

    name: ClassVar[str] = "NodeDeclaredFeatures"

    def compile_filter(
        self, pod: Pod, _cluster: Cluster, verdicts: Verdicts
    ) -> CompiledFilter | None:
        needed = _needed(pod)
        if not needed:
            return None
        return _Declared(needed, verdicts.code(Verdict(self.name, (REASON,), resolvable=False)))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            ClusterEventWithHint(
                Resource.NODE, Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE, _declares
            ),
            ClusterEventWithHint(Resource.POD, Action.UPDATE, _needs_others),
        )


class _Declared(CompiledFilter):
    """Rejects nodes that do not declare all needed features."""

    spec_only = True

    def __init__(self, needed: frozenset[str], code: int) -> None:
        self._needed = needed
        self._code = code

    def codes(self, nodes: NodeView) -> Codes:
        known = nodes.columns.nodes
        codes = [
            0 if (node := known[row]) is not None and _meets(node, self._needed) else self._code
            for row in nodes.rows.tolist()
        ]
        return np.array(codes, dtype=np.uint16)


def _needed(pod: Pod) -> frozenset[str]:
    spec = pod.spec
    needed = set()
    if spec.host_network and spec.host_users is False:
        needed.add(_HOST_NETWORK_WITH_USER_NAMESPACE)
    if any(
        rule.action == "RestartAllContainers"
        for container in (*spec.containers, *spec.init_containers)
        for rule in container.restart_policy_rules
    ):
        needed.add(_RESTART_ALL)
    return frozenset(needed)


def _meets(node: Node, needed: frozenset[str]) -> bool:
    return needed <= frozenset(node.status.declared_features)


def _declares(pod: Pod, _old: Node | None, new: Node) -> bool:
    return _meets(new, _needed(pod))


def _needs_others(pod: Pod, old: Pod | None, new: Pod | None) -> bool:
    if old is None or new is None or new.uid != pod.uid:
        return False
    return _needed(old) != _needed(new)
