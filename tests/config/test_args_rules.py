"""The rules for settings of plugins: what kube-scheduler v1.36.3 refuses is refused."""

from collections.abc import Callable

import pytest

from scheduler.config.settings import ProfileSettings

_AT = "profiles[0].pluginConfig[0].args"
_KEY_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_CONSTRAINT = "maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway"
_RATIO = "type: RequestedToCapacityRatio, requestedToCapacityRatio"


def _body(plugin: str, args: str) -> str:
    return f"profiles: [{{pluginConfig: [{{name: {plugin}, args: {args}}}]}}]"


@pytest.mark.parametrize(
    ("plugin", "args"),
    [
        pytest.param(
            "DefaultPreemption",
            "{minCandidateNodesPercentage: 100, minCandidateNodesAbsolute: 0}",
            id="one of the two numbers of candidates is zero",
        ),
        pytest.param("InterPodAffinity", "{hardPodAffinityWeight: 100}", id="the largest weight"),
        pytest.param("DynamicResources", "{bindingTimeout: 1s}", id="the shortest wait"),
        pytest.param("NodeResourcesFit", "{ignoredResources: [cpu]}", id="any name is ignored"),
        pytest.param(
            "NodeResourcesFit",
            "{scoringStrategy: {type: LeastAllocated, resources: "
            "[{name: cpu, weight: 100}, {name: cpu}]}}",
            id="a resource twice in the score",
        ),
        pytest.param(
            "PodTopologySpread",
            f"{{defaultingType: List, defaultConstraints: [{{{_CONSTRAINT}}}, "
            "{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]}",
            id="a soft and a hard constraint over the same key",
        ),
        pytest.param("PodTopologySpread", "{defaultingType: List}", id="an empty list"),
    ],
)
def test_accepts(profile: Callable[..., ProfileSettings], plugin: str, args: str):
    assert plugin in profile(f"{{pluginConfig: [{{name: {plugin}, args: {args}}}]}}").args


