"""Simulates the API server and the resource claim controller for `plan`: the claims of devices.

The writes of the scheduler succeed at once, and devices become ready at once. A claim that no pod
uses any more loses its devices when its last pod disappears. Claims of templates are not created:
the files have them, or the pods that need them are gated.

Source: kube-controller-manager v1.36.3 resourceclaim.Controller.
"""

import uuid
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from scheduler.model.api.device_claims import Allocation
from scheduler.model.api.devices import (
    DELETE_PROTECTION,
    EXTENDED_RESOURCE_CLAIM,
    AllocatedDevice,
    ClaimMeta,
    ClaimStatus,
    Consumer,
    DeviceObject,
    ResourceClaim,
    ResourceClaimSpec,
)
from scheduler.model.api.objects import Condition
from scheduler.model.base import OwnerReference
from scheduler.model.effects import (
    BindClaims,
    ClaimRef,
    ClaimWrite,
    DeallocateClaim,
    DeleteClaim,
    PodRef,
    ReleaseClaims,
    RequestMapping,
)
from scheduler.model.events import DevicesGone, DevicesObserved

__all__ = ["SimulatedClaims", "extended_claim_name"]


def extended_claim_name(pod: PodRef) -> str:
    """Return the name of the claim that is made for the extended resources of a pod."""
    return f"{pod.name}-extended-resources"


