"""The figures in the status of a policy."""

from scheduler.model.policies import Budget, LastVictim, PolicyFigures, PreemptionPolicy
from tests.support.builders import node, pod
from tests.support.cluster import Cluster


def test_victims_count_within_the_longest_window_of_the_budgets():
    two_an_hour = PreemptionPolicy("p", budgets=(Budget(2, 3600.0), Budget(5, 60.0)))
    cluster = Cluster(node("n1").cpu("2"), pod("low").on("n1").cpu("2").priority(1), two_an_hour)
    cluster.schedule(pod("high").cpu("2").priority(10))
    began = cluster.now

    (found,) = cluster.machine.policies.figures(began).values()

    last = LastVictim("default", "low", "n1", "default/high", began)
    assert found == PolicyFigures(1, {}, last)
    assert cluster.machine.policies.figures(began + 3599)["p"].victims == 1
    assert cluster.machine.policies.figures(began + 3601)["p"].victims == 0
