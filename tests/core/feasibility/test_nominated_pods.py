"""Nominated pods count on their node for pods of lower and equal priority."""

import pytest

from scheduler.model.decisions import Placed, Unschedulable
from scheduler.model.releases import V1_37
from tests.support.builders import OURS, node, pod, requirement, term
from tests.support.cluster import Cluster
from tests.support.custom_plugins import OnePodPerNode, Prepares, with_filters

FULL = node("n1").cpu("4")
NAMED = term(fields=(requirement("metadata.name", "In", "n1"),))


def nominated(priority: int = 100, **options) -> Cluster:
    """Return a node with a nominated pod of another scheduler that needs three quarters of it."""
    return Cluster(
        FULL,
        pod("nominee").scheduler("other").cpu("3").priority(priority).nominated("n1"),
        **options,
    )


def fits(cluster: Cluster, wanted) -> bool:
    return cluster.schedule(wanted) == Placed("n1")


def test_a_nomination_counts_for_a_lower_pod():
    assert not fits(nominated(), pod("p").cpu("2").priority(99))


def test_a_nomination_counts_for_an_equal_pod():
    assert not fits(nominated(), pod("p").cpu("2").priority(100).never_preempts())


def test_a_nomination_does_not_count_for_a_higher_pod():
    assert fits(nominated(), pod("p").cpu("2").priority(101))


def test_what_a_nominated_pod_does_not_need_is_free():
    assert fits(nominated(), pod("p").cpu("1").priority(1))


def test_a_nomination_does_not_count_for_its_own_pod():
    assert fits(Cluster(FULL), pod("p").cpu("4").nominated("n1"))


def test_a_nominated_pod_takes_its_host_port():
    cluster = Cluster(FULL, pod("nominee").scheduler("other").port(80).priority(9).nominated("n1"))

    assert not fits(cluster, pod("p").port(80))
    assert fits(cluster, pod("q").port(81))


def test_a_nominated_pod_counts_as_a_pod():
    cluster = Cluster(
        node("n1").pods(1), pod("nominee").scheduler("other").priority(9).nominated("n1")
    )

    assert not fits(cluster, pod("p"))


@pytest.mark.parametrize("scheduler", ["other", OURS])
def test_a_nominated_pod_counts_with_the_labels_that_it_has_now(scheduler):
    nominee = pod("nominee").scheduler(scheduler).nominated("n1")
    cluster = Cluster(FULL, nominee.label("app", "a"))

    cluster.add(nominee.label("app", "b"))

    claims = list(cluster.machine.cluster.nominations)
    assert [claim.pod.metadata.labels for claim in claims] == [{"app": "b"}]


def test_a_pod_stays_apart_from_a_nominated_pod_that_was_labelled_later():
    nominee = pod("nominee").scheduler("other").priority(9).nominated("n1")
    cluster = Cluster(FULL.label("host", "n1"), nominee.label("app", "a"))
    cluster.add(nominee.label("app", "b"))

    assert not fits(cluster, pod("p").apart("host", app="b"))
    assert fits(cluster, pod("q").apart("host", app="a"))


def test_nominations_add_up():
    cluster = Cluster(FULL)
    for name in ("a", "b", "c"):
        cluster.add(pod(name).scheduler("other").cpu("1").priority(9).nominated("n1"))

    assert not fits(cluster, pod("p").cpu("2"))
    assert fits(cluster, pod("q").cpu("1"))


def test_a_pod_must_fit_without_the_nominated_pods_too():
    # The filter passes only with the nominated pod, which may never come.
    cluster = nominated(using=with_filters(Sociable()))

    assert not fits(cluster, pod("p"))


class Sociable(OnePodPerNode):
    """Passes nodes with a pod only."""

    name = "Sociable"
    reasons = ("", "node(s) had no company")

    def filter_node(self, _pod, _node, pods) -> int:
        return int(not pods)


def test_a_preemptor_must_fit_without_the_nominated_pods_too():
    # Without the victim, the only other pod is a nominated one that may never be placed.
    cluster = nominated(using=with_filters(Sociable()))
    cluster.add(pod("low").on("n1").cpu("4").priority(1))

    decision = cluster.schedule(pod("p").cpu("1").priority(50))

    assert isinstance(decision, Unschedulable)
    assert cluster.evicted() == []


def test_the_reason_with_the_nominated_pods_is_reported():
    decision = nominated().schedule(pod("p").cpu("2"))

    assert isinstance(decision, Unschedulable)
    assert decision.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_a_nomination_to_a_node_that_rejects_the_pod_changes_nothing():
    cluster = Cluster(
        node("n1").cordoned(),
        node("n2"),
        pod("nominee").scheduler("other").cpu("3").priority(9).nominated("n1"),
    )

    assert cluster.schedule(pod("p")) == Placed("n2")


def test_nominations_count_for_cluster_wide_filters():
    cluster = nominated(using=with_filters(OnePodPerNode(), Prepares()))

    assert not fits(cluster, pod("p"))


def test_nominations_count_where_only_some_nodes_are_named():
    cluster = nominated()

    assert not fits(cluster, pod("p").cpu("2").needs(NAMED))
    assert fits(cluster, pod("q").cpu("1").needs(NAMED))


def test_the_nomination_of_a_gated_pod_does_not_count():
    cluster = Cluster(FULL, pod("gated").cpu("4").priority(9).gated("a").nominated("n1"))

    assert fits(cluster, pod("p").cpu("4"))


def test_in_v1_37_the_nomination_of_a_gated_pod_counts():
    gated = pod("gated").cpu("4").priority(9).gated("a").nominated("n1")
    cluster = Cluster(FULL, gated, reference=V1_37)

    assert not fits(cluster, pod("p").cpu("4"))
    assert cluster.nominations() == {"gated": "n1"}


def test_in_v1_37_a_gated_pod_loses_its_nomination_with_its_status():
    cluster = Cluster(FULL, pod("p").gated("a").nominated("n1"), reference=V1_37)

    cluster.change("p", lambda own: own.nominated(""))

    assert cluster.nominations() == {}


def test_the_nomination_of_a_pod_counts_once_its_last_gate_is_removed():
    cluster = Cluster(FULL, pod("p").gated("a").nominated("n1"))

    cluster.change("p", lambda own: own.gated())

    assert cluster.nominations() == {"p": "n1"}
