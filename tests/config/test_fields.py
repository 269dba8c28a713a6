"""Every field of a document arrives in the settings, with its value and its unit."""

import msgspec
import pytest
import yaml

from scheduler.config.args import (
    TYPES,
    ForeignArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    VolumeBindingArgs,
)
from scheduler.config.settings import Extender, LeaderElection
from tests.support.refusals import cases

#: Documents, and attributes of their settings.
FIELDS = r"""
parallelism: 4
    {parallelism: 4}
percentageOfNodesToScore: 50
    {percentage_of_nodes_to_score: 50}
podInitialBackoffSeconds: 3
    {pod_initial_backoff_seconds: 3}
podMaxBackoffSeconds: 30
    {pod_max_backoff_seconds: 30}
enableProfiling: false
    {enable_profiling: false, enable_contention_profiling: false}
enableContentionProfiling: false
    {enable_contention_profiling: false}
delayCacheUntilActive: true
    {delay_cache_until_active: true}
enableProfiling: false\nenableContentionProfiling: true
    {enable_contention_profiling: true}
clientConnection: {kubeconfig: /etc/kubeconfig, acceptContentTypes: application/json, contentType:
        application/json, qps: 12.5, burst: 20}
    {client_connection: {kubeconfig: /etc/kubeconfig, accept_content_types: application/json,
        content_type: application/json, qps: 12.5, burst: 20}}
leaderElection: {leaderElect: false, leaseDuration: 1m30s, renewDeadline: 1m, retryPeriod: 500ms,
        resourceLock: leases, resourceName: mine, resourceNamespace: here}
    {leader_election: {leader_elect: false, lease_duration_seconds: 90.0, renew_deadline_seconds:
        60.0, retry_period_seconds: 0.5, resource_lock: leases, resource_name: mine,
        resource_namespace: here}}
extenders: [{urlPrefix: 'https://extender/v1/', filterVerb: filter, preemptVerb: preempt,
        prioritizeVerb: prioritize, weight: 7, bindVerb: bind, enableHTTPS: true, tlsConfig:
        {serverName: extender, certFile: /cert, keyFile: /key, caFile: /ca, certData: 'Y2VydA==',
        keyData: a2V5, caData: 'Y2E='}, httpTimeout: 100ms, nodeCacheCapable: true,
        managedResources: [{name: example.com/fpga}], ignorable: true}]
    {extenders: [{url_prefix: 'https://extender/v1/', filter_verb: filter, preempt_verb: preempt,
        prioritize_verb: prioritize, weight: 7, bind_verb: bind, enable_https: true, tls:
        {insecure: false, server_name: extender, cert_file: /cert, key_file: /key, ca_file: /ca,
        cert_data: 'Y2VydA==', key_data: a2V5, ca_data: 'Y2E='}, http_timeout_seconds: 0.1,
        node_cache_capable: true, managed_resources: [{name: example.com/fpga,
        ignored_by_scheduler: false}], ignorable: true}]}
"""
#: Entries for plugins, and the attributes of their arguments that are not the defaults.
ENTRIES = r"""
{name: DefaultPreemption, args: {minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 7}}
    {min_candidate_nodes_percentage: 0, min_candidate_nodes_absolute: 7}
{name: DynamicResources, args: {filterTimeout: 0s, bindingTimeout: 1m}}  # devices; a filter
        timeout of zero is kept
    {filter_timeout_seconds: 0.0, binding_timeout_seconds: 60.0}
{name: PreemptiveScheduler, args: {preemptForDevices: true}}
    {preempt_for_devices: true}
{name: DynamicResources, args: {filterTimeout: null, bindingTimeout: null}}  # null timeouts are
        the defaults
    {}
{name: InterPodAffinity, args: {hardPodAffinityWeight: 0, ignorePreferredTermsOfExistingPods:
        true}}
    {hard_pod_affinity_weight: 0, ignore_preferred_terms_of_existing_pods: true}
{name: NodeAffinity, args: {addedAffinity: { requiredDuringSchedulingIgnoredDuringExecution:
        {nodeSelectorTerms: [{ matchExpressions: [{key: zone, operator: In, values: [a, b]}],
        matchFields: [{key: metadata.name, operator: NotIn, values: [n1]}]}]},
        preferredDuringSchedulingIgnoredDuringExecution: [{weight: 3, preference: {
        matchExpressions: [{key: ssd, operator: Exists}]}}]}}}
    {added_affinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms:
        [{matchExpressions: [{key: zone, operator: In, values: [a, b]}], matchFields: [{key:
        metadata.name, operator: NotIn, values: [n1]}]}]},
        preferredDuringSchedulingIgnoredDuringExecution: [{weight: 3, preference:
        {matchExpressions: [{key: ssd, operator: Exists}]}}]}}
{name: NodeResourcesBalancedAllocation, args: {resources: [{name: cpu}, {name: memory, weight:
        0}]}}  # balanced use; a weight of zero is one
    {}
{name: NodeResourcesBalancedAllocation, args: {resources: []}}  # no resources are the default
        ones
    {}
{name: NodeResourcesFit, args: {ignoredResources: [a.b/c], ignoredResourceGroups: [d.e],
        scoringStrategy: { type: MostAllocated, resources: [{name: nvidia.com/gpu, weight: 5}]}}}
    {ignored_resources: [a.b/c], ignored_resource_groups: [d.e], scoring_strategy: {type:
        MostAllocated, resources: [{name: nvidia.com/gpu, weight: 5}], shape: null}}
{name: NodeResourcesFit, args: {scoringStrategy: {type: RequestedToCapacityRatio,
        requestedToCapacityRatio: { shape: [{utilization: 0, score: 10}, {utilization: 100, score:
        0}]}}}}  # fitting by a shape; no resources are the default ones
    {scoring_strategy: {type: RequestedToCapacityRatio, resources: [{name: cpu, weight: 1}, {name:
        memory, weight: 1}], shape: [{utilization: 0, score: 10}, {utilization: 100, score: 0}]}}
{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{maxSkew: 2,
        topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, minDomains: 3, nodeAffinityPolicy:
        Ignore, nodeTaintsPolicy: Honor, matchLabelKeys: [app], labelSelector: null}]}}
    {default_constraints: [{maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway,
        minDomains: 3, nodeAffinityPolicy: Ignore, nodeTaintsPolicy: Honor, matchLabelKeys:
        [app]}], defaulting_type: List}
{name: VolumeBinding, args: {bindTimeoutSeconds: 0, shape: null}}
    {bind_timeout_seconds: 0}
{name: PreemptiveScheduler, args: {apiVersion: kubescheduler.config.k8s.io/v1, kind:
        PreemptiveSchedulerArgs}}
    {}
{name: PreemptiveScheduler, args: {preferVictimsThatFitElsewhere: true}}
    {prefer_victims_that_fit_elsewhere: true}
{name: PreemptiveScheduler, args: {bindVolumes: false, allocateDevices: false}}
    {bind_volumes: false, allocate_devices: false}
{name: DefaultPreemption, args: null}
    {}
{name: DefaultPreemption, args: {apiVersion: kubescheduler.config.k8s.io/v1, kind:
        DefaultPreemptionArgs}}  # a kind that fits
    {}
{name: DefaultPreemption, args: {apiVersion: null, kind: ''}}  # an empty kind
    {}
{name: Coscheduling, args: {permitWaitingTimeSeconds: 10, kind: Whatever, list: [1, {a: b}]}}  # a
        plugin that does not exist here
    {value: {permitWaitingTimeSeconds: 10, kind: Whatever, list: [1, {a: b}]}}
{name: NodePorts, args: 5}  # a plugin without settings
    {value: 5}
"""


