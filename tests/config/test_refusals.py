"""Documents that are refused, and with which words, as kube-scheduler v1.36.3 refuses them.

A document without a problem is accepted.
"""

import pytest

from scheduler.config.field_errors import ConfigError
from tests.support.refusals import cases

#: Stands for the long words of Kubernetes, and for a domain that no quota can name.
WORDS = {
    "KEY_RULE": (
        "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and "
        "end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex "
        "used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
    ),
    "LABEL_RULE": (
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
        "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or "
        "'my_value',  or '12345', regex used for validation is "
        "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
    ),
    "PREFERRED": "preferredDuringSchedulingIgnoredDuringExecution",
    "LONG": "a" * 245,
    "SINCE_V1": (
        'was invalid in version "kubescheduler.config.k8s.io/v1" '
        '(KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")'
    ),
}

DOCUMENTS = r"""
parallelism: '16'  # text for an integer
    parallelism: Invalid type: expected a 32-bit integer, got "16"
parallelism: 16.5  # a fraction for an integer
    parallelism: Invalid type: expected a 32-bit integer, got 16.5
parallelism: true  # a boolean for an integer
    parallelism: Invalid type: expected a 32-bit integer, got true
parallelism: 2147483648  # an integer beyond 32 bits
    parallelism: Invalid type: expected a 32-bit integer, got 2147483648
podMaxBackoffSeconds: 9223372036854775808  # an integer beyond 64 bits
    podMaxBackoffSeconds: Invalid type: expected a 64-bit integer, got 9223372036854775808
enableProfiling: 1  # a number for a boolean
    enableProfiling: Invalid type: expected a boolean, got 1
clientConnection: {kubeconfig: 5}  # a number for text
    clientConnection.kubeconfig: Invalid type: expected a string, got 5
clientConnection: {qps: fast}  # text for a number
    clientConnection.qps: Invalid type: expected a 32-bit number, got "fast"
clientConnection: {qps: 4.0e+38}  # a number beyond 32 bits
    clientConnection.qps: Invalid type: expected a 32-bit number, got 4e+38
leaderElection: {leaseDuration: 15}  # a number for a duration
    leaderElection.leaseDuration: Invalid type: expected a duration like "15s" or "1m30s", got 15
leaderElection: {leaseDuration: null}  # null for a duration
    leaderElection.leaseDuration: Invalid type: expected a duration like "15s" or "1m30s", got
        null
leaderElection: {leaseDuration: 1d}  # days
    leaderElection.leaseDuration: Invalid value: unknown unit "d" in duration "1d"
leaderElection: [15s]  # a list for an object
    leaderElection: Invalid type: expected an object, got a list
extenders: {}  # an object for a list
    extenders: Invalid type: expected a list, got an object
extenders: [{tlsConfig: {caData: '?'}}]  # what is not base64
    extenders[0].tlsConfig.caData: Invalid value: not base64: Only base64 data is allowed
paralelism: 3  # a field with a typing error
    paralelism: unknown field "paralelism", did you mean "parallelism"?
metadata: {}  # a field like no other
    metadata: unknown field "metadata"
parallelism: 3\nparallelism: 4  # a field that is set twice
    parallelism: duplicate field "parallelism", first set on line 3
podInitialBackoffSeconds: 5\npodMaxBackoffSeconds: 5  # equal pauses
leaderElection: {leaderElect: false, leaseDuration: 1s}  # no election
leaderElection: {leaderElect: false, resourceLock: endpoints}  # an old lock without election
leaderElection: {leaseDuration: 11000ms}  # a lease a little longer than renewal
leaderElection: {renewDeadline: 2401ms}  # a deadline a little over 1.2 retries
extenders: [{weight: -5}]  # a weight that nothing uses
extenders: [{enableHTTPS: true, tlsConfig: {}}]  # TLS without a CA
extenders: [{tlsConfig: {insecure: true}}]  # TLS unverified
extenders: [{httpTimeout: -1s}]  # no timeout
parallelism: 0  # no parallelism
    parallelism: Invalid value: 0: should be an integer value greater than zero
percentageOfNodesToScore: 101  # more than all nodes
    percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]
podInitialBackoffSeconds: 0  # no pause
    podInitialBackoffSeconds: Invalid value: 0: must be greater than 0
podInitialBackoffSeconds: 11  # a first pause longer than the longest
    podMaxBackoffSeconds: Invalid value: 10: must be greater than or equal to
        PodInitialBackoffSeconds
podInitialBackoffSeconds: x\npodMaxBackoffSeconds: 0  # nothing is compared with a value that
        could not be read
    podInitialBackoffSeconds: Invalid type: expected a 64-bit integer, got "x"
clientConnection: {burst: -1}  # a negative burst
    clientConnection.burst: Invalid value: -1: must be non-negative
leaderElection: {leaseDuration: -1s, renewDeadline: -2s, retryPeriod: -3s}  # negative times
    leaderElection.leaseDuration: Invalid value: "-1s": must be greater than zero
    leaderElection.renewDeadline: Invalid value: "-2s": must be greater than zero
    leaderElection.retryPeriod: Invalid value: "-3s": must be greater than zero
leaderElection: {leaseDuration: 15900ms, renewDeadline: 15500ms}  # a lease that others would see
        end before its holder does
    leaderElection.leaseDuration: Invalid value: "15.9s": must be whole seconds: a Lease cannot
        hold fractions of a second
leaderElection: {leaseDuration: 10s}  # a lease that ends with the deadline
    leaderElection.leaseDuration: Invalid value: "10s": must be greater than `RenewDeadline`
leaderElection: {renewDeadline: 2400ms}  # a deadline too short for a second try
    leaderElection.renewDeadline: Invalid value: "2.4s": renewDeadline must be greater than
        retryPeriod*JitterFactor
leaderElection: {renewDeadline: 1s, retryPeriod: [2s]}  # nor with a retry period that could not
        be read
    leaderElection.retryPeriod: Invalid type: expected a duration like "15s" or "1m30s", got a
        list
leaderElection: {resourceLock: endpoints}  # an old lock
    leaderElection.resourceLock: Invalid value: "endpoints": resourceLock value must be "leases"
extenders: [{prioritizeVerb: p}]  # an extender that scores without weight
    extenders[0].weight: Invalid value: 0: must have a positive weight applied to it
extenders: [{bindVerb: b}, {bindVerb: b}]  # two extenders that bind
    extenders: Invalid value: "found 2 extenders implementing bind": only one extender can
        implement bind
extenders: [{tlsConfig: {insecure: true, caFile: /ca}}]  # a CA that would not be used
    extenders[0].tlsConfig.insecure: Invalid value: true: specifying a root certificates file with
        the insecure flag is not allowed
extenders: [{managedResources: [{name: cpu}]}]  # a native resource
    extenders[0].managedResources[0].name: Invalid value: "cpu": is an invalid extended resource
        name
extenders: [{managedResources: [{name: LONG/a}]}]  # a resource whose quota name is too long
    extenders[0].managedResources[0].name: Invalid value: "LONG/a": is an invalid extended
        resource name
extenders: [{managedResources: [{name: a.b/c}]}, {managedResources: [{name: a.b/c}]}]  # a
        resource of two extenders
    extenders[1].managedResources[0].name: Invalid value: "a.b/c": duplicate extender managed
        resource name
profiles: [{schedulerName: ''}]  # an empty name
    profiles[0].schedulerName: Required value
profiles: [{}, {schedulerName: a}, {}]  # no name among several profiles
    profiles[0].schedulerName: Required value
    profiles[2].schedulerName: Required value
profiles: [{schedulerName: a}, {schedulerName: a}]  # a name twice
    profiles[1].schedulerName: Duplicate value: "a": first set by profiles[0].schedulerName
profiles: [{schedulerName: 5}]  # a number for a name
    profiles[0].schedulerName: Invalid type: expected a string, got 5
profiles: [{percentageOfNodesToScore: -1}]  # more than all nodes
    profiles[0].percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]
profiles: {schedulerName: a}  # an object for the list
    profiles: Invalid type: expected a list, got an object
profiles: [{plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}, pluginConfig:
        [{name: NodeResourcesFit, args: {ignoredResources: ['a b']}}]}]  # of a disabled plugin
profiles: [{schedulerName: a, plugins: {}}, {schedulerName: b, plugins: {queueSort: {enabled:
        []}}}]  # one queue: an empty set
profiles: [{schedulerName: a, plugins: {queueSort: {enabled: [{name: PrioritySort}]}}},
        {schedulerName: b, plugins: {queueSort: {enabled: [{name: PrioritySort, weight: 0}]}}}]  #
        one queue: the same set
profiles: [{schedulerName: a, pluginConfig: [{name: PrioritySort, args: {a: 1}}]}, {schedulerName:
        b, pluginConfig: [{name: PrioritySort, args: {a: 1}}]}]  # one queue: with the same
        settings
profiles: [{schedulerName: a, pluginConfig: [{name: PrioritySort, args: null}]}, {schedulerName:
        b, plugins: {}}]  # one queue: without settings
profiles: [{schedulerName: a, plugins: {}}, {schedulerName: b, plugins: {queueSort: {enabled:
        [{name: PrioritySort}]}}}]  # one queue: only one names the plugin
    profiles[1].plugins.queueSort: Invalid value: ["PrioritySort"]: must be the same for all
        profiles
profiles: [{schedulerName: a, plugins: {queueSort: {enabled: [{name: PrioritySort}]}}},
        {schedulerName: b, plugins: {queueSort: {enabled: [{name: PrioritySort, weight: 3}]}}}]  #
        one queue: the weights differ
    profiles[1].plugins.queueSort: Invalid value: ["PrioritySort"]: must be the same for all
        profiles
profiles: [{schedulerName: a, plugins: {}}, {schedulerName: b, plugins: {multiPoint: {disabled:
        [{name: PrioritySort}], enabled: [{name: OtherSort}]}}}]  # one queue: the plugins differ
    profiles[1].plugins.queueSort: Invalid value: ["OtherSort"]: must be the same for all profiles
profiles: [{schedulerName: a, pluginConfig: [{name: PrioritySort, args: {a: 1}}]}, {schedulerName:
        b, pluginConfig: [{name: PrioritySort, args: {a: 2}}]}]  # one queue: the settings differ
    profiles[1].pluginConfig[0].args: queueSort must be the same for all profiles
profiles: [{schedulerName: a, pluginConfig: [{name: PrioritySort, args: {a: 1}}]}, {schedulerName:
        b, plugins: {}}]  # one queue: only the first has settings
    profiles[1].pluginConfig: queueSort must be the same for all profiles
"""
PLUGINS = r"""
filter: {enabled: [{name: NodeNam}]}  # an unknown plugin at a point
    .filter.enabled[0].name: plugin "NodeNam" does not exist, did you mean "NodeName"?
multiPoint: {enabled: [{name: Coscheduling}]}  # an unknown plugin in multiPoint
    .multiPoint.enabled[0].name: plugin "Coscheduling" does not exist
score: {enabled: [{name: PrioritySort}]}  # a plugin at a point that it does not implement
    .score.enabled[0]: plugin "PrioritySort" does not extend ScorePlugin plugin
filter: {enabled: [{name: NodeName}, {name: NodeName}]}  # a plugin twice at a point
    .filter.enabled[1]: plugin "NodeName" already registered as "FilterPlugin"
multiPoint: {enabled: [{name: NodeName}, {name: NodeName}]}  # a plugin twice in multiPoint
    .multiPoint.enabled[0]: plugin "NodeName" already registered as "FilterPlugin"
bind: {enabled: [{name: EBSLimits}]}  # a removed plugin at a point
    .bind.enabled[0]: Invalid value: "EBSLimits": SINCE_V1
multiPoint: {enabled: [{name: EBSLimits}]}  # a removed plugin in multiPoint is unknown
    .multiPoint.enabled[0].name: plugin "EBSLimits" does not exist
filter: {enabled: [{weight: 1}]}  # an entry without name
    .filter.enabled[0].name: plugin "" does not exist
filter: {enabled: [NodeName]}  # a name in place of an entry
    .filter.enabled[0]: Invalid type: expected an object, got "NodeName"
filter: {enabled: [{name: NodeName, wait: 1}]}  # an unknown field of an entry
    .filter.enabled[0].wait: unknown field "wait"
filters: {}  # an unknown point
    .filters: unknown field "filters", did you mean "filter"?
multiPoint: {disabled: [{name: DefaultBinder}]}  # nothing binds
    .bind: at least one bind plugin is needed for profile with scheduler name
        "preemptive-scheduler"
queueSort: {disabled: [{name: PrioritySort}]}  # nothing sorts
    .queueSort: only one queue sort plugin required for profile with scheduler name
        "preemptive-scheduler", but got 0
multiPoint: {enabled: [{name: TaintToleration, weight: -1}]}  # a negative weight before others
    .score: score plugins: total score of Score plugins could overflow
"""
ENTRIES = r"""
{name: DefaultPreemption, args: []}  # a list
    .args: Invalid type: expected an object, got a list
{name: DefaultPreemption, args: {minCandidateNodes: 5}}  # an unknown field
    .args.minCandidateNodes: unknown field "minCandidateNodes", did you mean
        "minCandidateNodesAbsolute"?
{name: DefaultPreemption, args: {minCandidateNodesAbsolute: 1, minCandidateNodesAbsolute: 1}}  # a
        field twice
    .args.minCandidateNodesAbsolute: duplicate field "minCandidateNodesAbsolute", first set on
        line 3
{name: DefaultPreemption, args: {kind: NodeAffinityArgs}}  # another kind
    .args.kind: Invalid value: "NodeAffinityArgs": args for plugin DefaultPreemption were not of
        type DefaultPreemptionArgs
{name: DefaultPreemption, args: {apiVersion: kubescheduler.config.k8s.io/v1beta3}}  # an old
        version
    .args.apiVersion: Invalid value: "kubescheduler.config.k8s.io/v1beta3": args for plugin
        DefaultPreemption were not of type kubescheduler.config.k8s.io/v1
{name: DefaultPreemption, args: {kind: [x]}}  # a list for the kind
    .args.kind: Invalid value: ["x"]: args for plugin DefaultPreemption were not of type
        DefaultPreemptionArgs
{name: PreemptiveScheduler, args: {foo: 1}}  # an unknown addition of ours
    .args.foo: unknown field "foo"
{name: Foreign, args: {a: 1, a: 2}}  # a field twice in settings of an unknown plugin
    .args.a: duplicate field "a", first set on line 3
{name: NodeResourcesFitArgs, args: {a: 1}}  # the kind in place of the name
    .args: Invalid value: {"a": 1}: has to match plugin args
{name: EBSLimits, args: {}}  # a plugin of former times
    : Invalid value: "EBSLimits": SINCE_V1
{name: DefaultPreemption, args: {minCandidateNodesPercentage: 100, minCandidateNodesAbsolute: 0}}
        # one of the two numbers of candidates is zero
{name: InterPodAffinity, args: {hardPodAffinityWeight: 100}}  # the largest weight
{name: DynamicResources, args: {bindingTimeout: 1s}}  # the shortest wait
{name: NodeResourcesFit, args: {scoringStrategy: {type: LeastAllocated, resources: [{name: cpu,
        weight: 100}, {name: cpu}]}}}  # a resource twice in the score
{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{maxSkew: 1,
        topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}, {maxSkew: 1, topologyKey: zone,
        whenUnsatisfiable: DoNotSchedule}]}}  # a soft and a hard constraint over the same key
{name: PodTopologySpread, args: {defaultingType: List}}  # an empty list
{name: DefaultPreemption, args: {minCandidateNodesPercentage: 101, minCandidateNodesAbsolute: -1}}
        # candidates out of range
    .args.minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]
    .args.minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)
{name: DefaultPreemption, args: {minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}}  #
        no candidates at all
    .args.minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same time as
        minCandidateNodesAbsolute
    .args.minCandidateNodesAbsolute: Invalid value: 0: cannot be zero at the same time as
        minCandidateNodesPercentage
{name: DynamicResources, args: {filterTimeout: -1s, bindingTimeout: 999ms}}  # timeouts that are
        too short
    .args.filterTimeout: Invalid value: "-1s": must be zero or positive
    .args.bindingTimeout: Invalid value: "999ms": must be at least 1 second
{name: PreemptiveScheduler, args: {preemptForDevices: "true"}}  # a word for a truth value
    .args.preemptForDevices: Invalid type: expected a boolean, got "true"
{name: InterPodAffinity, args: {hardPodAffinityWeight: 101}}  # a weight out of range
    .args.hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]
{name: NodeResourcesBalancedAllocation, args: {resources: [{name: cpu}, {name: cpu, weight: 2}]}}
        # a resource twice, and a weight
    .args.resources[1].name: Duplicate value: "cpu"
    .args.resources[1].weight: Invalid value: 2: must be 1
{name: VolumeBinding, args: {bindTimeoutSeconds: -1}}  # a negative wait for volumes
    .args.bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a
        negative value
{name: NodeResourcesFit, args: {ignoredResources: ['a b'], ignoredResourceGroups: [a/b, '-']}}  #
        names that are no names
    .args.ignoredResources[0]: Invalid value: "a b": KEY_RULE
    .args.ignoredResourceGroups[0]: Invalid value: "a/b": resource group name can't contain '/'
    .args.ignoredResourceGroups[1]: Invalid value: "-": KEY_RULE
{name: NodeResourcesFit, args: {scoringStrategy: {resources: [{name: cpu, weight: 101}]}}}  # a
        strategy without type, and a weight out of range
    .args.scoringStrategy.type: Unsupported value: "": supported values: "LeastAllocated",
        "MostAllocated", "RequestedToCapacityRatio"
    .args.scoringStrategy.resources[0].weight: Invalid value: 101: resource weight of cpu not in
        valid range (0, 100]
{name: NodeResourcesFit, args: {scoringStrategy: {type: RequestedToCapacityRatio}}}  # no ratio
    .args.scoringStrategy.requestedToCapacityRatio: Required value: must be specified when type is
        RequestedToCapacityRatio
{name: NodeResourcesFit, args: {scoringStrategy: {type: RequestedToCapacityRatio,
        requestedToCapacityRatio: {}}}}  # a ratio without shape
    .args.scoringStrategy.requestedToCapacityRatio.shape: Required value: at least one point must
        be specified
{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated, requestedToCapacityRatio:
        {}}}}  # a ratio that nothing uses
    .args.scoringStrategy.requestedToCapacityRatio: Forbidden: must be nil when type is not
        RequestedToCapacityRatio
{name: NodeResourcesFit, args: {scoringStrategy: {type: [x], requestedToCapacityRatio: {}}}}  # a
        ratio beside a type that could not be read
    .args.scoringStrategy.type: Invalid type: expected a string, got a list
{name: NodeResourcesFit, args: {scoringStrategy: {type: RequestedToCapacityRatio,
        requestedToCapacityRatio: {shape: [{utilization: 101, score: 11}, {utilization: 9, score:
        -1}, {utilization: 8}]}}}}  # a shape out of order and out of range
    .args.scoringStrategy.requestedToCapacityRatio.shape[1].utilization: Invalid value: 9: values
        must be sorted in increasing order
    .args.scoringStrategy.requestedToCapacityRatio.shape[0].utilization: Invalid value: 101: not
        in valid range [0, 100]
    .args.scoringStrategy.requestedToCapacityRatio.shape[0].score: Invalid value: 11: not in valid
        range [0, 10]
    .args.scoringStrategy.requestedToCapacityRatio.shape[1].score: Invalid value: -1: not in valid
        range [0, 10]
{name: VolumeBinding, args: {shape: []}}  # a field of a feature that is off
    .args.shape: Forbidden: unexpected field `shape`, it belongs to the feature
        StorageCapacityScoring, which is off
{name: PodTopologySpread, args: {defaultingType: Other}}  # an unknown way of defaulting
    .args.defaultingType: Unsupported value: "Other": supported values: "List", "System"
{name: PodTopologySpread, args: {defaultConstraints: [{maxSkew: 1, topologyKey: zone,
        whenUnsatisfiable: ScheduleAnyway}]}}  # constraints that nothing uses
    .args.defaultingType: Invalid value: "System": when .defaultConstraints are not empty
{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{}, {maxSkew: 1,
        topologyKey: 'a b', whenUnsatisfiable: Never, labelSelector: {}}]}}  # constraints that
        say too little or too much
    .args.defaultConstraints[1].labelSelector: Forbidden: constraint must not define a selector,
        as it is deduced for each pod
    .args.defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)
    .args.defaultConstraints[0].topologyKey: Required value: can not be empty
    .args.defaultConstraints[0].whenUnsatisfiable: Required value: can not be empty
    .args.defaultConstraints[1].topologyKey: Invalid value: "a b": KEY_RULE
    .args.defaultConstraints[1].whenUnsatisfiable: Unsupported value: "Never": supported values:
        "DoNotSchedule", "ScheduleAnyway"
{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{maxSkew: 1,
        topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}, {maxSkew: 1, topologyKey: zone,
        whenUnsatisfiable: ScheduleAnyway}]}}  # a constraint twice
    .args.defaultConstraints[1]: Duplicate value: "{zone, ScheduleAnyway}"
{name: NodeAffinity, args: {addedAffinity: {PREFERRED: [
        {weight: 0, preference: {matchFields: [{operator: Gt}]}},
        {weight: 1, preference: {matchFields: [{operator: Gt}]}}]}}}  # terms count with a weight
    .args.addedAffinity.PREFERRED[1].preference.matchFields[0].operator: Unsupported value: "Gt":
        supported values: "In", "NotIn"
"""
TERMS = r"""
matchExpressions: [{key: a, operator: In, values: ['']}]  # an empty value
matchExpressions: [{key: a, operator: Gt, values: ['5']}]  # a bound
matchExpressions: [{key: a, operator: DoesNotExist}]  # absence
matchExpressions: [{key: a}]  # no operator
    .matchExpressions[0].operator: Unsupported value: "": supported values: "DoesNotExist",
        "Exists", "Gt", "In", "Lt", "NotIn"
matchExpressions: [{key: 'a b', operator: Exists}]  # a key
    .matchExpressions[0].key: Invalid value: "a b": KEY_RULE
matchExpressions: [{key: a, operator: In}]  # one of nothing
    .matchExpressions[0].values: Invalid value: []: for 'in', 'notin' operators, values set can't
        be empty
matchExpressions: [{key: a, operator: Exists, values: [b]}]  # presence with a value
    .matchExpressions[0].values: Invalid value: ["b"]: values set must be empty for exists and
        does not exist
matchExpressions: [{key: a, operator: Gt, values: ['1', '2']}]  # two bounds
    .matchExpressions[0].values: Invalid value: ["1", "2"]: for 'Gt', 'Lt' operators, exactly one
        value is required
matchExpressions: [{key: a, operator: Lt, values: [x]}]  # a bound that is no number
    .matchExpressions[0].values[0]: Invalid value: "x": for 'Gt', 'Lt' operators, the value must
        be an integer
matchExpressions: [{key: a, operator: Lt, values: ['9223372036854775808']}]  # a bound beyond 64
        bits
    .matchExpressions[0].values[0]: Invalid value: "9223372036854775808": for 'Gt', 'Lt'
        operators, the value must be an integer
matchExpressions: [{key: a, operator: In, values: [-]}]  # a value that no label has
    .matchExpressions[0].values[0]: Invalid value: "-": LABEL_RULE
matchFields: [{key: metadata.name, operator: Exists}]  # an operator for labels
    .matchFields[0].operator: Unsupported value: "Exists": supported values: "In", "NotIn"
matchFields: [{key: metadata.name, operator: In, values: [a, b]}]  # two names
    .matchFields[0].values: Invalid value: ["a", "b"]: must have one element
matchExpressions: [{key: [x], operator: Foo}]  # a term that could not be parsed
    .matchExpressions[0].key: Invalid type: expected a string, got a list
"""
#: Where each table stands in a document, and the path of it.
PLACES = (
    (DOCUMENTS, "%s", ""),
    (PLUGINS, "profiles: [{plugins: {%s}}]", "profiles[0].plugins"),
    (ENTRIES, "profiles: [{pluginConfig: [%s]}]", "profiles[0].pluginConfig[0]"),
    (
        TERMS,
        "profiles: [{pluginConfig: [{name: NodeAffinity, args: {addedAffinity: "
        "{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{%s}]}}}}]}]",
        "profiles[0].pluginConfig[0].args.addedAffinity"
        ".requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]",
    ),
)
CASES = [
    pytest.param(
        place % document.partition(" #")[0].rstrip().replace("\\n", "\n"),
        [f"{path}{each}" for each in problems],
        id=document,
    )
    for table, place, path in PLACES
    for document, problems in cases(table).items()
]


@pytest.mark.parametrize(("body", "want"), CASES)
def test_every_problem_is_named_with_its_path(parse, body, want):
    for token, text in WORDS.items():
        body, want = body.replace(token, text), [each.replace(token, text) for each in want]
    found: list[str] = []
    try:
        parse(body, extra_plugins={"OtherSort": frozenset({"queueSort"})})
    except ConfigError as error:
        found = [str(each) for each in error.problems]

    assert found == want
