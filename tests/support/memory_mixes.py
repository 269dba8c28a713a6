"""Pods as API servers send them, to measure the memory that they take.

Forty pods in a row have one owner. Each function returns the pod with a number.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

__all__ = ["MIXES", "NODES", "node", "ordinary"]

#: The pods with numbers are on that many nodes in turn.
NODES: Final = 5000
_REPLICAS: Final = 40
_START: Final = datetime(2026, 1, 1, tzinfo=UTC)
_TIME: Final = "2026-01-01T00:00:00Z"


def plain(number: int) -> dict[str, Any]:
    """Return a pod of the benchmark, of 600 bytes: one container, and nothing that a rule reads."""
    owner = number // _REPLICAS
    return {
        "metadata": {
            "name": f"pod-{number}",
            "namespace": f"ns-{owner % 50}",
            "uid": f"00000000-0000-4000-8000-{number:012d}",
            "resourceVersion": str(1_000_000 + number),
            "labels": {"app": f"app-{owner}"},
            "creationTimestamp": _TIME,
        },
        "spec": {
            "nodeName": f"node-{number % NODES}",
            "schedulerName": "default-scheduler",
            "priority": 0,
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/main",
                    "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
                }
            ],
        },
        "status": {
            "phase": "Running",
            "startTime": _time(number),
            "conditions": [_condition("PodScheduled", _time(number))],
        },
    }


def ordinary(number: int) -> dict[str, Any]:
    """Return a pod of 12 kB, as a Deployment with a sidecar has it, and with a claim of its own."""
    owner = number // _REPLICAS
    pod = plain(number)
    name = f"service-{owner}"
    labels = {
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/instance": name,
        "app.kubernetes.io/version": f"1.{owner % 7}",
        "pod-template-hash": f"{owner:010x}",
        "team": f"team-{owner % 40}",
        "security.istio.io/tlsMode": "istio",
        "service.istio.io/canonical-name": name,
        "service.istio.io/canonical-revision": "latest",
    }
    token = f"kube-api-access-{number:05x}"
    selector = {"matchLabels": {"app.kubernetes.io/name": name}}
    pod["metadata"] |= {
        "generateName": f"{name}-{owner:010x}-",
        "labels": labels,
        "annotations": {"prometheus.io/config": "x" * 1500},
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": f"{name}-{owner:010x}",
                "uid": f"00000000-0000-4000-9000-{owner:012d}",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
        "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {"f:x" * 900: {}}}}],
    }
    pod["spec"] |= {
        "containers": [_container(name, owner, token), _container("istio-proxy", owner, token)],
        "initContainers": [_container("istio-init", owner, token)],
        "volumes": [
            {"name": token, "projected": {"sources": []}},
            {"name": "config", "configMap": {"name": f"config-{owner}"}},
            {"name": "secret", "secret": {"secretName": f"secret-{owner}"}},
            {"name": "data", "persistentVolumeClaim": {"claimName": f"data-{number}"}},
        ],
        "tolerations": [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute",
             "tolerationSeconds": 300}
            for key in ("not-ready", "unreachable")
        ],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": selector,
            }
        ],
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 100,
                        "podAffinityTerm": {
                            "topologyKey": "kubernetes.io/hostname",
                            "labelSelector": selector,
                        },
                    }
                ]
            }
        },
    }  # fmt: skip
    pod["status"] |= {
        "conditions": [
            *(
                _condition(kind, _time(number + delay))
                for delay, kind in enumerate(
                    ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
                )
            ),
            _condition("PodScheduled", _time(number)),
        ],
        "containerStatuses": [_status(name), _status("istio-proxy")],
        "initContainerStatuses": [_status("istio-init")],
        "podIPs": [{"ip": "10.0.0.1"}],
    }
    return pod


def different(number: int) -> dict[str, Any]:
    """Return an ordinary pod that has no part in common with any other pod."""
    pod = ordinary(number * _REPLICAS)
    spec = pod["spec"]
    for container in (*spec["containers"], *spec["initContainers"]):
        container["resources"]["requests"]["cpu"] = f"{100 + number}m"
    for status in pod["status"]["containerStatuses"]:
        status["allocatedResources"]["cpu"] = f"{100 + number}m"
    spec["nodeName"] = f"node-{number % NODES}"
    return pod


def node(number: int) -> dict[str, Any]:
    """Return a node of 10 kB, with twenty labels and fifty images, most of which others have."""
    images = [
        {
            "names": [f"registry.example/team/{name}@sha256:{each:064x}",
                      f"registry.example/team/{name}:{each}"],
            "sizeBytes": 100_000_000 + each,
        }
        for each in range(number % 10, number % 10 + 50)
        for name in (f"service-{each}",)
    ]  # fmt: skip
    return {
        "metadata": {
            "name": f"node-{number}",
            "uid": f"00000000-0000-4000-a000-{number:012d}",
            "resourceVersion": str(number),
            "creationTimestamp": _TIME,
            "labels": {
                "kubernetes.io/hostname": f"node-{number}",
                "topology.kubernetes.io/zone": f"zone-{number % 3}",
                **{f"example.com/label-{each}": f"value-{each}" for each in range(18)},
            },
        },
        "spec": {"podCIDR": "10.0.0.0/24"},
        "status": {
            "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"},
            "conditions": [_condition("Ready", _TIME)],
            "images": images,
        },
    }


def _time(number: int) -> str:
    """Return another time for each number, from a fixed day on."""
    return f"{_START + timedelta(seconds=number):%Y-%m-%dT%H:%M:%SZ}"


def _condition(kind: str, changed: str) -> dict[str, Any]:
    return {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": changed}


def _container(name: str, owner: int, token: str) -> dict[str, Any]:
    mounts = [{"name": f"volume-{each}", "mountPath": f"/mnt/{each}"} for each in range(3)]
    return {
        "name": name,
        "image": f"registry.example/team/{name}:{owner}",
        "env": [{"name": f"VARIABLE_{each}", "value": "x" * 40} for each in range(15)],
        "ports": [{"containerPort": 8080 + each, "name": f"port-{each}"} for each in range(3)],
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"memory": "256Mi"},
        },
        "volumeMounts": [*mounts, {"name": token, "mountPath": "/var/run/secrets"}],
    }


def _status(name: str) -> dict[str, Any]:
    requests = {"cpu": "100m", "memory": "128Mi"}
    return {
        "name": name,
        "imageID": f"sha256:{0:064d}",
        "state": {"running": {"startedAt": _TIME}},
        "allocatedResources": {**requests},
        "resources": {"requests": requests, "limits": {"memory": "256Mi"}},
    }


#: By what distinguishes them on the page about sizing.
MIXES: Final[dict[str, Callable[[int], dict[str, Any]]]] = {
    "plain": plain,
    "ordinary": ordinary,
    "all different": different,
}
