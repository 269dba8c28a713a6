"""The claims to allocate on the nodes of one cluster, for Filter, Score and Reserve.

Axes: n rows of a view.
"""

from typing import Final

import numpy as np

from scheduler.model.api.objects import Pod
from scheduler.model.times import Seconds
from scheduler.plugins.dynamic_resources.allocation_cache import AllocationCache, ClaimToAllocate
from scheduler.plugins.dynamic_resources.pod_claims import UnusableClaimError
from scheduler.plugins.dynamic_resources.state_data import StateData, pre_filter
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Bool, Int
from scheduler.state.views.node_view import NodeView

__all__ = ["ClaimAllocator"]

DISABLED: Final = "pod needs devices, and this scheduler is configured with allocateDevices: false"


class ClaimAllocator:
    """Allocates claims, with the extended resources that nodes provide by devices."""

    def __init__(
        self,
        cluster: Cluster,
        filter_timeout_seconds: Seconds,
        binding_timeout_seconds: Seconds,
        *,
        may_allocate: bool = True,
    ) -> None:
        self.cluster: Final = cluster
        self._may_allocate = may_allocate
        self.cache: Final = AllocationCache(cluster.devices, filter_timeout_seconds)
        self.binding_timeout_seconds: Final = binding_timeout_seconds

    def begin_attempt(self, pod: Pod) -> StateData | None:
        """Begin an attempt for a pod; return its claims, `None` if it needs no devices.

        Raises:
            UnusableClaimError: A claim rejects the pod on all nodes, or no devices are allocated.
        """
        self.cache.begin_attempt()
        data = pre_filter(pod, self.cluster.devices)
        if data is not None and not self._may_allocate:
            raise UnusableClaimError(DISABLED)
        return data

    def claims_by_node(
        self, data: StateData, nodes: NodeView
    ) -> list[tuple[Int, list[ClaimToAllocate]]]:
        """Return the claims to allocate, with the positions of the nodes where they are the same.

        Nodes without a claim to allocate are left out.
        """
        if not data.class_names:
            return [(np.arange(len(nodes)), data.to_allocate)] if data.to_allocate else []
        names = tuple(data.class_names)
        pattern = np.zeros(len(nodes), dtype=object)
        for position, name in enumerate(names):
            pattern |= self.lacks(nodes, name) * (1 << position)
        by_node = []
        for bits in sorted(set(pattern.tolist())):
            resources = tuple(name for position, name in enumerate(names) if bits >> position & 1)
            claims = data.claims_to_allocate(resources)
            if claims:
                by_node.append((np.flatnonzero(pattern == bits), claims))
        return by_node

    def lacks(self, nodes: NodeView, resource: str) -> Bool:
        """Return, (n,), which nodes have none of an extended resource."""
        axis = self.cluster.axis
        if resource not in axis.offered():
            return np.ones(len(nodes), dtype=np.bool_)
        lacking: Bool = nodes.allocatable(axis.code(resource)) == 0
        return lacking
