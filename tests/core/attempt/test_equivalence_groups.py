"""Pods of several classes that are rejected together."""

from collections.abc import Callable

import pytest

from scheduler.core.attempt.equivalence import claim_drivers, spec_signature
from scheduler.model.api.pod_spec import Volume
from scheduler.model.api.storage import PersistentVolumeClaim
from scheduler.model.classified_pod import ClassifiedPod
from scheduler.model.decisions import Placed
from scheduler.state.storage.volumes import Volumes
from tests.support.builders import PodBuilder, node, pod
from tests.support.cluster import Cluster
from tests.support.storage import (
    DRIVER,
    StorageCluster,
    bound,
    claim,
    csi_node,
    gce_disk,
    mounting,
    storage_class,
    using,
    with_ephemeral,
)

INDEX = "batch.kubernetes.io/job-completion-index"
MINUTE = 60.0


# Classes


def test_the_token_of_its_service_account_does_not_set_a_pod_apart():
    """The API server adds a volume whose name it makes up, and no rule is about it."""
    tokens = [
        pod(name).spec(volumes=[Volume(name=f"kube-api-access-{name}")]).build() for name in "ab"
    ]

    assert (
        ClassifiedPod(tokens[0]).key
        == ClassifiedPod(tokens[1]).key
        == ClassifiedPod(pod("c").build()).key
    )


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(using(pod("p"), "b"), id="another claim"),
        pytest.param(mounting(pod("p"), gce_disk("d")), id="a disk"),
        pytest.param(with_ephemeral(pod("p"), "v"), id="an ephemeral volume"),
    ],
)
def test_a_volume_that_rules_are_about_sets_a_pod_apart(other: PodBuilder):
    own = using(pod("p"), "a")

    assert (
        ClassifiedPod(other.build()).key
        != ClassifiedPod(own.build()).key
        != ClassifiedPod(pod("p").build()).key
    )


def test_the_signature_contains_the_claims_without_their_names():
    one, other = (using(pod(name).label(INDEX, name), name).build() for name in "ab")

    assert spec_signature(one) == spec_signature(other)
    assert spec_signature(one) != spec_signature(pod("c").build())
    assert spec_signature(one) != spec_signature(using(pod("a").namespace("team"), "a").build())


# Volumes of claims


def volumes(*objects: object) -> Volumes:
    return StorageCluster(node("n1"), *objects).machine.cluster.volumes


def test_claims_are_summed_up_as_their_number_of_volumes_by_driver():
    there = volumes(*bound("a", "b"), *bound("c", "d", driver="other"))

    def drivers(*names: str) -> bytes | None:
        return claim_drivers(using(pod("p"), *names).build(), there)

    assert drivers("a", "c") == drivers("b", "d") == drivers("d", "a")
    assert len({drivers("a"), drivers("a", "b"), drivers("a", "c"), drivers("c"), drivers()}) == 5


@pytest.mark.parametrize(
    ("wanted", "objects"),
    [
        pytest.param(using(pod("p"), "a"), (), id="the claim is not there"),
        pytest.param(
            using(pod("p"), "a"),
            (*bound("a"), using(pod("q"), "a").on("n1")),
            id="the volume is on a node already",
        ),
        pytest.param(
            mounting(using(pod("p"), "a"), gce_disk("d")),
            bound("a"),
            id="the volume may be one that the pod names itself",
        ),
    ],
)
def test_claims_have_no_summary_where_the_decision_depends_on_more(
    wanted: PodBuilder, objects: tuple[object, ...]
):
    assert claim_drivers(wanted.build(), volumes(*objects)) is None


# In the queue


def attempts(cluster: Cluster, change: Callable[[], None]) -> list[tuple[str, bool]]:
    """Return the pods tried after a change, after all back-offs, and whether each was placed."""
    cluster.wait(MINUTE)
    change()
    return [(each.pod.name, isinstance(each.decision, Placed)) for each in cluster.drain()]


