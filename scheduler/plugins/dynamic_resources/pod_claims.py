"""The resource claims of a pod, and whether they can be used at all.

Source: kube-scheduler v1.36.3 dynamicresources.foreachPodResourceClaim;
dynamic-resource-allocation v0.36.3 resourceclaim.Name, IsForPod.
"""

from collections.abc import Iterator

from scheduler.model.api.devices import ResourceClaim
from scheduler.model.api.objects import Pod
from scheduler.state.devices.resource_claims import ClaimTracker

__all__ = ["UnusableClaimError", "pod_resource_claims"]


class UnusableClaimError(Exception):
    """A claim of a pod is missing, or cannot be used."""


def _claim_names(pod: Pod) -> Iterator[tuple[str, bool]]:
    """Yield the name of each claim of a pod, and whether it was generated from a template.

    Raises:
        UnusableClaimError: A claim does not exist yet.
    """
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_name is not None:
            yield entry.resource_claim_name, False
        elif entry.resource_claim_template_name is None:
            raise UnusableClaimError(
                f'pod "{pod.key}", spec.resourceClaim "{entry.name}": none of the supported '
                "fields are set"
            )
        else:
            statuses = pod.status.resource_claim_statuses
            status = next((item for item in statuses if item.name == entry.name), None)
            if status is None:
                raise UnusableClaimError(f'pod "{pod.key}": ResourceClaim not created yet')
            if status.resource_claim_name is not None:
                yield status.resource_claim_name, True


def pod_resource_claims(pod: Pod, tracker: ClaimTracker) -> list[ResourceClaim]:
    """Return the claims of a pod in their order.

    Raises:
        UnusableClaimError: A claim is missing, or cannot be used.
    """
    claims = []
    namespace = pod.metadata.namespace
    for name, generated in _claim_names(pod):
        claim = tracker.get(f"{namespace}/{name}")
        if claim is None:
            raise UnusableClaimError(f'could not find ResourceClaim "{namespace}/{name}"')
        if claim.metadata.deletion_timestamp is not None:
            raise UnusableClaimError(f'resourceclaim "{name}" is being deleted')
        if generated and not _is_for_pod(claim, pod):
            raise UnusableClaimError(
                f"ResourceClaim {claim.key} was not created for Pod {pod.key} (Pod is not owner)"
            )
        claims.append(claim)
    return claims


def _is_for_pod(claim: ResourceClaim, pod: Pod) -> bool:
    owners = claim.metadata.owner_references
    return any(owner.controller and owner.uid == pod.uid for owner in owners)
