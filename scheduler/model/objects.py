"""The API objects, with only the fields that some rule reads.

Watch lines are decoded from bytes straight into these types; unknown fields are skipped by the
decoder, so an object costs microseconds and a few kilobytes. Objects are values: nobody changes
one after it is decoded. Field names are those of the API, in snake case.

A field whose absence differs in meaning from an empty value is `None` when absent.
"""

from typing import Final, TypeAlias

import msgspec

__all__ = [
    "ISCSI",
    "RBD",
    "TERMINAL_PHASES",
    "AWSElasticBlockStore",
    "Affinity",
    "BudgetSpec",
    "BudgetStatus",
    "ClaimVolume",
    "Condition",
    "Container",
    "ContainerImage",
    "ContainerPort",
    "ContainerStatus",
    "EphemeralVolume",
    "GCEPersistentDisk",
    "ImageVolume",
    "InlineCSI",
    "LabelSelector",
    "LabelsSpec",
    "LocalObject",
    "Node",
    "NodeAffinity",
    "NodeSelector",
    "NodeSelectorTerm",
    "NodeSpec",
    "NodeStatus",
    "ObjectMeta",
    "OwnerReference",
    "Pod",
    "PodAffinity",
    "PodAffinityTerm",
    "PodDisruptionBudget",
    "PodResourceClaim",
    "PodSpec",
    "PodStatus",
    "PriorityClass",
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

Quantities = dict[str, str | int | float]


class _Value(msgspec.Struct, frozen=True, rename="camel", gc=False, omit_defaults=True):
    """Base of all API values: immutable, camel case on the wire, cheap for the collector."""


class OwnerReference(_Value, frozen=True):
    """Who manages an object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(_Value, frozen=True):
    """Identity and labels of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []


class LocalObject(_Value, frozen=True):
    """An object of which only the identity and the labels matter (a Namespace)."""

    metadata: ObjectMeta = ObjectMeta()


class Requirement(_Value, frozen=True):
    """One expression of a label or node selector."""

    key: str = ""
    operator: str = ""
    values: list[str] = []


class LabelSelector(_Value, frozen=True):
    """Selects objects by label; `{}` selects everything, an absent selector nothing."""

    match_labels: dict[str, str] = {}
    match_expressions: list[Requirement] = []


class NodeSelectorTerm(_Value, frozen=True):
    """A conjunction over labels and fields of a node; an empty term matches no node."""

    match_expressions: list[Requirement] = []
    match_fields: list[Requirement] = []


class NodeSelector(_Value, frozen=True):
    """A disjunction of terms."""

    node_selector_terms: list[NodeSelectorTerm] = []


class WeightedNodeTerm(_Value, frozen=True):
    """A preferred node selector term."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(_Value, frozen=True):
    """Which nodes a pod requires and prefers."""

    required: NodeSelector | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: list[WeightedNodeTerm] = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=[]
    )


class PodAffinityTerm(_Value, frozen=True):
    """Pods to be near to, or away from, by topology."""

    label_selector: LabelSelector | None = None
    namespaces: list[str] = []
    topology_key: str = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] = []
    mismatch_label_keys: list[str] = []


class WeightedPodAffinityTerm(_Value, frozen=True):
    """A preferred pod affinity term."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(_Value, frozen=True):
    """Required and preferred terms; also the shape of an anti-affinity."""

    required: list[PodAffinityTerm] = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=[]
    )
    preferred: list[WeightedPodAffinityTerm] = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=[]
    )


class Affinity(_Value, frozen=True):
    """All affinities of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(_Value, frozen=True):
    """How evenly the pods of a selector spread over the values of a node label."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] = []


class Toleration(_Value, frozen=True):
    """A taint that a pod puts up with."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class ResourceRequirements(_Value, frozen=True):
    """Requests and limits by resource name."""

    requests: Quantities = {}
    limits: Quantities = {}


class ContainerPort(_Value, frozen=True):
    """A port of a container; only host ports matter to a scheduler."""

    host_port: int = 0
    host_ip: str = msgspec.field(name="hostIP", default="")
    protocol: str = ""


class RestartRule(_Value, frozen=True):
    """What happens when a container exits in a given way."""

    action: str = ""


class Container(_Value, frozen=True):
    """A container or init container."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: list[ContainerPort] = []
    restart_policy: str | None = None
    restart_policy_rules: list[RestartRule] = []


class ClaimVolume(_Value, frozen=True):
    """A volume that names a claim."""

    claim_name: str = ""
    read_only: bool = False


class GCEPersistentDisk(_Value, frozen=True):
    """An inline disk of Google's cloud."""

    pd_name: str = ""
    read_only: bool = False


class AWSElasticBlockStore(_Value, frozen=True):
    """An inline disk of Amazon's cloud."""

    volume_id: str = msgspec.field(name="volumeID", default="")
    read_only: bool = False


class ISCSI(_Value, frozen=True):
    """An inline iSCSI volume."""

    iqn: str = ""
    target_portal: str = ""
    lun: int = 0
    read_only: bool = False


class RBD(_Value, frozen=True):
    """An inline Ceph block volume."""

    monitors: list[str] = []
    image: str = ""
    pool: str = "rbd"
    read_only: bool = False


