"""Policies in detail: what is cached between attempts, and computed for all rows at once."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.preemption.policy.applied_policy import AppliedPolicy
from scheduler.core.preemption.policy.rules import PolicyRules
from scheduler.model.api.objects import Pod
from scheduler.model.api.owners import share_controller
from scheduler.model.api.start_time import runs_since
from scheduler.model.base import OwnerReference
from scheduler.model.decisions import Preempting
from scheduler.model.extender_answers import ExtenderVictims, VictimUids
from scheduler.model.policies import (
    BudgetScope,
    DisruptionBudgets,
    ForeignVictims,
    PodSelection,
    PolicyMode,
    VictimsFrom,
)
from tests.properties.clusters import built, clusters
from tests.support.builders import PodBuilder, namespace, node, pdb
from tests.support.cluster import Cluster
from tests.support.policies import (
    HOUR,
    app,
    at_most,
    labelled,
    nodes,
    policy,
    refused,
    running,
    victims,
    wants,
)

SPARING = st.builds(
    policy,
    st.just("p"),
    victim_min_runtime=st.sampled_from([0.0, 996.0, 998.0, 5000.0]),
    foreign_victims=st.sampled_from([ForeignVictims.NEVER, ForeignVictims.ALWAYS]),
    victims_from=st.sampled_from(VictimsFrom),
    victims=st.builds(
        PodSelection,
        namespaces=st.sampled_from([None, labelled(team="a")]),
        pods=st.sampled_from([None, labelled(app="web")]),
        min_priority=st.sampled_from([None, 0, 1]),
        max_priority=st.sampled_from([None, 1, 2]),
        priority_classes=st.sampled_from([frozenset(), frozenset({"low"})]),
    ),
)


def told(rule: str) -> str:
    return f'PreemptionPolicy "p" refuses: {rule}'


def spares(rules: PolicyRules, applied: AppliedPolicy, preemptor: Pod, victim: Pod) -> bool:
    """Return whether a policy spares a pod, by what each of its rules means."""
    chosen, since = applied.policy, runs_since(victim)
    if rules.inputs.cluster.is_being_deleted(victim) or not applied.victims.selects(victim):
        return False
    least, source = chosen.victim_min_runtime, chosen.victims_from
    young = since is None or since + least > rules.now
    foreign = victim.spec.scheduler_name == "other"
    elsewhere = victim.metadata.namespace != preemptor.metadata.namespace
    return (
        (least > 0 and young)
        or (chosen.foreign_victims is ForeignVictims.NEVER and foreign)
        or (source is VictimsFrom.SAME_NAMESPACE and elsewhere)
        or (source is VictimsFrom.SAME_OWNER and not share_controller(victim, preemptor))
    )


@settings(max_examples=30)
@given(clusters(), st.lists(SPARING, min_size=1, max_size=2))
def test_protected_pods_are_the_same_one_by_one_and_all_at_once(drawn, chosen):
    objects, incoming = drawn
    cluster = built([namespace("default", team="a"), *objects])
    for number, each in enumerate(chosen):
        cluster.add(replace(each, name=f"p{number}"))
    for name in [pod.metadata.name for pod in cluster.pods.values()][::2]:
        cluster.change(name, lambda pod: pod.spec(priority_class_name="low"))
        cluster.change(name, lambda pod: pod.scheduler("other"))
    for name in [pod.metadata.name for pod in cluster.pods.values()][::3]:
        cluster.change(name, lambda pod: pod.owner("Job", "j"))
    machine, preemptor = cluster.machine, incoming.owner("Job", "j").build()
    rules = machine.policies.rules(preemptor, cluster.now, cluster.now)
    rows = np.arange(machine.cluster.columns.size)

    for _, slots in machine.cluster.pods.ranked(rows):
        spared = rules.spared(slots)
        for (rank, column), slot in np.ndenumerate(slots):
            alone = False
            if slot >= 0:
                pod = machine.cluster.pods.pod(int(slot))
                alone = any(spares(rules, applied, preemptor, pod) for applied in rules.enforced)
            assert (spared is not None and bool(spared[0][rank, column])) == alone


def test_only_the_pods_that_a_rule_protects_are_excluded_as_victims():
    cluster = Cluster(
        policy(victim_min_runtime=600),
        *nodes("n1"), running("new").not_started(), running("old", priority=9),
    )  # fmt: skip

    assert victims(cluster.schedule(wants(cpu="2"))) == ["old"]


def test_a_spent_budget_for_some_pods_does_not_protect_others():
    cluster = Cluster(
        policy(victims=app("web"), budgets=at_most(0)),
        *nodes("n1", "n2"),
        running("web", "n1", "4").label("app", "web"),
        running("db", "n2", "4", priority=9).label("app", "db"),
    )

    assert victims(cluster.schedule(wants())) == ["db"]


def test_strict_is_about_the_victims_that_the_policy_selects():
    cluster = Cluster(
        policy(victims=app("web"), disruption_budgets=DisruptionBudgets.STRICT),
        pdb("b").selects(app="db").allows(0),
        *nodes("n1"), running("web").label("app", "web"), running("db").label("app", "db"),
    )  # fmt: skip

    decision = cluster.schedule(wants())

    assert sorted(victims(decision)) == ["db", "web"]
    assert isinstance(decision, Preempting)
    assert decision.violations == 1


def test_a_changed_budget_does_not_count_before_its_status_is_up_to_date():
    cluster = Cluster(
        policy(disruption_budgets=DisruptionBudgets.STRICT),
        *nodes("n1"), running("web", "n1", "4").label("app", "web").condition("Ready", "True"),
    )  # fmt: skip
    changed = pdb("b").selects(app="web").allows(5)
    cluster.add(changed.generation(2, observed=1))
    assert "disruption budgets" in refused(cluster.schedule(wants()))

    cluster.add(changed.generation(2, observed=2))
    cluster.wait(10)
    assert [victims(each.decision) for each in cluster.drain()] == [["web"]]


def test_an_eviction_in_flight_no_longer_counts_when_it_has_settled():
    cluster = Cluster(
        policy(disruption_budgets=DisruptionBudgets.STRICT),
        pdb("b").selects(app="web").allows(1),
        *nodes("n1", "n2"),
        *(
            running(f"web-{name}", name, "4").label("app", "web").condition("Ready", "True")
            for name in ("n1", "n2")
        ),
    )
    (first,) = victims(cluster.schedule(wants("first")))
    assert "disruption budgets" in refused(cluster.schedule(wants("second")))
    cluster.finish_terminating()
    cluster.wait(3)
    assert {each.pod.name for each in cluster.drain()} >= {"first"}

    cluster.wait(31)
    (again,) = cluster.drain()
    assert victims(again.decision) == ["web-n2" if first == "web-n1" else "web-n1"]


# What is cached between attempts


def test_protected_pods_are_victims_when_the_policy_is_deleted():
    cluster = Cluster(policy(victim_min_runtime=HOUR), *nodes("n1"), running("a", "n1", "4"))
    assert "have run" in refused(cluster.schedule(wants()))

    cluster.delete_policy("p")
    cluster.wait(10)

    assert [victims(each.decision) for each in cluster.drain()] == [["a"]]


def test_a_refusal_with_an_end_is_not_cached_after_its_end():
    cluster = Cluster(
        policy(budgets=at_most(1, BudgetScope.NODE)),
        node("n1").cpu("6"), running("a", cpu="4"), running("b", cpu="2", priority=9),
    )  # fmt: skip
    assert victims(cluster.schedule(wants("first", "4"))) == ["a"]
    cluster.finish_terminating()
    cluster.wait(3)
    cluster.drain()
    assert "per node" in refused(cluster.schedule(wants("second", "2")))

    cluster.wait(HOUR)

    assert [victims(each.decision) for each in cluster.drain()] == [["b"]]


def test_a_namespace_that_gets_other_labels_is_selected_again():
    cluster = Cluster(
        namespace("default", team="a"),
        policy(victims=PodSelection(namespaces=labelled(team="a")), max_victims_per_preemption=0),
        *nodes("n1"), running("a", "n1", "4"),
    )  # fmt: skip
    assert "at most 0" in refused(cluster.schedule(wants()))

    cluster.add(namespace("default", team="b"))
    cluster.wait(10)

    assert [victims(each.decision) for each in cluster.drain()] == [["a"]]


# What is reported


def test_figures_count_victims_and_refusals_of_each_policy():
    cluster = Cluster(
        policy("a", budgets=at_most(1)),
        policy("b", mode=PolicyMode.AUDIT, max_victims_per_preemption=0),
        *nodes("n1", "n2"), running("x", "n1", "4"), running("y", "n2", "4", priority=9),
    )  # fmt: skip
    cluster.schedule(wants("first"))
    cluster.schedule(wants("second"))

    figures = cluster.machine.policies.figures(cluster.now)

    assert (figures["a"].victims, figures["a"].refusals) == (1, {"budgets": 1})
    assert (figures["b"].victims, figures["b"].refusals) == (0, {})
    assert figures["b"].would_refuse == {"maxVictimsPerPreemption": 1}
    last = figures["a"].last_victim
    assert (last.name, last.node, last.preemptor) == ("x", "n1", "default/first")
    cluster.delete_policy("a")
    assert set(cluster.machine.policies.figures(cluster.now)) == {"b"}


def test_metrics_name_only_so_many_policies(monkeypatch):
    monkeypatch.setattr("scheduler.core.preemption.policy.engine.MAX_NAMES", 1)
    cluster = Cluster(
        policy("a", max_victims_per_preemption=0), policy("b", max_victims_per_preemption=0),
        *nodes("n1"), running("x", "n1", "4"),
    )  # fmt: skip
    cluster.schedule(wants())

    counted = cluster.machine.policies.refusal_counts

    assert {key[0] for key in counted} == {"a", "<other>"}


def test_a_resumed_plan_is_refused_by_rules_that_still_apply():
    theirs = running("theirs", "n1", "4").scheduler("other")
    cluster = Cluster(
        policy("a", foreign_victims=ForeignVictims.NEVER, budgets=at_most(0)), *nodes("n1"), theirs
    )
    policies, preemptor = cluster.machine.policies, wants().build()

    victims, now = [cluster.pod("theirs")], cluster.now

    allowed = policies.may_resume(preemptor, "n1", victims, now, counted=True)
    cluster.add(policy("a", budgets=at_most(0)))

    assert not allowed
    assert policies.may_resume(preemptor, "n1", victims, now, counted=True)
    assert not policies.may_resume(preemptor, "n1", victims, now, counted=False)


@pytest.mark.parametrize(
    ("relation", "space", "owner"),
    [(VictimsFrom.SAME_NAMESPACE, "other", "j"), (VictimsFrom.SAME_OWNER, "default", "other")],
)
def test_victims_must_be_related_also_where_a_plan_is_resumed_or_an_extender_chooses_them(
    relation: VictimsFrom, space: str, owner: str
):
    own, high = running("own").owner("Job", "j"), wants(cpu="2").owner("Job", "j")
    cluster = Cluster(
        policy(victims_from=relation),
        *nodes("n1"), own, running("stranger").namespace(space).owner("Job", owner),
        config="extenders: [{urlPrefix: http://e, preemptVerb: preempt}]\n",
    )  # fmt: skip
    pods = [cluster.pod("own"), cluster.pod(f"{space}/stranger")]
    both = tuple(pod.uid for pod in pods)
    cluster.extender = lambda _: ExtenderVictims((VictimUids("n1", both, 0),))
    reason = told(f"victims {'are in other namespaces' if owner == 'j' else 'have other owners'}")

    assert refused(cluster.schedule(high)) == f"{reason}."

    policies, now = cluster.machine.policies, cluster.now
    found = [policies.may_resume(high.build(), "n1", [pod], now, counted=True) for pod in pods]
    assert found == [True, False]


def test_equal_pods_of_other_controllers_share_no_cached_candidates():
    def job(uid: str, pod: PodBuilder) -> PodBuilder:
        return pod.meta(owner_references=[OwnerReference("batch/v1", "Job", "j", uid, True)])

    cluster = Cluster(
        policy(victims_from=VictimsFrom.SAME_OWNER),
        *nodes("n1"), job("1", running("low", "n1", "4")),
    )  # fmt: skip

    assert "other owners" in refused(cluster.schedule(job("2", wants("first"))))
    assert victims(cluster.schedule(job("1", wants("second")))) == ["low"]


def test_the_oldest_windows_of_all_policies_are_remembered():
    cluster = Cluster(policy("a", budgets=at_most(1, window=60)), policy("b", budgets=at_most(1)))
    assert cluster.machine.ledger.horizon == HOUR

    cluster.delete_policy("b")
    assert cluster.machine.ledger.horizon == 60


def test_what_extenders_choose_is_bound_too():
    cluster = Cluster(
        policy(max_victims_per_preemption=1),
        *nodes("n1"), running("a"), running("b"),
        config="extenders: [{urlPrefix: http://e, preemptVerb: preempt}]\n",
    )  # fmt: skip
    both = (cluster.ref("a").uid, cluster.ref("b").uid)
    cluster.extender = lambda _: ExtenderVictims((VictimUids("n1", both, 0),))

    said = refused(cluster.schedule(wants(cpu="2")))

    assert said == f"{told('at most 1 victim per preemption')}."