class SimulatedClaims:
    """The claims of a simulated cluster."""

    def __init__(self, items: Iterable[DeviceObject], *, makes_ready: bool = False) -> None:
        """Start with some claims.

        Args:
            items: Claims, and objects that are not looked at.
            makes_ready: Whether the devices of a pod that is being bound become ready at once.
        """
        self._makes_ready = makes_ready
        self._claims: dict[str, ResourceClaim] = {}
        #: Keys of the claims that have ever been reserved for a pod, by its uid.
        self._keys_by_consumer: dict[str, dict[str, None]] = {}
        for item in items:
            self.add(item)
        self._changes = 0
        #: The container and its request of the claim for extended resources, by uid of the pod.
        self.mappings: dict[str, tuple[RequestMapping, ...]] = {}

    def add(self, item: DeviceObject) -> None:
        """Add a claim; other objects are not looked at."""
        if isinstance(item, ResourceClaim):
            self._claims[item.key] = item
            self._index(item)

    def __iter__(self) -> Iterator[ResourceClaim]:
        return iter(self._claims.values())

    def used_by(self, uid: str) -> dict[str, Allocation]:
        """Return the allocations of the claims that are reserved for a pod, by key of the claim."""
        return {
            claim.key: claim.status.allocation
            for claim in self._reserved_for(uid)
            if claim.status.allocation is not None
        }

    def _reserved_for(self, uid: str) -> list[ResourceClaim]:
        known = map(self._claims.get, self._keys_by_consumer.get(uid, ()))
        return [claim for claim in known if claim is not None and claim.reserved_by(uid)]

    def _index(self, claim: ResourceClaim) -> None:
        for consumer in claim.status.reserved_for:
            self._keys_by_consumer.setdefault(consumer.uid, {})[claim.key] = None

    def get(self, key: str) -> ResourceClaim:
        """Return a claim that exists."""
        return self._claims[key]

    def find(self, key: str) -> ResourceClaim | None:
        """Return a claim, `None` if there is none."""
        return self._claims.get(key)

    def store(self, claim: ResourceClaim) -> ResourceClaim:
        """Create or replace a claim; return it as the API server has it then."""
        return self._changed(claim)

    def carry_out(
        self, effect: BindClaims | ReleaseClaims | DeallocateClaim | DeleteClaim
    ) -> Iterator[DevicesObserved | DevicesGone]:
        """Carry out an effect; yield the events of what it changes."""
        match effect:
            case BindClaims():
                yield from map(DevicesObserved, self._bind(effect))
            case ReleaseClaims(pod, claims):
                yield from map(DevicesObserved, self._release(pod, claims))
            case DeallocateClaim(claim=claim) if claim.key in self._claims:
                known = self._claims[claim.key]
                yield DevicesObserved(self._changed(replace(known, status=ClaimStatus())))
            case DeleteClaim(claim=claim):
                yield from self.delete(claim)
            case _:
                pass

    def delete(self, claim: ClaimRef) -> Iterator[DevicesGone]:
        """Delete a claim; yield the event of that, unless it is gone."""
        if self._claims.pop(claim.key, None) is not None:
            yield DevicesGone(ResourceClaim.__name__, claim.key)

    def _bind(self, effect: BindClaims) -> Iterator[ResourceClaim]:
        """Allocate and reserve the claims of a pod; yield their new states."""
        consumer = Consumer(resource="pods", name=effect.pod.name, uid=effect.pod.uid)
        for write in effect.claims:
            claim = self._claims.get(write.claim.key) or self._created(effect.pod, write)
            if write.mappings:
                self.mappings[effect.pod.uid] = write.mappings
            status = claim.status
            allocation = write.allocation or status.allocation
            reserved = claim.reserved_by(consumer.uid)
            yield self._changed(
                replace(
                    claim,
                    metadata=replace(claim.metadata, finalizers=[DELETE_PROTECTION]),
                    status=replace(
                        status,
                        allocation=allocation,
                        reserved_for=[*status.reserved_for, *([] if reserved else [consumer])],
                        devices=_ready(allocation, status.devices)
                        if self._makes_ready
                        else status.devices,
                    ),
                )
            )

    def _release(self, pod: PodRef, claims: Iterable[ClaimRef]) -> Iterator[ResourceClaim]:
        """Take back the reservations of a pod; yield the new states of the claims."""
        for reference in claims:
            claim = self._claims.get(reference.key)
            if claim is not None and claim.reserved_by(pod.uid):
                yield self._without(claim, pod.uid)

    def pod_gone(self, uid: str) -> Iterator[ResourceClaim]:
        """Take back what a pod has used that is gone; yield the new states of the claims."""
        for claim in self._reserved_for(uid):
            released = self._without(claim, uid)
            if not released.status.reserved_for:
                released = self._changed(replace(released, status=ClaimStatus()))
            yield released

    def _without(self, claim: ResourceClaim, uid: str) -> ResourceClaim:
        remaining = [each for each in claim.status.reserved_for if each.uid != uid]
        return self._changed(replace(claim, status=replace(claim.status, reserved_for=remaining)))

    def _created(self, pod: PodRef, write: ClaimWrite) -> ResourceClaim:
        name = extended_claim_name(pod)
        metadata = ClaimMeta(
            name=name,
            namespace=pod.namespace,
            uid=str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.{pod.namespace}.resourceclaim")),
            annotations={EXTENDED_RESOURCE_CLAIM: "true"},
            owner_references=[OwnerReference("v1", "Pod", pod.name, pod.uid, controller=True)],
        )
        spec = (
            ResourceClaimSpec()
            if write.created_for is None
            else ResourceClaimSpec(write.created_for)
        )
        return ResourceClaim(metadata, spec)

    def _changed(self, claim: ResourceClaim) -> ResourceClaim:
        """Store a claim with a resource version that no object has had before."""
        self._changes += 1
        metadata = replace(claim.metadata, resource_version=f"simulated-{self._changes}")
        changed = self._claims[claim.key] = replace(claim, metadata=metadata)
        self._index(changed)
        return changed


def _ready(
    allocation: Allocation | None, devices: Iterable[AllocatedDevice]
) -> list[AllocatedDevice]:
    """Return what drivers say of devices that have become ready."""
    told = {device.id: device for device in devices}
    for result in () if allocation is None else allocation.devices.results:
        if result.binding_conditions:
            met = [Condition(kind, "True") for kind in result.binding_conditions]
            before = told.get(result.id) or AllocatedDevice(
                result.driver, result.pool, result.device
            )
            told[result.id] = replace(before, nullable_conditions=met)
    return list(told.values())
