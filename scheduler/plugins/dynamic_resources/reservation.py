"""The reservation of the claims of a pod: the allocations, and the writes for them.

Source: kube-scheduler v1.36.3 dynamicresources.Reserve, Unreserve, PreBind. Differs: claims that
are reserved for the pod already are written, too.
"""

from collections.abc import Iterable, Sequence

from scheduler.framework.plugin import Reservation, ReservationFailed
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
from scheduler.plugins.dynamic_resources import binding_conditions
from scheduler.plugins.dynamic_resources.claim_allocator import ClaimAllocator
from scheduler.plugins.dynamic_resources.state_data import StateData

__all__ = ["ClaimReservation", "reserve"]


def reserve(data: StateData, node: Node, allocator: ClaimAllocator) -> Reservation | None:
    """Return the reservation of the claims of a pod on a node; `None` if nothing has to be written.

    Raises:
        PluginError: The claims cannot be allocated on the node.
    """
    writes = _writes(data, node, allocator)
    return ClaimReservation(data, node.metadata.name, writes, allocator) if writes else None


def _writes(data: StateData, node: Node, allocator: ClaimAllocator) -> list[ClaimWrite]:
    """Return the writes of the claims.

    A claim that is reserved for the pod is reserved again: an earlier attempt has failed, here or
    in another process, and its release of the claim may not have been seen yet.
    """
    row = allocator.cluster.columns.row(node.metadata.name)
    assert row is not None, node.metadata.name
    state = allocator.visible_devices(data).allocated_state(row)
    allocations, requests = allocator.allocate(data, node, state)
    writes = [_claim_write(claim, allocations.get(claim.uid)) for claim in data.user_claims]
    if requests is not None:
        *_, uid = allocations
        ref = ClaimRef(data.pod.metadata.namespace, "", uid)
        writes.append(ClaimWrite(ref, allocations[uid], requests.spec, requests.mappings))
    return writes


def _claim_write(claim: ResourceClaim, allocation: Allocation | None) -> ClaimWrite:
    return ClaimWrite(
        claim.ref,
        allocation,
        is_protected=DELETE_PROTECTION in claim.metadata.finalizers,
    )


def _watched(keys: Iterable[str]) -> frozenset[tuple[str, str]]:
    return frozenset((ResourceClaim.__name__, key) for key in keys)


def _devices_if_conditional(
    data: StateData, writes: Sequence[ClaimWrite]
) -> tuple[tuple[str, bool], ...]:
    """Return the devices of a pod as `Reservation.devices` does: none if all are ready."""
    former = [claim.status.allocation for claim in data.user_claims]
    written = [write.allocation for write in writes]
    devices = tuple(
        (result.driver, bool(result.binding_conditions))
        for allocation in filter(None, [*former, *written])
        for result in allocation.devices.results
    )
    return devices if any(conditional for _, conditional in devices) else ()


class ClaimReservation(Reservation):
    """The claims of one pod on one node."""

    def __init__(
        self, data: StateData, node: str, writes: Sequence[ClaimWrite], allocator: ClaimAllocator
    ) -> None:
        self._pod: Pod = data.pod
        self._claims = allocator.cluster.devices.claims
        self._keys = tuple(claim.key for claim in data.user_claims)
        self._devices = _devices_if_conditional(data, writes)
        self.effect = BindClaims(self._pod.ref, node, tuple(writes), bool(self._devices))
        self.waiting_event = (
            "BindingConditionsPending",
            f"waiting for binding conditions for device on node {node}",
        )
        self.timeout_seconds = allocator.binding_timeout_seconds
        self.timed_out = ReservationFailed("device binding timeout", "timeout")
        #: The claims whose devices have to be ready.
        self._awaited_keys = self._keys
        self.watched_objects = _watched(self._keys)

    def written(self) -> None:
        created = self._claims.extended_resource_claim_of(self._pod.uid)
        if created is not None:
            # The claim for extended resources exists only now.
            self._awaited_keys = (*self._keys, created.key)
            self.watched_objects = _watched(self._awaited_keys)

    def undo(self) -> Sequence[Effect]:
        effects: list[Effect] = []
        pod = self._pod
        known = filter(None, map(self._claims.get, dict.fromkeys(self._keys)))
        reserved = tuple(
            claim.ref
            for claim in known
            if claim.reserved_by(pod.uid) or self._claims.is_in_flight(claim.uid)
        )
        if reserved:
            effects.append(ReleaseClaims(pod.ref, reserved))
        created = self._claims.extended_resource_claim_of(pod.uid)
        if created is not None:
            effects.append(DeleteClaim(pod.ref, created.ref))
        return effects

    def devices(self) -> tuple[tuple[str, bool], ...]:
        return self._devices

    def poll(self) -> bool | ReservationFailed:
        for key in self._awaited_keys:
            claim = self._claims.get(key)
            if claim is None:
                return ReservationFailed(f'resourceclaim "{key.partition("/")[2]}" not found')
            ready = binding_conditions.is_ready_for_binding(claim)
            if isinstance(ready, str):
                return ReservationFailed(ready, "failure")
            if not ready:
                return False
        return True
