"""Capacity freed for a preemptor that does not use it: which pods get it or wait for it."""

from typing import Any

import pytest

from scheduler.core.eviction.state import USE_WITHIN
from scheduler.model.decisions import Placed, Preempting
from scheduler.model.effects import Evict
from scheduler.model.releases import V1_37
from tests.support.builders import NodeBuilder, PodBuilder, node, pod
from tests.support.cluster import Cluster
from tests.support.evictions import asked, wasted

HIGH = pod("high").cpu("4").priority(100)


def low(name: str, cpu: str = "2", on: str = "n1", priority: int = 1) -> PodBuilder:
    return pod(name).on(on).cpu(cpu).priority(priority)


def abandoned(other: NodeBuilder | None = None, **settings: Any) -> Cluster:
    """Return a cluster in which two pods left `n1` for a preemptor that fits on `n2` now."""
    cluster = Cluster(node("n1").cpu("4"), low("a"), low("b"), **settings)
    assert isinstance(cluster.schedule(HIGH), Preempting)
    cluster.add(other or node("n2").cpu("4"))
    cluster.wait(3)
    cluster.drain()
    assert cluster.pod("high").spec.node_name == "n2"
    return cluster


# Pods that use it


@pytest.mark.parametrize(
    ("comer", "want"),
    [
        pytest.param(pod("x").cpu("4").priority(100), {}, id="an equal preemptor"),
        pytest.param(pod("x").cpu("4").priority(200), {}, id="a more important pod"),
        pytest.param(pod("x").cpu("4").priority(2), {}, id="a pod that could have evicted them"),
        pytest.param(
            pod("x").cpu("4").priority(1),
            {"placed_elsewhere": 2},
            id="a pod no more important than they",
        ),
        pytest.param(
            pod("x").cpu("2").priority(100), {"placed_elsewhere": 1}, id="one that takes half of it"
        ),
    ],
)
def test_capacity_that_a_preemptor_abandoned_is_used_by_pods_that_could_have_freed_it(comer, want):
    cluster = abandoned()
    cluster.finish_terminating()

    assert cluster.schedule(comer) == Placed("n1")

    cluster.wait(USE_WITHIN)
    assert wasted(cluster) == want


def test_capacity_taken_by_another_scheduler_is_wasted_even_if_the_rest_is_used():
    cluster = abandoned()
    cluster.finish_terminating()
    cluster.add(low("foreign", priority=100).scheduler("other").not_started())
    cluster.schedule(pod("x").cpu("2").priority(100))

    cluster.wait(USE_WITHIN)

    assert cluster.pod("x").spec.node_name == "n1"
    assert wasted(cluster) == {"placed_elsewhere": 1}


def test_a_host_port_in_use_is_not_free():
    cluster = Cluster(node("n1").cpu("4"), low("a").port(80))
    web = pod("web").cpu("1").port(80)
    cluster.schedule(web.priority(100))
    cluster.add(node("n2").cpu("1"))
    cluster.wait(3)
    cluster.drain()
    cluster.finish_terminating()

    assert cluster.schedule(pod("other").cpu("1").port(80).priority(50)) == Placed("n1")

    cluster.wait(USE_WITHIN)
    assert wasted(cluster) == {}


def test_of_two_plans_on_a_node_the_one_whose_capacity_is_used_is_not_wasted():
    cluster = Cluster(node("n1").cpu("4"), low("a"), low("b"))
    cluster.schedule(pod("first").cpu("2").priority(100))
    cluster.schedule(pod("second").cpu("2").priority(100))
    cluster.add(node("n2").cpu("4"))
    cluster.wait(3)
    cluster.drain()
    cluster.finish_terminating()

    assert cluster.schedule(pod("x").cpu("2").priority(100)) == Placed("n1")

    cluster.wait(USE_WITHIN)
    assert wasted(cluster) == {"placed_elsewhere": 1}


