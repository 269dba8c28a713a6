"""The API objects, with only the fields that some rule reads.

Lines of a watch are decoded from bytes directly into these types; unknown fields are skipped by the
decoder, so an object costs microseconds and a few kilobytes. Objects are values, which never change
after they are decoded. Field names are those of the API, in snake case.

A field whose absence differs in meaning from an empty value is `None` if it is absent.
"""

from typing import Final, TypeAlias

import msgspec

from scheduler.model.api.pod_spec import (
    ISCSI,
    RBD,
    Affinity,
    AWSElasticBlockStore,
    ClaimVolume,
    Container,
    ContainerPort,
    EphemeralVolume,
    GCEPersistentDisk,
    ImageVolume,
    InlineCSI,
    LabelSelector,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PodResourceClaim,
    PodSpec,
    Requirement,
    ResourceRequirements,
    RestartRule,
    SchedulingGate,
    Toleration,
    TopologySpreadConstraint,
    Volume,
    WeightedNodeTerm,
    WeightedPodAffinityTerm,
)
from scheduler.model.base import (
    REST,
    AnnotatedMeta,
    Int32,
    Int64,
    ObjectMeta,
    OwnerReference,
    Quantities,
    Value,
)
from scheduler.model.effects import PodRef

__all__ = [
    "DISRUPTION_TARGET",
    "ISCSI",
    "PREEMPTION_BY_SCHEDULER",
    "RBD",
    "SCHEDULED",
    "TERMINAL_PHASES",
    "AWSElasticBlockStore",
    "Affinity",
    "ClaimVolume",
    "Condition",
    "Container",
    "ContainerImage",
    "ContainerPort",
    "ContainerStatus",
    "EphemeralVolume",
    "ExtendedResourceClaimStatus",
    "GCEPersistentDisk",
    "ImageVolume",
    "InlineCSI",
    "LabelSelector",
    "LabelsSpec",
    "LocalObject",
    "Node",
    "NodeAffinity",
    "NodeMeta",
    "NodeSelector",
    "NodeSelectorTerm",
    "NodeSpec",
    "NodeStatus",
    "ObjectMeta",
    "OwnerReference",
    "PdbSpec",
    "PdbStatus",
    "Pod",
    "PodAffinity",
    "PodAffinityTerm",
    "PodDisruptionBudget",
    "PodResourceClaim",
    "PodSpec",
    "PodStatus",
    "Quantities",
    "ReplicaSet",
    "ReplicationController",
    "Requirement",
    "ResourceClaimStatus",
    "ResourceRequirements",
    "RestartRule",
    "SchedulingGate",
    "SelectorSpec",
    "Service",
    "StatefulSet",
    "Taint",
    "Toleration",
    "TopologySpreadConstraint",
    "Volume",
    "WeightedNodeTerm",
    "WeightedPodAffinityTerm",
    "Workload",
]


#: Annotations of nodes that are not kept; the second one is the whole object as it was applied.
_NOT_OF_NODES: Final = frozenset({REST, "kubectl.kubernetes.io/last-applied-configuration"})
#: The condition that says whether a pod is bound.
SCHEDULED: Final = "PodScheduled"
#: The condition that says why a pod is about to be terminated.
DISRUPTION_TARGET: Final = "DisruptionTarget"
#: The reason of that condition where a scheduler preempts the pod.
PREEMPTION_BY_SCHEDULER: Final = "PreemptionByScheduler"


class LocalObject(Value, frozen=True):
    """An object of which only the identity and the labels matter (a Namespace)."""

    metadata: ObjectMeta = ObjectMeta()


class Condition(Value, frozen=True):
    """A condition of a pod, node or claim."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    #: Kept only for the condition that a pod is bound: for others it would cost memory, and no rule
    #: reads it.
    last_transition_time: str | None = None

    def __post_init__(self) -> None:
        """Drop a timestamp that no rule reads."""
        if self.last_transition_time is not None and not (
            self.type == SCHEDULED and self.status == "True"
        ):
            msgspec.structs.force_setattr(self, "last_transition_time", None)


class ContainerStatus(Value, frozen=True):
    """The resources that the kubelet granted a container; read for in-place resizes."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: Quantities = {}


class ResourceClaimStatus(Value, frozen=True):
    """The claim that was generated for an entry of `resourceClaims`."""

    name: str = ""
    resource_claim_name: str | None = None


class ExtendedResourceClaimStatus(Value, frozen=True):
    """The claim that a scheduler made for the extended resources of a pod."""

    resource_claim_name: str = ""


