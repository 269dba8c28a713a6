"""What preemption policies mean: each row of the table in docs/preemption-policy.md is a test."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scheduler.model.decisions import Placed
from scheduler.model.effects import Evict, Nominate
from scheduler.model.policies import (
    BudgetScope,
    DisruptionBudgets,
    ForeignVictims,
    PodSelection,
    PolicyMode,
    PreemptionLimit,
)
from tests.support.builders import EPOCH, BudgetBuilder, PodBuilder, at, budget, namespace, node
from tests.support.cluster import Cluster, without_plan
from tests.support.policies import (
    HOUR,
    app,
    at_most,
    guest,
    labelled,
    nodes,
    policy,
    refused,
    shown,
    victims,
    wants,
)

PAGE = Path(__file__).parents[4] / "docs" / "preemption-policy.md"
ROWS: dict[str, Callable[[], None]] = {}

STRICT = {"disruption_budgets": DisruptionBudgets.STRICT}


def row(name: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Register a test as that of a row of the table."""

    def register(test: Callable[[], None]) -> Callable[[], None]:
        assert name not in ROWS
        ROWS[name] = test
        return test

    return register


def test_every_row_is_a_test_and_every_test_a_row():
    table = PAGE.read_text().partition("| row |")[2].partition("\n\n")[0]

    assert re.findall(r"^\| ([a-z-]+) \|", table, re.MULTILINE) == list(ROWS)


def crowd(count: int, **facts: Any) -> list[Any]:
    """Return nodes, each filled by one pod, and these pods."""
    names = [f"n{number + 1}" for number in range(count)]
    return [*nodes(*names), *(guest(f"low-{name}", name, "4", **facts) for name in names)]


def told(rule: str, name: str = "p") -> str:
    return f'PreemptionPolicy "{name}" refuses: {rule}'


def none(nodes: int, *reasons: str) -> str:
    return f"0/{nodes} nodes are available: {', '.join(reasons)}."


def until(seconds: float) -> str:
    """Return how a message says when something ends; the clusters begin 1000 s after the epoch."""
    return f" (until {at(1000 + seconds)})"


# Which pods a policy selects


@row("binds")
def test_a_policy_binds_whose_preemptor_it_selects():
    wanted = PodSelection(
        namespaces=labelled(team="a"),
        pods=labelled(app="web"),
        min_priority=50,
        max_priority=100,
        priority_classes=frozenset({"high", "higher"}),
    )
    bound = wants().namespace("team-a").label("app", "web").spec(priority_class_name="high")
    others = (
        bound.namespace("team-b"),
        bound.label("app", "db"),
        bound.priority(49),
        bound.priority(101),
        bound.spec(priority_class_name="low"),
        wants().priority(60),
    )

    def decide(preemptor: PodBuilder) -> Any:
        cluster = Cluster(
            namespace("team-a", team="a"),
            namespace("team-b", team="b"),
            policy(preemptors=wanted, max_victims_per_preemption=0),
            *crowd(1),
        )
        return cluster.schedule(preemptor)

    assert refused(decide(bound)) == none(1, f"1 {told('at most 0 victims per preemption')}")
    for other in others:
        assert victims(decide(other)) == ["low-n1"]


@row("protects")
def test_rules_count_the_victims_that_the_policy_selects():
    cluster = Cluster(
        policy(victims=app("web"), max_victims_per_preemption=1),
        *nodes("n1", "n2"),
        guest("db", "n1").label("app", "db"),
        guest("web", "n1").label("app", "web"),
        guest("web-1", "n2", priority=-1).label("app", "web"),
        guest("web-2", "n2", priority=-1).label("app", "web"),
    )

    assert victims(cluster.schedule(wants())) == ["db", "web"]


@row("no-rule")
def test_a_policy_without_a_rule_changes_nothing():
    without, bound = Cluster(*crowd(3)), Cluster(policy(), *crowd(3))

    assert bound.schedule(wants()) == without.schedule(wants())
    assert [*map(without_plan, bound.effects[1:])] == [*map(without_plan, without.effects[1:])]


