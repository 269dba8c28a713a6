"""VolumeRestrictions: disks, and claims that only one pod may use."""

import pytest

from scheduler.model.api.objects import Volume
from scheduler.model.decisions import Placed, Preempting, Unschedulable
from tests.support.builders import node, pod
from tests.support.storage import (
    StorageCluster,
    claim,
    ebs_disk,
    gce_disk,
    iscsi,
    mounting,
    rbd,
    using,
    volume,
)

TAKEN = "node(s) had no available disk"
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)
NO_VICTIMS = "No preemption victims found for incoming pod"

PAIRS = [
    pytest.param(gce_disk("a"), gce_disk("a"), True, id="the same GCE disk"),
    pytest.param(gce_disk("a"), gce_disk("b"), False, id="another GCE disk"),
    pytest.param(gce_disk("a", read_only=True), gce_disk("a"), True, id="one reads, one writes"),
    pytest.param(
        gce_disk("a", read_only=True), gce_disk("a", read_only=True), False, id="both read"
    ),
    pytest.param(
        ebs_disk("a", read_only=True), ebs_disk("a", read_only=True), True, id="EBS is never shared"
    ),
    pytest.param(ebs_disk("a"), ebs_disk("b"), False, id="another EBS volume"),
    pytest.param(iscsi("a"), iscsi("a", read_only=True), True, id="the same iSCSI target"),
    pytest.param(
        iscsi("a", read_only=True), iscsi("a", read_only=True), False, id="both read iSCSI"
    ),
    pytest.param(rbd("i", "m1", "m2"), rbd("i", "m2", "m3"), True, id="a monitor in common"),
    pytest.param(rbd("i", "m1"), rbd("i", "m2"), False, id="no monitor in common"),
    pytest.param(rbd("i", "m1"), rbd("i", "m1", pool="p"), False, id="another pool"),
    pytest.param(rbd("i", "m1"), rbd("j", "m1"), False, id="another image"),
    pytest.param(gce_disk("a"), iscsi("a"), False, id="different kinds"),
]


@pytest.mark.parametrize(("there", "wanted", "conflicts"), PAIRS)
def test_a_disk_is_mounted_by_one_writer_on_a_node(there: Volume, wanted: Volume, conflicts: bool):
    cluster = StorageCluster(node("n1"), mounting(pod("user"), there).on("n1"))

    decision = cluster.schedule(mounting(pod("p"), wanted))

    if conflicts:
        assert isinstance(decision, Unschedulable)
        assert f"1 {TAKEN}." in decision.message
        assert f"1 {NO_VICTIMS}." in decision.message
    else:
        assert decision == Placed("n1")


def test_a_disk_in_use_elsewhere_does_not_matter():
    cluster = StorageCluster(node("n1"), node("n2"), mounting(pod("user"), iscsi("a")).on("n1"))

    assert cluster.schedule(mounting(pod("p"), iscsi("a"))) == Placed("n2")


def test_the_user_of_a_disk_is_evicted_for_a_more_important_pod():
    cluster = StorageCluster(
        node("n1"),
        mounting(pod("user"), iscsi("a")).on("n1").priority(1),
        pod("bystander").on("n1").priority(0),
    )

    decision = cluster.schedule(mounting(pod("p").priority(10), iscsi("a")))

    message = f"0/1 nodes are available: 1 {TAKEN}."
    assert isinstance(decision, Preempting)
    assert (decision.victims, decision.message) == (cluster.refs("user"), message)


def test_a_disk_that_a_nominated_pod_is_about_to_use_is_taken():
    nominated = mounting(pod("nominated"), iscsi("a")).priority(5).nominated("n1").gated()
    cluster = StorageCluster(node("n1"), nominated.scheduler("another"))

    assert isinstance(cluster.schedule(mounting(pod("p"), iscsi("a"))), Unschedulable)


# ReadWriteOncePod -------------------------------------------------------------------------------


