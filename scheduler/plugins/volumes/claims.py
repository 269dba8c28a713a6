"""The claims of a pod's volumes, and whether the pod owns the claim of an ephemeral volume."""

from scheduler.model.api.objects import Pod
from scheduler.model.api.storage import PersistentVolumeClaim
from scheduler.state.storage.mounts import claim_name, claims_of

__all__ = ["claim_name", "claims_of", "is_claim_of", "is_owned", "not_owner"]


def is_owned(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """Return whether a claim was created for an ephemeral volume of this pod.

    Source: component-helpers v0.36.3 storage/ephemeral.VolumeIsForPod.
    """
    owner = next((owner for owner in claim.metadata.owner_references if owner.controller), None)
    return owner is not None and owner.uid == pod.uid


def not_owner(claim: PersistentVolumeClaim, pod: Pod) -> str:
    """Return the reason when it was not."""
    return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"


def is_claim_of(claim: PersistentVolumeClaim | None, pod: Pod) -> bool:
    """Return whether the pod refers to a claim: same namespace, and a name that it uses."""
    if claim is None or claim.metadata.namespace != pod.metadata.namespace:
        return False
    return claim.metadata.name in claims_of(pod)