@row("all-allow")
def test_all_policies_must_allow_a_preemption_and_those_that_refuse_are_named():
    cluster = Cluster(
        policy("a", max_victims_per_preemption=1),
        policy("b", max_victims_per_preemption=2),
        policy("c", budgets=at_most(1)),
        *nodes("n1"), guest("x"), guest("y"),
    )  # fmt: skip

    assert refused(cluster.schedule(wants())) == none(
        1,
        f"1 {told('at most 1 victim per preemption', 'a')}",
        f"1 {told('at most 1 victim within 1h', 'c')}",
    )


@row("leaving")
def test_a_pod_that_terminates_anyway_is_not_counted():
    cluster = Cluster(
        policy(max_victims_per_preemption=1, victim_min_runtime=HOUR, victims=app("web")),
        *nodes("n1"),
        guest("leaves").label("app", "web").terminating(),
        guest("stays"),
    )

    assert victims(cluster.schedule(wants())) == ["leaves", "stays"]
    assert cluster.evicted() == ["stays"]


@row("another-node")
def test_a_refused_node_is_left_out_and_the_next_best_is_taken():
    cluster = Cluster(
        policy(max_victims_per_preemption=1),
        *nodes("n1", "n2"), guest("a1", "n1"), guest("a2", "n1"),
        guest("b", "n2", "4", priority=50),
    )  # fmt: skip

    assert victims(cluster.schedule(wants())) == ["b"]


@row("audit")
def test_an_audit_refuses_nothing_and_counts_what_it_would_refuse():
    cluster = Cluster(policy(mode=PolicyMode.AUDIT, max_victims_per_preemption=0), *crowd(1))

    assert victims(cluster.schedule(wants())) == ["low-n1"]
    (refusal,) = cluster.attempts[-1].refusals
    assert refusal.text == told("at most 0 victims per preemption")
    refused_so_far = cluster.machine.policing.refused
    assert refused_so_far == {("p", "maxVictimsPerPreemption", "Audit"): 1}


# Per preemptor


@row("delay")
def test_a_preemptor_waits_before_it_preempts():
    cluster = Cluster(policy(preemptor_delay=30), *crowd(1))

    said = refused(cluster.schedule(wants()))
    cluster.wait(29)
    early = cluster.drain()
    cluster.wait(1)
    (attempt,) = cluster.drain()

    assert said == f"{told('preemptors wait for 30s first')}{until(30)}."
    assert early == []
    assert victims(attempt.decision) == ["low-n1"]


@row("preemptions")
def test_the_pods_of_one_owner_preempt_only_so_often():
    cluster = Cluster(policy(max_preemptions_per_owner=PreemptionLimit(1, HOUR)), *crowd(4))

    def of(name: str, owner: str) -> PodBuilder:
        return wants(name).owner("ReplicaSet", owner)

    assert victims(cluster.schedule(of("w1", "web")))
    cluster.finish_terminating()
    cluster.wait(600)
    cluster.drain()
    said = refused(cluster.schedule(of("w2", "web")))
    assert said == f"{told('at most 1 preemption within 1h per owner')}{until(HOUR)}."
    assert victims(cluster.schedule(of("d1", "db")))

    cluster.wait(HOUR - 600)
    (attempt,) = (each for each in cluster.drain() if each.pod.name == "w2")
    assert victims(attempt.decision)


# Per victim


@row("runtime")
def test_a_pod_that_has_not_run_long_enough_is_spared():
    def decide(*guests: PodBuilder) -> Any:
        cluster = Cluster(policy(victim_min_runtime=600), *nodes("n1", "n2"), *guests)
        return cluster.schedule(wants())

    young, old = guest("young", "n1", "4").started(401), guest("old", "n2", "4").started(400)
    new = guest("new", "n2", "4").not_started()

    assert victims(decide(young, old.priority(9))) == ["old"]
    rule = told("victims have run for less than 10m")
    assert refused(decide(young, new)) == none(2, f"2 {rule}{until(1)}")


@row("foreign-never")
def test_pods_of_other_schedulers_are_spared():
    cluster = Cluster(
        policy(foreign_victims=ForeignVictims.NEVER),
        *nodes("n1", "n2"),
        guest("theirs", "n1", "4").scheduler("default-scheduler"),
        guest("ours", "n2", "4", priority=9),
    )

    assert victims(cluster.schedule(wants())) == ["ours"]


