"""The spec of a pod, with only the fields that some rule reads.

A field whose absence differs in meaning from an empty value is `None` if it is absent.
"""

from operator import attrgetter
from typing import Final

import msgspec

from scheduler.model.base import Int32, Quantities, Value

__all__ = [
    "ISCSI",
    "RBD",
    "AWSElasticBlockStore",
    "Affinity",
    "ClaimVolume",
    "Container",
    "ContainerPort",
    "EphemeralVolume",
    "GCEPersistentDisk",
    "ImageVolume",
    "InlineCSI",
    "LabelSelector",
    "NodeAffinity",
    "NodeSelector",
    "NodeSelectorTerm",
    "PodAffinity",
    "PodAffinityTerm",
    "PodResourceClaim",
    "PodSpec",
    "Requirement",
    "ResourceRequirements",
    "RestartRule",
    "SchedulingGate",
    "Toleration",
    "TopologySpreadConstraint",
    "Volume",
    "WeightedNodeTerm",
    "WeightedPodAffinityTerm",
]


class Requirement(Value, frozen=True):
    """One expression of a label or node selector."""

    key: str = ""
    operator: str = ""
    values: list[str] = []


class LabelSelector(Value, frozen=True):
    """Selects objects by label; `{}` selects everything, an absent selector nothing."""

    match_labels: dict[str, str] = {}
    match_expressions: list[Requirement] = []


class NodeSelectorTerm(Value, frozen=True):
    """A conjunction over labels and fields of a node; an empty term matches no node."""

    match_expressions: list[Requirement] = []
    match_fields: list[Requirement] = []


class NodeSelector(Value, frozen=True):
    """A disjunction of terms."""

    node_selector_terms: list[NodeSelectorTerm] = []


class WeightedNodeTerm(Value, frozen=True):
    """A preferred node selector term."""

    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Value, frozen=True):
    """Which nodes a pod requires and prefers."""

    required: NodeSelector | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: list[WeightedNodeTerm] = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=[]
    )


class PodAffinityTerm(Value, frozen=True):
    """The pods of an affinity or anti-affinity, and its topology."""

    label_selector: LabelSelector | None = None
    namespaces: list[str] = []
    topology_key: str = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] = []
    mismatch_label_keys: list[str] = []


class WeightedPodAffinityTerm(Value, frozen=True):
    """A preferred pod affinity term."""

    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Value, frozen=True):
    """Required and preferred terms; also the shape of an anti-affinity."""

    required: list[PodAffinityTerm] = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=[]
    )
    preferred: list[WeightedPodAffinityTerm] = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=[]
    )


class Affinity(Value, frozen=True, gc=True, weakref=True):
    """All affinities of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Value, frozen=True):
    """How evenly the pods of a selector spread over the values of a node label."""

    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] = []


class Toleration(Value, frozen=True):
    """A taint, or a set of taints, that a pod tolerates."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class ResourceRequirements(Value, frozen=True):
    """Requests and limits by resource name."""

    requests: Quantities = {}
    limits: Quantities = {}


class ContainerPort(Value, frozen=True):
    """A port of a container; only host ports matter for scheduling."""

    host_port: Int32 = 0
    host_ip: str = msgspec.field(name="hostIP", default="")
    protocol: str = ""


class RestartRule(Value, frozen=True):
    """What happens when a container exits in a given way."""

    action: str = ""


class Container(Value, frozen=True):
    """A container or init container."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: list[ContainerPort] = []
    restart_policy: str | None = None
    restart_policy_rules: list[RestartRule] = []


class ClaimVolume(Value, frozen=True):
    """A volume source that names a claim."""

    claim_name: str = ""
    read_only: bool = False


class GCEPersistentDisk(Value, frozen=True):
    """An inline disk of Google's cloud."""

    pd_name: str = ""
    read_only: bool = False


class AWSElasticBlockStore(Value, frozen=True):
    """An inline disk of Amazon's cloud."""

    volume_id: str = msgspec.field(name="volumeID", default="")
    read_only: bool = False


class ISCSI(Value, frozen=True):
    """An inline iSCSI volume."""

    iqn: str = ""
    target_portal: str = ""
    lun: Int32 = 0
    read_only: bool = False


class RBD(Value, frozen=True):
    """An inline Ceph block volume."""

    monitors: list[str] = []
    image: str = ""
    pool: str = "rbd"
    read_only: bool = False


class InlineCSI(Value, frozen=True):
    """An ephemeral inline volume of a CSI driver."""

    driver: str = ""


class ImageVolume(Value, frozen=True):
    """A volume made of an image."""

    reference: str = ""


class EphemeralVolume(Value, frozen=True):
    """A claim that is created for the pod."""


class Volume(Value, frozen=True):
    """A volume of a pod, with the sources that some rule reads."""

    name: str = ""
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    iscsi: ISCSI | None = None
    rbd: RBD | None = None
    csi: InlineCSI | None = None
    image: ImageVolume | None = None


#: Returns the sources of a volume.
_sources: Final = attrgetter(*(name for name in Volume.__struct_fields__ if name != "name"))


class SchedulingGate(Value, frozen=True):
    """A gate: a pod with gates is not scheduled yet."""

    name: str = ""


class PodResourceClaim(Value, frozen=True):
    """A claim on devices."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(Value, frozen=True):
    """The spec of a pod."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: Int32 | None = None
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
    priority_class_name: str = ""

    def __post_init__(self) -> None:
        """Drop volumes that no rule reads, such as that of the token, which most pods have."""
        if self.volumes:
            read = [volume for volume in self.volumes if any(_sources(volume))]
            if len(read) < len(self.volumes):
                msgspec.structs.force_setattr(self, "volumes", read)
