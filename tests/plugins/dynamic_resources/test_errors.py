"""Errors of the allocation: which nodes are searched, and what the releases refuse."""

import pytest

from scheduler.model.api.devices import Capacity, CapacityRange, RequestPolicy
from scheduler.model.api.objects import NodeSelectorTerm, Requirement
from scheduler.model.decisions import Failed, Placed, Unschedulable
from scheduler.model.releases import V1_36, V1_37
from tests.support.builders import node, pod
from tests.support.cluster import Cluster
from tests.support.devices import (
    DRIVER,
    allocated,
    claim,
    claiming,
    consuming,
    counters,
    device,
    device_class,
    gpus,
    wants,
)

#: A pool that lacks a slice: to ask for all of its devices is an error.
UPDATING = gpus("n1", "d0", count=2)
EVERYTHING = claim("c", wants(mode="All"))
ON_N1 = NodeSelectorTerm([], [Requirement("metadata.name", "In", ["n1"])])
UPDATED = f"asks for all devices, but resource pool {DRIVER}/n1 is currently being updated"


def test_devices_of_a_node_without_a_place_for_the_pod_are_not_searched():
    cluster = Cluster(node("n1").pods(0), device_class(), UPDATING, EVERYTHING)

    decision = cluster.schedule(claiming("p", "c").needs(ON_N1))

    assert isinstance(decision, Unschedulable)
    assert "Too many pods" in decision.message


def test_a_claim_is_not_deallocated_for_a_node_without_a_place_for_the_pod():
    elsewhere = allocated("c", "n2/d0", on="n2")
    cluster = Cluster(node("n1").pods(0), elsewhere)

    decision = cluster.schedule(claiming("p", "c").needs(ON_N1))

    assert isinstance(decision, Unschedulable)
    assert "deallocation" not in decision.message
    assert cluster.claim("c").status.allocation is not None


def test_a_claim_is_not_deallocated_for_a_node_that_a_nominated_pod_fills():
    elsewhere = allocated("c", "n2/d0", on="n2")
    nominated = pod("q").cpu("2").priority(10).scheduler("another").nominated("n1")
    cluster = Cluster(node("n1").cpu("2"), nominated, elsewhere)

    decision = cluster.schedule(claiming("p", "c").cpu("1"))

    assert isinstance(decision, Unschedulable)
    assert "deallocation" not in decision.message


def test_an_error_of_the_dry_run_is_the_message_of_the_preemption():
    victim = pod("v").cpu("2").on("n1")
    cluster = Cluster(node("n1").cpu("2"), device_class(), UPDATING, EVERYTHING, victim)

    decision = cluster.schedule(claiming("p", "c").cpu("2").priority(10))

    assert isinstance(decision, Unschedulable)
    assert decision.message.endswith(
        'preemption: running "DynamicResources" filter plugin: claim default/c, request r: '
        + UPDATED
    )


@pytest.mark.parametrize(
    ("limit", "asked", "why"),
    [
        (Capacity("-1Gi"), {}, "capacity value is negative"),
        (
            Capacity("8Gi", RequestPolicy("1Gi", [], CapacityRange("1Gi", None, "1Gi"))),
            {"memory": "9223372036854775807"},
            "rounding request 9223372036854775807 up to the next step passes MaxInt64",
        ),
        (
            Capacity("8Gi", RequestPolicy("1Gi", [], CapacityRange("1Gi", None, "1Gi"))),
            {"memory": "1e19"},
            "request 10e18 exceeds MaxInt64",
        ),
    ],
)
@pytest.mark.parametrize("mode", ["ExactCount", "All"])
def test_a_capacity_that_cannot_be_computed_is_an_error_of_the_newer_release(
    limit, asked, why, mode
):
    shared = device("d", capacity={"memory": limit}, allow_multiple_allocations=True)
    objects = (node("n1"), device_class(), gpus("n1", shared))
    asking = claim("c", wants(mode=mode, capacity=asked))
    of_37 = Cluster(*objects, asking, reference=V1_37).schedule(claiming("p", "c"))
    of_36 = Cluster(*objects, asking, reference=V1_36).schedule(claiming("p", "c"))

    assert isinstance(of_37, Failed)
    assert of_37.message.endswith(why)
    assert not isinstance(of_36, Failed)


def test_derived_attributes_are_an_error_of_the_newer_release():
    objects = (node("n1"), device_class(), gpus("n1", "d"))
    asking = claim("c", wants(derived_attributes=[{"name": "a/b", "expression": "1"}]))

    of_37 = Cluster(*objects, asking, reference=V1_37).schedule(claiming("p", "c"))
    of_36 = Cluster(*objects, asking, reference=V1_36).schedule(claiming("p", "c"))

    assert isinstance(of_37, Failed)
    assert of_37.message.endswith(
        "claim default/c, request r: cannot handle request with derived attributes, the feature is "
        "disabled"
    )
    assert of_36 == Placed("n1")


def test_a_slice_with_compatibility_groups_is_ignored_by_the_newer_release():
    grouped = consuming("d", slots="1")
    grouped.consumes_counters[0].compatibility_groups.append("a")
    objects = (node("n1"), device_class(), gpus("n1", grouped, count=2), counters("n1", slots="1"))
    asking = claim("c", wants())

    of_37 = Cluster(*objects, asking, reference=V1_37).schedule(claiming("p", "c"))
    of_36 = Cluster(*objects, asking, reference=V1_36).schedule(claiming("p", "c"))

    assert isinstance(of_37, Unschedulable)
    assert of_36 == Placed("n1")


def test_a_claim_that_skips_operations_needs_a_node_that_can_leave_them_out():
    able = node("n1").declares("DRAOptionalNodeOperations")
    skipping = allocated("c", "n1/d", on="n1", skip_node_operations=["All"])

    decisions = [
        Cluster(made, skipping, reference=reference).schedule(claiming("p", "c"))
        for made in (able, node("n1"))
        for reference in (V1_36, V1_37)
    ]

    assert decisions[:3] == [Placed("n1")] * 3
    assert isinstance(decisions[3], Unschedulable)
    assert "resourceclaim not available on the node" in decisions[3].message
