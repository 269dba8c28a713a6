"""NodeVolumeLimits: how many volumes of a driver a node has, and could have."""

import pytest

from scheduler.model.api.objects import ObjectMeta
from scheduler.model.api.storage import (
    CSIDriver,
    CSIDriverSpec,
    PersistentVolumeClaim,
    VolumeAttachment,
)
from scheduler.model.decisions import Placed, Preempting, Unschedulable
from scheduler.model.releases import V1_37
from tests.support.builders import PodBuilder, node, pod
from tests.support.storage import (
    DRIVER,
    StorageCluster,
    attachment,
    bound,
    claim,
    csi_node,
    ebs_disk,
    gce_disk,
    mounting,
    storage_class,
    using,
    volume,
    with_ephemeral,
)

FULL = "1 node(s) exceed max volume count"


def limited(limit: int | None, *objects: object) -> StorageCluster:
    """Return a cluster whose only node can have so many volumes."""
    return StorageCluster(node("n1"), csi_node("n1").driver(DRIVER, limit), *objects)


def is_full(cluster: StorageCluster, wanted: PodBuilder) -> bool:
    decision = cluster.schedule(wanted)
    assert isinstance(decision, Placed | Unschedulable)
    assert isinstance(decision, Placed) or FULL in decision.message
    return isinstance(decision, Unschedulable)


@pytest.mark.parametrize(
    ("limit", "want"),
    [
        pytest.param(1, True, id="one too many"),
        pytest.param(2, False, id="just enough"),
        pytest.param(0, True, id="none at all"),
        pytest.param(None, False, id="no limit"),
    ],
)
def test_volumes_count_up_to_the_limit_of_their_driver(limit: int | None, want: bool):
    cluster = limited(limit, *bound("a", "b"), using(pod("user"), "a").on("n1"))

    assert is_full(cluster, using(pod("p"), "b")) is want


def test_a_node_that_says_nothing_of_csi_has_no_limit():
    cluster = StorageCluster(node("n1"), *bound("a"))

    assert not is_full(cluster, using(pod("p"), "a"))


def test_drivers_are_counted_apart():
    cluster = limited(1, *bound("a"), *bound("b", driver="other"), using(pod("u"), "b").on("n1"))

    assert not is_full(cluster, using(pod("p"), "a"))


def test_a_volume_counts_once_however_many_pods_use_it():
    users = [using(pod(name), "a").on("n1") for name in ("u1", "u2")]
    cluster = limited(2, *bound("a", "b"), *users)

    assert not is_full(cluster, using(pod("p"), "a", "b"))


def test_a_volume_that_is_there_already_needs_no_place():
    cluster = limited(1, *bound("a"), using(pod("user"), "a").on("n1"))

    assert not is_full(cluster, using(pod("p"), "a"))


def test_the_last_user_takes_the_volume_with_it():
    users = [using(pod(name), "a").on("n1") for name in ("u1", "u2")]
    cluster = limited(1, *bound("a", "b"), *users)

    cluster.delete("u1")
    assert is_full(cluster, using(pod("p"), "b"))
    cluster.delete("u2")
    cluster.wait(20)

    assert cluster.step().decision == Placed("n1")


def test_a_volume_that_is_attached_still_counts_and_counts_once():
    cluster = limited(2, *bound("a", "b", "c"), attachment("at", "v-a", "n1", DRIVER))
    cluster.add(using(pod("user"), "a").on("n1"))
    assert not is_full(cluster, using(pod("p"), "b"))

    cluster.delete("user")

    assert is_full(cluster, using(pod("q"), "c"))
    cluster.remove_stored(VolumeAttachment, "at")
    cluster.wait(20)
    assert cluster.step().decision == Placed("n1")


def test_a_new_volume_that_is_merely_attached_counts_twice():
    # So it does in kube-scheduler: attachments do not make a volume less new.
    cluster = limited(1, *bound("a"), attachment("at", "v-a", "n1", DRIVER))

    assert is_full(cluster, using(pod("p"), "a"))


def test_an_attachment_counts_when_its_volume_is_known():
    cluster = limited(1, attachment("at", "v-a", "n1", DRIVER), *bound("b"))
    assert not is_full(cluster, using(pod("p"), "b"))
    cluster.delete("p")

    cluster.add(*bound("a"))

    assert is_full(cluster, using(pod("q"), "b"))


def test_an_unbound_claim_counts_for_the_driver_of_its_class():
    cluster = limited(
        1,
        storage_class("fast").waits().made_by(DRIVER),
        claim("a").of_class("fast"),
        *bound("b"),
        using(pod("user"), "a").on("n1"),
    )

    assert is_full(cluster, using(pod("p"), "b"))


def test_a_claim_that_gets_its_volume_still_counts_once():
    cluster = limited(2, storage_class("fast").waits().made_by(DRIVER), *bound("b", "c"))
    cluster.add(claim("a").of_class("fast"), using(pod("user"), "a").on("n1"))

    cluster.add(volume("v-a").csi(DRIVER), claim("a").of_class("fast").bound_to("v-a"))

    assert not is_full(cluster, using(pod("p"), "b"))
    assert is_full(cluster, using(pod("q"), "c"))


