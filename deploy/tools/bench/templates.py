"""Nodes, pods and volumes as in the benchmark of kube-scheduler.

A template returns the object with an index; `workloads` adds namespace, name and scheduler.

Source: kube-scheduler v1.36.3 test/integration/scheduler_perf, templates.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

Json: TypeAlias = dict[str, Any]
#: Returns an object by its index.
Template: TypeAlias = Callable[[int], Json]

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"

#: The node of workloads with one node, and of pinned pods.
NAMED_NODE: Final = "scheduler-perf-node"

CSI_DRIVER: Final = "ebs.csi.aws.com"
CSI_LIMIT: Final = 39
MIGRATED: Final = "storage.alpha.kubernetes.io/migrated-plugins"

TEAM: Final = {"team": "devops"}
_TEAM_SELECTOR: Final = {"namespaceSelector": {"matchLabels": TEAM}}
_TWO_NAMESPACES: Final = {"namespaces": ["sched-1", "sched-0"]}


# Nodes


def node(name: str, labels: Mapping[str, str] | None = None, pods: int = 110) -> Json:
    """Return a ready node with 4 cores and 32 GiB."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name, **(labels or {})}},
        "status": {
            "capacity": {"cpu": "4", "memory": "32Gi", "pods": str(pods)},
            "conditions": [{"type": "Ready", "status": "True"}],
            "phase": "Running",
        },
    }


def plain_node(index: int) -> Json:
    """Return a node without a zone."""
    return node(f"node-{index}")


def named_node(_: int) -> Json:
    """Return the node with a fixed name and room for 90,000 pods."""
    return node(NAMED_NODE, pods=90_000)


def zoned_node(*zones: str) -> Template:
    """Return a template of nodes that are assigned to zones round-robin."""
    return lambda index: node(f"node-{index}", {ZONE: zones[index % len(zones)]})


# Pods


def pod(
    cpu: str | None = "100m",
    labels: Mapping[str, str] | None = None,
    *,
    memory: str = "500Mi",
    **spec: object,
) -> Template:
    """Return a template of pods with one container.

    Args:
        cpu: request and limit; None for no resources.
        labels: labels of the pod.
        memory: request and limit.
        **spec: additional fields of the spec.
    """
    container: Json = {"name": "pause", "image": "pause"}
    if cpu is not None:
        amounts = {"cpu": cpu, "memory": memory}
        container["ports"] = [{"containerPort": 80}]
        container["resources"] = {"requests": amounts, "limits": amounts}
    made = {"metadata": {"labels": dict(labels or {})}, "spec": {"containers": [container], **spec}}
    return lambda _: made


light_pod: Final = pod(None, terminationGracePeriodSeconds=0)
labelled_pod: Final = pod(None, {"app": "scheduler-perf"})
gated_pod: Final = pod(None, schedulingGates=[{"name": "test.k8s.io/hold"}])
low_priority_pod: Final = pod("900m", terminationGracePeriodSeconds=0)
high_priority_pod: Final = pod("3000m", priority=10)
large_cpu_pod: Final = pod("9", priority=10)
secret_pod: Final = pod(volumes=[{"name": "secret", "secret": {"secretName": "secret"}}])


def pinned_pod() -> Template:
    """Return a template of pods that only one node accepts, as those of a DaemonSet."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [NAMED_NODE]}]
    return pod(None, affinity=_node_affinity({"matchFields": fields}))


def node_affinity_pod() -> Template:
    """Return a template of pods with node affinity to two zones."""
    zones = [{"key": ZONE, "operator": "In", "values": ["zone1", "zone2"]}]
    return pod(affinity=_node_affinity({"matchExpressions": zones}))


def pod_affinity_pod(
    kind: str, color: str, key: str, *, required: bool, team: bool = False
) -> Template:
    """Return a template of pods with affinity or anti-affinity to pods of their color.

    Args:
        kind: podAffinity or podAntiAffinity.
        color: value of the label that they have and select.
        key: the topology key.
        required: whether it is required; if not, it is preferred with weight 1.
        team: whether to select the namespaces of a team; if not, sched-0 and sched-1.
    """
    term = {
        "labelSelector": {"matchLabels": {"color": color}},
        "topologyKey": key,
        **(_TEAM_SELECTOR if team else _TWO_NAMESPACES),
    }
    rule = (
        {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        if required
        else {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "podAffinityTerm": term}
            ]
        }
    )
    return pod(labels={"color": color}, affinity={kind: rule})


def spread_pod(when_unsatisfiable: str) -> Template:
    """Return a template of pods that spread over zones, at most 5 apart."""
    constraint = {
        "maxSkew": 5,
        "topologyKey": ZONE,
        "whenUnsatisfiable": when_unsatisfiable,
        "labelSelector": {"matchLabels": {"color": "blue"}},
    }
    return pod(labels={"color": "blue"}, topologySpreadConstraints=[constraint])


def with_container(made: Json, **fields: object) -> Json:
    """Return a pod whose container has additional fields."""
    (container,) = made["spec"]["containers"]
    return {**made, "spec": {**made["spec"], "containers": [{**container, **fields}]}}


def with_port(made: Json, port: int) -> Json:
    """Return a pod with a host port."""
    return with_container(made, ports=[{"containerPort": port, "hostPort": port}])


def claiming(name: str) -> list[Json]:
    """Return the volumes of a pod that uses a claim."""
    return [{"name": "vol", "persistentVolumeClaim": {"claimName": name}}]


def _node_affinity(term: Json) -> Json:
    terms = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


# Other objects


def service(namespace: str, selector: Mapping[str, str]) -> Json:
    """Return a service that selects pods."""
    return {
        "metadata": {"name": "service", "namespace": namespace},
        "spec": {"selector": dict(selector), "ports": [{"port": 80, "targetPort": 8000}]},
    }


def csi_node(name: str, volumes: int) -> Json:
    """Return the CSINode with a limit of volumes; in-tree disks are migrated."""
    driver = {"name": CSI_DRIVER, "nodeID": name, "allocatable": {"count": volumes}}
    annotations = {MIGRATED: "kubernetes.io/aws-ebs"}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": {"drivers": [driver]}}


def volume(name: str, namespace: str, claim: str, *, csi: bool, access: str) -> Json:
    """Return a volume that is bound to a claim."""
    source = (
        {"csi": {"driver": CSI_DRIVER, "volumeHandle": name}}
        if csi
        else {"awsElasticBlockStore": {"volumeID": f"vol-{name}"}}
    )
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": [access],
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim},
            **source,
        },
    }


def claim(name: str, namespace: str, volume_name: str, access: str) -> Json:
    """Return a claim that is bound to a volume."""
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": {"pv.kubernetes.io/bind-completed": "true"},
        },
        "spec": {
            "accessModes": [access],
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeName": volume_name,
            "storageClassName": "",
        },
    }
