"""Policies as a document: their rules in words, what is spent, and what was refused."""

import pytest

from scheduler.model.api.objects import LabelSelector, Requirement
from scheduler.model.api.selectors import Selector
from scheduler.model.events import PolicyGone
from scheduler.model.policies import (
    Budget,
    BudgetScope,
    DisruptionBudgets,
    ForeignVictims,
    PodSelection,
    PolicyChange,
    PolicyMode,
    PolicyState,
    PreemptionLimit,
    PreemptionPolicy,
    VictimsFrom,
)
from scheduler.observe.api.policy_words import rules
from tests.support.api_documents import Documents, Only
from tests.support.builders import node, pod
from tests.support.policies import labelled

BUDGETS = (
    Budget(2, 3600.0),
    Budget(2, 600.0, BudgetScope.NAMESPACE),
    Budget(5, 60.0, BudgetScope.NODE),
)


#: The label of a namespace with its name.
NAME = "kubernetes.io/metadata.name"


def required(key: str, operator: str, *values: str) -> Selector:
    return Selector.of(LabelSelector(match_expressions=[Requirement(key, operator, [*values])]))


def preempted(policy: PreemptionPolicy) -> Documents:
    """Return a cluster in which `high` has evicted `low` under a policy."""
    docs = Documents(policy, node("n1").cpu("4"), node("n2").cpu("4"))
    docs.cluster.add(
        pod("low").namespace("shop").on("n1").cpu("4").priority(1),
        pod("middle").on("n2").cpu("4").priority(5),
    )
    docs.cluster.schedule(pod("high").cpu("4").priority(9))
    return docs


async def test_budgets_have_what_is_spent_of_them():
    docs = preempted(PreemptionPolicy("p", generation=3, budgets=BUDGETS))

    (policy,) = (await docs.get("policies"))["items"]

    assert (policy["name"], policy["generation"], policy["generationInForce"]) == ("p", 3, 3)
    assert policy["budgets"] == [
        {
            "scope": "cluster", "limit": 2, "windowSeconds": 3600.0, "spent": 1,
            "text": "at most 2 victims within 1h in total",
        },
        {
            "scope": "namespace", "limit": 2, "windowSeconds": 600.0, "spent": 1,
            "top": [{"key": "shop", "spent": 1}],
            "text": "at most 2 victims within 10m for each namespace of victims",
        },
        {
            "scope": "node", "limit": 5, "windowSeconds": 60.0, "spent": 1,
            "top": [{"key": "n1", "spent": 1}],
            "text": "at most 5 victims within 1m for each node",
        },
    ]  # fmt: skip


async def test_a_budget_is_free_again_after_its_window():
    docs = preempted(PreemptionPolicy("p", budgets=BUDGETS))
    docs.cluster.wait(61)

    (policy,) = (await docs.get("policies"))["items"]

    assert [budget.get("spent", 0) for budget in policy["budgets"]] == [1, 1, 0]


async def test_keys_of_other_namespaces_are_not_named():
    docs = preempted(PreemptionPolicy("p", budgets=BUDGETS))

    found = await docs.get("policies", Only("default"))

    assert found["items"][0]["budgets"][1]["spent"] == 1
    assert "shop" not in str(found)


async def test_preemptions_of_one_owner_are_a_budget():
    limit = PreemptionLimit(3, 600.0)
    docs = preempted(PreemptionPolicy("p", max_preemptions_per_owner=limit))

    (policy,) = (await docs.get("policies"))["items"]

    (budget,) = policy["budgets"]
    assert (budget["scope"], budget["limit"], budget["spent"]) == ("preemptor", 3, 1)
    assert budget["top"] == [{"key": "Pod/default/high", "spent": 1}]


