from scheduler.model.api import pod_changes
from tests.support.builders import pod

AT = "2026-01-01T00:00:00Z"


def test_a_bound_pod_runs_on_its_node_without_a_nomination():
    got = pod_changes.bound(pod("p").nominated("n2").build(), "n1")

    assert got.spec.node_name == "n1"
    assert (got.status.phase, got.status.nominated_node_name) == ("Running", "")


def test_a_nomination_is_set_and_cleared():
    nominated = pod_changes.nominated(pod("p").build(), "n1")

    assert nominated.status.nominated_node_name == "n1"
    assert pod_changes.nominated(nominated, "").status.nominated_node_name == ""


def test_a_victim_terminates_and_has_the_condition_of_preemption():
    got = pod_changes.evicted(pod("p").on("n1").build(), AT)

    assert got.terminating
    assert got.metadata.deletion_timestamp == AT
    assert got.condition("DisruptionTarget").reason == "PreemptionByScheduler"
