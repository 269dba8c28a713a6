"""A pod that changes while its victims terminate is evaluated in its new state and class."""

import pytest

from scheduler.model.decisions import Placed, Unschedulable
from scheduler.model.effects import Evict, Nominate
from tests.support.builders import node, pod
from tests.support.cluster import Cluster

HIGH = pod("high").cpu("4").priority(10).label("app", "a")


def waiting() -> Cluster:
    """Return a cluster in which a preemptor waits for two victims."""
    cluster = Cluster(
        node("n1").cpu("4").label("kubernetes.io/hostname", "n1"),
        pod("guard").on("n1").cpu("0").priority(100).apart("kubernetes.io/hostname", app="b"),
        pod("low1").on("n1").cpu("2").priority(1),
        pod("low2").on("n1").cpu("2").priority(1),
    )
    cluster.schedule(HIGH)
    return cluster


def end_victims(cluster: Cluster) -> None:
    for victim in ("low1", "low2"):
        cluster.delete(victim)
        cluster.wait(30)
        cluster.drain()


@pytest.mark.parametrize(
    ("change", "twin"),
    [
        pytest.param(lambda own: own.cpu("6"), pod("twin").cpu("6"), id="its requests grow"),
        pytest.param(
            lambda own: own.label("app", "b"),
            pod("twin").cpu("1").label("app", "b"),
            id="a running pod's anti-affinity is about it now",
        ),
    ],
)
def test_a_preemptor_that_does_not_fit_any_more_is_not_placed(change, twin):
    cluster = waiting()

    cluster.change("high", change)
    end_victims(cluster)

    assert cluster.pod("high").spec.node_name == ""
    assert isinstance(cluster.schedule(twin.priority(9)), Unschedulable)


def test_a_preemptor_that_tolerates_another_node_now_is_placed_there():
    cluster = waiting()

    cluster.change("high", lambda own: own.tolerates("t", operator="Exists"))
    cluster.delete("low1")
    cluster.add(node("n2").cpu("4").taint("t"))
    cluster.wait(30)
    cluster.drain()

    assert cluster.pod("high").spec.node_name == "n2"
    tolerant = (
        pod("other").cpu("4").priority(10).label("app", "a").tolerates("t", operator="Exists")
    )
    cluster.delete("high")
    assert cluster.schedule(tolerant) == Placed("n2")


def test_a_preemptor_that_changes_before_its_victims_are_evicted_is_evaluated_again():
    cluster = Cluster(
        node("n1").cpu("4"), pod("low1").on("n1").cpu("2"), pod("low2").on("n1").cpu("2")
    )
    cluster.hold(Nominate)
    cluster.schedule(HIGH)

    cluster.change("high", lambda own: own.cpu("6"))
    cluster.done()
    cluster.drain()

    assert cluster.evicted() == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda own: own.cpu("4"), id="it grows"),
        pytest.param(lambda own: own.cpu("1"), id="it shrinks"),
        pytest.param(lambda own: own.label("app", "b"), id="it gets another label"),
    ],
)
@pytest.mark.parametrize("step", [Nominate, Evict])
def test_what_a_preemptor_reserves_while_its_plan_is_carried_out_follows_it(step, change):
    cluster = Cluster(node("n1").cpu("4"), pod("low").on("n1").cpu("4").priority(1))
    cluster.hold(step)
    cluster.schedule(HIGH.cpu("2"))

    cluster.change("high", change)

    (nomination,) = cluster.machine.cluster.nominations
    assert nomination.node == "n1"
    assert nomination.pod.spec == cluster.pod("high").spec
    assert nomination.pod.metadata.labels == cluster.pod("high").metadata.labels


def test_a_pod_fits_beside_a_preemptor_that_shrinks_while_its_plan_is_carried_out():
    cluster = Cluster(
        node("n1").cpu("10"),
        pod("low1").on("n1").cpu("4").priority(1),
        pod("low2").on("n1").cpu("4").priority(1),
    )
    cluster.hold(Evict)
    cluster.schedule(HIGH.cpu("7"))
    cluster.delete("low1")
    assert isinstance(cluster.schedule(pod("next").cpu("5").priority(1)), Unschedulable)

    cluster.change("high", lambda own: own.cpu("1"))
    cluster.wait(3)
    cluster.drain()

    assert cluster.pod("next").spec.node_name == "n1"
