"""Simulates the controllers of pods for `plan`: they re-create evicted and deleted pods.

A new pod is like the old one, with a name and uid of its own and without a node. Other behaviour of
controllers is not simulated: a Job may be out of retries, a Deployment may be scaled.

Source: kube-controller-manager v1.36.3 pkg/controller, podcontrol and statefulset.
"""

import hashlib
import uuid
from typing import Final

from msgspec.structs import replace

from scheduler.model import times
from scheduler.model.api.devices import ClaimStatus, ResourceClaim
from scheduler.model.api.objects import Pod, PodStatus, ResourceClaimStatus
from scheduler.model.api.storage import ObjectPhase, PersistentVolumeClaim
from scheduler.model.base import OwnerReference
from scheduler.model.times import Seconds

__all__ = ["controller_of", "copied_claim", "copied_volume_claim", "recreated", "suffix"]

#: The characters of generated names.
#: Source: apimachinery v0.36.3 pkg/util/rand.
_ALPHANUMS: Final = "bcdfghjklmnpqrstvwxz2456789"
#: The longest name that a suffix is added to.
_MAX_BASE: Final = 58
#: Controllers of pods that a drain leaves: those of every node, and the kubelet for its own pods.
STATEFUL_SET: Final = "StatefulSet"
MIRRORED_BY: Final = "Node"


def controller_of(pod: Pod) -> OwnerReference | None:
    """Return the controller that makes a pod again; `None` if none does."""
    owners = pod.metadata.owner_references
    found = next((owner for owner in owners if owner.controller), None)
    return None if found is None or found.kind == MIRRORED_BY else found


def suffix(text: str) -> str:
    """Return the five characters that end a generated name; the same for the same text."""
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=5).digest()
    return "".join(_ALPHANUMS[byte % len(_ALPHANUMS)] for byte in digest)


def recreated(pod: Pod, now: Seconds) -> Pod | None:
    """Return the pod that the controller of a deleted pod makes; `None` if it has none."""
    controller = controller_of(pod)
    if controller is None:
        return None
    uid = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{pod.uid}.recreated"))
    name = pod.metadata.name
    if controller.kind != STATEFUL_SET:
        name = f"{name.rpartition('-')[0][:_MAX_BASE] or name[:_MAX_BASE]}-{suffix(uid)}"
    metadata = replace(
        pod.metadata,
        name=name,
        uid=uid,
        resource_version="",
        creation_timestamp=times.stamp(now),
        deletion_timestamp=None,
        deletion_grace_period_seconds=None,
    )
    claims = [
        ResourceClaimStatus(entry.name, f"{name}-{entry.name}")
        for entry in pod.spec.resource_claims
        if entry.resource_claim_template_name is not None
    ]
    status = PodStatus(phase="Pending", resource_claim_statuses=claims)
    return replace(pod, metadata=metadata, spec=replace(pod.spec, node_name=""), status=status)


def copied_claim(claim: ResourceClaim, name: str, pod: Pod) -> ResourceClaim:
    """Return the claim for devices that is generated for a pod, like that of its predecessor."""
    metadata = replace(
        claim.metadata,
        name=name,
        uid=_uid(pod, name, "resourceclaim"),
        finalizers=[],
        owner_references=[_owned_by(pod)],
    )
    return replace(claim, metadata=metadata, status=ClaimStatus())


def copied_volume_claim(claim: PersistentVolumeClaim, name: str, pod: Pod) -> PersistentVolumeClaim:
    """Return the volume claim that is generated for a pod, like that of its predecessor."""
    metadata = replace(
        claim.metadata,
        name=name,
        uid=_uid(pod, name, "persistentvolumeclaim"),
        annotations={},
        owner_references=[_owned_by(pod)],
    )
    spec = replace(claim.spec, volume_name="")
    return replace(claim, metadata=metadata, spec=spec, status=ObjectPhase("Pending"))


def _uid(pod: Pod, name: str, kind: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.{pod.uid}.{kind}"))


def _owned_by(pod: Pod) -> OwnerReference:
    return OwnerReference("v1", "Pod", pod.metadata.name, pod.uid, controller=True)
