"""Which kinds of objects a what-if knows, and whether an object is one at all.

Kinds of Kubernetes without pods are known: a file with a Deployment often has a Service and a
ConfigMap, too. For any other kind a warning says that no pods are made from it: an API server would
refuse the object, or a what-if cannot know what its controller would create.

Source: kubernetes v1.37.2 pkg/apis/*/register.go.
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Final

from scheduler.config import names, policies
from scheduler.model.api.kinds import KINDS
from scheduler.observe.logs.escape import shortened
from scheduler.sim import workload_kinds

__all__ = [
    "MAX_UNKNOWN",
    "UnknownKinds",
    "is_known",
    "problem_of_metadata",
    "problem_of_namespace",
    "unknown",
]

#: How many unknown kinds are named.
MAX_UNKNOWN: Final = 20
#: The longest text of an object that a message repeats.
_LONGEST: Final = 80
_MAX_LABEL: Final = 63
_MAX_NAME: Final = 253

#: Kinds that make no pods and that no rule reads, by API group.
_WITHOUT_PODS: Final[Mapping[str, frozenset[str]]] = {
    group: frozenset(kinds.split())
    for group, kinds in {
        "": "Binding ComponentStatus ConfigMap Endpoints Event LimitRange ResourceQuota Secret"
        " ServiceAccount",
        "admissionregistration.k8s.io": "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding"
        " MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding"
        " ValidatingWebhookConfiguration",
        "apiextensions.k8s.io": "CustomResourceDefinition",
        "apiregistration.k8s.io": "APIService",
        "apps": "ControllerRevision",
        "autoscaling": "HorizontalPodAutoscaler Scale",
        "certificates.k8s.io": "CertificateSigningRequest ClusterTrustBundle PodCertificateRequest",
        "coordination.k8s.io": "Lease LeaseCandidate",
        "discovery.k8s.io": "EndpointSlice",
        "events.k8s.io": "Event",
        "flowcontrol.apiserver.k8s.io": "FlowSchema PriorityLevelConfiguration",
        "networking.k8s.io": "IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR",
        "node.k8s.io": "RuntimeClass",
        "policy": "Eviction",
        "rbac.authorization.k8s.io": "ClusterRole ClusterRoleBinding Role RoleBinding",
        "resource.k8s.io": "ResourceClaimTemplate",
        "scheduling.k8s.io": "PriorityClass",
        "storage.k8s.io": "VolumeAttributesClass",
    }.items()
}


def _read() -> dict[str, list[str]]:
    """Return the versions that are read, by kind."""
    found: dict[str, list[str]] = {policies.KIND: [policies.API_VERSION]}
    for version, kind in KINDS.values():
        found.setdefault(kind, []).append(version)
    for group, kind in workload_kinds.KINDS:
        version = f"{group}/v1" if group else "v1"
        if version not in found.setdefault(kind, []):
            found[kind].append(version)
    return found


_READ: Final = _read()
#: As they are written, by kinds in lower case.
_WRITTEN: Final = {kind.lower(): kind for kind in _READ}


def is_known(kind: str, version: str) -> bool:
    """Return whether a what-if knows which pods objects of a kind have."""
    group = version.rpartition("/")[0]
    return version in _READ.get(kind, ()) or kind in _WITHOUT_PODS.get(group, ())


def unknown(kind: str, version: str) -> str:
    """Return why an object makes no pods if its kind is not known; empty if it is."""
    if is_known(kind, version):
        return ""
    text = (
        f"kind {shortened(kind, _LONGEST)} of {shortened(version, _LONGEST)} is not known, so it"
        " makes no pods in this plan"
    )
    meant = _WRITTEN.get(kind.lower())
    return f"{text}; {meant} of {_READ[meant][0]} is" if meant else text


class UnknownKinds:
    """What is said of objects whose kinds are not known: one line for each of the first kinds."""

    def __init__(self) -> None:
        #: The line about the first object, and how many objects there are, by kind and version.
        self._kinds: dict[tuple[str, str], tuple[str, int]] = {}

    def note(self, kind: str, version: str, text: str) -> None:
        """Note an object with what would be said if it was the only one of its kind."""
        first, count = self._kinds.get((kind, version), (text, 0))
        self._kinds[kind, version] = first, count + 1

    def warnings(self) -> Iterator[str]:
        """Yield a line for each kind, and one for those beyond `MAX_UNKNOWN`."""
        for text, count in itertools.islice(self._kinds.values(), MAX_UNKNOWN):
            yield f"{text} ({count} objects)" if count > 1 else text
        more = len(self._kinds) - MAX_UNKNOWN
        if more > 0:
            yield f"{more} more kinds are not known, so they make no pods in this plan"


def problem_of_metadata(document: Mapping[str, Any]) -> str:
    """Return what is wrong with the metadata of an object; empty if nothing is."""
    metadata = document.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        return "metadata is not an object"
    metadata = metadata or {}
    for field in ("name", "namespace"):
        if not isinstance(metadata.get(field) or "", str):
            return f"metadata.{field} is not a string"
    if not metadata.get("name"):
        generated = "; names are not generated in a plan" if metadata.get("generateName") else ""
        return f"metadata.name is missing{generated}"
    if document["kind"] in _READ and not metadata.get("uid"):
        return _problem_of_names(metadata)
    return ""


def problem_of_namespace(text: str) -> str:
    """Return why a text cannot be the namespace of objects; empty if it can."""
    return "" if _is_name(text, _MAX_LABEL) else f"namespace: {_invalid(text)}"


def _problem_of_names(metadata: Mapping[str, Any]) -> str:
    """Return which name of a new object an API server would refuse; empty if none.

    The names of pods are made from them, and messages have them.
    """
    for field, longest in (("name", _MAX_NAME), ("namespace", _MAX_LABEL)):
        text = metadata.get(field) or ""
        if text and not _is_name(text, longest):
            return f"metadata.{field}: {_invalid(text)}"
    return ""


def _is_name(text: str, longest: int) -> bool:
    return len(text) <= longest and text.isascii() and not names.subdomain(text)


def _invalid(text: str) -> str:
    return f"{shortened(text, _LONGEST)!r} is not a valid name"
