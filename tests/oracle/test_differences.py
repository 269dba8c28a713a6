"""What the comparison with kube-scheduler excuses, and what it does not."""

from dataclasses import replace

from tests.oracle.compare import compare
from tests.oracle.defects import comparable, with_honoured_budgets
from tests.oracle.generate import Cluster
from tests.oracle.verdicts import Answer, Attempt

A = 'running "DynamicResources" filter plugin: claim c, request r: pool a/1 is being updated'
B = 'running "DynamicResources" filter plugin: claim c, request r: pool b/2 is being updated'
WAITS = Attempt(
    "default/p", "Unschedulable", None, (), 0, f"0/2 nodes. preemption: [{A}, {B}]", (), {}
)


def with_message(text: str) -> Attempt:
    return replace(WAITS, message=text)


def test_errors_of_a_dry_run_may_come_in_any_order():
    theirs = with_message(f"0/2 nodes. preemption: [{B}, {A}]")

    assert compare(Answer((WAITS,)), Answer((theirs,))) == []


def test_other_errors_of_a_dry_run_are_reported():
    theirs = with_message(f"0/2 nodes. preemption: [{B}, {B}]")

    assert len(compare(Answer((WAITS,)), Answer((theirs,)))) == 1


def test_an_attempt_that_repeats_the_errors_in_another_order_does_not_count():
    again = with_message(f"0/2 nodes. preemption: [{B}, {A}]")

    assert compare(Answer((WAITS,)), Answer((WAITS, again))) == []


def test_an_attempt_with_another_message_counts():
    again = with_message(f"0/2 nodes: 1 Too many pods. preemption: [{B}, {A}]")

    assert compare(Answer((WAITS,)), Answer((WAITS, again))) == [
        "attempt 2: no attempt, upstream default/p Unschedulable"
    ]


def test_storage_has_a_capacity_where_v1_37_panics_without():
    item = {"kind": "CSIStorageCapacity", "maximumVolumeSize": "1Gi"}
    cluster = Cluster("volumes:1", [item])

    assert comparable(cluster, "v1.36") is cluster
    assert comparable(cluster, "v1.37").objects == [{**item, "capacity": "1Gi"}]


def test_an_empty_selector_of_a_budget_is_spelled_out_for_kube_scheduler():
    bare = {"kind": "Pod", "metadata": {"name": "p"}}
    everything, nothing = (
        {"kind": "PodDisruptionBudget", "spec": {"selector": selector}} for selector in ({}, None)
    )

    pod, budget, absent = with_honoured_budgets([bare, everything, nothing])

    assert budget["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"] != {}
    assert absent == nothing


def test_nothing_is_compared_after_a_victim_was_spared():
    preempts = replace(WAITS, decision="Preempting", node="n1", spares=True)
    theirs = replace(preempts, candidates={"n1": ((), 0)}, best_candidates=("n1",), spares=False)

    assert compare(Answer((preempts,)), Answer((theirs, WAITS))) == []
    assert len(compare(Answer((replace(preempts, victims=("v",)),)), Answer((theirs,)))) == 1
    assert len(compare(Answer((replace(preempts, spares=False),)), Answer((theirs, WAITS)))) == 1
