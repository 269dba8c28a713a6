"""A standby writes nothing: outdated nominations are cleared when it leads."""

import pytest

from scheduler.model.decisions import Placed, Preempting, Unschedulable
from scheduler.model.effects import ClearNomination, Effect
from scheduler.model.events import EffectFailed, FailureKind
from tests.support.builders import PodBuilder, node, pod
from tests.support.cluster import Cluster, failure

#: Fills a node and cannot be evicted.
FULL = pod("full").on("n2").cpu("4").priority(1000)
HIGH = pod("high").cpu("4").priority(100).nominated("n1")


def standby(*objects: object) -> Cluster:
    """Return a cluster as a standby knows it: it observes, decides nothing, and writes nothing."""
    cluster = Cluster(node("n1").cpu("4"), node("n2").cpu("4"), *objects)
    cluster.hold(Effect)
    return cluster


def lose_writes(cluster: Cluster) -> list[Effect]:
    """Let the writer refuse what was asked for: it does not lead. Return that."""
    lost = cluster.held.copy()
    cluster.held.clear()
    for each in lost:
        cluster.observe(EffectFailed(each, failure(FailureKind.ABANDONED)))
    return lost


def nominated(cluster: Cluster) -> str:
    return cluster.pod("high").status.nominated_node_name


@pytest.mark.parametrize(
    "high",
    [
        pytest.param(HIGH, id="a pod that may preempt"),
        pytest.param(HIGH.never_preempts(), id="a pod that may not preempt"),
        pytest.param(HIGH.planned("v1 nonsense"), id="a pod with a plan"),
    ],
)
def test_a_nomination_to_a_node_deleted_before_the_take_over_is_cleared(high: PodBuilder):
    cluster = standby(FULL, high)
    cluster.delete_node("n1")
    assert lose_writes(cluster) == [ClearNomination(cluster.ref("high"))]
    assert nominated(cluster) == "n1"

    cluster.hold()
    (attempt,) = cluster.drain()

    assert isinstance(attempt.decision, Unschedulable)
    assert nominated(cluster) == ""
    assert cluster.nominations() == {}


def test_a_pod_that_fits_elsewhere_after_the_take_over_is_bound():
    cluster = standby(HIGH)
    cluster.delete_node("n1")
    lose_writes(cluster)

    cluster.hold()
    (attempt,) = cluster.drain()

    assert attempt.decision == Placed("n2")
    assert cluster.nominations() == {}


def test_a_pod_that_preempts_elsewhere_after_the_take_over_is_nominated_there():
    cluster = standby(FULL.priority(1), HIGH)
    cluster.delete_node("n1")
    lose_writes(cluster)

    cluster.hold()
    (attempt,) = cluster.drain()

    assert isinstance(attempt.decision, Preempting)
    assert nominated(cluster) == "n2"
    assert cluster.nominations() == {"high": "n2"}


def test_a_nomination_whose_capacity_others_have_is_cleared():
    cluster = standby(FULL, HIGH, pod("other").on("n1").cpu("4").priority(1000))
    assert cluster.nominations() == {"high": "n1"}

    cluster.hold()
    cluster.drain()

    assert nominated(cluster) == ""
    assert cluster.nominations() == {}


def test_each_nomination_is_cleared_by_an_attempt():
    many = [HIGH.meta(name=f"high-{each}", uid=f"uid:default/high-{each}") for each in range(5)]
    cluster = standby(FULL, *many)
    cluster.delete_node("n1")
    assert len(lose_writes(cluster)) == 5

    cluster.hold()
    cluster.drain()
    cluster.wait(600)
    cluster.drain()

    assert {each.pod.name for each in cluster.attempts} >= {f"high-{each}" for each in range(5)}
    left = [each.status.nominated_node_name for each in cluster.pods.values()]
    assert set(left) == {""}
