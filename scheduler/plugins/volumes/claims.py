"""The claims behind the volumes of a pod, and whether an ephemeral one is really its own."""

from scheduler.model.api.objects import Pod
from scheduler.model.api.storage import PersistentVolumeClaim
from scheduler.state.storage.mounts import claim_name, claims_of

__all__ = ["claim_name", "claims_of", "is_claim_of", "is_owned", "not_owner"]


def is_owned(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """Return whether a claim was made for an ephemeral volume of this very pod.

    Source: component-helpers v0.36.3 storage/ephemeral.VolumeIsForPod.
    """
    owner = next((each for each in claim.metadata.owner_references if each.controller), None)
    return owner is not None and owner.uid == pod.uid


def not_owner(claim: PersistentVolumeClaim, pod: Pod) -> str:
    """Return what to say where it was not."""
    return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"


def is_claim_of(claim: PersistentVolumeClaim | None, pod: Pod) -> bool:
    """Return whether a claim bears a name that the pod asks for, in its namespace."""
    if claim is None or claim.metadata.namespace != pod.metadata.namespace:
        return False
    return claim.metadata.name in claims_of(pod)