class InlineCSI(_Value, frozen=True):
    """An ephemeral inline volume of a CSI driver."""

    driver: str = ""


class ImageVolume(_Value, frozen=True):
    """A volume made of an image."""

    reference: str = ""


class EphemeralVolume(_Value, frozen=True):
    """A claim that is created for the pod."""


class Volume(_Value, frozen=True):
    """A volume of a pod; sources that no rule reads are dropped."""

    name: str = ""
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    iscsi: ISCSI | None = None
    rbd: RBD | None = None
    csi: InlineCSI | None = None
    image: ImageVolume | None = None


class SchedulingGate(_Value, frozen=True):
    """A reason not to be scheduled yet."""

    name: str = ""


class PodResourceClaim(_Value, frozen=True):
    """A claim on devices."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(_Value, frozen=True):
    """What a pod asks for."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    preemption_policy: str | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] = []
    containers: list[Container] = []
    init_containers: list[Container] = []
    overhead: Quantities = {}
    resources: ResourceRequirements | None = None
    volumes: list[Volume] = []
    topology_spread_constraints: list[TopologySpreadConstraint] = []
    scheduling_gates: list[SchedulingGate] = []
    resource_claims: list[PodResourceClaim] = []
    host_network: bool = False
    host_users: bool | None = None


class Condition(_Value, frozen=True):
    """A condition of a pod, node or claim."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class ContainerStatus(_Value, frozen=True):
    """What the kubelet granted a container; read for in-place resizes."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: Quantities = {}


class ResourceClaimStatus(_Value, frozen=True):
    """The claim that was generated for an entry of `resourceClaims`."""

    name: str = ""
    resource_claim_name: str | None = None


class PodStatus(_Value, frozen=True):
    """What became of a pod."""

    phase: str = ""
    nominated_node_name: str = ""
    start_time: str | None = None
    conditions: list[Condition] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []
    resources: ResourceRequirements | None = None
    allocated_resources: Quantities = {}
    resource_claim_statuses: list[ResourceClaimStatus] = []


class Pod(_Value, frozen=True):
    """A pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def uid(self) -> str:
        """The identity that a re-created pod of the same name does not share."""
        return self.metadata.uid

    @property
    def key(self) -> str:
        """Namespace and name, joined by a slash."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def priority(self) -> int:
        """The priority, 0 when none was admitted.

        Source: component-helpers v0.36.3 scheduling/corev1.PodPriority.
        """
        return self.spec.priority or 0

    @property
    def terminal(self) -> bool:
        """Whether the pod has finished and uses nothing any more."""
        return self.status.phase in TERMINAL_PHASES

    @property
    def terminating(self) -> bool:
        """Whether the pod is being deleted."""
        return self.metadata.deletion_timestamp is not None

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of that type, if the pod has it."""
        return next((each for each in self.status.conditions if each.type == kind), None)


TERMINAL_PHASES: Final = frozenset({"Succeeded", "Failed"})


class Taint(_Value, frozen=True):
    """A mark that keeps pods off a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(_Value, frozen=True):
    """What was decided about a node."""

    unschedulable: bool = False
    taints: list[Taint] = []


class ContainerImage(_Value, frozen=True):
    """An image that a node has, under all its names."""

    names: list[str] = []
    size_bytes: int = 0


class NodeStatus(_Value, frozen=True):
    """What a node has."""

    allocatable: Quantities = {}
    conditions: list[Condition] = []
    images: list[ContainerImage] = []
    declared_features: list[str] = []


class Node(_Value, frozen=True):
    """A node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class BudgetSpec(_Value, frozen=True):
    """Which pods a budget protects."""

    selector: LabelSelector | None = None


class BudgetStatus(_Value, frozen=True):
    """What a budget still allows; kept by the disruption controller."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str] = {}


class PodDisruptionBudget(_Value, frozen=True):
    """A limit on voluntary disruptions."""

    metadata: ObjectMeta = ObjectMeta()
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


class PriorityClass(_Value, frozen=True):
    """A named priority."""

    metadata: ObjectMeta = ObjectMeta()
    value: int = 0


class LabelsSpec(_Value, frozen=True):
    """Which pods belong to a Service or a ReplicationController: those with these labels."""

    selector: dict[str, str] | None = None


class SelectorSpec(_Value, frozen=True):
    """Which pods belong to a ReplicaSet or a StatefulSet."""

    selector: LabelSelector | None = None


class Service(_Value, frozen=True):
    """Pods that are reached under one name."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LabelsSpec = LabelsSpec()


class ReplicationController(_Value, frozen=True):
    """Pods that replace each other; the older form."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LabelsSpec = LabelsSpec()


class ReplicaSet(_Value, frozen=True):
    """Pods that replace each other."""

    metadata: ObjectMeta = ObjectMeta()
    spec: SelectorSpec = SelectorSpec()


class StatefulSet(_Value, frozen=True):
    """Pods that have a place each."""

    metadata: ObjectMeta = ObjectMeta()
    spec: SelectorSpec = SelectorSpec()


Workload: TypeAlias = Service | ReplicationController | ReplicaSet | StatefulSet
