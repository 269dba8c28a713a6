"""Node objects for nodes that KWOK simulates."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deploy.tools.controlplane.components import KWOK_NODE, LOOPBACK

#: The taint of a node that is not ready.
NOT_READY = "node.kubernetes.io/not-ready"


@dataclass(frozen=True, kw_only=True)
class NodeShape:
    """The properties that created nodes share."""

    cpu: str = "8"
    memory: str = "32Gi"
    pods: int = 110
    #: Additional resources, e.g. {"example.com/gpu": "4"}.
    resources: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    #: Zones are assigned round-robin; empty for no zones.
    zones: tuple[str, ...] = ()
    #: Whether KWOK simulates the kubelet; if not, pods that are bound to the node stay Pending.
    played: bool = True


def node(name: str, index: int, shape: NodeShape) -> dict[str, Any]:
    """Return a Node as its kubelet would register it."""
    labels = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        **shape.labels,
    }
    if shape.zones:
        labels["topology.kubernetes.io/zone"] = shape.zones[index % len(shape.zones)]
    resources = {
        "cpu": shape.cpu,
        "memory": shape.memory,
        "pods": str(shape.pods),
        "ephemeral-storage": "100Gi",
        **shape.resources,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": dict([KWOK_NODE]) if shape.played else {},
        },
        "spec": {"taints": [dict(taint) for taint in shape.taints]},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "addresses": [
                {"type": "InternalIP", "address": LOOPBACK},
                {"type": "Hostname", "address": name},
            ],
        },
    }


def is_ready(node: Mapping[str, Any]) -> bool:
    """Return whether a node is Ready and has no not-ready taint."""
    taints = node["spec"].get("taints") or ()
    conditions = node.get("status", {}).get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions) and not any(
        taint["key"] == NOT_READY for taint in taints
    )
