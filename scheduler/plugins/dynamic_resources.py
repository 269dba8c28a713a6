"""DynamicResources: pods that need devices, by resource claims or by resources of device classes.

Devices are not allocated. A pod with resource claims is rejected with a reason that says so. So is
each node where a requested resource would have to come from devices; a node that offers the
resource by a device plugin accepts the pod like any other node. For all other pods the plugin does
what upstream's does, including the text that it adds to messages.

Source: kube-scheduler v1.36.3 plugins/dynamicresources. Differs: pods that need devices which would
have to be allocated are rejected.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from scheduler.framework.cluster_events import Action, ClusterEventWithHint, Resource
from scheduler.framework.plugin import (
    PASS,
    CompiledFilter,
    PostFilterMessage,
    Prepared,
    Reads,
    Rejected,
)
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.api import resources
from scheduler.model.api.objects import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Codes
from scheduler.state.columns.resource_axis import Coded
from scheduler.state.views.node_view import NodeView

__all__ = ["DynamicResources"]

REASON: Final = "resource claims are not supported by preemptive-scheduler"
NOTHING_TO_FREE: Final = "no new claims to deallocate"


class DynamicResources:
    """Rejects pods with resource claims, and nodes where devices would have to be allocated."""

    name: ClassVar[str] = "DynamicResources"

    def compile_filter(
        self, pod: Pod, cluster: Cluster, verdicts: Verdicts
    ) -> CompiledFilter | None:
        if pod.spec.resource_claims:
            return _Unsupported(Verdict(self.name, (REASON,), resolvable=False))
        if resources.too_many(pod):
            return None  # NodeResourcesFit rejects it
        requests = resources.pod_requests(pod)
        names = sorted(name for name in requests if resources.may_be_devices(name))
        names = [name for name in names if requests[name]]
        return _FromDevicePlugins(names, cluster, verdicts) if names else None

    def post_filter(self, _pod: Pod, *, prefilter_rejected_by: str | None) -> PostFilterMessage:
        if prefilter_rejected_by not in (None, self.name):
            # Upstream's PreFilter has not run then, its state is missing, and that is an error.
            return PostFilterMessage("not found", ends=True)
        return PostFilterMessage(NOTHING_TO_FREE)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        action = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
        return (
            ClusterEventWithHint(Resource.NODE, action),
            ClusterEventWithHint(Resource.DEVICE_CLASS, Action.ADD | Action.UPDATE),
        )


class _FromDevicePlugins(CompiledFilter):
    """Rejects nodes that do not offer a resource which a device class provides.

    `prepare` looks up the device classes, so changes of them take effect in the next attempt.

    Source: kube-scheduler v1.36.3 DynamicResources.filterExtendedResources.
    """

    reads = Reads.CLUSTER

    def __init__(self, names: Sequence[str], cluster: Cluster, verdicts: Verdicts) -> None:
        coded = [(name, (name, verdicts.code(_needs_devices(name)))) for name in names]
        self._wanted = Coded(cluster.axis, coded)
        self._device_classes = cluster.device_classes
        self._provided = self._wanted.now()

    def prepare(self) -> Prepared:
        """Find the resources that a device class provides; without one, no node is rejected."""
        provided = self._device_classes.resources
        self._provided = [item for item in self._wanted.now() if item[1][0] in provided]
        self.reads = Reads.CLUSTER if self._provided else Reads.NODE
        return PASS

    def codes(self, nodes: NodeView) -> Codes:
        codes = np.zeros(len(nodes), dtype=np.uint16)
        for resource, (_, code) in self._provided:
            codes[(codes == 0) & (nodes.allocatable(resource) == 0)] = code
        return codes


def _needs_devices(resource: str) -> Verdict:
    reason = (
        f"node(s) would have to allocate devices for {resource}, which is not supported by "
        "preemptive-scheduler"
    )
    return Verdict(DynamicResources.name, (reason,), resolvable=False)


class _Unsupported(CompiledFilter):
    """Rejects the pod on all nodes."""

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict

    def prepare(self) -> Prepared:
        return Rejected(self._verdict)

    def codes(self, nodes: NodeView) -> Codes:
        return np.zeros(len(nodes), dtype=np.uint16)