def alone(name: str) -> object:
    return claim(name).modes("ReadWriteOncePod").bound_to(f"v-{name}")


@pytest.fixture
def cluster() -> StorageCluster:
    """Give two nodes, and the claim `c` that only one pod may use."""
    return StorageCluster(node("n1"), node("n2"), volume("v-c"), alone("c"))


def test_a_claim_for_one_pod_in_use_rules_out_every_node(cluster):
    cluster.add(using(pod("user"), "c").on("n1"))

    decision = cluster.schedule(using(pod("p"), "c"))

    assert isinstance(decision, Unschedulable)
    assert decision.message.startswith(f"0/2 nodes are available: 2 {IN_USE}.")


def test_a_claim_for_one_pod_is_free_when_its_user_is_deleted(cluster):
    cluster.add(using(pod("user"), "c").on("n1"))
    cluster.schedule(using(pod("p"), "c"))

    cluster.delete("user")
    cluster.wait(20)

    assert cluster.step().decision in (Placed("n1"), Placed("n2"))


def test_a_claim_of_the_same_name_elsewhere_is_another_claim(cluster):
    cluster.add(using(pod("user").namespace("other"), "c").on("n1"))

    assert isinstance(cluster.schedule(using(pod("p"), "c")), Placed)


def test_a_user_on_a_deleted_node_does_not_count(cluster):
    cluster.add(using(pod("user"), "c").on("n1"))
    cluster.delete_node("n1")

    assert cluster.schedule(using(pod("p"), "c")) == Placed("n2")


def test_the_user_of_a_claim_is_evicted_for_a_more_important_pod(cluster):
    cluster.add(using(pod("user"), "c").on("n1").priority(1), pod("low").on("n2").priority(0))

    decision = cluster.schedule(using(pod("p").priority(10), "c"))

    assert isinstance(decision, Preempting)
    assert (decision.node, decision.victims) == ("n1", cluster.refs("user"))


def test_victims_are_found_by_the_name_of_the_claim_in_any_namespace(cluster):
    # So does kube-scheduler: a pod of another namespace is taken for the user of the claim.
    cluster.add(
        using(pod("user"), "c").on("n1").priority(50),
        using(pod("other").namespace("elsewhere"), "c").on("n2").priority(1),
    )

    decision = cluster.schedule(using(pod("p").priority(10), "c"))

    assert isinstance(decision, Preempting)
    assert decision.victims == cluster.refs("elsewhere/other")


def test_a_claim_that_many_pods_may_use_does_not_reject(cluster):
    cluster.add(volume("v-m"), claim("m").bound_to("v-m"), using(pod("user"), "m").on("n1"))

    assert isinstance(cluster.schedule(using(pod("p"), "m")), Placed)


def test_a_claim_that_is_not_there_rejects_the_pod(cluster):
    decision = cluster.schedule(using(pod("p"), "missing"))

    assert isinstance(decision, Unschedulable)
    start = '0/2 nodes are available: persistentvolumeclaim "missing" not found.'
    assert decision.message.startswith(start)


# What wakes -------------------------------------------------------------------------------------


def test_only_a_pod_of_its_namespace_with_its_volumes_wakes_a_pod(cluster):
    cluster.add(
        using(pod("user"), "c").on("n1"),
        using(pod("far").namespace("other"), "c").on("n1"),
        mounting(pod("else"), iscsi("b")).on("n1"),
    )
    cluster.schedule(using(pod("p"), "c"))
    before = cluster.phase("p")

    cluster.delete("other/far")
    cluster.delete("else")
    assert cluster.phase("p") is before

    cluster.delete("user")
    assert cluster.phase("p") is not before


def test_the_claim_itself_wakes_a_pod(cluster):
    cluster.schedule(using(pod("p"), "late"))
    before = cluster.phase("p")

    cluster.add(claim("late").namespace("other"), claim("another"))
    assert cluster.phase("p") is before

    cluster.add(claim("late"))
    assert cluster.phase("p") is not before
