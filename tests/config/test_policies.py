"""Preemption policies: what is read, and what is refused with which words."""

from typing import Any

import pytest
import yaml

from scheduler.config import policies
from scheduler.config.policies import PolicyError
from scheduler.model.api.objects import LabelSelector, Requirement
from scheduler.model.api.selectors import Selector
from scheduler.model.policies import (
    Budget,
    BudgetScope,
    DisruptionBudgets,
    ForeignVictims,
    PodSelection,
    PolicyMode,
    PreemptionLimit,
    PreemptionPolicy,
    VictimsFrom,
)

FULL = """
mode: Audit
preemptors:
  namespaceSelector: {matchLabels: {team: a}}
  podSelector: {matchExpressions: [{key: tier, operator: In, values: [web, db]}]}
  minPriority: 100
  maxPriority: 1000
  priorityClassNames: [high, higher.example.com]
victims:
  podSelector: {}
  minPriority: -5
podDisruptionBudgets: StrictBelow
strictBelowPriority: 500
budgets:
- {maxVictims: 10, window: 1h}
- {maxVictims: 0, window: 1m30s, scope: Owner}
maxVictimsPerPreemption: 3
victimMinRuntime: 10m
maxPreemptionsPerOwner: {maxPreemptions: 2, window: 24h}
preemptorDelay: 30s
foreignVictims: NonLooping
victimsFrom: SameOwner
"""


def policy(spec: str) -> dict[str, Any]:
    return {
        "apiVersion": policies.API_VERSION,
        "kind": policies.KIND,
        "metadata": {"name": "p", "uid": "u", "generation": 7},
        "spec": yaml.safe_load(spec),
    }


def problems(document: dict[str, Any]) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        policies.read(document)
    return [str(each) for each in caught.value.problems]


def test_a_policy_that_says_nothing_binds_every_preemption_and_refuses_none():
    assert policies.read(policy("{}")) == PreemptionPolicy("p", "u", 7)


def test_reads_every_field():
    assert policies.read(policy(FULL)) == PreemptionPolicy(
        name="p",
        uid="u",
        generation=7,
        mode=PolicyMode.AUDIT,
        preemptors=PodSelection(
            namespaces=Selector.of(LabelSelector(match_labels={"team": "a"})),
            pods=Selector((Requirement("tier", "In", ["web", "db"]),)),
            min_priority=100,
            max_priority=1000,
            priority_classes=frozenset({"high", "higher.example.com"}),
        ),
        victims=PodSelection(pods=Selector(()), min_priority=-5),
        disruption_budgets=DisruptionBudgets.STRICT_BELOW,
        strict_below=500,
        budgets=(Budget(10, 3600.0), Budget(0, 90.0, BudgetScope.OWNER)),
        max_victims_per_preemption=3,
        victim_min_runtime=600.0,
        max_preemptions_per_owner=PreemptionLimit(2, 86400.0),
        preemptor_delay=30.0,
        foreign_victims=ForeignVictims.NON_LOOPING,
        victims_from=VictimsFrom.SAME_OWNER,
    )


