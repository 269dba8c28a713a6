"""Node facts by row."""

import pytest

from scheduler.model.api.quantity import QuantityError
from scheduler.state.columns.node_columns import NodeColumns
from scheduler.state.columns.pod_footprints import HostPort, PodFootprint
from scheduler.state.columns.resource_axis import ResourceAxis
from tests.support.builders import node

CPU, MEMORY = 0, 1
PLAIN = PodFootprint(requests=((CPU, 500),), non_zero=(500, 1), ports=())


@pytest.fixture
def columns() -> NodeColumns:
    return NodeColumns(ResourceAxis())


def test_the_facts_of_a_node_are_in_its_row(columns):
    row = columns.write(
        node("n1")
        .cpu("2")
        .memory("1Ki")
        .pods(7)
        .cordoned()
        .taint("a", "b")
        .label("zone", "x")
        .build()
    )

    assert columns.row("n1") == row
    assert columns.allocatable(CPU)[row] == 2000
    assert columns.allocatable(MEMORY)[row] == 1024
    assert columns.allowed_pods()[row] == 7
    assert columns.unschedulable()[row]
    assert columns.exists()[row]
    assert columns.taint_sets.values[int(columns.taints()[row])] == (("a", "b", "NoSchedule"),)
    assert columns.names[row] == "n1"


def test_a_new_state_replaces_the_old_one(columns):
    row = columns.write(node("n1").has({"cpu": "2", "example.com/gpu": "1"}).cordoned().build())

    assert columns.write(node("n1").cpu("3").build()) == row

    assert columns.allocatable(CPU)[row] == 3000
    assert columns.allocatable(columns.axis.code("example.com/gpu"))[row] == 0
    assert not columns.unschedulable()[row]


def test_a_node_with_an_invalid_amount_changes_nothing(columns):
    with pytest.raises(QuantityError):
        columns.write(node("n1").cpu("lots").build())

    assert columns.row("n1") is None
    assert columns.node_count == 0


def test_an_unknown_node_has_no_row(columns):
    assert columns.row("n1") is None
    assert columns.node("n1") is None
    assert columns.erase("n1") is None


def test_a_deleted_node_frees_its_row(columns):
    row = columns.write(node("n1").cpu("2").label("zone", "a").image("app", 1).build())
    zone = columns.labels.column("zone")

    assert columns.erase("n1") == row

    assert columns.row("n1") is None
    assert columns.node_count == 0
    assert zone.codes(columns.size)[row] == 0
    assert columns.images.get("app") is None


def test_a_node_cannot_be_deleted_twice(columns):
    columns.write(node("n1").build())
    columns.add_usage(0, PLAIN)
    columns.erase("n1")

    assert columns.erase("n1") is None


def test_a_free_row_is_reused_and_empty(columns):
    columns.write(node("n1").cpu("2").pods(5).taint("a").build())
    columns.erase("n1")

    row = columns.write(node("n2").build())

    assert (row, columns.size) == (0, 1)
    assert columns.allocatable(CPU)[row] == 0
    assert columns.taints()[row] == 0


def test_a_row_stays_as_long_as_it_has_pods(columns):
    row = columns.write(node("n1").build())
    columns.add_usage(row, PLAIN)

    columns.erase("n1")
    assert columns.row("n1") == row
    assert not columns.exists()[row]

    columns.remove_usage(row, PLAIN)
    assert columns.row("n1") is None


def test_a_pod_may_be_added_before_its_node(columns):
    row = columns.ensure("n1")
    columns.add_usage(row, PLAIN)
    assert not columns.exists()[row]

    assert columns.write(node("n1").cpu("2").build()) == row
    assert columns.requested(CPU)[row] == 500


def test_pods_are_counted_in_and_out(columns):
    listening = PodFootprint(((CPU, 100),), (100, 7), (HostPort("0.0.0.0", "TCP", 80),))
    row = columns.write(node("n1").build())

    columns.add_usage(row, PLAIN)
    columns.add_usage(row, listening)

    assert columns.pods()[row] == 2
    assert columns.requested(CPU)[row] == 600
    assert [columns.non_zero(index)[row] for index in (0, 1)] == [600, 8]
    assert columns.ports.on(row) == set(listening.ports)

    columns.remove_usage(row, listening)

    assert columns.pods()[row] == 1
    assert columns.requested(CPU)[row] == 500
    assert columns.ports.on(row) == set()


def test_each_kind_of_change_has_its_log(columns):
    row = columns.write(node("n1").build())
    nodes, pods = columns.node_changes.position, columns.pod_changes.position

    columns.add_usage(row, PLAIN)
    assert (columns.node_changes.position, columns.pod_changes.position) == (nodes, pods + 1)

    columns.write(node("n1").cpu("1").build())
    assert (columns.node_changes.position, columns.pod_changes.position) == (nodes + 1, pods + 1)


def test_the_membership_changes_when_a_node_is_added_or_deleted(columns):
    columns.write(node("n1").build())
    first = columns.membership

    columns.write(node("n1").cpu("1").build())
    assert columns.membership == first

    columns.erase("n1")
    assert columns.membership > first


def test_rows_of_names_are_those_that_exist_in_row_order(columns):
    for name in ("a", "b", "c"):
        columns.write(node(name).build())
    columns.ensure("imaginary")

    assert columns.rows_of(frozenset({"c", "a", "unknown", "imaginary"})).tolist() == [0, 2]


def test_equal_taints_share_a_code(columns):
    columns.write(node("n1").taint("a").build())
    columns.write(node("n2").taint("a").build())
    columns.write(node("n3").taint("a", effect="NoExecute").build())

    first, second, third = columns.taints().tolist()
    assert first == second != third


def test_a_name_has_the_same_hash_in_every_cluster(columns):
    columns.write(node("n1").build())
    other = NodeColumns(ResourceAxis())
    other.write(node("n0").build())
    other.write(node("n1").build())

    assert columns.hashes()[0] == other.hashes()[1] != other.hashes()[0]


def test_there_may_be_many_nodes(columns):
    for number in range(100):
        columns.write(node(f"n{number}").cpu(str(number)).build())

    assert columns.size == 100
    assert columns.allocatable(CPU).all(100).sum() == 1000 * sum(range(100))
    assert bool(columns.exists().all())
