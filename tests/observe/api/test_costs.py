"""The counters of lost work, by the namespaces of victim and preemptor."""

from scheduler.observe.api import costs
from scheduler.observe.api.costs import OTHER, NamespaceCosts, lost


def test_each_counter_has_its_unit():
    counted = NamespaceCosts()
    counted.add("batch", "prod", lost({"cpu": 2000, "memory": 2**31}, 60.0))
    counted.add("batch", "prod", lost({"cpu": 500}, 60.0))
    counted.add("batch", "prod", lost({"cpu": 500, "memory": 2**30}, 60.0), wasted=True)

    assert {name: read() for name, read in counted.series().items()} == {
        "scheduler_preemption_lost_pods_total": {("batch", "prod"): 2},
        "scheduler_preemption_lost_pod_seconds_total": {("batch", "prod"): 120.0},
        "scheduler_preemption_lost_core_seconds_total": {("batch", "prod"): 150.0},
        "scheduler_preemption_lost_gibibyte_seconds_total": {("batch", "prod"): 120.0},
        "scheduler_preemption_wasted_pods_total": {("batch", "prod"): 1},
        "scheduler_preemption_wasted_pod_seconds_total": {("batch", "prod"): 60.0},
        "scheduler_preemption_wasted_core_seconds_total": {("batch", "prod"): 30.0},
        "scheduler_preemption_wasted_gibibyte_seconds_total": {("batch", "prod"): 60.0},
    }


def test_further_pairs_of_namespaces_count_together(monkeypatch):
    monkeypatch.setattr(costs, "MAX_PAIRS", 1)
    counted = NamespaceCosts()
    for name in ("a", "b", "c"):
        counted.add(name, name, lost({}, 1.0))

    pods = counted.series()["scheduler_preemption_lost_pods_total"]()
    assert pods == {("a", "a"): 1, (OTHER, OTHER): 2}
