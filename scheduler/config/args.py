"""Settings of single plugins: one class per entry that `pluginConfig` may hold.

Each class names the plugin that it belongs to; its kind in the file is that name followed by
`Args`. `TYPES` lists them all. Defaults are those of upstream; the rules that values must satisfy
are in `args_validation`.

Source: kube-scheduler v1.36.3 k8s.io/kube-scheduler/config/v1 types_pluginargs.go;
pkg/scheduler/apis/config/v1/defaults.go SetDefaults_*Args.
"""

# ruff: noqa: RUF009 -- `wire` makes a dataclass field, evaluating it once is the point

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from scheduler.config.codecs import (
    BOOLEAN,
    DURATION,
    INT32,
    INT64,
    STRING,
    Codec,
    array,
    converted,
    optional,
)
from scheduler.config.document import Json
from scheduler.config.object_codec import Fields, Wire, wire
from scheduler.model.api.objects import (
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    Requirement,
    TopologySpreadConstraint,
    WeightedNodeTerm,
)
from scheduler.model.releases import AUTO

__all__ = [
    "CODECS",
    "TYPES",
    "DefaultPreemptionArgs",
    "DynamicResourcesArgs",
    "ForeignArgs",
    "InterPodAffinityArgs",
    "NodeAffinityArgs",
    "NodeResourcesBalancedAllocationArgs",
    "NodeResourcesFitArgs",
    "PluginArgs",
    "PodTopologySpreadArgs",
    "PreemptiveSchedulerArgs",
    "ResourceWeight",
    "ScoringStrategy",
    "ShapePoint",
    "VolumeBindingArgs",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultPreemptionArgs:
    """How many candidate nodes preemption examines; here it always examines all of them."""

    plugin: ClassVar[str] = "DefaultPreemption"

    #: Least share of the nodes to examine, in percent, 0 to 100. Accepted and without effect:
    #: preemption here examines every node that could help.
    min_candidate_nodes_percentage: int = wire("minCandidateNodesPercentage", INT32, 10)
    #: Least number of nodes to examine, 0 or more; not 0 together with the percentage. Accepted
    #: and without effect, for the same reason.
    min_candidate_nodes_absolute: int = wire("minCandidateNodesAbsolute", INT32, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicResourcesArgs:
    """Time limits of device allocation."""

    plugin: ClassVar[str] = "DynamicResources"

    #: Longest search for devices on one node, in seconds; 0 means no limit. It is counted in steps
    #: of the search, 200,000 for each second and at most 50,000, so that no search stops the loop.
    #: A search that takes longer rejects its node; the attempt fails if no other node fits.
    filter_timeout_seconds: float = wire("filterTimeout", DURATION, 10.0)
    #: Longest wait for the conditions of allocated devices before binding, in seconds, 1 or more.
    #: Ten minutes are enough for devices that have to be attached.
    binding_timeout_seconds: float = wire("bindingTimeout", DURATION, 600.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class InterPodAffinityArgs:
    """Scoring by the pods that run nearby."""

    plugin: ClassVar[str] = "InterPodAffinity"

    #: Score weight of a running pod whose *required* affinity matches the incoming pod, 0 to 100;
    #: 0 leaves such pods out of the score. The default of 1 is the least weight that counts them.
    hard_pod_affinity_weight: int = wire("hardPodAffinityWeight", INT32, 1)
    #: Whether preferred terms of running pods are left out of the score for pods that have no
    #: inter-pod affinity of their own. Off: affinity works in both directions.
    ignore_preferred_terms_of_existing_pods: bool = wire(
        "ignorePreferredTermsOfExistingPods", BOOLEAN, False
    )


_STRINGS: Final = converted(array(STRING), list, tuple)

_REQUIREMENT: Final = Fields(
    Requirement,
    {
        "key": Wire("key", STRING, ""),
        "operator": Wire("operator", STRING, ""),
        "values": Wire("values", _STRINGS, []),
    },
)
_REQUIREMENTS: Final = converted(array(_REQUIREMENT), list, tuple)
_TERM: Final = Fields(
    NodeSelectorTerm,
    {
        "match_expressions": Wire("matchExpressions", _REQUIREMENTS, []),
        "match_fields": Wire("matchFields", _REQUIREMENTS, []),
    },
)
_SELECTOR: Final = Fields(
    NodeSelector,
    {"node_selector_terms": Wire("nodeSelectorTerms", converted(array(_TERM), list, tuple), [])},
)
_WEIGHTED_TERM: Final = Fields(
    WeightedNodeTerm,
    {
        "weight": Wire("weight", INT32, 0),
        "preference": Wire("preference", _TERM, NodeSelectorTerm()),
    },
)
_NODE_AFFINITY: Final[Codec[NodeAffinity]] = Fields(
    NodeAffinity,
    {
        "required": Wire(
            "requiredDuringSchedulingIgnoredDuringExecution", optional(_SELECTOR), None
        ),
        "preferred": Wire(
            "preferredDuringSchedulingIgnoredDuringExecution",
            converted(array(_WEIGHTED_TERM), list, tuple),
            [],
        ),
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAffinityArgs:
    """An affinity that every pod of the profile gets on top of its own."""

    plugin: ClassVar[str] = "NodeAffinity"

    #: Nodes must satisfy this *and* the affinity of the pod; its preferred terms add to the score.
    #: None adds nothing, so that a profile can use all nodes.
    added_affinity: NodeAffinity | None = wire("addedAffinity", optional(_NODE_AFFINITY), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceWeight:
    """A resource that takes part in a score."""

    #: Name of the resource: `cpu`, `memory`, an extended resource.
    name: str = wire("name", STRING, "")
    #: Weight of the resource among the others, 1 to 100; 0 in the file means 1.
    weight: int = wire("weight", INT64, 1, zero_is_default=True)


_RESOURCES: Final[Codec[tuple[ResourceWeight, ...]]] = array(Fields.of(ResourceWeight))
_CPU_AND_MEMORY: Final = (ResourceWeight(name="cpu"), ResourceWeight(name="memory"))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResourcesBalancedAllocationArgs:
    """Scoring by how evenly the resources of a node are used."""

    plugin: ClassVar[str] = "NodeResourcesBalancedAllocation"

    #: The resources that are compared; all weights are 1, names are unique. The default are cpu
    #: and memory, which every node has.
    resources: tuple[ResourceWeight, ...] = wire(
        "resources", _RESOURCES, _CPU_AND_MEMORY, zero_is_default=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapePoint:
    """A point of the function from utilization to score."""

    #: Utilization of a resource in percent, 0 to 100.
    utilization: int = wire("utilization", INT32, 0)
    #: Score at that utilization, 0 to 10.
    score: int = wire("score", INT32, 0)


_SHAPE: Final[Codec[tuple[ShapePoint, ...]]] = array(Fields.of(ShapePoint))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ratio:
    """The object around the shape in the file; it holds nothing else."""

    shape: tuple[ShapePoint, ...] = wire("shape", _SHAPE, ())


_RATIO: Final[Codec[tuple[ShapePoint, ...]]] = converted(
    Fields.of(_Ratio), lambda ratio: ratio.shape, lambda shape: _Ratio(shape=shape)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringStrategy:
    """How the use of a node's resources becomes a score."""

    #: `LeastAllocated` spreads pods, `MostAllocated` packs them, `RequestedToCapacityRatio`
    #: follows the shape. Spreading is the default, as it limits the effect of the loss of a node.
    type: str = wire("type", STRING, "LeastAllocated", absent="")
    #: The resources that count, with their weights.
    resources: tuple[ResourceWeight, ...] = wire(
        "resources", _RESOURCES, _CPU_AND_MEMORY, zero_is_default=True
    )
    #: Points of the score function, utilization increasing; None unless the type is
    #: `RequestedToCapacityRatio`.
    shape: tuple[ShapePoint, ...] | None = wire("requestedToCapacityRatio", optional(_RATIO), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResourcesFitArgs:
    """Which resources must fit, and how their use is scored."""

    plugin: ClassVar[str] = "NodeResourcesFit"

    #: Resources that the filter does not check (the score does). Extenders with resources that
    #: are `ignoredByScheduler` replace this list. Empty: everything is checked.
    ignored_resources: tuple[str, ...] = wire("ignoredResources", array(STRING), ())
    #: Groups (the part of the name before `/`) that the filter does not check.
    ignored_resource_groups: tuple[str, ...] = wire("ignoredResourceGroups", array(STRING), ())
    #: How the use of resources becomes a score.
    scoring_strategy: ScoringStrategy = wire(
        "scoringStrategy", Fields.of(ScoringStrategy), ScoringStrategy()
    )


_OPTIONAL_STRING: Final = optional(STRING)
_CONSTRAINT: Final = Fields(
    TopologySpreadConstraint,
    {
        "max_skew": Wire("maxSkew", INT32, 0),
        "topology_key": Wire("topologyKey", STRING, ""),
        "when_unsatisfiable": Wire("whenUnsatisfiable", STRING, ""),
        "min_domains": Wire("minDomains", optional(INT32), None),
        "node_affinity_policy": Wire("nodeAffinityPolicy", _OPTIONAL_STRING, None),
        "node_taints_policy": Wire("nodeTaintsPolicy", _OPTIONAL_STRING, None),
        "match_label_keys": Wire("matchLabelKeys", _STRINGS, []),
    },
    forbidden={
        "labelSelector": "constraint must not define a selector, as it is deduced for each pod"
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTopologySpreadArgs:
    """Default spreading of pods that have no topology spread constraints."""

    plugin: ClassVar[str] = "PodTopologySpread"

    #: Constraints for pods without any, if `defaulting_type` is `List`. They have no selector:
    #: it is derived from the owner of each pod.
    default_constraints: tuple[TopologySpreadConstraint, ...] = wire(
        "defaultConstraints", array(_CONSTRAINT), ()
    )
    #: `System`: the built-in soft constraints over hosts and zones; `List`: the list above. The
    #: built-in ones spread replicas and never reject a node.
    defaulting_type: str = wire("defaultingType", STRING, "System", zero_is_default=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeBindingArgs:
    """How long to wait for volumes before a pod is bound, and how capacity is scored."""

    plugin: ClassVar[str] = "VolumeBinding"

    #: Longest wait for volumes to be bound or provisioned, in seconds; 0 means no wait. Ten
    #: minutes cover slow provisioners.
    bind_timeout_seconds: int = wire("bindTimeoutSeconds", INT64, 600)
    #: Points of the function from the share of the capacity that a pod requests to the score,
    #: utilization increasing. None and an empty list mean that more free capacity is better: 0 %
    #: scores 10, 100 % scores 0. Only with `reference` v1.37.
    shape: tuple[ShapePoint, ...] | None = wire("shape", optional(_SHAPE), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptiveSchedulerArgs:
    """Settings of this scheduler alone; kube-scheduler ignores the entry, so both accept the file.

    The entry belongs to no plugin. A new setting is one field here, declared with `wire`.
    """

    plugin: ClassVar[str] = "PreemptiveScheduler"

    #: Whether preemption, among nodes that are equal by kube-scheduler's criteria, prefers the one
    #: with the fewest victims that currently fit on no other node, then the one whose victims
    #: started last; and whether on a node, of pods of one priority, it spares those that fit on no
    #: other node first. Off: a hash decides between nodes, and the start on a node, at no cost.
    prefer_victims_that_fit_elsewhere: bool = wire("preferVictimsThatFitElsewhere", BOOLEAN, False)
    #: Whether claims that wait for their first consumer get volumes. If not, pods with such claims
    #: stay pending, and their condition says so; the permission to write volumes is not needed.
    bind_volumes: bool = wire("bindVolumes", BOOLEAN, True)
    #: Whether pods get devices by resource claims, or by extended resources of device classes. If
    #: not, such pods stay pending, and their condition says so; the permission to write resource
    #: claims is not needed.
    allocate_devices: bool = wire("allocateDevices", BOOLEAN, True)
    #: Whether pods of lower priority are evicted for their devices, which are kept for the pod.
    #: Off: as in kube-scheduler, no pod is evicted for devices.
    preempt_for_devices: bool = wire("preemptForDevices", BOOLEAN, False)
    #: The release of kube-scheduler whose decisions are reproduced: `v1.36`, `v1.37`, or `auto` for
    #: that of the API server. It holds for all profiles; those that name a release must agree.
    #: By default it follows the cluster, as kube-scheduler is upgraded with it.
    reference: str = wire("reference", STRING, AUTO, zero_is_default=True)


@dataclass(frozen=True, slots=True)
class ForeignArgs:
    """Settings of a plugin that this module does not know; the plugin checks them itself."""

    #: The value of `args` as JSON; None if nothing is configured.
    value: Json


PluginArgs = (
    DefaultPreemptionArgs
    | DynamicResourcesArgs
    | InterPodAffinityArgs
    | NodeAffinityArgs
    | NodeResourcesBalancedAllocationArgs
    | NodeResourcesFitArgs
    | PodTopologySpreadArgs
    | VolumeBindingArgs
    | PreemptiveSchedulerArgs
    | ForeignArgs
)

#: The class of each typed entry, by the name of its plugin.
TYPES: Final = {
    kind.plugin: kind
    for kind in (
        DefaultPreemptionArgs,
        DynamicResourcesArgs,
        InterPodAffinityArgs,
        NodeAffinityArgs,
        NodeResourcesBalancedAllocationArgs,
        NodeResourcesFitArgs,
        PodTopologySpreadArgs,
        VolumeBindingArgs,
        PreemptiveSchedulerArgs,
    )
}

#: How each typed entry is read and written.
CODECS: Final[dict[str, Fields[Any]]] = {
    name: Fields.of(kind, ignored=("apiVersion", "kind")) for name, kind in TYPES.items()
}
