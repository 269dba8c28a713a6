"""DynamicResources: a pod goes where its claims have devices, or can get them.

Claims are resolved before the pod enters the queue, and again in each attempt. Where the allocation
of a claim is still to be made, devices are searched for on each node. The allocation for the chosen
node is in flight from then on, and written before the pod is bound.

Source: kube-scheduler v1.36.3 plugins/dynamicresources. Differs: a failed deallocation wakes the
pod, and does not change the message of its attempt, which is out by then.
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
from scheduler.model.api.objects import Pod
from scheduler.model.effects import DeallocateClaim, DeleteClaim, Effect
from scheduler.model.releases import OLDEST, Reference
from scheduler.model.times import Seconds
from scheduler.plugins.dynamic_resources import extended_resources
from scheduler.plugins.dynamic_resources.attempt import ClaimsOfPod
from scheduler.plugins.dynamic_resources.filtering import (
    NAME,
    ChoiceScore,
    ClaimAllocator,
    DeviceFilter,
    claims_in,
)
from scheduler.plugins.dynamic_resources.hints import DeviceHints
from scheduler.plugins.dynamic_resources.pod_claims import problem_with
from scheduler.plugins.dynamic_resources.reservation import claim_ref, reserve
from scheduler.state.cluster import Cluster
from scheduler.state.devices.devices import Devices

__all__ = ["DynamicResources"]

NOTHING_TO_FREE: Final = "no new claims to deallocate"
DEALLOCATED: Final = "deallocation of ResourceClaim completed"
DELETED: Final = "deletion of ResourceClaim completed"
NO_CURE: Final = "still not schedulable"


class DynamicResources:
    """Rejects nodes where the claims of the pod cannot be used or allocated."""

    name: ClassVar[str] = NAME

    def __init__(
        self,
        filter_timeout_seconds: Seconds = 10.0,
        binding_timeout_seconds: Seconds = 600.0,
        reference: Reference = OLDEST,
        *,
        may_allocate: bool = True,
    ) -> None:
        """Create the rule.

        Args:
            filter_timeout_seconds: How long a search on one node may take; 0 for no limit.
            binding_timeout_seconds: How long devices may take to become ready.
            reference: The release whose messages a pod without claims gets.
            may_allocate: Whether devices are allocated, and claims reserved.
        """
        self._may_allocate = may_allocate
        self._reference: Final = reference
        self._filter_timeout_seconds = filter_timeout_seconds
        self._binding_timeout_seconds = binding_timeout_seconds
        self._allocator: ClaimAllocator | None = None

    def pre_enqueue(self, pod: Pod, cluster: Cluster) -> str | None:
        if not pod.spec.resource_claims:
            return None
        return problem_with(pod, self._of(cluster).cluster.devices.claims)

    def compile_filter(
        self, pod: Pod, cluster: Cluster, verdicts: Verdicts
    ) -> CompiledFilter | None:
        if not pod.spec.resource_claims and not extended_resources.requested_resources(pod):
            return None
        return DeviceFilter(self._of(cluster), verdicts)

    def compile_score(self, pod: Pod, cluster: Cluster) -> CompiledScore | None:
        return ChoiceScore(self._of(cluster)) if pod.spec.resource_claims else None

    def post_filter(
        self, state: AttemptState, *, prefilter_rejected_by: str | None
    ) -> PostFilterMessage:
        if prefilter_rejected_by not in (None, self.name):
            # Upstream's PreFilter has not run then, its state is missing, and that is an error.
            return PostFilterMessage("not found", ends=True)
        claims = claims_in(state)
        says = self._reference.reports_nothing_to_deallocate
        if claims is None:
            return PostFilterMessage(NOTHING_TO_FREE if says else "")
        cure = _cure(claims)
        if cure is None:
            return PostFilterMessage(NO_CURE if says else "")
        return PostFilterMessage(cure[0], effects=(cure[1],))

    def reserve(self, state: AttemptState, node: str, cluster: Cluster) -> Reservation | None:
        claims, target = claims_in(state), cluster.columns.node(node)
        if claims is None or target is None:
            return None
        return reserve(claims, target, self._of(cluster), self._binding_timeout_seconds)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        hints, changed = DeviceHints(self._devices), Action.ADD | Action.UPDATE
        nodes = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
        generated = Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM
        return (
            ClusterEventWithHint(Resource.NODE, nodes),
            ClusterEventWithHint(Resource.RESOURCE_CLAIM, Action.ALL, hints.after_claim),
            ClusterEventWithHint(Resource.POD, generated, hints.after_own_change),
            ClusterEventWithHint(Resource.DEVICE_CLASS, changed),
            ClusterEventWithHint(Resource.RESOURCE_SLICE, changed),
        )

    def _devices(self) -> Devices | None:
        return None if self._allocator is None else self._allocator.cluster.devices

    def _of(self, cluster: Cluster) -> ClaimAllocator:
        if self._allocator is None or self._allocator.cluster is not cluster:
            self._allocator = ClaimAllocator(
                cluster,
                self._filter_timeout_seconds,
                self._binding_timeout_seconds,
                may_allocate=self._may_allocate,
            )
        return self._allocator


def _cure(claims: ClaimsOfPod) -> tuple[str, Effect] | None:
    """Return what may make the pod schedulable: a claim to deallocate, or one to delete."""
    pod = claims.pod
    for index in sorted(claims.unavailable):
        claim = claims.claims[index]
        if all(consumer.uid == pod.uid for consumer in claim.status.reserved_for):
            return DEALLOCATED, DeallocateClaim(pod.ref, claim_ref(claim))
    if claims.stale is not None:
        return DELETED, DeleteClaim(pod.ref, claim_ref(claims.stale))
    return None
