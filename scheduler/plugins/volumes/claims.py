"""The claims of a pod's volumes, and whether the pod owns the claim of an ephemeral volume."""

from scheduler.model.api.objects import Pod
from scheduler.model.api.storage import PersistentVolumeClaim
from scheduler.state.storage.mounts import claim_name, claims_of

__all__ = [
    "claim_name",
    "claims_of",
    "is_claim_of",
    "is_owned",
    "named_claims",
    "names_claim",
    "not_owner",
]


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


def named_claims(pod: Pod) -> list[str]:
    """Return the claim names of a pod, without ephemeral volumes, which no other pod can use."""
    sources = (volume.persistent_volume_claim for volume in pod.spec.volumes)
    return [source.claim_name for source in sources if source is not None]


def names_claim(
    pod: Pod, _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None
) -> bool:
    """Return whether an event is about a claim that a pod names: a queueing hint."""
    if new is None or new.metadata.namespace != pod.metadata.namespace:
        return False
    return new.metadata.name in named_claims(pod)
