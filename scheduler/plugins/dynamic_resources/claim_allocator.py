"""PreFilter, and the claims to allocate on each node, for Filter, Score and Reserve.

Source: kube-scheduler v1.36.3 dynamicresources.PreFilter, filterExtendedResources.

Axes: n rows of a view.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np

from scheduler.framework.plugin import PluginError
from scheduler.model.api.device_claims import Allocation, DeviceRequest
from scheduler.model.api.devices import ResourceClaim
from scheduler.model.api.objects import Node, Pod
from scheduler.model.times import Seconds
from scheduler.plugins.dynamic_resources import extended_resources
from scheduler.plugins.dynamic_resources.allocation_cache import AllocationCache, ClaimToAllocate
from scheduler.plugins.dynamic_resources.hypothetical_devices import FreedStates, VisibleDevices
from scheduler.plugins.dynamic_resources.pod_claims import UnusableClaimError, pod_resource_claims
from scheduler.plugins.dynamic_resources.state_data import StateData
from scheduler.plugins.dynamic_resources.structured.allocation_results import allocation_results
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Bool, Int
from scheduler.state.devices.allocated_state import AllocatedState
from scheduler.state.devices.device_classes import DeviceClasses
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
        preempts: bool = False,
    ) -> None:
        self.cluster: Final = cluster
        #: What evictions free; `None` where they do not.
        self.freed: Final = FreedStates(cluster.held_devices) if preempts else None
        self._may_allocate = may_allocate
        self.cache: Final = AllocationCache(cluster.devices, filter_timeout_seconds)
        self.binding_timeout_seconds: Final = binding_timeout_seconds

    def pre_filter(self, pod: Pod) -> StateData | None:
        """Begin an attempt for a pod; return its claims, `None` if it needs no devices.

        Raises:
            UnusableClaimError: A claim rejects the pod on all nodes, or no devices are allocated.
        """
        self.cache.begin_attempt()
        if self.freed is not None:
            self.freed.begin_attempt()
        devices = self.cluster.devices
        claims = pod_resource_claims(pod, devices.claims) if pod.spec.resource_claims else []
        requested = extended_resources.requested_resources(pod)
        classes = {name: devices.classes.of_resource(name) for name in requested}
        names = {name: item.metadata.name for name, item in classes.items() if item is not None}
        if not claims and not names:
            return None
        for claim in claims:
            if claim.status.allocation is None:
                if devices.claims.is_in_flight(claim.uid) or devices.nominations.promises(
                    claim.uid, pod.uid, pod.priority
                ):
                    text = f"resource claim {claim.key} is in the process of being allocated"
                    raise UnusableClaimError(text)
                for request in claim.spec.devices.requests:
                    _validate_device_classes(claim, request, devices.classes)
        if not self._may_allocate:
            raise UnusableClaimError(DISABLED)
        unmapped = tuple(name for name in requested if name not in names)
        return StateData(pod, claims, devices, names, unmapped, self._needed_by_others)

    def _needed_by_others(self, pod: Pod) -> frozenset[str]:
        """Return the keys of claims that evictions must not free for a pod.

        Other pods are about to use them: those that are being bound, and nominated ones that are at
        least as important. Claims are not reserved for them yet.
        """
        if self.freed is None:
            return frozenset()
        cluster, users = self.cluster, self.cluster.devices.users
        shared = users.among(cluster.devices.claims.allocated)
        return frozenset([key for key in shared if self._is_coming(users.of(key), pod)])

    def _is_coming(self, uids: Iterable[str], pod: Pod) -> bool:
        """Return whether one of some pods is being bound, or nominated and as important.

        While it is uncertain whether it is bound, only its devices are.
        """
        cluster = self.cluster
        for uid in uids:
            nomination, devices = cluster.nominations.get(uid), cluster.devices.nominations.get(uid)
            is_nominated = nomination is not None and nomination.pod.priority >= pod.priority
            is_nominated |= devices is not None and devices.priority >= pod.priority
            if uid != pod.uid and (is_nominated or cluster.is_assumed(uid)):
                return True
        return False

    def visible_devices(self, data: StateData) -> VisibleDevices:
        """Return the devices of nodes as a pod sees them."""
        return VisibleDevices(self.cluster, data.pod)

    def claims_by_node(
        self, data: StateData, nodes: NodeView
    ) -> list[tuple[Int | slice, list[ClaimToAllocate]]]:
        """Return the claims to allocate, with the positions of the nodes where they are the same.

        Nodes without a claim to allocate are left out.
        """
        if not data.class_names:
            return [(slice(None), data.to_allocate)] if data.to_allocate else []
        names = tuple(data.class_names)
        pattern = np.zeros(len(nodes), dtype=object)
        for position, name in enumerate(names):
            pattern |= self.lacks(nodes, name) * (1 << position)
        by_node: list[tuple[Int | slice, list[ClaimToAllocate]]] = []
        for bits in sorted(set(pattern.tolist())):
            resources = tuple(name for position, name in enumerate(names) if bits >> position & 1)
            claims = data.claims_to_allocate(resources)
            if claims:
                by_node.append((np.flatnonzero(pattern == bits), claims))
        return by_node

    def allocate(
        self, data: StateData, node: Node, allocated_state: AllocatedState
    ) -> tuple[dict[str, Allocation], extended_resources.RequestsAndMappings | None]:
        """Allocate devices on one node.

        Args:
            data: The claims of the pod.
            node: The node.
            allocated_state: What is allocated already.

        Returns:
            The allocations by uid of the claim; and for the last one, if the pod gets extended
            resources by devices, the requests.

        Raises:
            PluginError: The claims cannot be allocated on the node.
        """
        resources: tuple[str, ...] = ()
        if data.class_names:
            row = self.cluster.columns.row(node.metadata.name)
            if row is None:
                raise PluginError("the node is gone")
            nodes = NodeView(self.cluster.columns).take(np.array([row]))
            resources = tuple(name for name in data.class_names if self.lacks(nodes, name)[0])
        claims = data.claims_to_allocate(resources)
        requests = data.requests_and_mappings(resources) if resources else None
        if not claims:
            return {}, requests
        compiled, result = self.cache.allocate(claims, node, allocated_state)
        uids, reference = [claim.uid for claim in claims], self.cluster.devices.reference
        in_order = allocation_results(compiled, result, uids, node.metadata.name, reference)
        return dict(zip(uids, in_order, strict=True)), requests

    def lacks(self, nodes: NodeView, resource: str) -> Bool:
        """Return, (n,), which nodes have none of an extended resource."""
        axis = self.cluster.axis
        if resource not in axis.offered():
            return np.ones(len(nodes), dtype=np.bool_)
        lacking: Bool = nodes.allocatable(axis.code(resource)) == 0
        return lacking


def _validate_device_classes(
    claim: ResourceClaim, request: DeviceRequest, classes: DeviceClasses
) -> None:
    exact = [(request.name, request.exactly)] if request.exactly is not None else []
    subs = [(f"{request.name}/{sub.name}", sub) for sub in request.first_available]
    if not exact and not subs:
        text = f"resource claim {claim.key}, request {request.name}: unknown request type"
        raise UnusableClaimError(text)
    for name, alternative in exact or subs:
        if classes.get(alternative.device_class_name) is None:
            missing = f"device class {alternative.device_class_name} does not exist"
            raise UnusableClaimError(f"request {name}: {missing}")
