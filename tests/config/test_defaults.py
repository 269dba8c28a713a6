"""What holds without a file, and where it differs from kube-scheduler."""

from scheduler.config import load
from scheduler.config.args import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ResourceWeight,
    ScoringStrategy,
    VolumeBindingArgs,
)
from scheduler.config.settings import (
    ClientConnection,
    LeaderElection,
    ProfileSettings,
    Settings,
    Weighted,
)

_CPU_AND_MEMORY = (ResourceWeight(name="cpu", weight=1), ResourceWeight(name="memory", weight=1))

#: The plugins of each point, in their order, with the weights of those that score.
_POINTS = {
    "pre_enqueue": "SchedulingGates DynamicResources DefaultPreemption",
    "queue_sort": "PrioritySort",
    "pre_filter": "NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions NodeVolumeLimits "
    "VolumeBinding VolumeZone PodTopologySpread InterPodAffinity DynamicResources "
    "NodeDeclaredFeatures",
    "filter": "NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit "
    "VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread "
    "InterPodAffinity DynamicResources NodeDeclaredFeatures",
    "post_filter": "DynamicResources DefaultPreemption",
    "pre_score": "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread "
    "InterPodAffinity NodeResourcesBalancedAllocation",
    "reserve": "VolumeBinding DynamicResources",
    "permit": "",
    "pre_bind": "VolumeBinding DynamicResources",
    "bind": "DefaultBinder",
    "post_bind": "",
    "placement_generate": "",
}
_SCORES = {
    "TaintToleration": 3, "NodeAffinity": 2, "NodeResourcesFit": 1, "VolumeBinding": 1,
    "PodTopologySpread": 2, "InterPodAffinity": 2, "DynamicResources": 2,
    "NodeResourcesBalancedAllocation": 1, "ImageLocality": 1,
}  # fmt: skip

_PROFILE = ProfileSettings(
    scheduler_name="preemptive-scheduler",
    percentage_of_nodes_to_score=None,
    **{point: tuple(names.split()) for point, names in _POINTS.items()},
    score=tuple(Weighted(name, weight) for name, weight in _SCORES.items()),
    placement_score=(Weighted("NodeResourcesFit", 1),),
    args={
        "DefaultPreemption": DefaultPreemptionArgs(
            min_candidate_nodes_percentage=10, min_candidate_nodes_absolute=100
        ),
        "DynamicResources": DynamicResourcesArgs(
            filter_timeout_seconds=10.0, binding_timeout_seconds=600.0
        ),
        "InterPodAffinity": InterPodAffinityArgs(
            hard_pod_affinity_weight=1, ignore_preferred_terms_of_existing_pods=False
        ),
        "NodeAffinity": NodeAffinityArgs(added_affinity=None),
        "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs(
            resources=_CPU_AND_MEMORY
        ),
        "NodeResourcesFit": NodeResourcesFitArgs(
            ignored_resources=(),
            ignored_resource_groups=(),
            scoring_strategy=ScoringStrategy(
                type="LeastAllocated", resources=_CPU_AND_MEMORY, shape=None
            ),
        ),
        "PodTopologySpread": PodTopologySpreadArgs(
            default_constraints=(), defaulting_type="System"
        ),
        "VolumeBinding": VolumeBindingArgs(bind_timeout_seconds=600),
    },
)


def test_defaults_are_those_of_kube_scheduler_with_names_of_our_own():
    assert load.defaults() == Settings(
        parallelism=16,
        leader_election=LeaderElection(
            leader_elect=True,
            lease_duration_seconds=15.0,
            renew_deadline_seconds=10.0,
            retry_period_seconds=2.0,
            resource_lock="leases",
            resource_name="preemptive-scheduler",
            resource_namespace=None,
        ),
        client_connection=ClientConnection(
            kubeconfig="",
            accept_content_types="",
            content_type="application/vnd.kubernetes.protobuf",
            qps=None,
            burst=None,
        ),
        enable_profiling=True,
        enable_contention_profiling=True,
        percentage_of_nodes_to_score=0,
        pod_initial_backoff_seconds=1,
        pod_max_backoff_seconds=10,
        extenders=(),
        delay_cache_until_active=False,
        profiles=(_PROFILE,),
    )


def test_a_document_without_fields_means_the_defaults(parse):
    assert parse() == load.defaults()


def test_null_means_the_default_everywhere(parse):
    body = """
        parallelism: null
        leaderElection: null
        clientConnection: ~
        profiles:
        extenders: null
        enableProfiling: null
        enableContentionProfiling: null
        """

    assert parse(body) == load.defaults()


def test_an_empty_profile_is_the_default_one(parse):
    assert parse("profiles: [{}]") == parse("profiles: [null]") == parse("profiles: []")
    assert parse("profiles: [{}]") == load.defaults()


def test_default_scheduler_is_served_only_when_the_file_names_it(parse):
    named = parse("profiles: [{schedulerName: default-scheduler}]")

    assert load.defaults().profile("default-scheduler") is None
    assert named.profile("default-scheduler") is named.profiles[0]


def test_the_lease_of_kube_scheduler_is_used_only_when_the_file_names_it(parse):
    named = parse("leaderElection: {resourceName: kube-scheduler, resourceNamespace: kube-system}")

    assert named.leader_election == LeaderElection(
        resource_name="kube-scheduler", resource_namespace="kube-system"
    )