def test_null_means_that_a_field_is_not_set():
    spec = "{preemptors: null, budgets: null, maxVictimsPerPreemption: null, mode: null}"

    assert policies.read(policy(spec)) == PreemptionPolicy("p", "u", 7)


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ("{mode: Maybe}", 'spec.mode: Unsupported value: "Maybe"'),
        ("{foreignVictims: Sometimes}", 'spec.foreignVictims: Unsupported value: "Sometimes"'),
        (
            "{victimsFrom: Namespace}",
            'spec.victimsFrom: Unsupported value: "Namespace": supported values: "Any", '
            '"SameNamespace", "SameOwner"',
        ),
        (
            "{victimsFrom: [SameOwner]}",
            "spec.victimsFrom: Invalid type: expected a string, got a list",
        ),
        ("{victimsFrom: 1}", "spec.victimsFrom: Invalid type: expected a string, got 1"),
        ("{podDisruptionBudgets: Lax}", 'spec.podDisruptionBudgets: Unsupported value: "Lax"'),
        (
            "{podDisruptionBudgets: StrictBelow}",
            "spec.strictBelowPriority: Required value: podDisruptionBudgets is StrictBelow",
        ),
        (
            "{podDisruptionBudgets: Strict, strictBelowPriority: 0}",
            "spec.strictBelowPriority: Forbidden: podDisruptionBudgets is Strict, not StrictBelow",
        ),
        (
            "{podDisruptionBudgets: StrictBelow, strictBelowPriority: 2147483648}",
            "spec.strictBelowPriority: Invalid value: 2147483648: must be a 32-bit integer",
        ),
        (
            "{preemptors: {minPriority: 5, maxPriority: 4}}",
            "spec.preemptors.minPriority: Invalid value: 5: must not be greater than maxPriority, "
            "which is 4",
        ),
        (
            "{preemptors: {maxPriority: 10}, victims: {minPriority: 10}}",
            "spec.victims.minPriority: Invalid value: 10: must be less than "
            "spec.preemptors.maxPriority, which is 10",
        ),
        (
            "{victims: {minPriority: 9223372036854775808}}",
            "spec.victims.minPriority: Invalid type: expected a 64-bit integer",
        ),
        ("{budgets: [{window: 1h}]}", "spec.budgets[0].maxVictims: Required value"),
        ("{budgets: [{maxVictims: 1}]}", "spec.budgets[0].window: Required value"),
        (
            "{budgets: [{maxVictims: -1, window: 1h}]}",
            "spec.budgets[0].maxVictims: Invalid value: -1: not in valid range [0, 10000]",
        ),
        (
            "{budgets: [{maxVictims: 10001, window: 1h}]}",
            "spec.budgets[0].maxVictims: Invalid value: 10001: not in valid range [0, 10000]",
        ),
        (
            "{budgets: [{maxVictims: 1, window: 1h}, {maxVictims: 1, window: -5m}]}",
            'spec.budgets[1].window: Invalid value: "-5m0s": must be at least 1 second',
        ),
        (
            "{budgets: [{maxVictims: 1, window: 0s}]}",
            'spec.budgets[0].window: Invalid value: "0s": must be at least 1 second',
        ),
        (
            "{budgets: [{maxVictims: 1, window: 721h}]}",
            'spec.budgets[0].window: Invalid value: "721h0m0s": must be at most 720h',
        ),
        (
            "{budgets: [{maxVictims: 1, window: 1d}]}",
            'spec.budgets[0].window: Invalid value: unknown unit "d" in duration "1d"',
        ),
        (
            "{budgets: [{maxVictims: 1, window: 3600}]}",
            "spec.budgets[0].window: Invalid type: expected a duration",
        ),
        (
            "{budgets: [{maxVictims: 1, window: 1h, scope: Rack}]}",
            'spec.budgets[0].scope: Unsupported value: "Rack"',
        ),
        (
            "{budgets: [{maxVictims: 1, window: 1h}, {maxVictims: 2, window: 60m}]}",
            'spec.budgets[1]: Duplicate value: "Cluster within 1h0m0s"',
        ),
        (f"{{budgets: {[{}] * 17}}}", "spec.budgets: Invalid value: 17: must have at most 16"),
        (
            "{maxVictimsPerPreemption: -1}",
            "spec.maxVictimsPerPreemption: Invalid value: -1: not in valid range",
        ),
        (
            "{maxPreemptionsPerOwner: {maxPreemptions: 1}}",
            "spec.maxPreemptionsPerOwner.window: Required value",
        ),
        (
            "{victimMinRuntime: -1s}",
            'spec.victimMinRuntime: Invalid value: "-1s": must not be negative',
        ),
        (
            "{preemptorDelay: 1000000h}",
            'spec.preemptorDelay: Invalid value: "1000000h0m0s": must be at most 720h',
        ),
        (
            "{preemptorDelay: 99999999999h}",
            'spec.preemptorDelay: Invalid value: invalid duration "99999999999h"',
        ),
        (
            "{victims: {podSelector: {matchExpressions: [{key: a, operator: Near}]}}}",
            "spec.victims.podSelector.matchExpressions[0]: Invalid value: 'Near' is not a valid",
        ),
        (
            "{victims: {podSelector: {matchExpressions: [{key: a, operator: In}]}}}",
            "spec.victims.podSelector.matchExpressions[0]: Invalid value: wrong number of values",
        ),
        (
            "{victims: {namespaceSelector: {matchLabels: {a: '!'}}}}",
            "spec.victims.namespaceSelector.matchLabels.a: Invalid value: '!' is not a valid label",
        ),
        (
            "{victims: {namespaceSelector: {matchLabels: {a: 1}}}}",
            "spec.victims.namespaceSelector.matchLabels.a: Invalid type: expected a string, got 1",
        ),
        (
            "{victims: {nodeSelector: {}}}",
            'spec.victims.nodeSelector: unknown field "nodeSelector", did you mean "podSelector"?',
        ),
        (
            "{maxVictimPerPreemption: 1}",
            'spec.maxVictimPerPreemption: unknown field "maxVictimPerPreemption", did you mean '
            '"maxVictimsPerPreemption"?',
        ),
        (
            "{preemptors: {priorityClassNames: [High]}}",
            'spec.preemptors.priorityClassNames[0]: Invalid value: "High": a lowercase RFC 1123',
        ),
        (
            "{preemptors: {priorityClassNames: [a, a]}}",
            'spec.preemptors.priorityClassNames[1]: Duplicate value: "a"',
        ),
        ("{preemptors: [a]}", "spec.preemptors: Invalid type: expected an object, got a list"),
        ("null", "spec: Required value"),
    ],
)
def test_refuses_and_names_the_field(spec: str, want: str):
    assert any(each.startswith(want) for each in problems(policy(spec))), problems(policy(spec))


def test_says_all_that_is_wrong_at_once():
    found = problems(policy("{mode: X, budgets: [{maxVictims: -1, window: 0s}], typo: 1}"))

    assert [each.partition(":")[0] for each in found] == [
        "spec.typo",
        "spec.mode",
        "spec.budgets[0].maxVictims",
        "spec.budgets[0].window",
    ]


def test_says_nothing_about_what_follows_from_a_field_that_it_cannot_read():
    found = problems(policy("{budgets: [{maxVictims: many, window: soon}]}"))

    assert [each.partition(" value")[0] for each in found] == [
        'spec.budgets[0].maxVictims: Invalid type: expected a 64-bit integer, got "many"',
        "spec.budgets[0].window: Invalid",
    ]


def test_the_error_reads_as_one_line():
    with pytest.raises(PolicyError) as caught:
        policies.read(policy("{mode: X, typo: 1}"))

    assert str(caught.value).startswith('spec.typo: unknown field "typo"; spec.mode: Unsupported')


def test_a_spec_nested_too_deeply_is_refused():
    nested: dict[str, Any] = {}
    for _ in range(100_000):
        nested = {"a": nested}

    assert problems(policy("{}") | {"spec": nested}) == ["nested too deeply"]
