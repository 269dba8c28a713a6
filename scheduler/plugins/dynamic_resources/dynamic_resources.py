"""DynamicResources: places a pod on a node where its claims are, or can be, allocated.

Claims are resolved before the pod enters the queue, and again in each attempt (PreFilter writes
`StateData`). Claims without an allocation are allocated on each node for comparison. The allocation
for the chosen node is in flight from then on, and written before the pod is bound.

Source: kube-scheduler v1.36.3 plugins/dynamicresources. Differs: a failed deallocation requeues the
pod, and does not change the message of its attempt, which is out by then. Freed devices requeue
pods whose own claims are missing, too; these are gated then. With `preemptForDevices`, evictions
free devices in the dry run of a preemption; see `hypothetical_devices`.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

from scheduler.framework.cluster_events import Action, ClusterEventWithHint, Resource
from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.plugin import (
    CompiledFilter,
    CompiledScore,
    PostFilterMessage,
    Reservation,
)
from scheduler.framework.verdicts import Verdicts
from scheduler.model.api.devices import ResourceClaim
from scheduler.model.api.objects import Pod
from scheduler.model.effects import DeallocateClaim, DeleteClaim
from scheduler.model.releases import OLDEST, Reference
from scheduler.model.times import Seconds
from scheduler.plugins.dynamic_resources import extended_resources
from scheduler.plugins.dynamic_resources.claim_allocator import ClaimAllocator
from scheduler.plugins.dynamic_resources.filtering import DeviceFilter
from scheduler.plugins.dynamic_resources.pod_claims import UnusableClaimError, pod_resource_claims
from scheduler.plugins.dynamic_resources.reservation import reserve
from scheduler.plugins.dynamic_resources.scoring import SubRequestScore
from scheduler.plugins.dynamic_resources.state_data import NAME, get_state_data
from scheduler.state.cluster import Cluster

__all__ = ["DynamicResources"]

NOTHING_TO_DEALLOCATE: Final = "no new claims to deallocate"
DEALLOCATED: Final = "deallocation of ResourceClaim completed"
DELETED: Final = "deletion of ResourceClaim completed"
STILL_NOT_SCHEDULABLE: Final = "still not schedulable"


class DynamicResources:
    """Rejects nodes where the claims of the pod are not available and cannot be allocated."""

    name: ClassVar[str] = NAME

    def __init__(
        self,
        filter_timeout_seconds: Seconds = 10.0,
        binding_timeout_seconds: Seconds = 600.0,
        reference: Reference = OLDEST,
        *,
        may_allocate: bool = True,
        preempts: bool = False,
    ) -> None:
        """Create the rule.

        Args:
            filter_timeout_seconds: How long the allocator may take on one node; 0 for no limit.
            binding_timeout_seconds: How long devices may take to become ready.
            reference: The release whose messages a pod without claims gets.
            may_allocate: Whether devices are allocated, and claims reserved.
            preempts: Whether evictions free devices.
        """
        self._may_allocate = may_allocate
        self._preempts = preempts
        self._reference: Final = reference
        self._filter_timeout_seconds = filter_timeout_seconds
        self._binding_timeout_seconds = binding_timeout_seconds
        self._allocator: ClaimAllocator | None = None

    def pre_enqueue(self, pod: Pod, cluster: Cluster) -> str | None:
        if not pod.spec.resource_claims:
            return None
        # Hints get no cluster: from here on they know that of the allocator.
        claims = self._allocator_of(cluster).cluster.devices.claims
        try:
            pod_resource_claims(pod, claims)
        except UnusableClaimError as error:
            return str(error)
        return None

    def compile_filter(
        self, pod: Pod, cluster: Cluster, verdicts: Verdicts
    ) -> CompiledFilter | None:
        if not pod.spec.resource_claims and not extended_resources.requested_resources(pod):
            return None
        return DeviceFilter(self._allocator_of(cluster), verdicts)

    def compile_score(self, pod: Pod, cluster: Cluster) -> CompiledScore | None:
        allocator = self._allocator_of(cluster)
        return SubRequestScore(allocator) if pod.spec.resource_claims else None

    def post_filter(
        self, state: AttemptState, *, prefilter_rejected_by: str | None
    ) -> PostFilterMessage:
        if prefilter_rejected_by not in (None, self.name):
            # Upstream's PreFilter has not run then, its state is missing, and that is an error.
            return PostFilterMessage("not found", ends=True)
        data = get_state_data(state)
        reports = self._reference.reports_nothing_to_deallocate
        if data is None:
            return PostFilterMessage(NOTHING_TO_DEALLOCATE if reports else "")
        for index in sorted(data.unavailable_claims):
            claim = data.user_claims[index]
            if all(consumer.uid == state.pod.uid for consumer in claim.status.reserved_for):
                deallocate = DeallocateClaim(state.pod.ref, claim.ref)
                return PostFilterMessage(DEALLOCATED, effects=(deallocate,))
        if data.extended_resource_claim is not None:
            delete = DeleteClaim(state.pod.ref, data.extended_resource_claim.ref)
            return PostFilterMessage(DELETED, effects=(delete,))
        return PostFilterMessage(STILL_NOT_SCHEDULABLE if reports else "")

    def reserve(self, state: AttemptState, node: str, cluster: Cluster) -> Reservation | None:
        data, target = get_state_data(state), cluster.columns.node(node)
        if data is None or target is None:
            return None
        return reserve(data, target, self._allocator_of(cluster))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        changed = Action.ADD | Action.UPDATE
        nodes = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
        generated = Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM
        return (
            ClusterEventWithHint(Resource.NODE, nodes),
            ClusterEventWithHint(
                Resource.RESOURCE_CLAIM, Action.ALL, self._is_schedulable_after_claim_change
            ),
            ClusterEventWithHint(Resource.POD, generated, self._is_schedulable_after_pod_change),
            ClusterEventWithHint(Resource.DEVICE_CLASS, changed),
            ClusterEventWithHint(Resource.RESOURCE_SLICE, changed),
        )

    def _is_schedulable_after_claim_change(
        self, pod: Pod, old: ResourceClaim | None, new: ResourceClaim | None
    ) -> bool:
        """Return whether a changed claim may make a pod schedulable."""
        if new is None:
            requeues = self._allocator is not None and self._reference.wakes_by_deleted_claims
            return requeues and old is not None and old.status.allocation is not None
        if old is not None and old.status.allocation is not None and new.status.allocation is None:
            return True
        claims = self._usable_claims(pod)
        if claims is None or all(claim.uid != new.uid for claim in claims):
            return False
        return old is None or old.status != new.status

    def _is_schedulable_after_pod_change(self, pod: Pod, _old: Pod | None, new: Pod | None) -> bool:
        """Return whether a pod whose generated claims changed may be schedulable."""
        return new is not None and new.uid == pod.uid and self._usable_claims(new) is not None

    def _usable_claims(self, pod: Pod) -> list[ResourceClaim] | None:
        """Return the claims of a pod as they are now; `None` if one cannot be used."""
        if self._allocator is None:
            return None
        try:
            return pod_resource_claims(pod, self._allocator.cluster.devices.claims)
        except UnusableClaimError:
            return None

    def _allocator_of(self, cluster: Cluster) -> ClaimAllocator:
        if self._allocator is None or self._allocator.cluster is not cluster:
            self._allocator = ClaimAllocator(
                cluster,
                self._filter_timeout_seconds,
                self._binding_timeout_seconds,
                may_allocate=self._may_allocate,
                preempts=self._preempts,
            )
        return self._allocator
