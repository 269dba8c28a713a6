"""The claims of a pod in one scheduling attempt: PreFilter's result for the later extension points.

Source: kube-scheduler v1.36.3 dynamicresources.stateData, PreFilter.
"""

from collections.abc import Mapping
from typing import Final

from scheduler.framework.cycle_state import AttemptState
from scheduler.model.api.device_claims import Request
from scheduler.model.api.devices import ResourceClaim
from scheduler.model.api.objects import Pod
from scheduler.plugins.dynamic_resources import extended_resources
from scheduler.plugins.dynamic_resources.allocation_cache import ClaimToAllocate
from scheduler.plugins.dynamic_resources.pod_claims import UnusableClaimError, pod_resource_claims
from scheduler.state.devices.device_classes import DeviceClasses
from scheduler.state.devices.devices import Devices

__all__ = ["NAME", "StateData", "get_state_data", "pre_filter"]

#: The name of the plugin, and the key of its state in `AttemptState.data`.
NAME: Final = "DynamicResources"


class StateData:
    """The claims of a pod in one attempt."""

    def __init__(
        self,
        pod: Pod,
        claims: list[ResourceClaim],
        devices: Devices,
        class_names: Mapping[str, str],
        unmapped: tuple[str, ...],
    ) -> None:
        self.pod: Final = pod
        #: The claims that the pod names, in their order.
        self.user_claims: Final = claims
        #: The device class by extended resource, for the resources that classes provide.
        self.class_names: Final = class_names
        #: Extended resources that the pod requests, and no class provides.
        self.unmapped: Final = unmapped
        tracker = devices.claims
        #: The claim for extended resources that an earlier attempt has created.
        self.extended_resource_claim: Final = (
            tracker.extended_resource_claim_of(pod.uid) if class_names else None
        )
        self.to_allocate: Final = [
            ClaimToAllocate(claim.key, claim.uid, claim.spec.devices, tracker.encoded_spec(claim))
            for claim in claims
            if claim.status.allocation is None
        ]
        #: Indices of allocated claims that were not available on a node that passes otherwise.
        #: Filter adds them, PostFilter deallocates one of them.
        self.unavailable_claims: Final[set[int]] = set()

    @property
    def must_delete_claim_first(self) -> bool:
        """Whether an earlier claim for extended resources rejects all nodes until it is deleted."""
        claim = self.extended_resource_claim
        return claim is not None and bool(claim.spec.devices.requests)

    def requests_and_mappings(
        self, resources: tuple[str, ...]
    ) -> extended_resources.RequestsAndMappings:
        """Return the requests for the extended resources that a node provides by devices."""
        return extended_resources.create_requests_and_mappings(
            self.pod, {name: self.class_names[name] for name in resources}
        )

    def claims_to_allocate(self, resources: tuple[str, ...]) -> list[ClaimToAllocate]:
        """Return the claims to allocate on a node that provides some resources by devices.

        The last one is the special claim for these resources, which exists in memory only. Differs
        from kube-scheduler, which makes one without requests for a pod that has claims of its own;
        the API server rejects the status of the pod then.
        """
        if not resources:
            return self.to_allocate
        name = extended_resources.SPECIAL_CLAIM_IN_MEMORY_NAME
        special_claim = ClaimToAllocate.in_memory(
            f"{self.pod.metadata.namespace}/{name}",
            f"{self.pod.uid}/{name}",
            self.requests_and_mappings(resources).spec,
        )
        return [*self.to_allocate, special_claim]


def get_state_data(state: AttemptState) -> StateData | None:
    """Return the state that PreFilter has written; `None` if the pod needs no devices."""
    data = state.data.get(NAME)
    return data if isinstance(data, StateData) else None


def pre_filter(pod: Pod, devices: Devices) -> StateData | None:
    """Return the claims of a pod; `None` if it needs no devices.

    Raises:
        UnusableClaimError: A claim rejects the pod on all nodes.
    """
    claims = pod_resource_claims(pod, devices.claims) if pod.spec.resource_claims else []
    requested = extended_resources.requested_resources(pod)
    classes = {name: devices.classes.of_resource(name) for name in requested}
    names = {name: item.metadata.name for name, item in classes.items() if item is not None}
    if not claims and not names:
        return None
    for claim in claims:
        if claim.status.allocation is None:
            if devices.claims.is_in_flight(claim.uid):
                text = f"resource claim {claim.key} is in the process of being allocated"
                raise UnusableClaimError(text)
            for request in claim.spec.devices.requests:
                _validate_device_classes(claim, request, devices.classes)
    unmapped = tuple(name for name in requested if name not in names)
    return StateData(pod, claims, devices, names, unmapped)


def _validate_device_classes(
    claim: ResourceClaim, request: Request, classes: DeviceClasses
) -> None:
    if request.exactly is None and not request.first_available:
        text = f"resource claim {claim.key}, request {request.name}: unknown request type"
        raise UnusableClaimError(text)
    exact = [(request.name, request.exactly)] if request.exactly is not None else []
    subs = [(f"{request.name}/{sub.name}", sub) for sub in request.first_available]
    for name, alternative in exact or subs:
        if classes.get(alternative.device_class_name) is None:
            missing = f"device class {alternative.device_class_name} does not exist"
            raise UnusableClaimError(f"request {name}: {missing}")