def test_capacity_is_not_wasted_while_a_pod_is_nominated_to_it():
    cluster = Cluster(node("n1").cpu("6"), low("a"), low("b"), low("c"))
    cluster.schedule(HIGH)
    cluster.delete("a")
    cluster.add(node("n2").cpu("4"))
    cluster.wait(3)
    cluster.drain()
    cluster.hold(Evict)
    assert isinstance(cluster.schedule(pod("x").cpu("6").priority(100)), Preempting)

    cluster.wait(USE_WITHIN)
    assert wasted(cluster) == {}

    cluster.delete("x")
    cluster.wait(USE_WITHIN)
    assert wasted(cluster) == {"placed_elsewhere": 2}


def test_capacity_left_on_a_deleted_node_is_wasted():
    cluster = abandoned()
    cluster.schedule(pod("x").cpu("4").priority(100))

    cluster.delete_node("n1")
    cluster.wait(USE_WITHIN)

    assert wasted(cluster) == {"placed_elsewhere": 2}


def test_a_new_leader_knows_the_pods_placed_since_the_evictions():
    cluster = Cluster(node("n1").cpu("4"), low("a"), low("b"))
    cluster.schedule(HIGH)
    cluster.finish_terminating()
    assert cluster.schedule(pod("top").cpu("4").priority(200)) == Placed("n1")
    cluster.restart()
    cluster.add(node("n2").cpu("4"))

    cluster.drain()
    cluster.wait(USE_WITHIN)

    assert cluster.pod("high").spec.node_name == "n2"
    assert wasted(cluster) == {}


def test_capacity_freed_before_a_plan_failed_is_used_by_a_more_important_preemptor():
    cluster = Cluster(node("n1").cpu("4"), node("n2").cpu("4"), low("a"), low("b"))
    cluster.add(low("c", on="n2", priority=90), low("d", on="n2", priority=90))
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    cluster.done(cluster.held[0])
    cluster.finish_terminating()
    cluster.fail()
    cluster.hold()
    cluster.schedule(pod("top").cpu("4").priority(200))
    for _ in range(3):
        cluster.wait(15)
        cluster.drain()
        cluster.finish_terminating()

    cluster.wait(USE_WITHIN)

    assert cluster.pod("top").spec.node_name == "n1"
    assert cluster.pod("high").spec.node_name == "n2"
    assert asked(cluster) == ["a", "b", "b", "c", "d"]
    assert wasted(cluster) == {}


# Pods that wait for it


def test_no_pod_is_evicted_while_freed_capacity_is_unclaimed():
    cluster = abandoned()
    cluster.add(low("cheaper", "4", "n3", priority=0), node("n3").cpu("4"))
    cluster.forget_effects()

    decision = cluster.schedule(pod("x").cpu("4").priority(100))

    assert decision == Preempting("n1", cluster.refs("a", "b"), 0, decision.message)
    assert asked(cluster) == []
    cluster.finish_terminating()
    cluster.wait(15)
    assert [each.decision for each in cluster.drain()] == [Placed("n1")]
    cluster.wait(USE_WITHIN)
    assert wasted(cluster) == {}


def test_an_attempt_that_waits_for_freed_capacity_reports_the_node_where_it_waits():
    cluster = abandoned(reference=V1_37)
    cluster.add(low("cheaper", "4", "n3", priority=0), node("n3").cpu("4"))

    decision = cluster.schedule(pod("x").cpu("4").priority(100))

    assert decision.message.endswith("pod on node n1, preempting 2 victims")


def test_capacity_that_is_too_little_for_a_preemptor_does_not_keep_it_waiting():
    cluster = abandoned()
    cluster.add(low("cheaper", "5", "n3", priority=0), node("n3").cpu("5"))
    cluster.forget_effects()

    cluster.schedule(pod("x").cpu("5").priority(100))

    assert asked(cluster) == ["cheaper"]


def test_capacity_that_a_pod_waits_for_is_not_offered_again():
    cluster = abandoned()
    cluster.schedule(pod("x").cpu("4").priority(100))
    cluster.add(low("cheaper", "4", "n3", priority=0), node("n3").cpu("4"))
    cluster.forget_effects()

    cluster.schedule(pod("y").cpu("4").priority(100))

    assert asked(cluster) == ["cheaper"]


def test_a_pod_that_preempts_no_pod_is_not_nominated_to_freed_capacity():
    cluster = abandoned()

    cluster.schedule(pod("x").cpu("4").priority(1))

    assert cluster.nominations() == {}
