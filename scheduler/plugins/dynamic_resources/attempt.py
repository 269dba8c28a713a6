"""What one scheduling attempt knows about the claims of its pod (PreFilter).

Source: kube-scheduler v1.36.3 dynamicresources.PreFilter.
"""

from collections.abc import Mapping
from typing import Final

from scheduler.model.api.device_claims import Request
from scheduler.model.api.devices import ResourceClaim
from scheduler.model.api.objects import Pod
from scheduler.plugins.dynamic_resources import extended_resources
from scheduler.plugins.dynamic_resources.allocation_cache import ToAllocate
from scheduler.plugins.dynamic_resources.pod_claims import UnusableClaimError, claims_of
from scheduler.state.devices.device_classes import DeviceClasses
from scheduler.state.devices.devices import Devices

__all__ = ["ClaimsOfPod", "resolve"]


class ClaimsOfPod:
    """The claims of a pod in one attempt."""

    def __init__(
        self,
        pod: Pod,
        claims: list[ResourceClaim],
        devices: Devices,
        resources: Mapping[str, str],
        unmapped: tuple[str, ...],
    ) -> None:
        self.pod: Final = pod
        #: Those that the pod names, in their order.
        self.claims: Final = claims
        #: The class by extended resource, for the resources that classes provide.
        self.resources: Final = resources
        #: Extended resources that the pod requests, and no class provides.
        self.unmapped: Final = unmapped
        #: The claim that an earlier attempt made for extended resources.
        self.stale: Final = devices.claims.made_for(pod.uid) if resources else None
        table = devices.claims
        self.to_allocate: Final = [
            ToAllocate(claim.key, claim.uid, claim.spec.devices, table.form(claim))
            for claim in claims
            if claim.status.allocation is None
        ]
        #: Indices of allocated claims that were unavailable on a node where all else was fine.
        self.unavailable: set[int] = set()

    @property
    def is_rejected_everywhere(self) -> bool:
        """Whether an earlier claim for extended resources has to be deleted first."""
        return self.stale is not None and bool(self.stale.spec.devices.requests)

    def backed_by(self, from_devices: tuple[str, ...]) -> extended_resources.DeviceBacked:
        """Return the requests for the extended resources that a node takes from devices."""
        return extended_resources.requests_for(
            self.pod, {name: self.resources[name] for name in from_devices}
        )

    def extended_claim(self, backed: extended_resources.DeviceBacked) -> ToAllocate:
        """Return the claim for extended resources, which exists in memory only."""
        name = f"{self.pod.metadata.namespace}/{extended_resources.IN_MEMORY_NAME}"
        return ToAllocate.made(
            name, f"{self.pod.uid}/{extended_resources.IN_MEMORY_NAME}", backed.devices
        )


def resolve(pod: Pod, devices: Devices) -> ClaimsOfPod | None:
    """Return the claims of a pod; `None` if it needs no devices.

    Raises:
        UnusableClaimError: A claim rejects the pod on all nodes.
    """
    claims = claims_of(pod, devices.claims) if pod.spec.resource_claims else []
    requested = extended_resources.requested_resources(pod)
    classes = {name: devices.classes.of_resource(name) for name in requested}
    mapped = {name: found.metadata.name for name, found in classes.items() if found is not None}
    if not claims and not mapped:
        return None
    for claim in claims:
        if claim.status.allocation is None:
            if devices.claims.is_in_flight(claim.uid):
                text = f"resource claim {claim.key} is in the process of being allocated"
                raise UnusableClaimError(text)
            for request in claim.spec.devices.requests:
                _check(claim, request, devices.classes)
    unmapped = tuple(name for name in requested if name not in mapped)
    return ClaimsOfPod(pod, claims, devices, mapped, unmapped)


def _check(claim: ResourceClaim, request: Request, classes: DeviceClasses) -> None:
    if request.exactly is None and not request.first_available:
        text = f"resource claim {claim.key}, request {request.name}: unknown request type"
        raise UnusableClaimError(text)
    names = [(request.name, request.exactly)] if request.exactly is not None else []
    choices = [(f"{request.name}/{each.name}", each) for each in request.first_available]
    for name, wanted in names or choices:
        if classes.get(wanted.device_class_name) is None:
            missing = f"device class {wanted.device_class_name} does not exist"
            raise UnusableClaimError(f"request {name}: {missing}")
