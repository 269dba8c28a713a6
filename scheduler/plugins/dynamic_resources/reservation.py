"""The reservation of the claims of a pod: the allocations, and the writes for them.

Source: kube-scheduler v1.36.3 dynamicresources.Reserve, Unreserve, PreBind. Differs: claims that
are reserved for the pod already are written, too.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from scheduler.framework.plugin import PluginError, Reservation, ReservationFailed
from scheduler.model.api.device_claims import Allocation
from scheduler.model.api.devices import DELETE_PROTECTION, ResourceClaim
from scheduler.model.api.objects import Node, Pod
from scheduler.model.effects import (
    BindClaims,
    ClaimRef,
    ClaimWrite,
    DeleteClaim,
    Effect,
    ReleaseClaims,
)
from scheduler.model.times import Seconds
from scheduler.plugins.dynamic_resources import binding_conditions
from scheduler.plugins.dynamic_resources.allocation_results import allocations
from scheduler.plugins.dynamic_resources.attempt import ClaimsOfPod
from scheduler.plugins.dynamic_resources.filtering import ClaimAllocator
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Int
from scheduler.state.views.node_view import NodeView

__all__ = ["ClaimReservation", "claim_ref", "reserve"]


def claim_ref(claim: ResourceClaim) -> ClaimRef:
    """Return a reference to the known state of a claim."""
    metadata = claim.metadata
    return ClaimRef(metadata.namespace, metadata.name, metadata.uid, metadata.resource_version)


def reserve(
    claims: ClaimsOfPod, node: Node, allocator: ClaimAllocator, timeout_seconds: Seconds
) -> Reservation | None:
    """Return the reservation of the claims of a pod on a node; `None` if nothing is to be done.

    Raises:
        PluginError: The claims cannot be allocated on the node.
    """
    writes = _writes(claims, node, allocator)
    if not writes:
        return None
    return ClaimReservation(claims, node.metadata.name, writes, allocator.cluster, timeout_seconds)


def _writes(claims: ClaimsOfPod, node: Node, allocator: ClaimAllocator) -> list[ClaimWrite]:
    """Return what has to be written.

    A claim that is reserved for the pod is reserved again: an earlier attempt has failed, here or
    in another process, and its release of the claim may not have been seen yet.
    """
    wanted, extended = list(claims.to_allocate), None
    if claims.resources:
        row = allocator.cluster.columns.row(node.metadata.name)
        nodes = NodeView(allocator.cluster.columns).take(_only(row))
        names = tuple(name for name in claims.resources if allocator.lacks(nodes, name)[0])
        wanted += allocator.extended(claims, names)
        extended = claims.backed_by(names) if len(wanted) > len(claims.to_allocate) else None
    made: dict[str, Allocation] = {}
    if wanted:
        demands, found = allocator.allocation_cache.find(wanted, node)
        uids = [claim.uid for claim in wanted]
        reference = allocator.cluster.devices.reference
        each = allocations(demands, found, uids, node.metadata.name, reference)
        made = dict(zip(uids, each, strict=True))
    writes = [_claim_write(claim, made.get(claim.uid)) for claim in claims.claims]
    if extended is not None:
        last = wanted[-1]
        at = ClaimRef(claims.pod.metadata.namespace, "", last.uid)
        writes.append(ClaimWrite(at, made[last.uid], extended.devices, extended.mappings))
    return writes


def _claim_write(claim: ResourceClaim, allocation: Allocation | None) -> ClaimWrite:
    return ClaimWrite(
        claim_ref(claim),
        allocation,
        is_protected=DELETE_PROTECTION in claim.metadata.finalizers,
    )


def _only(row: int | None) -> Int:
    if row is None:
        raise PluginError("the node is gone")
    return np.array([row], dtype=np.int64)


def _watched(keys: Iterable[str]) -> frozenset[tuple[str, str]]:
    return frozenset((ResourceClaim.__name__, key) for key in keys)


def _conditional_devices(
    claims: ClaimsOfPod, writes: Sequence[ClaimWrite]
) -> tuple[tuple[str, bool], ...]:
    """Return the devices of a pod as `Reservation.devices` does."""
    kept = [claim.status.allocation for claim in claims.claims]
    written = [write.allocation for write in writes]
    found = tuple(
        (result.driver, bool(result.binding_conditions))
        for allocation in filter(None, [*kept, *written])
        for result in allocation.devices.results
    )
    return found if any(conditional for _, conditional in found) else ()


class ClaimReservation(Reservation):
    """The claims of one pod on one node."""

    def __init__(
        self,
        claims: ClaimsOfPod,
        node: str,
        writes: Sequence[ClaimWrite],
        cluster: Cluster,
        timeout_seconds: Seconds,
    ) -> None:
        self._pod: Pod = claims.pod
        self._claims = cluster.devices.claims
        self._keys = tuple(claim.key for claim in claims.claims)
        self._devices = _conditional_devices(claims, writes)
        self.effect = BindClaims(self._pod.ref, node, tuple(writes))
        self.waiting_event = (
            "BindingConditionsPending",
            f"waiting for binding conditions for device on node {node}",
        )
        self.timeout_seconds = timeout_seconds
        self.timed_out = ReservationFailed("device binding timeout", "timeout")
        #: The claims whose devices have to be ready.
        self._awaited_keys = self._keys
        self.watched_objects = _watched(self._keys)

    def written(self) -> None:
        made = self._claims.made_for(self._pod.uid)
        if made is not None:
            # The claim for extended resources exists only now.
            self._awaited_keys = (*self._keys, made.key)
            self.watched_objects = _watched(self._awaited_keys)

    def undo(self) -> Sequence[Effect]:
        effects: list[Effect] = []
        pod = self._pod
        known = filter(None, map(self._claims.get, dict.fromkeys(self._keys)))
        reserved = tuple(
            claim_ref(claim)
            for claim in known
            if claim.reserved_by(pod.uid) or self._claims.is_in_flight(claim.uid)
        )
        if reserved:
            effects.append(ReleaseClaims(pod.ref, reserved))
        made = self._claims.made_for(pod.uid)
        if made is not None:
            effects.append(DeleteClaim(pod.ref, claim_ref(made)))
        return effects

    def devices(self) -> tuple[tuple[str, bool], ...]:
        return self._devices

    def poll(self) -> bool | ReservationFailed:
        for key in self._awaited_keys:
            claim = self._claims.get(key)
            if claim is None:
                return ReservationFailed(f'resourceclaim "{key.partition("/")[2]}" not found')
            ready = binding_conditions.is_ready(claim)
            if isinstance(ready, str):
                return ReservationFailed(ready, "failure")
            if not ready:
                return False
        return True