@pytest.mark.parametrize(
    ("disk", "driver"),
    [
        pytest.param(ebs_disk("vol-1"), "ebs.csi.aws.com", id="EBS"),
        pytest.param(gce_disk("d"), "pd.csi.storage.gke.io", id="GCE"),
    ],
)
def test_disks_that_pods_name_themselves_count_for_the_driver_that_took_over(disk, driver):
    cluster = StorageCluster(node("n1"), csi_node("n1").driver(driver, 0))

    assert is_full(cluster, mounting(pod("p"), disk))


def test_an_in_tree_volume_counts_for_the_driver_that_took_over():
    in_tree = volume("v").spec(
        aws_elastic_block_store=ebs_disk("aws://z/vol-1").aws_elastic_block_store
    )
    cluster = StorageCluster(
        node("n1"),
        csi_node("n1").driver("ebs.csi.aws.com", 1),
        in_tree,
        claim("a").bound_to("v"),
        mounting(pod("user"), ebs_disk("vol-1")).on("n1"),
        *bound("b", driver="ebs.csi.aws.com"),
    )

    # The pod that uses it under its other name has it attached already.
    assert not is_full(cluster, using(pod("p"), "a"))
    assert is_full(cluster, using(pod("q"), "b"))


def test_an_ephemeral_volume_counts_as_its_claim_does():
    wanted = with_ephemeral(pod("p"), "scratch")
    own = claim("p-scratch").of_class("fast").owned_by(wanted)
    cluster = limited(0, storage_class("fast").waits().made_by(DRIVER), own)

    assert is_full(cluster, wanted)


def test_a_pod_that_uses_a_volume_slot_is_evicted_for_a_more_important_pod():
    users = [using(pod(n), n).on("n1").priority(p) for n, p in (("a", 10), ("b", 20))]
    cluster = limited(2, *bound("a", "b", "c"), *users, pod("plain").on("n1").priority(1))

    decision = cluster.schedule(using(pod("p").priority(100), "c"))

    assert isinstance(decision, Preempting)
    assert decision.victims == cluster.refs("a")


def test_a_volume_that_two_share_is_freed_by_both_only():
    shared = [using(pod(n), "a").on("n1").priority(1) for n in ("u1", "u2")]
    cluster = limited(1, *bound("a", "b"), *shared)

    decision = cluster.schedule(using(pod("p").priority(100), "b"))

    assert isinstance(decision, Preempting)
    assert set(decision.victims) == set(cluster.refs("u1", "u2"))


def test_the_volumes_of_a_nominated_pod_count():
    nominated = using(pod("nominated"), "a").priority(5).nominated("n1").scheduler("another")
    cluster = limited(1, *bound("a", "b"), nominated)

    assert is_full(cluster, using(pod("p"), "b"))


# What wakes -------------------------------------------------------------------------------------


@pytest.fixture
def full() -> StorageCluster:
    """Give a cluster in which the pod `p` waits for a place."""
    cluster = limited(1, *bound("a", "b"), using(pod("user"), "a").on("n1"), pod("x").on("n1"))
    assert is_full(cluster, using(pod("p"), "b"))
    return cluster


def wakes(cluster: StorageCluster, *changes: object) -> bool:
    before = cluster.phase("p")
    cluster.add(*changes)
    return cluster.phase("p") is not before


def test_a_limit_that_rises_wakes(full):
    assert not wakes(full, csi_node("n1").driver(DRIVER, 1).label("a", "b"))
    assert not wakes(full, csi_node("n1").driver(DRIVER, 0))
    assert wakes(full, csi_node("n1").driver(DRIVER, 2))


def test_a_node_that_begins_to_know_csi_wakes(full):
    assert wakes(full, csi_node("n2"))


def test_a_pod_without_volumes_does_not_wake(full):
    before = full.phase("p")
    full.delete("x")
    assert full.phase("p") is before

    full.delete("user")
    assert full.phase("p") is not before


def test_only_a_claim_of_its_own_wakes(full):
    full.remove_stored(PersistentVolumeClaim, "default/b")

    assert not wakes(full, claim("c"), claim("b").namespace("other"))
    assert wakes(full, *bound("b"))


MISSING = f"1 {DRIVER} CSI driver is not installed on the node."


def without_driver(*objects: object, **more: object) -> StorageCluster:
    """Return a cluster with a driver that must be there, and a node that does not have it."""
    required = CSIDriver(ObjectMeta(name=DRIVER), CSIDriverSpec(None, True))
    return StorageCluster(node("n1"), required, *bound("a"), *objects, **more)


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param((), id="a node that says nothing of CSI"),
        pytest.param((csi_node("n1").driver("other.example.com"),), id="a node with other drivers"),
    ],
)
def test_a_driver_that_must_be_there_rejects_nodes_without_it(objects: tuple[object, ...]):
    decision = without_driver(*objects, reference=V1_37).schedule(using(pod("p"), "a"))

    assert isinstance(decision, Unschedulable)
    assert MISSING in decision.message


def test_a_driver_that_is_there_rejects_no_node():
    cluster = without_driver(csi_node("n1").driver(DRIVER), reference=V1_37)

    assert isinstance(cluster.schedule(using(pod("p"), "a")), Placed)


def test_a_pod_without_volumes_of_a_missing_driver_is_placed():
    assert isinstance(without_driver(reference=V1_37).schedule(pod("p")), Placed)


def test_v1_36_does_not_look_for_drivers():
    assert isinstance(without_driver().schedule(using(pod("p"), "a")), Placed)
