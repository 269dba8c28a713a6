"""Preemptors that compete for a node, and preemptors, pods and nodes that change meanwhile."""

import pytest

from scheduler.model.decisions import Placed, Preempting, Unschedulable
from scheduler.model.effects import (
    Bind,
    ClearNomination,
    Evict,
    Nominate,
    SaveLedger,
)
from scheduler.model.policies import Budget, BudgetScope, PreemptionPolicy
from scheduler.queue.phases import QueuePhase
from tests.support.builders import OURS, node, pod
from tests.support.cluster import Cluster
from tests.support.evictions import HIGH, two_victims, victim

# Two preemptors


def test_the_second_preemptor_chooses_another_node_than_the_first():
    cluster = Cluster(
        node("n1").cpu("2"), node("n2").cpu("2"),
        pod("cheap").on("n1").cpu("2").priority(1), pod("dear").on("n2").cpu("2").priority(2),
    )  # fmt: skip

    first = cluster.schedule(pod("first").cpu("2").priority(100))
    second = cluster.schedule(pod("second").cpu("2").priority(100))

    assert isinstance(first, Preempting)
    assert isinstance(second, Preempting)
    assert (first.node, second.node) == ("n1", "n2")
    assert cluster.nominations() == {"first": "n1", "second": "n2"}


@pytest.mark.parametrize("explain", [True, False])
def test_a_pod_may_wait_for_a_victim_of_another_whose_eviction_a_budget_counts(explain):
    once = PreemptionPolicy("once", generation=1, budgets=(Budget(1, 600.0, BudgetScope.OWNER),))
    cluster = Cluster(once, node("n1").cpu("4"), pod("low").on("n1").cpu("4").owner("Job", "j"))
    cluster.hold(SaveLedger, Evict)
    cluster.schedule(pod("first").cpu("2").priority(9))
    assert isinstance(cluster.schedule(pod("second").cpu("2").priority(9)), Unschedulable)
    cluster.done()
    assert cluster.machine.cluster.evicting == 1

    cluster.add(pod("third").cpu("2").priority(9))

    attempt = cluster.step(explain=explain)
    while attempt is not None and attempt.pod.name != "third":
        attempt = cluster.step(explain=explain)
    assert attempt is not None
    assert isinstance(attempt.decision, Preempting)


def test_a_preemptor_clears_the_nomination_of_a_lower_one_on_its_node():
    cluster = two_victims()
    cluster.schedule(HIGH.cpu("2"))
    assert cluster.nominations() == {"high": "n1"}
    cluster.forget_effects()

    cluster.schedule(pod("top").cpu("4").priority(200))

    assert cluster.nominations() == {"top": "n1"}
    assert cluster.asked(ClearNomination) == [ClearNomination(cluster.ref("high"))]
    assert cluster.pod("high").status.nominated_node_name == ""
    assert cluster.phase("high") is QueuePhase.BACKOFF


def test_a_preemptor_clears_a_lower_nomination_also_where_a_terminating_pod_spares_its_victim():
    cluster = Cluster(node("n1").cpu("4"), victim("leaving", 5).preempted(), victim("stays"))
    cluster.schedule(pod("low").cpu("2").priority(10).nominated("n1"))
    cluster.forget_effects()

    high = cluster.schedule(HIGH.cpu("2"))

    assert isinstance(high, Preempting)
    assert [each.name for each in high.victims] == ["stays"]
    assert cluster.evicted() == []
    assert cluster.nominations() == {"high": "n1"}
    assert cluster.asked(ClearNomination) == [ClearNomination(cluster.ref("low"))]


def test_a_preemptor_keeps_the_nomination_of_an_equal_one_on_its_node():
    cluster = Cluster(node("n1").cpu("4"), victim("a"), victim("b"))
    cluster.schedule(pod("one").cpu("2").priority(100))

    cluster.schedule(pod("two").cpu("2").priority(100))

    assert cluster.nominations() == {"one": "n1", "two": "n1"}
    assert cluster.asked(ClearNomination) == []


def planned_together(**priorities: int) -> Cluster:
    """Plan preemptions on a node with two victims; no nomination has an answer yet."""
    cluster = Cluster(node("n1").cpu("2"), victim("a", 0, "1"), victim("b", 0, "1"))
    cluster.hold(Nominate)
    for name, priority in priorities.items():
        cluster.schedule(pod(name).cpu("1").priority(priority))
    return cluster


def test_no_pod_is_evicted_for_two_before_both_nominations_are_written():
    cluster = planned_together(one=100, two=100)
    one, two = cluster.held

    cluster.done(two)
    assert cluster.evicted() == []
    cluster.done(one)

    assert sorted(cluster.evicted()) == ["a", "b"]


def test_where_the_other_nomination_is_refused_no_pod_is_evicted_for_it():
    cluster = planned_together(one=100, two=100)
    one, two = cluster.held

    cluster.done(two)
    cluster.fail(one)

    assert len(cluster.evicted()) == 1


