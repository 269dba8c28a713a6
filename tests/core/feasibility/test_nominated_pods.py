"""Nominated pods count on their node for pods of lower and equal priority."""

import pytest

from scheduler.model.decisions import Placed, Unschedulable
from tests.support.builders import OURS, node, pod, requirement, term
from tests.support.cluster import Cluster
from tests.support.custom_plugins import OneGuest, Prepares, with_filters

FULL = node("n1").cpu("4")
NAMED = term(fields=(requirement("metadata.name", "In", "n1"),))


def claimed(priority: int = 100, **options) -> Cluster:
    """Give a node of which another scheduler's pod has claimed three quarters."""
    return Cluster(
        FULL,
        pod("nominee").scheduler("other").cpu("3").priority(priority).nominated("n1"),
        **options,
    )


def fits(cluster: Cluster, wanted) -> bool:
    return cluster.schedule(wanted) == Placed("n1")


def test_a_claim_holds_room_against_a_lower_pod():
    assert not fits(claimed(), pod("p").cpu("2").priority(99))


def test_a_claim_holds_room_against_an_equal_pod():
    assert not fits(claimed(), pod("p").cpu("2").priority(100).never_preempts())


def test_a_claim_does_not_hold_room_against_a_higher_pod():
    assert fits(claimed(), pod("p").cpu("2").priority(101))


def test_what_a_claim_leaves_can_be_had():
    assert fits(claimed(), pod("p").cpu("1").priority(1))


def test_a_claim_does_not_hold_room_against_its_own_pod():
    assert fits(Cluster(FULL), pod("p").cpu("4").nominated("n1"))


def test_a_claim_holds_its_host_port():
    cluster = Cluster(FULL, pod("nominee").scheduler("other").port(80).priority(9).nominated("n1"))

    assert not fits(cluster, pod("p").port(80))
    assert fits(cluster, pod("q").port(81))


def test_a_claim_counts_as_a_pod():
    cluster = Cluster(
        node("n1").pods(1), pod("nominee").scheduler("other").priority(9).nominated("n1")
    )

    assert not fits(cluster, pod("p"))


@pytest.mark.parametrize("scheduler", ["other", OURS])
def test_a_claim_has_the_labels_that_its_pod_has_now(scheduler):
    nominee = pod("nominee").scheduler(scheduler).nominated("n1")
    cluster = Cluster(FULL, nominee.label("app", "a"))

    cluster.add(nominee.label("app", "b"))

    claims = list(cluster.machine.cluster.nominations)
    assert [claim.pod.metadata.labels for claim in claims] == [{"app": "b"}]


def test_a_pod_stays_apart_from_a_claim_whose_pod_was_labelled_later():
    nominee = pod("nominee").scheduler("other").priority(9).nominated("n1")
    cluster = Cluster(FULL.label("host", "n1"), nominee.label("app", "a"))
    cluster.add(nominee.label("app", "b"))

    assert not fits(cluster, pod("p").apart("host", app="b"))
    assert fits(cluster, pod("q").apart("host", app="a"))


def test_claims_add_up():
    cluster = Cluster(FULL)
    for name in ("a", "b", "c"):
        cluster.add(pod(name).scheduler("other").cpu("1").priority(9).nominated("n1"))

    assert not fits(cluster, pod("p").cpu("2"))
    assert fits(cluster, pod("q").cpu("1"))


def test_a_pod_must_fit_without_the_claims_too():
    # With the nominee there it would please the rule, but the nominee may never come.
    cluster = claimed(using=with_filters(Sociable()))

    assert not fits(cluster, pod("p"))


class Sociable(OneGuest):
    """Wants company."""

    name = "Sociable"
    reasons = ("", "node(s) had no company")

    def filter_node(self, _pod, _node, pods) -> int:
        return int(not pods)


def test_a_preemptor_must_fit_without_the_claims_too():
    # The only company that it could have when its victim is gone is a pod that may never come.
    cluster = claimed(using=with_filters(Sociable()))
    cluster.add(pod("low").on("n1").cpu("4").priority(1))

    decision = cluster.schedule(pod("p").cpu("1").priority(50))

    assert isinstance(decision, Unschedulable)
    assert cluster.evicted() == []


def test_the_reason_with_the_claims_is_told():
    decision = claimed().schedule(pod("p").cpu("2"))

    assert isinstance(decision, Unschedulable)
    assert decision.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_a_claim_on_a_node_that_cannot_take_the_pod_changes_nothing():
    cluster = Cluster(
        node("n1").cordoned(),
        node("n2"),
        pod("nominee").scheduler("other").cpu("3").priority(9).nominated("n1"),
    )

    assert cluster.schedule(pod("p")) == Placed("n2")


def test_claims_count_for_rules_that_look_further():
    cluster = claimed(using=with_filters(OneGuest(), Prepares()))

    assert not fits(cluster, pod("p"))


def test_claims_count_where_only_some_nodes_are_named():
    cluster = claimed()

    assert not fits(cluster, pod("p").cpu("2").needs(NAMED))
    assert fits(cluster, pod("q").cpu("1").needs(NAMED))


def test_a_claim_of_a_gated_pod_holds_nothing():
    cluster = Cluster(FULL, pod("gated").cpu("4").priority(9).gated("a").nominated("n1"))

    assert fits(cluster, pod("p").cpu("4"))


def test_a_pod_whose_last_gate_is_removed_claims_what_it_is_nominated_to():
    cluster = Cluster(FULL, pod("p").gated("a").nominated("n1"))

    cluster.change("p", lambda own: own.gated())

    assert cluster.claims() == {"p": "n1"}
