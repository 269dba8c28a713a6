"""Settings of single plugins: every field arrives, kinds are checked, strangers pass."""

import pytest

from scheduler.config.args import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    ForeignArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    PreemptiveSchedulerArgs,
    ResourceWeight,
    ScoringStrategy,
    ShapePoint,
    VolumeBindingArgs,
)
from scheduler.model.api.objects import (
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    Requirement,
    TopologySpreadConstraint,
    WeightedNodeTerm,
)

_API = "kubescheduler.config.k8s.io/v1"
_GPU = ResourceWeight(name="nvidia.com/gpu", weight=5)
_CPU_AND_MEMORY = (ResourceWeight(name="cpu"), ResourceWeight(name="memory"))


def _entry(plugin: str, args: str) -> str:
    return f"{{pluginConfig: [{{name: {plugin}, args: {args}}}]}}"


@pytest.mark.parametrize(
    ("plugin", "args", "want"),
    [
        pytest.param(
            "DefaultPreemption",
            "{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 7}",
            DefaultPreemptionArgs(min_candidate_nodes_percentage=0, min_candidate_nodes_absolute=7),
            id="preemption",
        ),
        pytest.param(
            "DynamicResources",
            "{filterTimeout: 0s, bindingTimeout: 1m}",
            DynamicResourcesArgs(filter_timeout_seconds=0.0, binding_timeout_seconds=60.0),
            id="devices; a filter timeout of zero is kept",
        ),
        pytest.param(
            "DynamicResources",
            "{filterTimeout: null, bindingTimeout: null}",
            DynamicResourcesArgs(filter_timeout_seconds=10.0, binding_timeout_seconds=600.0),
            id="null timeouts are the defaults",
        ),
        pytest.param(
            "InterPodAffinity",
            "{hardPodAffinityWeight: 0, ignorePreferredTermsOfExistingPods: true}",
            InterPodAffinityArgs(
                hard_pod_affinity_weight=0, ignore_preferred_terms_of_existing_pods=True
            ),
            id="affinity between pods",
        ),
        pytest.param(
            "NodeAffinity",
            """{addedAffinity: {
                requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{
                    matchExpressions: [{key: zone, operator: In, values: [a, b]}],
                    matchFields: [{key: metadata.name, operator: NotIn, values: [n1]}]}]},
                preferredDuringSchedulingIgnoredDuringExecution: [{weight: 3, preference: {
                    matchExpressions: [{key: ssd, operator: Exists}]}}]}}""",
            NodeAffinityArgs(
                added_affinity=NodeAffinity(
                    required=NodeSelector(
                        [
                            NodeSelectorTerm(
                                [Requirement("zone", "In", ["a", "b"])],
                                [Requirement("metadata.name", "NotIn", ["n1"])],
                            )
                        ]
                    ),
                    preferred=[
                        WeightedNodeTerm(3, NodeSelectorTerm([Requirement("ssd", "Exists", [])]))
                    ],
                )
            ),
            id="affinity to nodes",
        ),
        pytest.param(
            "NodeResourcesBalancedAllocation",
            "{resources: [{name: cpu}, {name: memory, weight: 0}]}",
            NodeResourcesBalancedAllocationArgs(resources=_CPU_AND_MEMORY),
            id="balanced use; a weight of zero is one",
        ),
        pytest.param(
            "NodeResourcesBalancedAllocation",
            "{resources: []}",
            NodeResourcesBalancedAllocationArgs(resources=_CPU_AND_MEMORY),
            id="no resources are the default ones",
        ),
        pytest.param(
            "NodeResourcesFit",
            """{ignoredResources: [a.b/c], ignoredResourceGroups: [d.e], scoringStrategy: {
                type: MostAllocated, resources: [{name: nvidia.com/gpu, weight: 5}]}}""",
            NodeResourcesFitArgs(
                ignored_resources=("a.b/c",),
                ignored_resource_groups=("d.e",),
                scoring_strategy=ScoringStrategy(type="MostAllocated", resources=(_GPU,)),
            ),
            id="fitting",
        ),
        pytest.param(
            "NodeResourcesFit",
            """{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {
                shape: [{utilization: 0, score: 10}, {utilization: 100, score: 0}]}}}""",
            NodeResourcesFitArgs(
                scoring_strategy=ScoringStrategy(
                    type="RequestedToCapacityRatio",
                    resources=_CPU_AND_MEMORY,
                    shape=(
                        ShapePoint(utilization=0, score=10),
                        ShapePoint(utilization=100, score=0),
                    ),
                ),
            ),
            id="fitting by a shape; no resources are the default ones",
        ),
        pytest.param(
            "PodTopologySpread",
            """{defaultingType: List, defaultConstraints: [{maxSkew: 2, topologyKey: zone,
                whenUnsatisfiable: ScheduleAnyway, minDomains: 3, nodeAffinityPolicy: Ignore,
                nodeTaintsPolicy: Honor, matchLabelKeys: [app], labelSelector: null}]}""",
            PodTopologySpreadArgs(
                defaulting_type="List",
                default_constraints=(
                    TopologySpreadConstraint(
                        max_skew=2,
                        topology_key="zone",
                        when_unsatisfiable="ScheduleAnyway",
                        min_domains=3,
                        node_affinity_policy="Ignore",
                        node_taints_policy="Honor",
                        match_label_keys=["app"],
                    ),
                ),
            ),
            id="spreading",
        ),
        pytest.param(
            "VolumeBinding",
            "{bindTimeoutSeconds: 0, shape: null}",
            VolumeBindingArgs(bind_timeout_seconds=0),
            id="volumes",
        ),
        pytest.param(
            "PreemptiveScheduler",
            f"{{apiVersion: {_API}, kind: PreemptiveSchedulerArgs}}",
            PreemptiveSchedulerArgs(),
            id="our own additions",
        ),
        pytest.param(
            "PreemptiveScheduler",
            "{preferVictimsThatFitElsewhere: true}",
            PreemptiveSchedulerArgs(prefer_victims_that_fit_elsewhere=True),
            id="cheaper victims",
        ),
        pytest.param(
            "PreemptiveScheduler",
            "{bindVolumes: false, allocateDevices: false}",
            PreemptiveSchedulerArgs(bind_volumes=False, allocate_devices=False),
            id="neither volumes nor devices",
        ),
        pytest.param("DefaultPreemption", "null", DefaultPreemptionArgs(), id="null"),
        pytest.param(
            "DefaultPreemption",
            f"{{apiVersion: {_API}, kind: DefaultPreemptionArgs}}",
            DefaultPreemptionArgs(),
            id="a kind that fits",
        ),
        pytest.param(
            "DefaultPreemption",
            "{apiVersion: null, kind: ''}",
            DefaultPreemptionArgs(),
            id="an empty kind",
        ),
        pytest.param(
            "Coscheduling",
            "{permitWaitingTimeSeconds: 10, kind: Whatever, list: [1, {a: b}]}",
            ForeignArgs(
                {"permitWaitingTimeSeconds": 10, "kind": "Whatever", "list": [1, {"a": "b"}]}
            ),
            id="a plugin that does not exist here",
        ),
        pytest.param("NodePorts", "5", ForeignArgs(5), id="a plugin without settings"),
    ],
)
def test_reads_every_field(profile, plugin, args, want):
    assert profile(_entry(plugin, args)).args[plugin] == want


def test_an_entry_without_args_is_the_default(profile):
    args = profile("{pluginConfig: [{name: VolumeBinding}, {name: Foreign}]}").args

    assert (args["VolumeBinding"], args["Foreign"]) == (VolumeBindingArgs(), ForeignArgs(None))


def test_settings_are_there_for_plugins_that_are_enabled(profile):
    fields = """{plugins: {multiPoint: {disabled: [{name: "*"}], enabled: [
        {name: PrioritySort}, {name: DefaultBinder}, {name: VolumeBinding}]}},
        pluginConfig: [{name: InterPodAffinity}]}"""

    assert profile(fields).args == {
        "InterPodAffinity": InterPodAffinityArgs(),
        "VolumeBinding": VolumeBindingArgs(),
    }


def test_default_lists_are_not_shared(profile):
    terms = "requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [null, null]}"
    found = profile(_entry("NodeAffinity", f"{{addedAffinity: {{{terms}}}}}"))

    affinity = found.arguments(NodeAffinityArgs).added_affinity
    assert affinity is not None
    assert affinity.required is not None
    first, second = affinity.required.node_selector_terms
    assert first.match_fields is not second.match_fields
