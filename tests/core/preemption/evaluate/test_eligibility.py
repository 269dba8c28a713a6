"""Which pods may preempt, and on which nodes."""

import pytest

from scheduler.model.decisions import Preempting, Unschedulable
from tests.support.builders import PodBuilder, node, pod
from tests.support.cluster import Cluster
from tests.support.custom_plugins import Refuses, with_filters

PREFIX = "no new claims to deallocate, preemption: "
WAITS = f"{PREFIX}not eligible due to a terminating pod on the nominated node."


def message(cluster: Cluster, wanted: PodBuilder) -> str:
    """Return the message of the post filters for a pod that fits on no node."""
    decision = cluster.schedule(wanted)
    assert isinstance(decision, Unschedulable)
    return decision.message.partition(". ")[2]


def preempts(cluster: Cluster, wanted: PodBuilder) -> bool:
    return isinstance(cluster.schedule(wanted), Preempting)


def test_a_pod_that_never_preempts_says_so_and_keeps_its_nomination():
    cluster = Cluster(node("n1").cpu("1"), pod("low").on("n1").cpu("1"))

    wanted = pod("p").cpu("1").priority(9).never_preempts().nominated("n1")

    assert message(cluster, wanted) == f"{PREFIX}not eligible due to preemptionPolicy=Never."
    assert cluster.nominations() == {"p": "n1"}
    assert cluster.attempts[-1].preemption_tried


def test_pods_of_equal_and_higher_priority_are_no_victims():
    cluster = Cluster(
        node("n1").cpu("1"),
        node("n2").cpu("1"),
        pod("equal").on("n1").cpu("1").priority(9),
        pod("higher").on("n2").cpu("1").priority(10),
    )

    assert message(cluster, pod("p").cpu("1").priority(9)) == (
        f"{PREFIX}0/2 nodes are available: 2 No preemption victims found for incoming pod."
    )


def test_an_absent_priority_counts_as_0():
    cluster = Cluster(node("n1").cpu("1"), pod("none").on("n1").cpu("1").priority(None))
    assert not preempts(cluster, pod("p").cpu("1").priority(0))
    assert preempts(cluster, pod("q").cpu("1").priority(1))


def test_a_negative_priority_is_lower_than_none():
    cluster = Cluster(node("n1").cpu("1"), pod("low").on("n1").cpu("1").priority(-1))

    assert preempts(cluster, pod("p").cpu("1").priority(None))


def test_on_a_node_that_can_never_take_the_pod_there_is_no_victim():
    cluster = Cluster(
        node("small").cpu("1"), node("cordoned").cpu("4").cordoned(), node("odd").cpu("4"),
        *(pod(f"on-{name}").on(name).priority(-1) for name in ("small", "cordoned", "odd")),
        using=with_filters(Refuses("odd")),
    )  # fmt: skip

    assert message(cluster, pod("p").cpu("2").priority(9)) == (
        f"{PREFIX}0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    )


def test_the_reasons_that_remain_without_the_lower_pods_are_counted():
    cluster = Cluster(
        node("n1").cpu("4"),
        node("n2").cpu("4"),
        node("n3").cpu("1"),
        pod("low").on("n1").cpu("1"),
        pod("peer").on("n1").cpu("3").priority(9),
        pod("other").on("n2").cpu("4").priority(9),
    )

    assert message(cluster, pod("p").cpu("2").priority(9)) == (
        f"{PREFIX}0/3 nodes are available: 1 Insufficient cpu, "
        "1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling."
    )


# The nominated node


def nominated(victim: PodBuilder, **facts: object) -> Cluster:
    return Cluster(node("n1").cpu("1"), victim, **facts)


P = pod("p").cpu("1").priority(100).nominated("n1")


def test_a_pod_whose_victim_is_still_terminating_waits_and_keeps_its_nomination():
    cluster = nominated(pod("low").on("n1").cpu("1").preempted())

    assert message(cluster, P) == WAITS
    assert cluster.nominations() == {"p": "n1"}


NOT_WAITED_FOR = {
    "it was deleted by another client": pod("low").on("n1").cpu("1").terminating(),
    "it is not terminating": pod("low")
    .on("n1")
    .cpu("1")
    .condition("DisruptionTarget", "True", "PreemptionByScheduler"),
}


@pytest.mark.parametrize("victim", NOT_WAITED_FOR.values(), ids=NOT_WAITED_FOR)
def test_a_pod_is_not_waited_for_when(victim):
    assert preempts(nominated(victim), P)


def test_a_terminating_victim_of_higher_priority_is_not_waited_for():
    cluster = Cluster(
        node("n1").cpu("2"),
        pod("important").on("n1").cpu("1").priority(200).preempted(),
        pod("low").on("n1").cpu("1"),
    )

    assert preempts(cluster, P)


def test_a_terminating_victim_on_a_node_that_cannot_take_the_pod_any_more_is_not_waited_for():
    cluster = Cluster(
        node("n1").cpu("1").taint("a"),
        node("n2").cpu("1"),
        pod("victim").on("n1").cpu("1").preempted(),
        pod("low").on("n2").cpu("1"),
    )

    decision = cluster.schedule(P)

    assert isinstance(decision, Preempting)
    assert (decision.node, decision.victims) == ("n2", cluster.refs("low"))


def test_a_pod_nominated_to_a_deleted_node_does_not_wait():
    cluster = Cluster(node("n2").cpu("1"), pod("low").on("n2").cpu("1"))

    assert preempts(cluster, P)


def test_a_victim_counts_as_terminating_from_the_moment_of_its_eviction():
    cluster = Cluster(node("n1").cpu("1"), pod("low").on("n1").cpu("1"))
    cluster.add(P.nominated(""))
    cluster.lag()
    cluster.step()
    assert cluster.evicted() == ["low"]
    assert not cluster.machine.cluster.find_pod("uid:default/low").terminating

    cluster.wait(400)
    cluster.wait(400)
    (attempt,) = cluster.drain()

    assert attempt.decision.message.endswith(WAITS)
    assert cluster.evicted() == ["low"]
