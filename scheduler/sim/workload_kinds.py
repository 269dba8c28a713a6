"""How many pods each kind of workload has, and what they are called.

A pod is made for each replica that does not exist yet. Pods that exist are kept as they are, also
where the template has changed: a rollout is not simulated.

Source: kube-controller-manager v1.36.3 pkg/controller: deployment, replicaset, statefulset, daemon,
job, cronjob.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from scheduler.model.api.objects import Node, Toleration
from scheduler.model.api.pod_spec import PodSpec
from scheduler.model.api.selectors import Tolerations, matches_node_selection, untolerated
from scheduler.model.base import ObjectMeta
from scheduler.sim.defaults import Json, mapping, sequence
from scheduler.sim.manifests import ManifestError
from scheduler.sim.recreation import suffix
from scheduler.sim.workload_objects import (
    TEMPLATE_HASH,
    Existing,
    MadePod,
    Owner,
    Template,
    Workload,
    uid_of,
)

__all__ = ["KINDS", "Around", "MadePods"]

#: The most pairs of a DaemonSet and a node.
MAX_LOOKED_AT: Final = 1_000_000
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_KEEPS_OFF: Final = frozenset({"NoSchedule", "NoExecute"})
#: Conditions of Jobs that have no pods any more, or soon.
_ENDED: Final = frozenset({"Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"})
#: What pods of DaemonSets tolerate.
#: Source: kube-controller-manager v1.36.3 daemon/util.AddOrUpdateDaemonPodTolerations.
_OF_DAEMONS: Final = tuple(
    {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect}
    for name, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)
_OF_HOST_NETWORK: Final = {
    "key": "node.kubernetes.io/network-unavailable",
    "operator": "Exists",
    "effect": "NoSchedule",
}


@dataclass(slots=True)
class Around:
    """What the pods of a workload depend on."""

    #: Called with the number of pods before they are made; raises if there are too many.
    count: Callable[[int], None]
    #: Pods that exist and that their controller counts, by its kind, namespace and name.
    owned: dict[tuple[str, str, str], list[Existing]] = field(default_factory=dict)
    #: Names of the ReplicaSets of each Deployment, by its namespace and name.
    replica_sets: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    #: How many nodes were looked at, for all DaemonSets together.
    looked_at: int = 0

    def look_at(self, nodes: int) -> None:
        """Count nodes that are looked at for a DaemonSet.

        Raises:
            ManifestError: There are too many.
        """
        self.looked_at += nodes
        if self.looked_at > MAX_LOOKED_AT:
            raise ManifestError(
                f"more than {MAX_LOOKED_AT} pairs of a DaemonSet and a node: plan fewer at once"
            )

    def pods_of(self, workload: Workload) -> list[Existing]:
        """Return the pods that a workload has."""
        metadata = workload.metadata
        return self.owned.get((workload.kind, metadata.namespace, metadata.name), [])


@dataclass(slots=True)
class MadePods:
    """The pods of a workload that do not exist yet, and what comes with them."""

    template: Template
    pods: list[MadePod] = field(default_factory=list)
    #: Objects that the controller makes before the pods.
    objects: list[Json] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def _deployment(workload: Workload, around: Around) -> MadePods:
    namespace, name = workload.metadata.namespace, workload.metadata.name
    known = around.replica_sets.get((namespace, name), [])
    owned = {each: around.owned.get(("ReplicaSet", namespace, each), []) for each in known}
    made = _started(workload)
    exist = sum(map(len, owned.values()))
    missing = _missing(made, around, _or(workload.spec.replicas, 1), exist)
    template = made.template
    # The ReplicaSet with the most pods is taken for the current one.
    current = max(owned, key=lambda each: len(owned[each]), default="")
    digest = current.removeprefix(f"{name}-") if current else _template_hash(template)
    current = current or f"{name}-{digest}"
    owner = Owner("apps/v1", "ReplicaSet", current, uid_of("replicaset", namespace, current))
    if current not in owned:
        made.objects.append(_replica_set(workload, owner, digest))
    labels = {**template.metadata.labels, TEMPLATE_HASH: digest}
    made.pods = _numbered(owner, labels, len(owned.get(current, ())), missing)
    return made


def _replica_set(workload: Workload, owner: Owner, digest: str) -> Json:
    given = workload.spec.selector or {"matchLabels": dict(_template(workload).metadata.labels)}
    matching = {**mapping(given.get("matchLabels")), TEMPLATE_HASH: digest}
    namespace = workload.metadata.namespace
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "metadata": {"name": owner.name, "namespace": namespace, "uid": owner.uid},
        "spec": {"selector": {**given, "matchLabels": matching}},
    }


def _replicas(workload: Workload, around: Around) -> MadePods:
    """Return the pods of a ReplicaSet or a ReplicationController."""
    made, exist = _started(workload), len(around.pods_of(workload))
    missing = _missing(made, around, _or(workload.spec.replicas, 1), exist)
    labels = made.template.metadata.labels
    made.pods = _numbered(Owner.of(workload), labels, exist, missing)
    return made


def _stateful_set(workload: Workload, around: Around) -> MadePods:
    spec, owner, made = workload.spec, Owner.of(workload), _started(workload)
    exist = {pod.name for pod in around.pods_of(workload)}
    first = 0 if spec.ordinals is None else spec.ordinals.start
    wanted = max(0, _or(spec.replicas, 1))
    _missing(made, around, wanted, len(exist))
    templates = [
        (str(mapping(each.get("metadata")).get("name", "")), mapping(each.get("spec")))
        for each in spec.volume_claim_templates
    ]
    of_templates = {volume for volume, _ in templates}
    others = [
        each
        for each in sequence(made.template.spec.get("volumes"))
        if str(mapping(each).get("name")) not in of_templates
    ]
    for ordinal in range(first, first + wanted):
        name = f"{owner.name}-{ordinal}"
        if name in exist:
            continue
        labels = {
            **made.template.metadata.labels,
            "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": str(ordinal),
        }
        claims = [(volume, f"{volume}-{name}", claim) for volume, claim in templates]
        made.objects += [_volume_claim(workload, claim, body) for _, claim, body in claims]
        mounts = [
            {"name": volume, "persistentVolumeClaim": {"claimName": claim}}
            for volume, claim, _ in claims
        ]
        change = {"volumes": [*others, *mounts]} if mounts else {}
        made.pods.append(MadePod(name, labels, owner, change))
    return made


def _volume_claim(workload: Workload, name: str, spec: Json) -> Json:
    """Return a volume claim of a StatefulSet, which stays when its pod is deleted."""
    namespace = workload.metadata.namespace
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid_of("persistentvolumeclaim", namespace, name),
        },
        "spec": spec,
    }


def _daemon_set(workload: Workload, around: Around) -> MadePods:
    """Return a pod for each node that the pods may run on.

    Source: kube-controller-manager v1.36.3 daemon.NodeShouldRunDaemonPod.
    """
    owner, made = Owner.of(workload), _started(workload)
    template = made.template.spec
    try:
        spec = msgspec.convert(template, PodSpec, strict=False)
    except msgspec.ValidationError as error:
        raise ManifestError(f"spec.template.spec: {error}") from error
    around.look_at(len(around.nodes))
    added = [*_OF_DAEMONS, *([_OF_HOST_NETWORK] if spec.host_network else [])]
    tolerations = Tolerations(
        [*spec.tolerations, *(msgspec.convert(each, Toleration) for each in added)]
    )
    nodes = [
        name
        for name, node in around.nodes.items()
        if matches_node_selection(spec, node)
        and spec.node_name in ("", name)
        and untolerated(node.spec.taints, tolerations, _KEEPS_OFF) is None
    ]
    exist = {pod.node for pod in around.pods_of(workload)}
    missing = [name for name in nodes if name not in exist]
    _missing(made, around, len(nodes), len(nodes) - len(missing))
    affinity = mapping(template.get("affinity"))
    of_node = mapping(affinity.get("nodeAffinity"))
    tolerated = [*sequence(template.get("tolerations")), *added]
    for node in missing:
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        required = {**of_node, _REQUIRED: {"nodeSelectorTerms": [term]}}
        change = {"affinity": {**affinity, "nodeAffinity": required}, "tolerations": tolerated}
        name = f"{owner.name}-{suffix(f'{owner.uid}.{node}')}"
        made.pods.append(MadePod(name, made.template.metadata.labels, owner, change))
    return made


def _job(workload: Workload, around: Around) -> MadePods:
    """Return the pods that a Job runs at the same time."""
    spec, owner, made = workload.spec, Owner.of(workload), _started(workload)
    conditions = workload.status.conditions
    if any(each.type in _ENDED and each.status == "True" for each in conditions):
        return made
    if spec.suspend:
        made.warnings.append("is suspended, so it has no pods")
        return made
    at_once = _or(spec.parallelism, 1)
    left = _or(spec.completions, at_once) - workload.status.succeeded
    exist = len(around.pods_of(workload))
    missing = _missing(made, around, max(0, min(at_once, left)), exist)
    labels = {
        **made.template.metadata.labels,
        "batch.kubernetes.io/job-name": owner.name,
        "batch.kubernetes.io/controller-uid": owner.uid,
        "job-name": owner.name,
        "controller-uid": owner.uid,
    }
    made.pods = _numbered(owner, labels, exist, missing)
    return made


def _cron_job(workload: Workload, around: Around) -> MadePods:
    """Return the pods of one run of a CronJob."""
    name, namespace = workload.metadata.name, workload.metadata.namespace
    try:
        run = msgspec.convert(
            {"kind": "Job", "apiVersion": "batch/v1", "spec": workload.spec.job_template["spec"]}
            if workload.spec.job_template and "spec" in workload.spec.job_template
            else {},
            Workload,
            strict=False,
        )
    except msgspec.ValidationError as error:
        raise ManifestError(f"spec.jobTemplate: {error}") from error
    metadata = ObjectMeta(name=f"{name}-{suffix(name)}", namespace=namespace)
    made = _job(msgspec.structs.replace(run, metadata=metadata), around)
    made.warnings.append("is planned as one run of it")
    return made


def _pod_template(workload: Workload, around: Around) -> MadePods:
    """Return one pod of a PodTemplate."""
    around.count(1)
    template = workload.template or Template()
    name = f"{workload.metadata.name}-{suffix(workload.metadata.name)}"
    return MadePods(template, [MadePod(name, template.metadata.labels, None)])


#: What makes the pods of each kind, by API group and kind.
KINDS: Final[Mapping[tuple[str, str], Callable[[Workload, Around], MadePods]]] = {
    ("apps", "Deployment"): _deployment,
    ("apps", "ReplicaSet"): _replicas,
    ("", "ReplicationController"): _replicas,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
    ("", "PodTemplate"): _pod_template,
}


def _template(workload: Workload) -> Template:
    return workload.spec.template or Template()


def _started(workload: Workload) -> MadePods:
    return MadePods(_template(workload))


def _missing(made: MadePods, around: Around, wanted: int, exist: int) -> int:
    """Return how many pods a workload lacks; warn where some exist."""
    missing = max(0, wanted - exist)
    around.count(missing)
    if exist:
        made.warnings.append(
            f"has {exist} of {max(wanted, 0)} pods already; they are kept as they are, also where"
            " the template has changed"
        )
    return missing


def _numbered(owner: Owner, labels: Mapping[str, str], first: int, count: int) -> list[MadePod]:
    """Return pods with generated names."""
    names = (f"{owner.name}-{suffix(f'{owner.uid}.{first + index}')}" for index in range(count))
    return [MadePod(name, labels, owner) for name in names]


def _template_hash(template: Template) -> str:
    """Return what distinguishes the pods of a template: ten characters, as upstream has them."""
    text = msgspec.json.encode(template, order="deterministic").decode()
    return suffix(text) + suffix(text[::-1])


def _or(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value
