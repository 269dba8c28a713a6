"""The figures in the status of a policy."""

from scheduler.model.policies import (
    Budget,
    LastVictim,
    PolicyFigures,
    PreemptionPolicy,
)
from tests.support.builders import node, pod
from tests.support.cluster import Cluster

TWO_AN_HOUR = PreemptionPolicy("p", budgets=(Budget(2, 3600.0), Budget(5, 60.0)))


def contested(*policies: PreemptionPolicy) -> Cluster:
    """Return a full node, after a decision for a pod that needs some of its resources."""
    full = (node("n1").cpu("2"), pod("low").on("n1").cpu("2").priority(1))
    cluster = Cluster(*full, *policies)
    cluster.schedule(pod("high").cpu("2").priority(10))
    return cluster


def test_victims_count_within_the_longest_window_of_the_budgets():
    cluster = contested(TWO_AN_HOUR)
    began = cluster.now

    (found,) = cluster.machine.policies.figures(began).values()

    last = LastVictim("default", "low", "n1", "default/high", began)
    assert found == PolicyFigures(1, {}, last)
    assert cluster.machine.policies.figures(began + 3599)["p"].victims == 1
    assert cluster.machine.policies.figures(began + 3601)["p"].victims == 0


def test_refusals_are_counted_by_rule():
    cluster = contested(PreemptionPolicy("p", max_victims_per_preemption=0))

    figures = cluster.machine.policies.figures(cluster.now)
    assert figures["p"].refusals == {"maxVictimsPerPreemption": 1}


def test_only_policies_in_force_have_figures():
    cluster = contested(TWO_AN_HOUR)
    cluster.delete_policy("p")

    assert cluster.machine.policies.figures(cluster.now) == {}
