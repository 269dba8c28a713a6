"""The workload objects that pods are created from, with the fields that determine which ones.

They are read more leniently than by an API server: what no controller looks at is not checked.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from scheduler.model.api.objects import Pod
from scheduler.model.base import Int32, ObjectMeta, Value
from scheduler.sim.defaults import Json, mapping

__all__ = [
    "TEMPLATE_HASH",
    "CheckedPod",
    "Existing",
    "MadePod",
    "Owner",
    "Template",
    "Workload",
    "WorkloadSpec",
    "has_pods",
    "owned_object",
    "size_of",
    "uid_of",
]

#: The label by which a Deployment distinguishes its ReplicaSets; their names end with its value.
TEMPLATE_HASH: Final = "pod-template-hash"


class TemplateMeta(Value, frozen=True):
    """Metadata of a pod template."""

    labels: dict[str, str] = {}


class Template(Value, frozen=True):
    """A pod template; its spec is checked in the pods that are made from it."""

    metadata: TemplateMeta = TemplateMeta()
    spec: dict[str, Any] = {}


class Ordinals(Value, frozen=True):
    """The ordinals of a StatefulSet."""

    start: Int32 = 0


class WorkloadSpec(Value, frozen=True):
    """The spec of any workload; each kind has some of these fields."""

    replicas: Int32 | None = None
    template: Template | None = None
    selector: dict[str, Any] = {}
    ordinals: Ordinals | None = None
    volume_claim_templates: list[dict[str, Any]] = []
    parallelism: Int32 | None = None
    completions: Int32 | None = None
    suspend: bool = False
    job_template: dict[str, Any] | None = None


class JobCondition(Value, frozen=True):
    """A condition of a Job."""

    type: str = ""
    status: str = ""


class WorkloadStatus(Value, frozen=True):
    """The status of a Job."""

    succeeded: Int32 = 0
    conditions: list[JobCondition] = []


class Workload(Value, frozen=True):
    """Any workload object."""

    kind: str
    api_version: str
    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()
    template: Template | None = None


@dataclass(frozen=True, slots=True)
class Existing:
    """A pod that exists."""

    name: str
    node: str
    #: Kind, namespace and name of its controller.
    controller: tuple[str, str, str] | None
    #: The name of its Deployment; empty if it has none.
    deployment: str
    #: Whether its controller counts it.
    active: bool

    @classmethod
    def of(cls, pod: Pod) -> "Existing":
        """Return what counts of a pod."""
        metadata = pod.metadata
        owner = next((each for each in metadata.owner_references if each.controller), None)
        controller = None if owner is None else (owner.kind, metadata.namespace, owner.name)
        deployment = ""
        if owner is not None and owner.kind == "ReplicaSet" and TEMPLATE_HASH in metadata.labels:
            # ReplicaSets of Deployments are named so.
            ending = f"-{metadata.labels[TEMPLATE_HASH]}"
            deployment = owner.name.removesuffix(ending) if owner.name.endswith(ending) else ""
        active = not pod.terminal and not pod.terminating
        return cls(metadata.name, pod.spec.node_name, controller, deployment, active)


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller of new pods."""

    api_version: str
    kind: str
    name: str
    uid: str

    @classmethod
    def of(cls, workload: Workload) -> "Owner":
        """Return a workload as the controller of its pods."""
        metadata = workload.metadata
        uid = metadata.uid or uid_of(workload.kind.lower(), metadata.namespace, metadata.name)
        return cls(workload.api_version, workload.kind, metadata.name, uid)

    def reference(self) -> Json:
        """Return the owner reference."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
        }


@dataclass(frozen=True, slots=True)
class MadePod:
    """What distinguishes one pod of a workload."""

    name: str
    labels: Mapping[str, str]
    owner: Owner | None
    #: Fields of the spec that replace those of the template.
    change: Json = field(default_factory=dict)


class CheckedSpec(Value, frozen=True):
    """The parts of the spec of a pod that defaults look into, and rules do not."""

    containers: list[dict[str, Any]] = []
    init_containers: list[dict[str, Any]] = []
    tolerations: list[dict[str, Any]] = []
    volumes: list[dict[str, Any]] = []
    runtime_class_name: str = ""


class CheckedMeta(Value, frozen=True):
    """Metadata of a new pod."""

    name: str
    namespace: str = ""
    labels: dict[str, str] = {}


class CheckedPod(Value, frozen=True):
    """The parts of a new pod that defaults look into, and rules do not."""

    metadata: CheckedMeta
    spec: CheckedSpec = CheckedSpec()


def uid_of(kind: str, namespace: str, name: str) -> str:
    """Return the uid of an object that has none; the same for the same name."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.{namespace}.{kind}"))


def owned_object(version: str, kind: str, name: str, pod: Json, spec: Json) -> Json:
    """Return an object that belongs to a pod."""
    metadata = pod["metadata"]
    owner = Owner("v1", "Pod", metadata["name"], metadata["uid"])
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "uid": uid_of(kind.lower(), metadata["namespace"], name),
            "ownerReferences": [owner.reference()],
        },
        "spec": spec,
    }


def size_of(document: Json) -> int:
    """Return how many values an object has; a long text counts as several."""
    size, todo = 0, [document]
    while todo:
        value: Any = todo.pop()
        size += 1 + (len(value) // 100 if isinstance(value, str) else 0)
        if isinstance(value, dict):
            todo += value.keys()
            todo += value.values()
        elif isinstance(value, list):
            todo += value
    return size


def has_pods(document: Json) -> bool:
    """Return whether an object has a pod template where workloads usually have it."""
    spec = mapping(document.get("spec"))
    templates = (
        spec.get("template"),
        spec.get("podTemplate"),
        mapping(mapping(spec.get("jobTemplate")).get("spec")).get("template"),
        document.get("template"),
    )
    containers = (mapping(mapping(each).get("spec")).get("containers") for each in templates)
    return any(isinstance(found, list) for found in containers) or document["kind"] == "JobSet"