def test_a_preemptor_does_not_wait_for_later_or_less_important_ones():
    cluster = planned_together(low=50, one=100, two=100)

    cluster.done(cluster.held[1])

    assert len(cluster.evicted()) == 1


def test_a_preemptor_keeps_the_nominations_of_other_schedulers_on_its_node():
    cluster = two_victims()
    cluster.add(pod("foreign").scheduler("other").priority(1).nominated("n1"))

    cluster.schedule(HIGH)

    assert cluster.nominations() == {"foreign": "n1", "high": "n1"}


def test_a_preemptor_whose_nomination_is_cleared_while_it_is_written_evicts_no_pod():
    cluster = two_victims()
    cluster.hold(Nominate)
    cluster.schedule(HIGH.cpu("2"))
    lower = cluster.held[0]
    cluster.schedule(pod("top").cpu("4").priority(200))
    cluster.done(cluster.held[1])
    cluster.forget_effects()

    cluster.done(lower)

    assert cluster.evicted() == []
    assert cluster.asked(ClearNomination) == [ClearNomination(cluster.ref("high"))]
    assert cluster.nominations() == {"top": "n1"}
    assert cluster.phase("high") is QueuePhase.ACTIVE


def test_a_preemptor_whose_nomination_is_cleared_while_it_evicts_is_tried_again():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH.cpu("2"))
    cluster.schedule(pod("top").cpu("4").priority(200))
    assert cluster.nominations() == {"top": "n1"}

    cluster.done()

    assert cluster.phase("high") is QueuePhase.ACTIVE
    assert cluster.asked(ClearNomination) == [ClearNomination(cluster.ref("high"))]


def test_the_preemptor_of_higher_priority_gets_the_capacity_in_any_order():
    cluster = two_victims()
    cluster.schedule(HIGH)
    cluster.schedule(pod("top").cpu("4").priority(200))

    cluster.finish_terminating()
    cluster.wait(5)
    cluster.drain()

    assert cluster.pod("top").spec.node_name == "n1"
    assert cluster.pod("high").spec.node_name == ""


# Things that change meanwhile


def test_a_deleted_preemptor_has_no_nomination_and_evicts_no_more_pods():
    cluster = two_victims()
    cluster.hold(Nominate)
    cluster.schedule(HIGH)

    cluster.delete("high")
    cluster.done()

    assert cluster.nominations() == {}
    assert cluster.evicted() == []


def test_answers_for_a_deleted_preemptor_are_processed():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    cluster.delete("high")

    cluster.done()
    cluster.fail()

    assert cluster.machine.sizes().preempting == 0
    assert cluster.nominations() == {}


def test_a_terminating_preemptor_has_no_nomination():
    cluster = two_victims()
    cluster.schedule(HIGH)

    cluster.change("high", lambda own: own.terminating())

    assert cluster.nominations() == {}
    assert cluster.phase("high") is None


def test_a_preemptor_that_another_scheduler_binds_keeps_no_plan():
    cluster = two_victims()
    cluster.hold(Nominate)
    cluster.schedule(HIGH)

    cluster.change("high", lambda own: own.on("n9"))
    cluster.done()

    assert cluster.evicted() == []
    assert cluster.nominations() == {}


def test_no_pod_is_evicted_when_the_node_is_deleted_before_the_nomination_is_written():
    cluster = two_victims()
    cluster.hold(Nominate)
    cluster.schedule(HIGH)

    cluster.delete_node("n1")
    cluster.done()

    assert cluster.evicted() == []
    assert cluster.nominations() == {}
    assert cluster.asked(ClearNomination) == [ClearNomination(cluster.ref("high"))]
    assert cluster.phase("high") is QueuePhase.ACTIVE


def test_a_preemptor_is_tried_again_when_its_node_is_deleted_during_the_evictions():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH)

    cluster.delete_node("n1")
    cluster.done()
    assert cluster.phase("high") is QueuePhase.PREEMPTING

    cluster.done()
    assert cluster.phase("high") is QueuePhase.ACTIVE
    assert cluster.nominations() == {}


def test_a_preemptor_loses_its_nomination_when_its_node_is_deleted_after_the_evictions():
    cluster = two_victims()
    cluster.schedule(HIGH)

    cluster.delete_node("n1")

    assert cluster.nominations() == {}
    assert cluster.phase("high") is QueuePhase.BACKOFF
    assert cluster.pod("high").status.nominated_node_name == ""


def test_a_preemptor_does_not_wait_when_another_node_becomes_free():
    cluster = two_victims()
    cluster.schedule(HIGH)
    cluster.add(node("n2").cpu("4"))
    cluster.wait(3)

    assert [attempt.decision for attempt in cluster.drain()] == [Placed("n2")]
    assert cluster.asked(Bind) == [Bind(cluster.ref("high"), "n2", OURS)]