async def test_refusals_are_counted():
    docs = Documents(
        PreemptionPolicy("p", max_victims_per_preemption=1),
        node("n1").cpu("4"),
        *(pod(f"low{i}").on("n1").cpu("2").priority(1) for i in range(2)),
    )
    docs.cluster.schedule(pod("high").cpu("4").priority(9))

    (policy,) = (await docs.get("policies"))["items"]
    where = {"namespace": "default", "name": "high"}
    explained = await docs.get("pods/{namespace}/{name}", **where, nodes="1")

    assert policy["refusals"] == {"maxVictimsPerPreemption": 1}
    assert "wouldRefuse" not in policy
    assert policy["lastRefusal"] == "2026-01-01T00:16:40Z"
    assert policy["lastRefused"] == {
        "namespace": "default",
        "name": "high",
        "uid": "uid:default/high",
    }
    (veto,) = explained["policies"]
    assert (veto["policy"], veto["rule"], veto["count"]) == ("p", "maxVictimsPerPreemption", 1)
    assert veto["message"].startswith('PreemptionPolicy "p" refuses: ')
    assert explained["nodes"][0]["vetoes"] == [veto["message"]]
    assert "low0" not in str(explained["policies"])


async def test_what_an_audit_would_have_refused_is_counted_apart():
    docs = preempted(
        PreemptionPolicy("p", mode=PolicyMode.AUDIT, max_victims_per_preemption=0, budgets=BUDGETS)
    )

    (policy,) = (await docs.get("policies"))["items"]
    (hidden,) = (await docs.get("policies", Only("shop")))["items"]

    assert policy["mode"] == "Audit"
    assert policy["wouldRefuse"] == {"maxVictimsPerPreemption": 1}
    assert "refusals" not in policy
    assert (policy["lastRefused"]["name"], policy["lastRefusalMode"]) == ("high", "Audit")
    assert hidden["lastRefused"] == {"hidden": True}


async def test_a_preemption_tells_which_audit_would_have_refused_it():
    docs = preempted(PreemptionPolicy("p", mode=PolicyMode.AUDIT, max_victims_per_preemption=0))

    (preemption,) = (await docs.get("preemptions", Only("shop")))["items"]

    assert preemption["wouldRefuse"] == [
        {
            "policy": "p",
            "rule": "maxVictimsPerPreemption",
            "message": "at most 0 victims per preemption",
        }
    ]


async def test_what_was_refused_last_is_forgotten_with_the_policy():
    docs = preempted(PreemptionPolicy("p", mode=PolicyMode.AUDIT, max_victims_per_preemption=0))
    docs.cluster.observe(PolicyGone("p"))
    docs.cluster.add(PreemptionPolicy("p"))

    (policy,) = (await docs.get("policies"))["items"]

    assert "lastRefused" not in policy


async def test_namespaces_that_a_policy_names_are_shown_to_those_who_may_see_them():
    named = PodSelection(required(NAME, "In", "shop", "bank"))
    docs = Documents(PreemptionPolicy("p", victims=named))

    (policy,) = (await docs.get("policies", Only("bank")))["items"]

    assert policy["rules"] == ["victims: namespace (hidden) or bank"]


async def test_a_refused_policy_says_why_and_what_is_in_force():
    former = PreemptionPolicy("p", generation=1, max_victims_per_preemption=1)
    docs = Documents(policies=[PolicyState("p", 2, "spec.budgets[0]: no window", former)])

    (policy,) = (await docs.get("policies"))["items"]

    assert policy["accepted"] is False
    assert policy["message"] == "spec.budgets[0]: no window"
    assert (policy["generation"], policy["generationInForce"]) == (2, 1)
    assert policy["rules"] == ["at most 1 victim per preemption"]


async def test_the_last_change_of_a_policy_is_told():
    change = PolicyChange("2026-01-01T00:00:00Z", ("mode: Audit is new",), 4)
    docs = Documents(policies=[PolicyState("p", 5, "", PreemptionPolicy("p"), change)])

    (policy,) = (await docs.get("policies"))["items"]

    assert policy["changes"] == ["mode: Audit is new"]
    assert (policy["changedAt"], policy["previousGeneration"]) == ("2026-01-01T00:00:00Z", 4)


async def test_bounds_on_wasted_evictions_are_built_in():
    docs = Documents(node("n1").cpu("4"), pod("low").on("n1").cpu("4").priority(1))
    docs.cluster.schedule(pod("high").cpu("4").priority(9).owner("Job", "batch"))
    docs.cluster.finish_terminating()
    docs.cluster.delete("high")
    docs.cluster.wait(61)

    found = await docs.get("policies")
    hidden = await docs.get("policies", Only("other"))

    bounds = {each["scope"]: each for each in found["bounds"]}
    assert list(bounds) == ["preemptor", "owner", "namespace", "node", "cluster"]
    assert bounds["owner"]["top"] == [{"key": "Job/default/batch", "spent": 1}]
    assert bounds["node"]["top"] == [{"key": "n1", "spent": 1}]
    assert (bounds["cluster"]["limit"], bounds["cluster"]["spent"]) == (1024, 1)
    assert "batch" not in str(hidden)
    assert "stopped" not in bounds["owner"]


