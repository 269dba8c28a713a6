"""Rows of the table in docs/preemption-policy.md: victims of a candidate, and budgets."""

from typing import Any

from scheduler.model.effects import Evict, Nominate
from scheduler.model.events import FailureKind
from scheduler.model.policies import (
    BudgetScope,
)
from scheduler.state.preemption.ledger import UNCERTAIN_FOR
from tests.support.builders import PodBuilder, node
from tests.support.cluster import Cluster
from tests.support.policies import (
    HOUR,
    at_most,
    crowd,
    nodes,
    none,
    policy,
    refused,
    row,
    running,
    shown,
    told,
    until,
    victims,
    wants,
)


@row("most-victims")
def test_a_node_with_too_many_victims_is_refused():
    cluster = Cluster(
        policy(max_victims_per_preemption=1), *nodes("n1"), running("a"), running("b")
    )

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

    cluster.add(*nodes("n3"), running("other", "n3", "4", priority=9).namespace("other"))
    assert victims(cluster.schedule(wants())) == ["other"]


@row("owner")
def test_an_owner_has_only_so_many_victims_over_all_its_roll_outs():
    def replica(name: str, where: str, template: str) -> PodBuilder:
        return (
            running(name, where, "4")
            .owner("ReplicaSet", f"web-{template}")
            .label("pod-template-hash", template)
        )

    first, *others = (node(f"n{number}").cpu("4").label("on", f"n{number}") for number in (1, 2, 3))
    cluster = spends(
        BudgetScope.OWNER, first, *others,
        replica("low-n1", "n1", "abc"), replica("again", "n2", "def"),
        running("other", "n3", "4", 9),
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
        *labelled_crowd(2), running("more", "n1", "0"),
        node("n3").cpu("8").label("on", "n3"),
        running("big", "n3", "4"), running("bigger", "n3", "4"),
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
    cluster = Cluster(policy(budgets=both), *nodes("n1"), running("a"), running("b"))

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


@row("uncertain")
def test_a_victim_whose_eviction_got_no_answer_counts_until_it_is_seen_to_run_on():
    cluster = Cluster(policy(budgets=at_most(1)), *crowd(2))
    cluster.hold(Evict)
    cluster.schedule(wants("first"))
    cluster.wait(1.5)
    cluster.fail(kind=FailureKind.UNAVAILABLE)
    cluster.delete("first")
    cluster.fail(kind=FailureKind.ABANDONED)

    assert "at most 1 victim" in refused(cluster.schedule(wants("second")))
    cluster.wait(UNCERTAIN_FOR + 1)
    cluster.change("low-n1", lambda own: own.label("seen", "late"))
    cluster.change("low-n2", lambda own: own.label("seen", "late"))
    cluster.drain()
    assert len(cluster.asked(Evict)) == 3