@row("foreign-looping")
def test_pods_of_other_schedulers_are_spared_when_preempting_such_pods_failed_before():
    theirs = guest("theirs", "n1", "4").scheduler("default-scheduler").owner("Job", "j")
    cluster = Cluster(policy(foreign_victims=ForeignVictims.NON_LOOPING), *nodes("n1"), theirs)
    web = wants().owner("ReplicaSet", "web")
    cluster.machine.ledger.note_fruitless(
        "ReplicaSet/default/web", "n9", ["Job/default/j"], cluster.now, lost=True
    )

    said = refused(cluster.schedule(web))

    rule = "victims are of other schedulers, and preempting such pods failed before"
    assert said == none(1, f"1 {told(rule)}")
    assert victims(cluster.schedule(wants("other"))) == ["theirs"]


@row("foreign-always")
def test_it_does_not_matter_who_schedules_a_victim():
    cluster = Cluster(
        policy(max_victims_per_preemption=1),
        *nodes("n1"), guest("theirs", "n1", "4").scheduler("default-scheduler"),
    )  # fmt: skip

    assert victims(cluster.schedule(wants())) == ["theirs"]


# Per candidate


@row("most-victims")
def test_a_node_with_too_many_victims_is_refused():
    cluster = Cluster(policy(max_victims_per_preemption=1), *nodes("n1"), guest("a"), guest("b"))

    said = refused(cluster.schedule(wants()))

    rule = told("at most 1 victim per preemption")
    assert said == none(1, f"1 {rule}")
    assert shown(cluster) == {"n1": (f"{rule}: 2 victims",)}


def spends(scope: BudgetScope, *objects: Any) -> Cluster:
    """Return a cluster in which a budget of one victim has been spent for `low-n1`."""
    cluster = Cluster(policy(budgets=at_most(1, scope)), *objects)
    first = cluster.schedule(wants("first").selects(on="n1"))
    assert victims(first) == ["low-n1"]
    return cluster


def labelled_crowd(count: int) -> list[Any]:
    """Return a crowd on nodes that can be selected."""
    return [
        each.label("on", each.object.metadata.name) if hasattr(each, "cordoned") else each
        for each in crowd(count)
    ]


@row("cluster")
def test_the_cluster_has_only_so_many_victims():
    cluster = spends(BudgetScope.CLUSTER, *labelled_crowd(2))

    said = refused(cluster.schedule(wants()))

    assert said == f"{told('at most 1 victim within 1h')}{until(HOUR)}."


@row("namespace")
def test_a_namespace_has_only_so_many_victims():
    cluster = spends(BudgetScope.NAMESPACE, *labelled_crowd(2))

    said = refused(cluster.schedule(wants("second")))
    rule = told("at most 1 victim within 1h per namespace")
    assert f"1 {rule}{until(HOUR)}" in said

    cluster.add(*nodes("n3"), guest("other", "n3", "4", priority=9).namespace("other"))
    assert victims(cluster.schedule(wants())) == ["other"]


@row("owner")
def test_an_owner_has_only_so_many_victims_over_all_its_roll_outs():
    def replica(name: str, where: str, template: str) -> PodBuilder:
        return (
            guest(name, where, "4")
            .owner("ReplicaSet", f"web-{template}")
            .label("pod-template-hash", template)
        )

    first, *others = (node(f"n{number}").cpu("4").label("on", f"n{number}") for number in (1, 2, 3))
    cluster = spends(
        BudgetScope.OWNER, first, *others,
        replica("low-n1", "n1", "abc"), replica("again", "n2", "def"), guest("other", "n3", "4", 9),
    )  # fmt: skip

    assert victims(cluster.schedule(wants())) == ["other"]
    said = refused(cluster.schedule(wants("last").selects(on="n2")))
    rule = told("at most 1 victim within 1h per owner")
    assert f"1 {rule}{until(HOUR)}" in said
    assert shown(cluster, "last")["n2"] == (
        f"{rule}: ReplicaSet/default/web: 1 counted, 1 more planned{until(HOUR)}",
    )