def indexed(count: int, cpu: str = "2") -> list[PodBuilder]:
    return [pod(f"p{index}").cpu(cpu).label(INDEX, str(index)) for index in range(count)]


def full(*waiting: PodBuilder, pods: int = 2) -> Cluster:
    """Return a full cluster, in which each pod was tried once."""
    there = [pod(f"q{index}").cpu("2").on("n1") for index in range(pods)]
    cluster = Cluster(node("n1").cpu(str(2 * pods)), *there, *waiting)
    cluster.drain()
    return cluster


def test_one_pod_of_an_indexed_job_is_tried_for_all_of_them():
    cluster = full(*indexed(9))

    tried = attempts(cluster, lambda: cluster.delete("q0"))

    assert tried == [("p0", True), ("p1", False)]
    assert attempts(cluster, lambda: cluster.delete("q1")) == [("p2", True), ("p3", False)]


def test_pods_that_request_less_are_tried_separately():
    cluster = full(*indexed(3, cpu="3"), pod("less").cpu("1"))

    tried = attempts(cluster, lambda: cluster.delete("q0"))

    assert tried == [("p0", False), ("less", True)]


def test_all_pods_are_tried_where_labels_decide():
    apart = [each.apart("zone", app="q") for each in indexed(3, cpu="1")]
    there = [pod(name).label("app", "q").on("n1") for name in ("q0", "q1")]
    cluster = Cluster(node("n1").cpu("8").label("zone", "z"), *there, *apart)
    cluster.drain()

    tried = attempts(cluster, lambda: cluster.delete("q0"))

    assert tried == [("p0", False), ("p1", False), ("p2", False)]


def test_all_pods_are_tried_where_a_pod_could_be_evicted():
    """A pod that labels reject may fit where others of its footprint do not."""
    waiting = [each.priority(5) for each in indexed(3)]
    there = [pod(f"q{index}").cpu("2").priority(5).on("n1") for index in range(2)]
    cluster = Cluster(node("n1").cpu("4"), *there, *waiting, pod("low").priority(1).on("n1"))
    cluster.drain()

    tried = attempts(cluster, lambda: cluster.change("q0", lambda each: each.cpu("1")))

    assert [name for name, _ in tried] == ["p0", "p1", "p2"]


def attached(*waiting: PodBuilder, limit: int = 1) -> StorageCluster:
    """Return a cluster whose only node has as many volumes as it can have."""
    names = [f"c{index}" for index in range(limit)]
    users = [using(pod(f"q{name}"), name).on("n1") for name in names]
    cluster = StorageCluster(
        node("n1"),
        csi_node("n1").driver(DRIVER, limit),
        storage_class("standard"),
        *bound(*names, *"abc"),
        *users,
        *waiting,
    )
    cluster.drain()
    return cluster


def with_claims() -> list[PodBuilder]:
    return [using(pod(f"p-{name}"), name) for name in "abc"]


def test_pods_with_separate_claims_share_an_attempt_when_a_volume_is_freed():
    cluster = attached(*with_claims())

    tried = attempts(cluster, lambda: cluster.delete("qc0"))

    assert tried == [("p-a", True), ("p-b", False)]


def test_a_pod_whose_volume_was_attached_meanwhile_is_tried_separately():
    """Its volume needs no slot: a pod with a volume to attach is rejected, this one is not."""
    cluster = attached(*with_claims(), limit=2)
    cluster.add(using(pod("user"), "c").on("n1"))  # another pod has attached it

    tried = attempts(cluster, lambda: cluster.delete("qc0"))

    assert tried == [("p-a", False), ("p-c", True)]


def test_a_pod_whose_claim_is_created_again_is_tried_separately():
    cluster = attached(*with_claims())
    cluster.wait(MINUTE)
    cluster.remove_stored(PersistentVolumeClaim, "default/b")

    tried = attempts(cluster, lambda: cluster.add(claim("b").bound_to("v-b")))

    assert tried == [("p-b", False)]
