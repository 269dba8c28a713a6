"""Pods that name more resources than any real one: refused or counted, and then forgotten."""

import tracemalloc

import pytest

from scheduler.model.api.resources import MAX_RESOURCES
from scheduler.model.decisions import Placed, Unschedulable
from tests.support.builders import NodeBuilder, PodBuilder, node, pod
from tests.support.cluster import Cluster

GPU = "example.com/gpu"
MANY = 5_000
PODS = 20
#: What is kept of measured specs, however many there were; all those pods would take 100 MiB.
KEPT_BYTES = 14 * 1024 * 1024


def names(name: str, count: int) -> dict[str, str]:
    return {f"e.x/{name}-{each}": "1" for each in range(count)}


def wanting(name: str, count: int, **more: str) -> PodBuilder:
    return pod(name).requests({**names(name, count), **more})


def offering(name: str, count: int) -> NodeBuilder:
    return node(name).has({"cpu": "4", "memory": "8Gi", "pods": "110", **names("p", count)})


def test_a_pod_that_names_too_many_resources_is_refused_with_a_reason():
    cluster = Cluster(offering("n1", MAX_RESOURCES + 1))

    decision = cluster.schedule(wanting("p", MAX_RESOURCES + 1))

    assert isinstance(decision, Unschedulable)
    reason = "Pod names 129 resources, more than the 128 that are supported"
    assert decision.message.startswith(f"0/1 nodes are available: {reason}.")


def test_a_pod_that_names_as_many_as_are_supported_is_placed():
    cluster = Cluster(offering("n1", MAX_RESOURCES))

    assert cluster.schedule(wanting("p", MAX_RESOURCES)) == Placed("n1")


def test_a_resource_of_several_containers_counts_as_one_name():
    cluster = Cluster(offering("n1", MAX_RESOURCES))
    container = wanting("p", MAX_RESOURCES).build().spec.containers[0]

    decision = cluster.schedule(pod("p").containers(container, container))

    assert isinstance(decision, Unschedulable)
    assert decision.message.startswith("0/1 nodes are available: 1 Insufficient e.x/p-0, ")


def test_more_resources_than_bits_are_distinguished():
    cluster = Cluster(offering("n1", 69))

    decision = cluster.schedule(wanting("p", 70))

    assert isinstance(decision, Unschedulable)
    assert decision.message.startswith("0/1 nodes are available: 1 Insufficient e.x/p-69.")


def test_such_a_pod_on_a_node_counts_with_all_that_the_node_has():
    cluster = Cluster(node("n1").has({"cpu": "4", "memory": "8Gi", "pods": "110", GPU: "1"}))

    cluster.add(wanting("evil", 1000, **{GPU: "1"}).on("n1"))

    assert isinstance(cluster.schedule(pod("p").requests({GPU: "1"})), Unschedulable)
    assert cluster.schedule(pod("q").cpu("1")) == Placed("n1")


def test_what_a_node_offers_later_is_counted_from_the_pods_that_are_there():
    cluster = Cluster(node("n1").cpu("4"))
    cluster.add(wanting("evil", 1000, **{GPU: "1"}).on("n1"))
    cluster.add(pod("two").requests({GPU: "2"}).on("n1"))

    cluster.add(node("n1").has({"cpu": "4", "pods": "110", GPU: "4"}))

    assert isinstance(cluster.schedule(pod("p").requests({GPU: "2"})), Unschedulable)
    assert cluster.schedule(pod("q").requests({GPU: "1"})) == Placed("n1")


@pytest.mark.parametrize("where", ["n1", "ghost"])
def test_the_memory_of_such_pods_is_freed_when_they_are_deleted(where):
    cluster = Cluster(node("n1").cpu("4"))
    state = cluster.machine.cluster

    def come_and_go(name: str) -> None:
        cluster.add(wanting(name, MANY).on(where))
        cluster.delete(name)
        cluster.forget_effects()

    come_and_go("first")
    tracemalloc.start()
    try:
        for number in range(PODS):
            come_and_go(f"evil{number}")
        grown = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert grown < KEPT_BYTES
    assert (len(state.axis), len(state.footprints)) == (3, 0)


def test_a_refused_pod_adds_nothing_to_the_columns():
    cluster = Cluster(node("n1").cpu("4"))

    cluster.schedule(wanting("p", MANY))

    state = cluster.machine.cluster
    assert (len(state.axis), len(state.footprints)) == (3, 0)


def test_names_that_no_node_offers_any_more_are_dropped():
    cluster = Cluster(node("n1").cpu("4"), pod("p").requests({"e.x/7": "1"}).on("n1"))
    state = cluster.machine.cluster

    for number in range(1000):
        offered = {"cpu": "4", "pods": "110", f"e.x/{number}": "2"}
        cluster.add(node("n1").has(offered))
        code = state.axis.code(f"e.x/{number}")
        assert state.columns.requested(code)[0] == (number == 7)

    assert len(state.axis) <= 6
