"""The cluster: assume, confirm, forget; nominations, budgets, terminating pods."""

from collections.abc import Iterator

import pytest

from scheduler.model.api.quantity import QuantityError
from scheduler.state.cluster import Cluster
from tests.support.builders import namespace, node, pdb, pod

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


def test_an_observed_pod_is_counted_on_its_node(cluster):
    assert cluster.place(P, "n1") is None

    assert (used(cluster, "n1"), cluster.node_of(P.uid)) == (1000, "n1")
    assert cluster.find_pod(P.uid) is P


def test_a_repeat_counts_once(cluster):
    cluster.place(P, "n1")

    assert cluster.place(P, "n1") is P

    assert used(cluster, "n1") == 1000


def test_a_new_state_of_the_same_shape_keeps_its_place(cluster):
    cluster.place(P, "n1")
    later = pod("p").cpu("1").label("app", "x").build()

    assert cluster.place(later, "n1") is P

    assert cluster.find_pod(P.uid) is later


def test_a_resized_pod_is_counted_with_its_new_size(cluster):
    cluster.place(P, "n1")

    assert cluster.place(pod("p").cpu("3").build(), "n1") is P

    assert used(cluster, "n1") == 3000


def test_a_pod_that_is_observed_elsewhere_moves(cluster):
    cluster.place(P, "n1")

    cluster.place(P, "n2")

    assert (used(cluster, "n1"), used(cluster, "n2")) == (0, 1000)


def test_a_deleted_pod_is_not_counted(cluster):
    cluster.place(P, "n1")

    assert cluster.remove(P.uid) is P

    assert used(cluster, "n1") == 0
    assert cluster.node_of(P.uid) is None
    assert cluster.remove(P.uid) is None


def test_an_assumed_pod_is_counted_and_names_its_node(cluster):
    cluster.assume(P, "n1")

    assert (used(cluster, "n1"), cluster.assumed, cluster.is_assumed(P.uid)) == (1000, 1, True)
    placed = cluster.find_pod(P.uid)
    assert placed is not None
    assert placed.spec.node_name == "n1"


def test_an_assumed_pod_is_confirmed_by_being_observed(cluster):
    cluster.assume(P, "n1")

    cluster.place(pod("p").cpu("1").on("n1").build(), "n1")

    assert (used(cluster, "n1"), cluster.assumed) == (1000, 0)


def test_an_assumed_pod_that_is_observed_elsewhere_moves_there(cluster):
    cluster.assume(P, "n1")

    cluster.place(pod("p").cpu("1").on("n2").build(), "n2")

    assert (used(cluster, "n1"), used(cluster, "n2"), cluster.assumed) == (0, 1000, 0)


def test_a_pod_whose_assumption_was_dropped_is_not_counted(cluster):
    cluster.assume(P, "n1")

    left = cluster.forget(P.uid)

    assert left is not None
    assert left.spec.node_name == "n1"
    assert (used(cluster, "n1"), cluster.assumed) == (0, 0)


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


# Nominations


def test_a_nomination_is_not_counted_in_the_columns(cluster):
    cluster.nominate(P, "n1")

    assert used(cluster, "n1") == 0
    assert cluster.nominations.node(P.uid) == "n1"
    assert cluster.find_pod(P.uid) is None


def test_a_newer_nomination_replaces_the_older_one(cluster):
    cluster.nominate(P, "n1")
    cluster.nominate(P, "n2")

    assert [nomination.node for nomination in cluster.nominations] == ["n2"]


def test_a_nomination_can_be_removed(cluster):
    cluster.nominate(P, "n1")

    cluster.withdraw(P.uid)

    assert len(cluster.nominations) == 0
    assert P.uid not in cluster.pods


def test_removing_a_nomination_does_not_affect_a_pod_on_a_node(cluster):
    cluster.place(P, "n1")

    cluster.withdraw(P.uid)

    assert used(cluster, "n1") == 1000


def test_a_pod_that_is_placed_has_no_nomination_any_more(cluster):
    cluster.nominate(P, "n1")

    cluster.assume(P, "n2")

    assert len(cluster.nominations) == 0


# Nodes


def test_pods_of_a_deleted_node_still_count_when_it_returns(cluster):
    cluster.place(P, "n1")

    cluster.erase_node("n1")
    cluster.write_node(node("n1").cpu("4").build())

    assert used(cluster, "n1") == 1000


def test_the_last_state_of_a_node_is_returned(cluster):
    before = cluster.columns.node("n1")

    assert cluster.write_node(node("n1").cpu("8").build()) is before
    assert cluster.write_node(node("n3").build()) is None
    assert cluster.erase_node("n3") is not None
    assert cluster.erase_node("n3") is None


# Terminating pods


def test_an_evicted_pod_terminates_by_preemption(cluster):
    cluster.place(P, "n1")

    cluster.mark_evicting(P.uid)

    assert cluster.is_being_deleted(P)
    assert cluster.is_being_preempted(P)
    assert cluster.evicting == 1


def test_a_pod_that_is_not_evicted_after_all_does_not_terminate(cluster):
    cluster.place(P, "n1")
    cluster.mark_evicting(P.uid)

    cluster.unmark_evicting(P.uid)

    assert not cluster.is_being_deleted(P)


def test_an_evicted_pod_that_is_resized_still_terminates(cluster):
    cluster.place(P, "n1")
    cluster.mark_evicting(P.uid)

    cluster.place(pod("p").cpu("2").build(), "n1")

    assert cluster.is_being_deleted(P)


def test_a_deleted_pod_is_not_terminating(cluster):
    cluster.place(P, "n1")
    cluster.mark_evicting(P.uid)

    cluster.remove(P.uid)

    assert cluster.evicting == 0


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


def test_a_new_budget_protects_existing_pods(cluster):
    cluster.place(pod("web").label("app", "web").build(), "n1")

    cluster.write_pdb(pdb("b").selects(app="web").build())

    assert protected(cluster, "uid:default/web") == ("default/b",)


def test_a_new_pod_is_protected_by_existing_budgets(cluster):
    cluster.write_pdb(pdb("b").selects(app="web").build())

    cluster.place(pod("web").label("app", "web").build(), "n1")

    assert protected(cluster, "uid:default/web") == ("default/b",)


def test_a_pod_that_gets_other_labels_is_protected_by_other_budgets(cluster):
    cluster.write_pdb(pdb("b").selects(app="web").build())
    cluster.place(pod("web").label("app", "web").build(), "n1")

    cluster.place(pod("web").label("app", "db").build(), "n1")

    assert protected(cluster, "uid:default/web") == ()


def test_a_deleted_budget_protects_no_pod(cluster):
    cluster.write_pdb(pdb("b").selects(app="web").build())
    cluster.place(pod("web").label("app", "web").build(), "n1")

    cluster.erase_pdb("default/b")
    cluster.erase_pdb("default/never-there")

    assert protected(cluster, "uid:default/web") == ()


def test_namespaces_are_known_by_their_labels(cluster):
    cluster.write_namespace(namespace("team", tier="gold"))
    assert cluster.namespaces["team"] == {"tier": "gold"}

    cluster.erase_namespace("team")
    cluster.erase_namespace("team")
    assert cluster.namespaces == {}


def test_the_invariants_are_really_checked(cluster):
    cluster.place(P, "n1")
    cluster.columns.requested(CPU).add(0, 1)

    with pytest.raises(AssertionError):
        cluster.check()

    cluster.columns.requested(CPU).add(0, -1)
