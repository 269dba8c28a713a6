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
from tests.support.refusals import BEYOND_THE_SCHEMA, POLICIES

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


@pytest.mark.parametrize(("spec", "want"), (POLICIES | BEYOND_THE_SCHEMA).items())
def test_refuses_and_names_the_field(spec, want):
    found = problems(policy(spec))

    assert any(each.startswith(want[0]) for each in found), found


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
