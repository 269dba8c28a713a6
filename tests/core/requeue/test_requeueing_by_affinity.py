"""Which events wake pods that wait for, or because of, other pods."""

import pytest

from scheduler.queue.phases import QueuePhase
from tests.support.builders import PodBuilder, node, pod, requirement
from tests.support.cluster import Cluster


def has(key: str):
    return requirement(key, "Exists")


def unschedulable(*objects: object, pods: tuple[PodBuilder, ...]) -> Cluster:
    """Give a cluster in which some pods were found unschedulable."""
    cluster = Cluster(*objects)
    for each in pods:
        cluster.schedule(each)
        assert cluster.phase(each.object.metadata.name) is QueuePhase.UNSCHEDULABLE
    return cluster


def waiting(cluster: Cluster, *names: str) -> list[str]:
    return [name for name in names if cluster.phase(name) is QueuePhase.UNSCHEDULABLE]


# Affinity and anti-affinity


def test_a_deleted_pod_wakes_a_pod_with_anti_affinity_to_it():
    cluster = unschedulable(
        node("n1").label("node", "n1"),
        pod("one").on("n1").label("anti1", "x"),
        pod("two").on("n1").label("anti2", "x"),
        pods=(
            pod("from-one").apart("node", has("anti1")),
            pod("from-two").apart("node", has("anti2")),
        ),
    )

    cluster.delete("one")

    assert waiting(cluster, "from-one", "from-two") == ["from-two"]


def test_a_deleted_pod_with_anti_affinity_wakes_the_pods_that_it_kept_away():
    cluster = unschedulable(
        node("n1").label("node", "n1"),
        pod("shy").on("n1").apart("node", app="web"),
        pods=(pod("p").label("app", "web"),),
    )

    cluster.delete("shy")

    assert waiting(cluster, "p") == []


def test_a_label_on_a_running_pod_wakes_a_pod_with_affinity_to_it():
    running = pod("running").on("n1")
    cluster = unschedulable(
        node("n1").label("node", "n1"),
        running,
        pods=(pod("a").near("node", has("aaa")), pod("b").near("node", has("bbb"))),
    )

    assert cluster.woken_by(running.label("aaa", "x")) == ["a"]


def test_a_new_pod_wakes_a_pod_with_affinity_to_it():
    cluster = unschedulable(
        node("n1").label("node", "n1"),
        pods=(pod("a").near("node", app="web"), pod("b").near("node", app="db")),
    )

    assert cluster.woken_by(pod("web").on("n1").label("app", "web")) == ["a"]


def test_a_node_that_gets_a_topology_key_wakes_a_pod_that_needs_it():
    cluster = unschedulable(
        node("n1"),
        node("n2").label("region", "r2").label("group", "b"),
        pod("running").on("n1").label("affine", "x"),
        pods=(
            pod("by-node").label("affine", "x").near("node", has("affine")),
            pod("by-other").label("affine", "x").near("other", has("affine")),
            pod("by-region").near("region", has("affine")).selects(group="b"),
        ),
    )

    moved = node("n1").label("node", "n1").label("region", "r2")
    assert cluster.woken_by(moved) == ["by-node", "by-region"]


@pytest.mark.parametrize(
    "changed",
    [node("n2").label("node", "n2"), node("n1").label("node", "n1"), node("n1").label("node", "x")],
    ids=["a new node", "a node that left all domains", "a node that left its domain"],
)
def test_a_node_outside_of_the_domain_wakes_the_pods_that_running_pods_keep_away(changed):
    terms = (pod("none"), pod("near").near("node", app="web"), pod("apart").apart("node", app="x"))
    there = node("n1").label("node", "n1").label("zone", "z")
    shy = pod("shy").on("n1").label("app", "web").apart("zone", app="web")
    cluster = unschedulable(there, shy, pods=tuple(each.label("app", "web") for each in terms))

    assert cluster.woken_by(changed) == ["apart", "near", "none"]


def test_a_new_node_wakes_all_pods_with_anti_affinity():
    cluster = unschedulable(
        node("n1").label("zone", "z").label("node", "n1"),
        pod("running").on("n1").label("anti", "x"),
        pods=(pod("by-zone").apart("zone", has("anti")), pod("by-node").apart("node", has("anti"))),
    )

    assert cluster.woken_by(node("n2").label("zone", "z")) == ["by-node", "by-zone"]


# Spread


def spreading(name: str, key: str, label: str, least: int) -> PodBuilder:
    return pod(name).label(label, "val").spreads(key, has(label), least=least)


def two_labels() -> Cluster:
    return unschedulable(
        node("n1").cpu("2").label("node", "n1"),
        pod("one").on("n1").label("key1", "val"),
        pod("two").on("n1").label("key2", "val"),
        pods=(spreading("a", "node", "key1", 3), spreading("b", "node", "key2", 3)),
    )


def test_a_new_peer_wakes_a_pod_that_spreads_with_it():
    cluster = two_labels()

    assert cluster.woken_by(pod("three").on("n1").label("key1", "val")) == ["a"]


def test_a_deleted_peer_wakes_a_pod_that_spreads_with_it():
    cluster = two_labels()

    cluster.delete("one")

    assert waiting(cluster, "a", "b") == ["b"]


def test_a_node_whose_topology_keys_change_wakes_pods_that_spread_over_them():
    def second(**more: str):
        labels = {"node": "n", "region": "r", "service": "a"} | more
        built = node("n2")
        for key, value in labels.items():
            built = built.label(key, value)
        return built

    first = node("n1").label("node", "n").label("region", "r").label("service", "a")
    cluster = unschedulable(
        first,
        second(),
        pod("peer").on("n1").label("key1", "val"),
        *(pod(f"peer-{number}").on("n2").label("key1", "val") for number in range(3)),
        pods=tuple(
            spreading(key, key, "key1", 3) for key in ("node", "zone", "region", "other", "service")
        ),
    )

    changed = node("n2").label("zone", "z").label("region", "r").label("service", "b")
    assert cluster.woken_by(changed) == ["node", "service", "zone"]


def test_taints_of_a_node_with_the_topology_key_wake_pods_that_spread_over_it():
    tainted = node("n3").label("zone", "z").taint("node.kubernetes.io/not-ready")
    cluster = unschedulable(
        node("n1").label("node", "n1"),
        node("n2").label("zone", "z"),
        tainted,
        pod("one").on("n1").label("key1", "val"),
        pod("two").on("n2").label("key1", "val"),
        pods=(
            spreading("by-node", "node", "key1", 3),
            spreading("by-zone", "zone", "key1", 3).tolerates("aaa", operator="Exists"),
        ),
    )

    assert "by-zone" in cluster.woken_by(node("n3").label("zone", "z").taint("aaa", "bbb"))
