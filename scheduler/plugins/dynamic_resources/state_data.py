"""The claims of a pod in one scheduling attempt.

PreFilter writes them into `AttemptState.data`, and Filter, Score, PostFilter and Reserve read them.

Source: kube-scheduler v1.36.3 dynamicresources.stateData.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final

from scheduler.framework.cycle_state import AttemptState
from scheduler.model.api.devices import ResourceClaim
from scheduler.model.api.objects import Pod
from scheduler.plugins.dynamic_resources import extended_resources
from scheduler.plugins.dynamic_resources.allocation_cache import ClaimToAllocate
from scheduler.state.devices.devices import Devices

__all__ = ["NAME", "StateData", "get_state_data"]

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
        needed_by_others: Callable[[Pod], frozenset[str]] = lambda _: frozenset(),
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
        self._needed_by_others = needed_by_others
        #: Indices of allocated claims that were not available on a node that passes otherwise.
        #: Filter adds them, PostFilter deallocates one of them.
        self.unavailable_claims: Final[set[int]] = set()

    @cached_property
    def kept(self) -> frozenset[str]:
        """The keys of the claims that nothing frees.

        The pod has devices of them already, or others are about to use them.
        """
        own = (claim for claim in self.user_claims if claim.status.allocation is not None)
        return frozenset([claim.key for claim in own]) | self._needed_by_others(self.pod)

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
