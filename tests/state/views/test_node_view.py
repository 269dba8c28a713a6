"""Views of rows: the present state, and hypothetical states with other pods."""

from collections.abc import Iterator

import numpy as np
import pytest

from scheduler.state.cluster import Cluster
from scheduler.state.columns.pod_footprints import HostPort, WantedPorts
from scheduler.state.views.node_view import HypotheticalView, NodeView
from tests.support.builders import PodBuilder, node, pod

CPU = 0
PORT_80 = HostPort("0.0.0.0", "TCP", 80)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    for number in (1, 2, 3):
        made.write_node(
            node(f"n{number}").cpu(str(number)).pods(number).label("zone", f"z{number}").build()
        )
    place(made, "n1", pod("a").cpu("100m"), pod("b").cpu("200m").port(80))
    place(made, "n3", pod("c").cpu("300m"))
    yield made
    made.check()


def place(cluster: Cluster, where: str, *builders: PodBuilder) -> None:
    for builder in builders:
        cluster.place(builder.on(where).build(), where)


def slot(cluster: Cluster, name: str) -> int:
    found = cluster.pods.slot(f"uid:default/{name}")
    assert found is not None
    return found


def view(cluster: Cluster, *rows: int) -> NodeView:
    return NodeView(cluster.columns, np.array(rows, dtype=np.int64))


def test_the_view_of_all_rows_shows_every_fact(cluster):
    nodes = cluster.nodes()

    assert len(nodes) == 3
    assert nodes.rows.tolist() == [0, 1, 2]
    assert [nodes.name(position) for position in range(3)] == ["n1", "n2", "n3"]
    assert nodes.allocatable(CPU).tolist() == [1000, 2000, 3000]
    assert nodes.requested(CPU).tolist() == [300, 0, 300]
    assert nodes.non_zero(0).tolist() == [300, 0, 300]
    assert nodes.pods().tolist() == [2, 0, 1]
    assert nodes.allowed_pods().tolist() == [1, 2, 3]
    assert nodes.unschedulable().tolist() == [False, False, False]
    assert nodes.port_conflicts(WantedPorts([PORT_80])).tolist() == [True, False, False]


def test_a_view_of_some_rows_shows_those_in_its_order(cluster):
    nodes = view(cluster, 2, 0)
    zone = cluster.columns.labels.column("zone")

    assert [nodes.name(position) for position in range(2)] == ["n3", "n1"]
    assert nodes.allocatable(CPU).tolist() == [3000, 1000]
    assert nodes.requested(CPU).tolist() == [300, 300]
    assert nodes.non_zero(0).tolist() == [300, 300]
    assert nodes.pods().tolist() == [1, 2]
    assert nodes.allowed_pods().tolist() == [3, 1]
    assert nodes.taints().tolist() == [0, 0]
    assert nodes.unschedulable().tolist() == [False, False]
    assert [zone.values[code] for code in nodes.label_codes(zone)] == ["z3", "z1"]
    assert nodes.port_conflicts(WantedPorts([PORT_80])).tolist() == [False, True]
    assert nodes.slots(1, cluster.pods) == [slot(cluster, "a"), slot(cluster, "b")]


def test_a_view_can_be_narrowed(cluster):
    assert view(cluster, 2, 1, 0).take(np.array([2, 0])).rows.tolist() == [0, 2]
    assert cluster.nodes().take(np.array([1])).name(0) == "n2"


def test_an_unknown_resource_is_0_everywhere(cluster):
    assert cluster.nodes().allocatable(50).tolist() == [0, 0, 0]
    assert view(cluster, 1).requested(50).tolist() == [0]


@pytest.fixture
def copies(cluster) -> HypotheticalView:
    """Return a hypothetical view of the first and the third node."""
    return cluster.hypothetical_view(np.array([0, 2]))


def facts(nodes: NodeView) -> dict[str, list[int]]:
    return {
        "cpu": nodes.requested(CPU).tolist(),
        "pods": nodes.pods().tolist(),
        "ports": nodes.port_conflicts(WantedPorts([PORT_80])).astype(int).tolist(),
    }


def test_a_hypothetical_view_starts_with_the_present_state(copies):
    assert facts(copies) == {"cpu": [300, 300], "pods": [2, 1], "ports": [1, 0]}


def test_one_pod_can_be_removed_on_each_row(cluster, copies):
    copies.change(np.array([slot(cluster, "b"), slot(cluster, "c")]), -1)

    assert facts(copies) == {"cpu": [100, 0], "pods": [1, 0], "ports": [0, 0]}


def test_rows_without_a_change_stay_the_same(cluster, copies):
    copies.change(np.array([slot(cluster, "a"), -1]), -1)

    assert facts(copies) == {"cpu": [200, 300], "pods": [1, 1], "ports": [1, 0]}


def test_removed_pods_can_be_added_again(cluster, copies):
    away = np.array([slot(cluster, "b"), -1])
    copies.change(away, -1)
    facts(copies)

    copies.change(away, +1)

    assert facts(copies) == {"cpu": [300, 300], "pods": [2, 1], "ports": [1, 0]}


def test_pods_of_other_nodes_can_be_added(cluster, copies):
    copies.change(np.array([-1, slot(cluster, "b")]), +1)

    assert facts(copies) == {"cpu": [300, 500], "pods": [2, 2], "ports": [1, 1]}


def test_a_value_that_is_read_late_includes_all_changes(cluster, copies):
    copies.change(np.array([slot(cluster, "a"), -1]), -1)
    copies.change(np.array([slot(cluster, "b"), slot(cluster, "c")]), -1)
    copies.change(np.array([-1, slot(cluster, "c")]), +1)

    assert facts(copies) == {"cpu": [0, 300], "pods": [0, 1], "ports": [0, 0]}


def test_the_pods_of_a_row_can_be_listed(cluster, copies):
    a, b, c = (slot(cluster, name) for name in "abc")
    copies.change(np.array([a, -1]), -1)
    copies.change(np.array([c, -1]), +1)

    assert copies.slots(0, cluster.pods) == [b, c]
    assert copies.slots(1, cluster.pods) == [c]


def test_the_cluster_itself_does_not_change(cluster, copies):
    copies.change(np.array([slot(cluster, "b"), slot(cluster, "c")]), -1)
    facts(copies)

    assert facts(cluster.nodes()) == {"cpu": [300, 0, 300], "pods": [2, 0, 1], "ports": [1, 0, 0]}


def test_allocatable_amounts_do_not_depend_on_pods(copies):
    assert copies.allocatable(CPU).tolist() == [1000, 3000]
    assert copies.allowed_pods().tolist() == [1, 3]
