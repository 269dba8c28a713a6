"""What the API server in this process says about the resources that it has.

What kopf asks for, and what tells whether an optional resource is there.
"""

from collections.abc import Collection
from typing import Any, Final

__all__ = ["discovery"]

CORE: Final = "v1"
#: By group and version: plural name, kind, and whether objects have a namespace.
RESOURCES: Final = {
    CORE: [("namespaces", "Namespace", False), ("events", "Event", True)],
    "apiextensions.k8s.io/v1": [("customresourcedefinitions", "CustomResourceDefinition", False)],
    "preemptive-scheduler.io/v1alpha1": [
        ("preemptionpolicies", "PreemptionPolicy", False),
        ("preemptionpolicies/status", "PreemptionPolicy", False),
    ],
    "policy/v1": [("poddisruptionbudgets", "PodDisruptionBudget", True)],
    "apps/v1": [("replicasets", "ReplicaSet", True), ("statefulsets", "StatefulSet", True)],
    "resource.k8s.io/v1": [
        ("deviceclasses", "DeviceClass", False),
        ("resourceslices", "ResourceSlice", False),
        ("devicetaintrules", "DeviceTaintRule", False),
        ("resourceclaims", "ResourceClaim", True),
    ],
}
GROUPS: Final = tuple(version for version in RESOURCES if version != CORE)


def discovery(path: str, absent: Collection[str]) -> dict[str, Any] | None:
    """Return the page of a path; `None` where it is none, or nothing of the version is there."""
    if path == "/api":
        return {"kind": "APIVersions", "versions": [CORE]}
    served = {version: _listed(version, absent) for version in RESOURCES}
    if path == "/apis":
        groups = [_group(version) for version in GROUPS if served[version]]
        return {"kind": "APIGroupList", "groups": groups}
    version = path.removeprefix("/apis/").removeprefix("/api/")
    if not served.get(version):
        return None
    return {"kind": "APIResourceList", "groupVersion": version, "resources": served[version]}


def _listed(version: str, absent: Collection[str]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "singularName": kind.lower(),
            "namespaced": namespaced,
            "kind": kind,
            "verbs": ["list", "patch", "watch"],
        }
        for name, kind, namespaced in RESOURCES[version]
        if name.partition("/")[0] not in absent
    ]


def _group(version: str) -> dict[str, Any]:
    group, _, number = version.partition("/")
    entry = {"groupVersion": version, "version": number}
    return {"name": group, "versions": [entry], "preferredVersion": entry}