@pytest.mark.parametrize(
    ("plugin", "args", "want"),
    [
        pytest.param(
            "DefaultPreemption",
            "{minCandidateNodesPercentage: 101, minCandidateNodesAbsolute: -1}",
            [
                ".minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]",
                ".minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)",
            ],
            id="candidates out of range",
        ),
        pytest.param(
            "DefaultPreemption",
            "{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}",
            [
                ".minCandidateNodesPercentage: Invalid value: 0: "
                "cannot be zero at the same time as minCandidateNodesAbsolute",
                ".minCandidateNodesAbsolute: Invalid value: 0: "
                "cannot be zero at the same time as minCandidateNodesPercentage",
            ],
            id="no candidates at all",
        ),
        pytest.param(
            "DynamicResources",
            "{filterTimeout: -1s, bindingTimeout: 999ms}",
            [
                '.filterTimeout: Invalid value: "-1s": must be zero or positive',
                '.bindingTimeout: Invalid value: "999ms": must be at least 1 second',
            ],
            id="timeouts that are too short",
        ),
        pytest.param(
            "InterPodAffinity",
            "{hardPodAffinityWeight: 101}",
            [".hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]"],
            id="a weight out of range",
        ),
        pytest.param(
            "NodeResourcesBalancedAllocation",
            "{resources: [{name: cpu}, {name: cpu, weight: 2}]}",
            [
                '.resources[1].name: Duplicate value: "cpu"',
                ".resources[1].weight: Invalid value: 2: must be 1",
            ],
            id="a resource twice, and a weight",
        ),
        pytest.param(
            "VolumeBinding",
            "{bindTimeoutSeconds: -1}",
            [
                ".bindTimeoutSeconds: Invalid value: -1: "
                "invalid BindTimeoutSeconds, should not be a negative value"
            ],
            id="a negative wait for volumes",
        ),
        pytest.param(
            "NodeResourcesFit",
            "{ignoredResources: ['a b'], ignoredResourceGroups: [a/b, '-']}",
            [
                f'.ignoredResources[0]: Invalid value: "a b": {_KEY_RULE}',
                '.ignoredResourceGroups[0]: Invalid value: "a/b": '
                "resource group name can't contain '/'",
                f'.ignoredResourceGroups[1]: Invalid value: "-": {_KEY_RULE}',
            ],
            id="names that are no names",
        ),
        pytest.param(
            "NodeResourcesFit",
            "{scoringStrategy: {resources: [{name: cpu, weight: 101}]}}",
            [
                '.scoringStrategy.type: Unsupported value: "": supported values: '
                '"LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"',
                ".scoringStrategy.resources[0].weight: Invalid value: 101: "
                "resource weight of cpu not in valid range (0, 100]",
            ],
            id="a strategy without type, and a weight out of range",
        ),
        pytest.param(
            "NodeResourcesFit",
            "{scoringStrategy: {type: RequestedToCapacityRatio}}",
            [
                ".scoringStrategy.requestedToCapacityRatio: Required value: "
                "must be specified when type is RequestedToCapacityRatio"
            ],
            id="no ratio",
        ),
        pytest.param(
            "NodeResourcesFit",
            f"{{scoringStrategy: {{{_RATIO}: {{}}}}}}",
            [
                ".scoringStrategy.requestedToCapacityRatio.shape: Required value: "
                "at least one point must be specified"
            ],
            id="a ratio without shape",
        ),
        pytest.param(
            "NodeResourcesFit",
            "{scoringStrategy: {type: MostAllocated, requestedToCapacityRatio: {}}}",
            [
                ".scoringStrategy.requestedToCapacityRatio: Forbidden: "
                "must be nil when type is not RequestedToCapacityRatio"
            ],
            id="a ratio that nothing uses",
        ),
        pytest.param(
            "NodeResourcesFit",
            "{scoringStrategy: {type: [x], requestedToCapacityRatio: {}}}",
            [".scoringStrategy.type: Invalid type: expected a string, got a list"],
            id="a ratio beside a type that could not be read",
        ),
        pytest.param(
            "NodeResourcesFit",
            f"{{scoringStrategy: {{{_RATIO}: {{shape: [{{utilization: 101, score: 11}}, "
            "{utilization: 9, score: -1}, {utilization: 8}]}}}",
            [
                ".scoringStrategy.requestedToCapacityRatio.shape[1].utilization: "
                "Invalid value: 9: values must be sorted in increasing order",
                ".scoringStrategy.requestedToCapacityRatio.shape[0].utilization: "
                "Invalid value: 101: not in valid range [0, 100]",
                ".scoringStrategy.requestedToCapacityRatio.shape[0].score: "
                "Invalid value: 11: not in valid range [0, 10]",
                ".scoringStrategy.requestedToCapacityRatio.shape[1].score: "
                "Invalid value: -1: not in valid range [0, 10]",
            ],
            id="a shape out of order and out of range",
        ),
        pytest.param(
            "VolumeBinding",
            "{shape: []}",
            [
                ".shape: Forbidden: unexpected field `shape`, "
                "it belongs to the feature StorageCapacityScoring, which is off"
            ],
            id="a field of a feature that is off",
        ),
        pytest.param(
            "PodTopologySpread",
            "{defaultingType: Other}",
            ['.defaultingType: Unsupported value: "Other": supported values: "List", "System"'],
            id="an unknown way of defaulting",
        ),
        pytest.param(
            "PodTopologySpread",
            f"{{defaultConstraints: [{{{_CONSTRAINT}}}]}}",
            ['.defaultingType: Invalid value: "System": when .defaultConstraints are not empty'],
            id="constraints that nothing uses",
        ),
        pytest.param(
            "PodTopologySpread",
            "{defaultingType: List, defaultConstraints: [{}, "
            "{maxSkew: 1, topologyKey: 'a b', whenUnsatisfiable: Never, labelSelector: {}}]}",
            [
                ".defaultConstraints[1].labelSelector: Forbidden: "
                "constraint must not define a selector, as it is deduced for each pod",
                ".defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)",
                ".defaultConstraints[0].topologyKey: Required value: can not be empty",
                ".defaultConstraints[0].whenUnsatisfiable: Required value: can not be empty",
                f'.defaultConstraints[1].topologyKey: Invalid value: "a b": {_KEY_RULE}',
                '.defaultConstraints[1].whenUnsatisfiable: Unsupported value: "Never": '
                'supported values: "DoNotSchedule", "ScheduleAnyway"',
            ],
            id="constraints that say too little or too much",
        ),
        pytest.param(
            "PodTopologySpread",
            f"{{defaultingType: List, defaultConstraints: [{{{_CONSTRAINT}}}, {{{_CONSTRAINT}}}]}}",
            ['.defaultConstraints[1]: Duplicate value: "{zone, ScheduleAnyway}"'],
            id="a constraint twice",
        ),
    ],
)
def test_refuses(problems: Callable[..., list[str]], plugin: str, args: str, want: list[str]):
    assert problems(_body(plugin, args)) == [f"{_AT}{each}" for each in want]


_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _required(term: str) -> str:
    return f"{{addedAffinity: {{{_TERMS}: {{nodeSelectorTerms: [{term}]}}}}}}"