@row("node")
def test_a_node_has_only_so_many_victims():
    cluster = spends(
        BudgetScope.NODE,
        *labelled_crowd(2), guest("more", "n1", "0"),
        node("n3").cpu("8").label("on", "n3"), guest("big", "n3", "4"), guest("bigger", "n3", "4"),
    )  # fmt: skip

    assert victims(cluster.schedule(wants("second").selects(on="n3"))) == ["bigger"]
    said = refused(cluster.schedule(wants().selects(on="n3").priority(50)))
    rule = told("at most 1 victim within 1h per node")
    assert f"1 {rule}{until(HOUR)}" in said


@row("window")
def test_a_victim_stops_counting_one_window_after_it_was_counted():
    cluster = Cluster(policy(budgets=at_most(2)), *labelled_crowd(4))
    cluster.schedule(wants("first"))
    cluster.wait(600)
    cluster.schedule(wants("second"))
    cluster.finish_terminating()
    cluster.wait(600)
    cluster.drain()

    said = refused(cluster.schedule(wants("third")))
    assert said == f"{told('at most 2 victims within 1h')}{until(HOUR)}."
    cluster.wait(HOUR - 1201)
    assert [refused(each.decision) for each in cluster.drain()] == [said]
    cluster.wait(1)
    assert [len(victims(each.decision)) for each in cluster.drain()] == [1]
    assert refused(cluster.schedule(wants("fourth"))).endswith(f"{until(HOUR + 600)}.")


@row("all-budgets")
def test_all_budgets_of_a_policy_count():
    both = (*at_most(5), *at_most(1, BudgetScope.NODE))
    cluster = Cluster(policy(budgets=both), *nodes("n1"), guest("a"), guest("b"))

    said = refused(cluster.schedule(wants()))

    assert said == none(1, f"1 {told('at most 1 victim within 1h per node')}")


@row("in-flight")
def test_a_preemption_is_counted_when_it_begins():
    cluster = Cluster(policy(budgets=at_most(1)), *crowd(2))
    cluster.hold(Nominate)
    cluster.schedule(wants("first"))

    said = refused(cluster.schedule(wants("second")))

    assert cluster.evicted() == []
    assert said == f"{told('at most 1 victim within 1h')}{until(HOUR)}."


@row("given-back")
def test_victims_that_were_not_evicted_do_not_count():
    cluster = Cluster(policy(budgets=at_most(1)), *crowd(2))
    cluster.hold(Nominate)
    cluster.schedule(wants("first"))
    cluster.fail()

    assert cluster.evicted() == []
    assert victims(cluster.schedule(wants("second")))


# Disruption budgets


def protected(*others: Any, allows: int = 0, **rules: Any) -> Cluster:
    """Return a cluster in which a disruption budget protects all potential victims."""
    web = [
        guest(f"web-{name}", name, "4").label("app", "web").condition("Ready", "True")
        for name in ("n1", "n2")
    ]
    return Cluster(
        policy(**rules), budget("b").selects(app="web").allows(allows),
        *nodes("n1", "n2"), *web, *others,
    )  # fmt: skip


SHORTFALL = told("disruption budgets do not allow it")


@row("best-effort")
def test_disruption_budgets_are_violated_where_there_is_no_other_way():
    cluster = protected(disruption_budgets=DisruptionBudgets.BEST_EFFORT)

    decision = cluster.schedule(wants())

    assert len(victims(decision)) == decision.violations == 1
    assert not any(effect.strict for effect in cluster.asked(Evict))


@row("strict")
def test_no_budget_is_ever_violated_and_the_api_server_is_asked():
    cluster = protected(**STRICT)
    said = refused(cluster.schedule(wants()))
    assert said == none(2, f"2 {SHORTFALL}")
    assert shown(cluster)["n1"] == (f"{SHORTFALL}: default/web-n1: budget default/b allows 0",)

    cluster = protected(allows=1, **STRICT)
    assert len(victims(cluster.schedule(wants()))) == 1
    assert all(effect.strict for effect in cluster.asked(Evict))


