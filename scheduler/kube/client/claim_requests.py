"""The API calls that change resource claims: paths and bodies.

A claim is put back as it was read, with all fields, those included that the scheduler does not
know. Its version makes the API server refuse what is out of date.
"""

from typing import Any

import msgspec

from scheduler.kube.client.client import STRATEGIC_MERGE_PATCH, Request
from scheduler.model.api.devices import EXTENDED_RESOURCE_CLAIM
from scheduler.model.effects import ClaimRef, ClaimWrite, PodRef

__all__ = [
    "create",
    "delete",
    "extended_claim_name",
    "look_up",
    "mapped",
    "put",
    "put_status",
    "release",
]

_RESOURCE = "resourceclaims"
#: Names end here, with a dash and the beginning of the pod's uid.
_LONGEST_STEM = 253 - 9

_json = msgspec.json.encode


def look_up(claim: ClaimRef) -> Request:
    """Read a claim."""
    return Request("get", _RESOURCE, "GET", _path(claim))


def put(claim: ClaimRef, body: dict[str, Any]) -> Request:
    """Write the metadata of a claim."""
    return Request("update", _RESOURCE, "PUT", _path(claim), _json(body))


def put_status(claim: ClaimRef, body: dict[str, Any]) -> Request:
    """Write the status of a claim."""
    path = f"{_path(claim)}/status"
    return Request("update", f"{_RESOURCE}/status", "PUT", path, _json(body))


def release(claim: ClaimRef, pod: PodRef) -> Request:
    """Take a pod out of the consumers of a claim, if it is one of them."""
    gone = {"$patch": "delete", "uid": pod.uid}
    body = {"metadata": {"uid": claim.uid}, "status": {"reservedFor": [gone]}}
    path = f"{_path(claim)}/status"
    return Request(
        "patch", f"{_RESOURCE}/status", "PATCH", path, _json(body), STRATEGIC_MERGE_PATCH
    )


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
    """Create the claim for the extended resources of a pod."""
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod.name,
        "uid": pod.uid,
        "controller": True,
        "blockOwnerDeletion": True,
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


def _path(claim: ClaimRef) -> str:
    return f"/apis/resource.k8s.io/v1/namespaces/{claim.namespace}/{_RESOURCE}/{claim.name}"
