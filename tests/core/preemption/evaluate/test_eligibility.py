"""Which pods may preempt, and on which nodes."""

from scheduler.model.decisions import Unschedulable
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


def test_a_pod_that_never_preempts_says_so_and_keeps_its_nomination():
    cluster = Cluster(node("n1").cpu("1"), pod("low").on("n1").cpu("1"))

    wanted = pod("p").cpu("1").priority(9).never_preempts().nominated("n1")

    assert message(cluster, wanted) == f"{PREFIX}not eligible due to preemptionPolicy=Never."
    assert cluster.nominations() == {"p": "n1"}
    assert cluster.attempts[-1].preemption_tried


def test_on_a_node_that_can_never_take_the_pod_there_is_no_victim():
    cluster = Cluster(
        node("small").cpu("1"), node("cordoned").cpu("4").cordoned(), node("odd").cpu("4"),
        *(pod(f"on-{name}").on(name).priority(-1) for name in ("small", "cordoned", "odd")),
        using=with_filters(Refuses("odd")),
    )  # fmt: skip

    assert message(cluster, pod("p").cpu("2").priority(9)) == (
        f"{PREFIX}0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    )


# The nominated node


def nominated(victim: PodBuilder, **facts: object) -> Cluster:
    return Cluster(node("n1").cpu("1"), victim, **facts)


P = pod("p").cpu("1").priority(100).nominated("n1")


def test_a_pod_whose_victim_is_still_terminating_waits_and_keeps_its_nomination():
    cluster = nominated(pod("low").on("n1").cpu("1").preempted())

    assert message(cluster, P) == WAITS
    assert cluster.nominations() == {"p": "n1"}


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