class PodStatus(Value, frozen=True):
    """The status of a pod."""

    phase: str = ""
    nominated_node_name: str = ""
    start_time: str | None = None
    conditions: list[Condition] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []
    resources: ResourceRequirements | None = None
    allocated_resources: Quantities = {}
    resource_claim_statuses: list[ResourceClaimStatus] = []
    extended_resource_claim_status: ExtendedResourceClaimStatus | None = None


class Pod(Value, frozen=True):
    """A pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def uid(self) -> str:
        """The identity of the pod; a re-created pod of the same name has another one."""
        return self.metadata.uid

    @property
    def key(self) -> str:
        """Namespace and name, joined by a slash."""
        return self.metadata.key

    @property
    def ref(self) -> PodRef:
        """The reference to the pod in effects."""
        return PodRef(self.metadata.namespace, self.metadata.name, self.metadata.uid)

    @property
    def priority(self) -> int:
        """The priority, 0 if admission has set none.

        Source: component-helpers v0.36.3 scheduling/corev1.PodPriority.
        """
        return self.spec.priority or 0

    @property
    def terminal(self) -> bool:
        """Whether the pod has finished and uses no resources any more."""
        return self.status.phase in TERMINAL_PHASES

    @property
    def terminating(self) -> bool:
        """Whether the pod is being deleted."""
        return self.metadata.deletion_timestamp is not None

    @property
    def preempted(self) -> bool:
        """Whether the pod's DisruptionTarget condition is true because a scheduler preempts it."""
        target = self.condition(DISRUPTION_TARGET)
        return (
            target is not None
            and target.status == "True"
            and target.reason == PREEMPTION_BY_SCHEDULER
        )

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of that type, if the pod has it."""
        conditions = self.status.conditions
        return next((condition for condition in conditions if condition.type == kind), None)


TERMINAL_PHASES: Final = frozenset({"Succeeded", "Failed"})


class Taint(Value, frozen=True):
    """A taint of a node: repels pods that do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Value, frozen=True):
    """The spec of a node."""

    unschedulable: bool = False
    taints: list[Taint] = []


class ContainerImage(Value, frozen=True):
    """An image that a node has, under all its names."""

    names: list[str] = []
    size_bytes: Int64 = 0


class NodeStatus(Value, frozen=True):
    """The status of a node."""

    allocatable: Quantities = {}
    conditions: list[Condition] = []
    images: list[ContainerImage] = []
    declared_features: list[str] = []


class NodeMeta(AnnotatedMeta, frozen=True):
    """Metadata of a node. Out-of-tree plugins may read its annotations."""

    def __post_init__(self) -> None:
        self.leave_out(self.annotations.keys() & _NOT_OF_NODES)


class Node(Value, frozen=True):
    """A node."""

    metadata: NodeMeta = NodeMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class PdbSpec(Value, frozen=True):
    """Which pods a budget protects."""

    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PdbStatus(Value, frozen=True):
    """The disruptions that a budget still allows; kept by the disruption controller."""

    disruptions_allowed: Int32 = 0
    disrupted_pods: dict[str, str] = {}
    current_healthy: Int32 = 0
    desired_healthy: Int32 = 0
    observed_generation: Int64 = 0


class PodDisruptionBudget(Value, frozen=True):
    """A limit on voluntary disruptions."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PdbSpec = PdbSpec()
    status: PdbStatus = PdbStatus()


class LabelsSpec(Value, frozen=True):
    """The selector of a Service or a ReplicationController: pods with these labels."""

    selector: dict[str, str] | None = None


class SelectorSpec(Value, frozen=True):
    """The selector of a ReplicaSet or a StatefulSet."""

    selector: LabelSelector | None = None


class Service(Value, frozen=True):
    """A service."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LabelsSpec = LabelsSpec()


class ReplicationController(Value, frozen=True):
    """A replication controller, the predecessor of ReplicaSets."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LabelsSpec = LabelsSpec()


class ReplicaSet(Value, frozen=True):
    """A replica set."""

    metadata: ObjectMeta = ObjectMeta()
    spec: SelectorSpec = SelectorSpec()


class StatefulSet(Value, frozen=True):
    """A stateful set."""

    metadata: ObjectMeta = ObjectMeta()
    spec: SelectorSpec = SelectorSpec()


Workload: TypeAlias = Service | ReplicationController | ReplicaSet | StatefulSet