def plain(value):
    return msgspec.json.decode(msgspec.json.encode(value))


@pytest.mark.parametrize(("document", "want"), cases(FIELDS).items())
def test_reads_every_field(parse, document, want):
    found = parse(document.replace("\\n", "\n"))

    attributes = yaml.safe_load(want[0])
    assert {name: plain(getattr(found, name)) for name in attributes} == attributes


@pytest.mark.parametrize(("entry", "want"), cases(ENTRIES).items())
def test_reads_the_arguments_of_plugins(profile, entry, want):
    plugin = yaml.safe_load(entry)["name"]
    default = plain(TYPES[plugin]()) if plugin in TYPES else {}

    found = profile(f"{{pluginConfig: [{entry.partition(' #')[0]}]}}").args[plugin]

    assert plain(found) == default | yaml.safe_load(want[0])


@pytest.mark.parametrize(
    "body",
    [
        "leaderElection: {leaseDuration: 0s, renewDeadline: '0', retryPeriod: 0ms}",
        "leaderElection: {resourceLock: '', resourceName: '', resourceNamespace: ''}",
    ],
)
def test_zero_values_in_leader_election_are_the_defaults(parse, body):
    assert parse(body).leader_election == LeaderElection()


@pytest.mark.parametrize("body", ["extenders: [{}]", "extenders: [null]"])
def test_an_empty_extender_has_the_defaults(parse, body):
    assert parse(body).extenders == (Extender(),)


@pytest.mark.parametrize(
    ("fields", "want_qps", "want_burst"),
    [
        pytest.param("", None, None, id="nothing means no limit"),
        pytest.param("qps: 0, burst: 0", None, None, id="zeros mean no limit"),
        pytest.param("qps: -1", None, None, id="a negative rate means no limit"),
        pytest.param("qps: 50", 50.0, 100, id="a rate alone has the burst of kube-scheduler"),
        pytest.param("qps: 50, burst: 10", 50.0, 10, id="both"),
    ],
)
def test_limits_the_client_only_when_configured(parse, fields, want_qps, want_burst):
    client = parse(f"clientConnection: {{{fields}}}").client_connection

    assert (client.qps, client.burst) == (want_qps, want_burst)


def test_ignorable_extenders_are_called_last(parse):
    body = """
        extenders:
        - {urlPrefix: a, ignorable: true}
        - {urlPrefix: b}
        - {urlPrefix: c, ignorable: true}
        - {urlPrefix: d}
        """

    assert [each.url_prefix for each in parse(body).extenders] == ["b", "d", "a", "c"]


def _entry(plugin: str, args: str) -> str:
    return f"{{pluginConfig: [{{name: {plugin}, args: {args}}}]}}"


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
