"""What the comparison with kube-scheduler excuses, and what it does not."""

from dataclasses import replace

from tests.oracle.compare import compare
from tests.oracle.defects import comparable
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
