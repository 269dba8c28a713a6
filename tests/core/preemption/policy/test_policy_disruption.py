"""Rows of the table in docs/preemption-policy.md: disruption budgets, and retries."""

from collections.abc import Callable
from typing import Any

from scheduler.model.decisions import Placed
from scheduler.model.effects import Evict
from scheduler.model.policies import (
    DisruptionBudgets,
)
from tests.support.builders import EPOCH, PdbBuilder, at, node, pdb
from tests.support.cluster import Cluster
from tests.support.policies import (
    app,
    nodes,
    none,
    policy,
    refused,
    row,
    running,
    shown,
    told,
    victims,
    wants,
)

STRICT = {"disruption_budgets": DisruptionBudgets.STRICT}


def protected(*others: Any, allows: int = 0, **rules: Any) -> Cluster:
    """Return a cluster in which a disruption budget protects all potential victims."""
    web = [
        running(f"web-{name}", name, "4").label("app", "web").condition("Ready", "True")
        for name in ("n1", "n2")
    ]
    return Cluster(
        policy(**rules), pdb("b").selects(app="web").allows(allows),
        *nodes("n1", "n2"), *web, *others,
    )  # fmt: skip


SHORTFALL = told("disruption budgets do not allow it")


@row("best-effort")
def test_disruption_budgets_are_violated_where_nothing_else_helps():
    cluster = protected(disruption_budgets=DisruptionBudgets.BEST_EFFORT)

    decision = cluster.schedule(wants())

    assert len(victims(decision)) == decision.violations == 1
    assert not any(effect.strict for effect in cluster.asked(Evict))


@row("strict")
def test_no_budget_is_ever_violated_and_the_api_server_is_asked():
    cluster = protected(**STRICT)
    said = refused(cluster.schedule(wants()))
    assert said == none(2, f"2 {SHORTFALL}")
    assert shown(cluster)["n1"] == (
        f"{SHORTFALL}: default/web-n1: PodDisruptionBudget default/b allows 0 disruptions",
    )

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

    accounted: PdbBuilder = pdb("b").selects(app="web").allows(1).disrupted(first)
    cluster.add(accounted)
    cluster.wait(10)
    assert [victims(each.decision) != [first] for each in cluster.drain()] == [True]

    both = protected(*nodes("n3"), allows=1, **STRICT)
    both.delete("web-n1")
    both.delete("web-n2")
    both.add(node("n1").cpu("1"), node("n2").cpu("1"))
    for name in ("a", "b"):
        both.add(running(name, "n3").label("app", "web").condition("Ready", "True"))
    assert f"1 {SHORTFALL}" in refused(both.schedule(wants()))


@row("strict-overlap")
def test_a_pod_under_several_budgets_is_not_evicted():
    cluster = protected(pdb("all").selects().allows(9), allows=9, **STRICT)

    said = refused(cluster.schedule(wants()))

    assert said == none(2, f"2 {SHORTFALL}")
    assert "matches 2 PodDisruptionBudgets (default/all, default/b)" in shown(cluster)["n1"][0]


def test_a_pod_under_several_budgets_counts_for_each_of_them_beside_pods_of_one():
    cluster = Cluster(
        policy(victims=app("kept"), **STRICT), *nodes("n1"),
        pdb("both").selects(tier="x").allows(1), pdb("web").selects(app="web").allows(5),
        *(running(to, "n1", "2").label("app", to).label("tier", "x") for to in ("web", "kept")),
    )  # fmt: skip

    assert refused(cluster.schedule(wants())) == none(1, f"1 {SHORTFALL}")


@row("strict-unready")
def test_pods_that_are_not_ready_use_up_nothing_where_the_budget_says_so():
    def decide(change: Callable[[PdbBuilder], PdbBuilder]) -> Any:
        cluster = protected(**STRICT)
        for name in ("web-n1", "web-n2"):
            cluster.change(name, lambda pod: pod.condition("Ready", "False"))
        cluster.add(change(pdb("b").selects(app="web").allows(0)))
        return cluster.schedule(wants())

    assert refused(decide(lambda same: same))
    assert victims(decide(lambda it: it.unhealthy("AlwaysAllow")))
    assert victims(decide(lambda it: it.healthy(2, desired=2)))
    assert refused(decide(lambda it: it.healthy(1, desired=2)))
    assert refused(decide(lambda it: it.healthy(0, desired=0)))


# Retries


@row("wake-time")
def test_a_refused_pod_is_tried_again_when_the_refusal_ends():
    cluster = Cluster(
        policy(victim_min_runtime=600),
        *nodes("n1"),
        running("young", "n1", "4").status(start_time="2026-01-01T00:11:40.5Z"),
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
def test_a_refused_pod_is_tried_again_when_a_policy_changes_or_is_deleted():
    cluster = Cluster(
        policy(max_victims_per_preemption=0), *nodes("n1"), running("a"), running("b")
    )
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

    cluster.add(pdb("b").selects(app="web").allows(1))
    cluster.wait(10)

    (attempt,) = cluster.drain()
    assert len(victims(attempt.decision)) == 1