@row("strict-below")
def test_budgets_are_violated_for_important_preemptors_only():
    below = {"disruption_budgets": DisruptionBudgets.STRICT_BELOW, "strict_below": 100}

    assert victims(protected(**below).schedule(wants(priority=100)))
    assert refused(protected(**below).schedule(wants(priority=99)))


@row("strict-joint")
def test_evictions_in_flight_count_until_the_disruption_budget_counts_them():
    cluster = protected(allows=1, **STRICT)
    (first,) = victims(cluster.schedule(wants("first")))
    assert f"1 {SHORTFALL}" in refused(cluster.schedule(wants("second")))

    accounted: BudgetBuilder = budget("b").selects(app="web").allows(1).disrupted(first)
    cluster.add(accounted)
    cluster.wait(10)
    assert [victims(each.decision) != [first] for each in cluster.drain()] == [True]

    both = protected(*nodes("n3"), allows=1, **STRICT)
    both.delete("web-n1")
    both.delete("web-n2")
    both.add(node("n1").cpu("1"), node("n2").cpu("1"))
    for name in ("a", "b"):
        both.add(guest(name, "n3").label("app", "web").condition("Ready", "True"))
    assert f"1 {SHORTFALL}" in refused(both.schedule(wants()))


@row("strict-overlap")
def test_a_pod_under_several_budgets_is_not_evicted():
    cluster = protected(budget("all").selects().allows(9), allows=9, **STRICT)

    said = refused(cluster.schedule(wants()))

    assert said == none(2, f"2 {SHORTFALL}")
    assert "is under 2 budgets (default/all, default/b)" in shown(cluster)["n1"][0]


@row("strict-unready")
def test_pods_that_are_not_ready_use_up_nothing_where_the_budget_says_so():
    def decide(change: Callable[[BudgetBuilder], BudgetBuilder]) -> Any:
        cluster = protected(**STRICT)
        for name in ("web-n1", "web-n2"):
            cluster.change(name, lambda pod: pod.condition("Ready", "False"))
        cluster.add(change(budget("b").selects(app="web").allows(0)))
        return cluster.schedule(wants())

    assert refused(decide(lambda same: same))
    assert victims(decide(lambda it: it.unhealthy("AlwaysAllow")))
    assert victims(decide(lambda it: it.healthy(2, desired=2)))
    assert refused(decide(lambda it: it.healthy(1, desired=2)))
    assert refused(decide(lambda it: it.healthy(0, desired=0)))


# Retries


@row("wake-time")
def test_a_refused_pod_is_tried_again_when_the_time_has_come():
    cluster = Cluster(
        policy(victim_min_runtime=600),
        *nodes("n1"),
        guest("young", "n1", "4").status(start_time="2026-01-01T00:11:40.5Z"),
    )
    said = refused(cluster.schedule(wants()))
    assert said.endswith(f"(until {at(1301)}).")

    cluster.wait(10)
    assert cluster.drain() == []
    cluster.wait(290)
    assert cluster.machine.next_wakeup() <= EPOCH + 1301
    cluster.wait(1)
    assert [victims(each.decision) for each in cluster.drain()][-1:] == [["young"]]


@row("wake-policy")
def test_a_refused_pod_is_tried_again_when_a_policy_changes_or_goes():
    cluster = Cluster(policy(max_victims_per_preemption=0), *nodes("n1"), guest("a"), guest("b"))
    cluster.schedule(wants())
    cluster.add(policy(max_victims_per_preemption=1))
    cluster.wait(10)
    (again,) = cluster.drain()
    assert "at most 1 victim per preemption" in refused(again.decision)

    cluster.delete_policy("p")
    cluster.wait(10)
    (last,) = cluster.drain()
    assert victims(last.decision) == ["a", "b"]
    cluster.finish_terminating()
    cluster.wait(10)
    assert [each.decision for each in cluster.drain()] == [Placed("n1")]


@row("wake-budget")
def test_a_refused_pod_is_tried_again_when_a_disruption_budget_changes():
    cluster = protected(**STRICT)
    cluster.schedule(wants())

    cluster.add(budget("b").selects(app="web").allows(1))
    cluster.wait(10)

    (attempt,) = cluster.drain()
    assert len(victims(attempt.decision)) == 1