async def test_a_bound_that_is_reached_is_counted():
    docs = Documents()
    docs.cluster.machine.ledger.record_waste("u", "Job/default/batch", "n1", 64, docs.cluster.now)

    bounds = {each["scope"]: each for each in (await docs.get("policies"))["bounds"]}

    assert bounds["owner"]["stopped"] == bounds["node"]["stopped"] == 1
    assert "stopped" not in bounds["namespace"]


@pytest.mark.parametrize(
    ("policy", "line"),
    [
        (
            PreemptionPolicy("p", preemptors=PodSelection(labelled(team="a"), min_priority=5)),
            "preemptors: namespace team=a, priority 5 or higher",
        ),
        (
            PreemptionPolicy(
                "p",
                victims=PodSelection(
                    pods=labelled(a="1", b="1", c="1", d="1", e="1", f="1"),
                    max_priority=9,
                    priority_classes=frozenset("abcdef"),
                ),
            ),
            "victims: pod a=1, pod b=1, pod c=1, pod d=1, 2 more requirements, priority 9 or lower,"
            " priority class a or b or c or d or 2 more",
        ),
        (
            PreemptionPolicy("p", preemptors=PodSelection(labelled(), labelled(), 3, 7)),
            "preemptors: priority 3 to 7",
        ),
        (
            PreemptionPolicy("p", preemptors=PodSelection(required("team", "In", "a", "b"))),
            "preemptors: namespace team in (a, b)",
        ),
        (
            PreemptionPolicy("p", preemptors=PodSelection(required("team", "NotIn", "a"))),
            "preemptors: namespace team notin (a)",
        ),
        (
            PreemptionPolicy("p", preemptors=PodSelection(required("team", "Exists"))),
            "preemptors: namespace team",
        ),
        (
            PreemptionPolicy("p", preemptors=PodSelection(required("team", "DoesNotExist"))),
            "preemptors: namespace !team",
        ),
        (
            PreemptionPolicy("p", preemptors=PodSelection(required(NAME, "In", "shop", "bank"))),
            "preemptors: namespace shop or (hidden)",
        ),
        (
            PreemptionPolicy("p", preemptors=PodSelection(required(NAME, "NotIn", "shop"))),
            "preemptors: namespace not shop",
        ),
        (
            PreemptionPolicy("p", preemptors=PodSelection(required(NAME, "Exists"))),
            f"preemptors: namespace {NAME}",
        ),
        (
            PreemptionPolicy("p", disruption_budgets=DisruptionBudgets.STRICT),
            "disruption budgets are never violated",
        ),
        (
            PreemptionPolicy(
                "p", disruption_budgets=DisruptionBudgets.STRICT_BELOW, strict_below=7
            ),
            "disruption budgets are never violated below priority 7",
        ),
        (PreemptionPolicy("p", victim_min_runtime=90.0), "victims must have run for 90s"),
        (PreemptionPolicy("p", preemptor_delay=120.0), "preemptors must have waited for 2m"),
        (
            PreemptionPolicy("p", foreign_victims=ForeignVictims.NEVER),
            "pods of other schedulers are never victims",
        ),
        (
            PreemptionPolicy("p", foreign_victims=ForeignVictims.NON_LOOPING),
            "pods of other schedulers are not victims if a preemption between the same two owners"
            " was wasted recently",
        ),
        (
            PreemptionPolicy("p", victims_from=VictimsFrom.SAME_NAMESPACE),
            "victims are in the namespace of the preemptor",
        ),
        (
            PreemptionPolicy("p", victims_from=VictimsFrom.SAME_OWNER),
            "victims have the controller of the preemptor",
        ),
    ],
)
def test_rules_are_said_in_words(policy, line):
    assert [*rules(policy, {"shop"})] == [line]