def _expression(expression: str) -> str:
    return _required(f"{{matchExpressions: [{expression}]}}")


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("{key: a, operator: In, values: ['']}", id="an empty value"),
        pytest.param("{key: a, operator: Gt, values: ['5']}", id="a bound"),
        pytest.param("{key: a, operator: DoesNotExist}", id="absence"),
    ],
)
def test_accepts_an_expression(profile: Callable[..., ProfileSettings], expression: str):
    args = _expression(expression)

    assert profile(f"{{pluginConfig: [{{name: NodeAffinity, args: {args}}}]}}")


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        pytest.param(
            "{key: a}",
            '.operator: Unsupported value: "": supported values: '
            '"DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"',
            id="no operator",
        ),
        pytest.param(
            "{key: 'a b', operator: Exists}", f'.key: Invalid value: "a b": {_KEY_RULE}', id="a key"
        ),
        pytest.param(
            "{key: a, operator: In}",
            ".values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
            id="one of nothing",
        ),
        pytest.param(
            "{key: a, operator: Exists, values: [b]}",
            '.values: Invalid value: ["b"]: values set must be empty for exists and does not exist',
            id="presence with a value",
        ),
        pytest.param(
            "{key: a, operator: Gt, values: ['1', '2']}",
            '.values: Invalid value: ["1", "2"]: '
            "for 'Gt', 'Lt' operators, exactly one value is required",
            id="two bounds",
        ),
        pytest.param(
            "{key: a, operator: Lt, values: [x]}",
            '.values[0]: Invalid value: "x": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
            id="a bound that is no number",
        ),
        pytest.param(
            "{key: a, operator: Lt, values: ['9223372036854775808']}",
            '.values[0]: Invalid value: "9223372036854775808": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
            id="a bound beyond 64 bits",
        ),
    ],
)
def test_refuses_an_expression(problems: Callable[..., list[str]], expression: str, want: str):
    at = f"{_AT}.addedAffinity.{_TERMS}.nodeSelectorTerms[0].matchExpressions[0]"

    assert problems(_body("NodeAffinity", _expression(expression))) == [f"{at}{want}"]


def test_refuses_a_value_that_no_label_has(problems: Callable[..., list[str]]):
    [problem] = problems(_body("NodeAffinity", _expression("{key: a, operator: In, values: [-]}")))

    assert 'matchExpressions[0].values[0]: Invalid value: "-": a valid label must be' in problem


@pytest.mark.parametrize(
    ("field", "want"),
    [
        pytest.param(
            "{key: metadata.name, operator: Exists}",
            '.operator: Unsupported value: "Exists": supported values: "In", "NotIn"',
            id="an operator for labels",
        ),
        pytest.param(
            "{key: metadata.name, operator: In, values: [a, b]}",
            '.values: Invalid value: ["a", "b"]: must have one element',
            id="two names",
        ),
    ],
)
def test_refuses_a_field_expression(problems: Callable[..., list[str]], field: str, want: str):
    at = f"{_AT}.addedAffinity.{_TERMS}.nodeSelectorTerms[0].matchFields[0]"
    args = _required(f"{{matchFields: [{field}]}}")

    assert problems(_body("NodeAffinity", args)) == [f"{at}{want}"]


def test_preferred_terms_count_only_with_a_weight(
    problems: Callable[..., list[str]],
):
    term = "preference: {matchFields: [{operator: Gt}]}"
    args = f"{{addedAffinity: {{{_PREFERRED}: [{{weight: 0, {term}}}, {{weight: 1, {term}}}]}}}}"

    assert problems(_body("NodeAffinity", args)) == [
        f"{_AT}.addedAffinity.{_PREFERRED}[1].preference.matchFields[0].operator: "
        'Unsupported value: "Gt": supported values: "In", "NotIn"'
    ]


def test_a_term_that_could_not_be_parsed_is_not_validated(problems: Callable[..., list[str]]):
    args = _expression("{key: [x], operator: Foo}")

    assert problems(_body("NodeAffinity", args)) == [
        f"{_AT}.addedAffinity.{_TERMS}.nodeSelectorTerms[0].matchExpressions[0].key: "
        "Invalid type: expected a string, got a list"
    ]


def test_settings_of_the_fit_plugin_are_not_validated_where_it_is_disabled(
    profile: Callable[..., ProfileSettings],
):
    off = "plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}"
    config = "pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: ['a b']}}]"

    found = profile(f"{{{off}, {config}}}")

    assert "NodeResourcesFit" not in found.enabled
