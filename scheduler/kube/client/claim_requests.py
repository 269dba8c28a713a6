"""The API calls that change resource claims: paths and bodies.

Claims are patched, so that fields stay which the scheduler does not know. The version of a claim
makes the API server refuse what is out of date.
"""

from typing import Any

import msgspec

from scheduler.kube.client.client import STRATEGIC_MERGE_PATCH, Request
from scheduler.model.api.device_claims import Allocation
from scheduler.model.api.devices import DELETE_PROTECTION, EXTENDED_RESOURCE_CLAIM
from scheduler.model.effects import ClaimRef, ClaimWrite, PodRef

__all__ = [
    "create",
    "deallocate",
    "delete",
    "extended_claim_name",
    "look_up",
    "mapped",
    "protect",
    "release",
    "reserve",
    "unprotect",
]

_RESOURCE = "resourceclaims"
#: Names end here, with a dash and the beginning of the pod's uid.
_LONGEST_STEM = 253 - 9

_json = msgspec.json.encode


def look_up(claim: ClaimRef) -> Request:
    """Read a claim."""
    return Request("get", _RESOURCE, "GET", _path(claim))


def protect(claim: ClaimRef) -> Request:
    """Add the finalizer that keeps a claim while it has devices."""
    return _patch(claim, {"finalizers": [DELETE_PROTECTION]})


def unprotect(claim: ClaimRef) -> Request:
    """Take that finalizer off a claim."""
    return _patch(claim, {"$deleteFromPrimitiveList/finalizers": [DELETE_PROTECTION]})


def reserve(claim: ClaimRef, pod: PodRef, allocation: Allocation | None, stamp: str) -> Request:
    """Add a pod to the consumers of a claim, with the devices of the claim if it has none yet.

    Args:
        claim: The claim.
        pod: The pod.
        allocation: The devices; `None` where the claim has them.
        stamp: The time of the allocation. It is written with the devices only: the API server
            refuses any later change of an allocation.
    """
    consumer = {"resource": "pods", "name": pod.name, "uid": pod.uid}
    status: dict[str, Any] = {"reservedFor": [consumer]}
    if allocation is not None:
        status["allocation"] = {"allocationTimestamp": stamp, **msgspec.to_builtins(allocation)}
    return _patch_status(claim, status)


def deallocate(claim: ClaimRef) -> Request:
    """Take the devices of a claim in the state that is referred to."""
    return _patch_status(claim, {"allocation": None, "reservedFor": None, "devices": None})


def release(claim: ClaimRef, pod: PodRef) -> Request:
    """Take a pod out of the consumers of a claim in any state, if it is one of them."""
    gone = {"$patch": "delete", "uid": pod.uid}
    anyhow = ClaimRef(claim.namespace, claim.name, claim.uid)
    return _patch_status(anyhow, {"reservedFor": [gone]})


def delete(claim: ClaimRef) -> Request:
    """Delete a claim."""
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": claim.uid}}
    return Request("delete", _RESOURCE, "DELETE", _path(claim), _json(body))


def extended_claim_name(pod: PodRef) -> str:
    """Return the name of the claim for the extended resources of a pod.

    It follows from the pod, so that a repeated request creates no second claim.

    Differs from kube-scheduler, which has the API server generate the last characters.
    """
    stem = f"{pod.name}-extended-resources"[:_LONGEST_STEM].rstrip("-.")
    return f"{stem}-{pod.uid[:8]}"


def create(pod: PodRef, write: ClaimWrite) -> Request:
    """Create the claim for the extended resources of a pod.

    Differs from kube-scheduler, which may update the finalizers of pods, and so may also block
    their deletion where the admission plugin OwnerReferencesPermissionEnforcement is enabled.
    """
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod.name,
        "uid": pod.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "namespace": pod.namespace,
            "name": extended_claim_name(pod),
            "annotations": {EXTENDED_RESOURCE_CLAIM: "true"},
            "ownerReferences": [owner],
        },
        "spec": {"devices": msgspec.to_builtins(write.created_for)},
    }
    path = f"/apis/resource.k8s.io/v1/namespaces/{pod.namespace}/{_RESOURCE}"
    return Request("create", _RESOURCE, "POST", path, _json(body))


def mapped(pod: PodRef, claim: str, write: ClaimWrite) -> Request:
    """Write into a pod's status which claim has the devices for its extended resources."""
    mappings = [
        {
            "containerName": mapping.container_name,
            "resourceName": mapping.resource_name,
            "requestName": mapping.request_name,
        }
        for mapping in write.mappings
    ]
    status = {
        "extendedResourceClaimStatus": {"resourceClaimName": claim, "requestMappings": mappings}
    }
    body = _json({"metadata": {"uid": pod.uid}, "status": status})
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
    return Request("patch", "pods/status", "PATCH", path, body, STRATEGIC_MERGE_PATCH)


def _patch(claim: ClaimRef, metadata: dict[str, Any]) -> Request:
    body = _json({"metadata": {**_precondition(claim), **metadata}})
    return Request("patch", _RESOURCE, "PATCH", _path(claim), body, STRATEGIC_MERGE_PATCH)


def _patch_status(claim: ClaimRef, status: dict[str, Any]) -> Request:
    body = _json({"metadata": _precondition(claim), "status": status})
    path = f"{_path(claim)}/status"
    return Request("patch", f"{_RESOURCE}/status", "PATCH", path, body, STRATEGIC_MERGE_PATCH)


def _precondition(claim: ClaimRef) -> dict[str, str]:
    """Return the metadata that make the API server refuse a patch of another claim or state."""
    metadata = {"uid": claim.uid}
    if claim.version:
        metadata["resourceVersion"] = claim.version
    return metadata


def _path(claim: ClaimRef) -> str:
    return f"/apis/resource.k8s.io/v1/namespaces/{claim.namespace}/{_RESOURCE}/{claim.name}"
