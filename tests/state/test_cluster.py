"""The cluster: assume, confirm, forget; nominations, budgets, terminating pods."""

from collections.abc import Iterator

import pytest

from scheduler.model.api.quantity import QuantityError
from scheduler.state.cluster import Cluster
from tests.support.builders import node, pdb, pod

P = pod("p").cpu("1").build()
CPU = 0


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    made.write_node(node("n1").cpu("4").build())
    made.write_node(node("n2").cpu("4").build())
    yield made
    made.check()


def used(cluster: Cluster, name: str) -> int:
    row = cluster.columns.row(name)
    assert row is not None
    return cluster.columns.requested(CPU)[row]


def test_an_assumed_pod_that_is_observed_elsewhere_moves_there(cluster):
    cluster.assume(P, "n1")

    cluster.place(pod("p").cpu("1").on("n2").build(), "n2")

    assert (used(cluster, "n1"), used(cluster, "n2"), cluster.assumed) == (0, 1000, 0)


def test_only_the_assumption_of_an_assumed_pod_can_be_dropped(cluster):
    cluster.place(P, "n1")

    with pytest.raises(ValueError, match="is not assumed and cannot be forgotten"):
        cluster.forget(P.uid)


def test_a_pod_on_a_node_cannot_be_assumed(cluster):
    cluster.place(P, "n1")

    with pytest.raises(ValueError, match=r"pod default/p \(.*\) is on a node"):
        cluster.assume(P, "n2")


def test_an_invalid_request_changes_nothing(cluster):
    cluster.place(P, "n1")

    with pytest.raises(QuantityError):
        cluster.place(pod("p").cpu("lots").build(), "n1")
    with pytest.raises(QuantityError):
        cluster.nominate(pod("q").cpu("lots").build(), "n1")

    assert used(cluster, "n1") == 1000
    assert cluster.find_pod(P.uid) is P


def test_an_invalid_node_changes_nothing(cluster):
    with pytest.raises(QuantityError):
        cluster.write_node(node("n1").cpu("lots").build())

    found = cluster.columns.node("n1")
    assert found is not None
    assert found.status.allocatable["cpu"] == "4"


# Nodes


def test_the_last_state_of_a_node_is_returned(cluster):
    before = cluster.columns.node("n1")

    assert cluster.write_node(node("n1").cpu("8").build()) is before
    assert cluster.write_node(node("n3").build()) is None
    assert cluster.erase_node("n3") is not None
    assert cluster.erase_node("n3") is None


# Terminating pods


def test_an_evicted_pod_that_is_resized_still_terminates(cluster):
    cluster.place(P, "n1")
    cluster.mark_evicting(P.uid)

    cluster.place(pod("p").cpu("2").build(), "n1")

    assert cluster.is_being_deleted(P)


TERMINATING = {
    "deleted by a user": (pod("x").terminating(), True, False),
    "preempted by a scheduler": (pod("x").preempted(), True, True),
    "a stale condition": (
        pod("x").condition("DisruptionTarget", "True", "PreemptionByScheduler"),
        False,
        False,
    ),
    "evicted for another reason": (
        pod("x").terminating().condition("DisruptionTarget", "True", "EvictionByEvictionAPI"),
        True,
        False,
    ),
    "a condition that is not true": (
        pod("x").terminating().condition("DisruptionTarget", "False", "PreemptionByScheduler"),
        True,
        False,
    ),
    "running": (pod("x"), False, False),
}


@pytest.mark.parametrize(("builder", "deleted", "preempted"), TERMINATING.values(), ids=TERMINATING)
def test_the_status_of_a_pod_shows_whether_it_terminates(cluster, builder, deleted, preempted):
    found = builder.build()

    assert cluster.is_being_deleted(found) is deleted
    assert cluster.is_being_preempted(found) is preempted


# Budgets and namespaces


def protected(cluster: Cluster, uid: str) -> tuple[str, ...]:
    slot = cluster.pods.slot(uid)
    assert slot is not None
    return cluster.pdbs.sets.values[int(cluster.pods.protection(slot))]


def test_a_pod_that_gets_other_labels_is_protected_by_other_budgets(cluster):
    cluster.write_pdb(pdb("b").selects(app="web").build())
    cluster.place(pod("web").label("app", "web").build(), "n1")

    cluster.place(pod("web").label("app", "db").build(), "n1")

    assert protected(cluster, "uid:default/web") == ()


def test_the_invariants_are_really_checked(cluster):
    cluster.place(P, "n1")
    cluster.columns.requested(CPU).add(0, 1)

    with pytest.raises(AssertionError):
        cluster.check()

    cluster.columns.requested(CPU).add(0, -1)
