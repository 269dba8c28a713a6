"""Volumes over several events, and what no manifest shows; tests/scenarios has the rest."""

import pytest

from scheduler.model.api.storage import PersistentVolumeClaim, VolumeAttachment
from scheduler.model.decisions import Failed, Placed, Unschedulable
from scheduler.model.effects import BindVolumes
from scheduler.model.releases import V1_37
from scheduler.plugins.volumes import volume_binding_hints
from tests.support.builders import PodBuilder, node, pod
from tests.support.storage import (
    DRIVER,
    StorageCluster,
    attachment,
    bound,
    capacity,
    claim,
    csi_driver,
    csi_node,
    inline_csi,
    mounting,
    storage_class,
    using,
    volume,
    with_ephemeral,
)

#: For installations without the permission to write volumes.
NO_WRITES = """
profiles:
- schedulerName: preemptive-scheduler
  pluginConfig: [{name: PreemptiveScheduler, args: {bindVolumes: false}}]
"""
SHAPED = """
profiles:
- schedulerName: preemptive-scheduler
  pluginConfig:
  - name: VolumeBinding
    args: {shape: [{utilization: 0, score: 0}, {utilization: 40, score: 8}]}
"""
LOCAL = storage_class("local").waits()
MADE = storage_class("made").waits().made_by("csi.example.com")
N1 = node("n1")


def reason(cluster: StorageCluster) -> str:
    """Return why the last pod fits on no node."""
    cluster.drain()
    decision = cluster.attempts[-1].decision
    assert isinstance(decision, Unschedulable | Failed)
    reasons = decision.message.removeprefix("0/1 nodes are available: ")
    return reasons.split(". no new claims", 1)[0].removesuffix(". not found")


def limited(limit: int, *objects: object) -> StorageCluster:
    """Return a cluster whose only node can have so many volumes."""
    return StorageCluster(N1, csi_node("n1").driver(DRIVER, limit), *objects)


def is_full(cluster: StorageCluster, wanted: PodBuilder) -> bool:
    cluster.add(wanted)
    return cluster.step().decision != Placed("n1") and "exceed max volume count" in reason(cluster)


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


def test_an_attachment_counts_when_its_volume_is_known():
    cluster = limited(1, attachment("at", "v-a", "n1", DRIVER), *bound("b"))
    assert not is_full(cluster, using(pod("p"), "b"))
    cluster.delete("p")

    cluster.add(*bound("a"))

    assert is_full(cluster, using(pod("q"), "b"))


def test_a_claim_that_comes_back_wakes_its_pod():
    cluster = limited(1, *bound("a", "b"), using(pod("user"), "a").on("n1"))
    assert is_full(cluster, using(pod("p"), "b"))
    before = cluster.phase("p")

    cluster.remove_stored(PersistentVolumeClaim, "default/b")
    cluster.add(claim("c"), claim("b").namespace("other"))
    assert cluster.phase("p") is before

    cluster.add(*bound("b"))
    assert cluster.phase("p") is not before


def test_a_user_on_a_deleted_node_does_not_count():
    exclusive = claim("c").modes("ReadWriteOncePod").bound_to("v")
    cluster = StorageCluster(N1, node("n2"), volume("v"), exclusive, using(pod("u"), "c").on("n1"))

    cluster.delete_node("n1")

    assert cluster.schedule(using(pod("p"), "c")) == Placed("n2")


def test_the_claim_of_an_ephemeral_volume_must_exist_and_belong_to_the_pod():
    wanted = with_ephemeral(pod("p"), "scratch")
    cluster = StorageCluster(N1, MADE, wanted)
    waiting = "waiting for ephemeral volume controller to create the persistentvolumeclaim"
    assert reason(cluster) == f'{waiting} "p-scratch"'

    cluster.add(claim("p-scratch").of_class("made").owned_by(pod("another")))
    cluster.wait(20)
    mine = "PVC default/p-scratch was not created for pod default/p (pod is not owner)"
    assert reason(cluster) == mine

    cluster.add(claim("p-scratch").of_class("made").owned_by(wanted))
    cluster.wait(20)
    assert cluster.step().decision == Placed("n1")


CHOICES = {
    "the smallest that is large enough": (
        {"v1": "10Gi", "v2": "5Gi", "v3": "4Gi", "v4": "5Gi"}, {"c": "5Gi"}, {"c": "v2"},
    ),
    "the smaller claim first": (
        {"v1": "5Gi", "v2": "2Gi"}, {"big": "2Gi", "small": "1Gi"}, {"small": "v2", "big": "v1"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("sizes", "claims", "want"), CHOICES.values(), ids=CHOICES)
def test_which_volumes_are_chosen(sizes, claims, want):
    volumes = [volume(name).size(size).of_class("local") for name, size in sizes.items()]
    asked = [claim(name).size(size).of_class("local") for name, size in claims.items()]
    cluster = StorageCluster(N1, LOCAL, *volumes, *asked)

    assert cluster.schedule(using(pod("p"), *claims)) == Placed("n1")

    (effect,) = cluster.asked(BindVolumes)
    assert {each.claim_name: each.volume for each in effect.volumes} == want


def test_a_volume_reserved_for_the_claim_is_taken_before_all_others():
    reserved = volume("v2").size("9Gi").of_class("local").for_claim("c")
    cluster = StorageCluster(
        N1, LOCAL, claim("c").of_class("local"), volume("v1").of_class("local"), reserved
    )
    cluster.schedule(using(pod("p"), "c"))

    (effect,) = cluster.asked(BindVolumes)
    assert [each.volume for each in effect.volumes] == ["v2"]


def test_a_claim_that_waits_for_its_first_consumer_is_refused_where_no_volumes_are_bound():
    free = volume("v").of_class("local")
    cluster = StorageCluster(N1, LOCAL, free, claim("c").of_class("local"), config=NO_WRITES)
    cluster.add(using(pod("p"), "c"))

    assert reason(cluster) == (
        "pod has PersistentVolumeClaims that wait for their first consumer, and this scheduler is"
        " configured with bindVolumes: false"
    )
    assert cluster.asked(BindVolumes) == []


def test_bound_claims_are_used_where_no_volumes_are_bound():
    cluster = StorageCluster(N1, volume("v"), claim("c").bound_to("v"), config=NO_WRITES)

    assert cluster.schedule(using(pod("p"), "c")) == Placed("n1")


def test_in_v1_37_the_shape_of_the_score_for_capacity_can_be_set():
    cluster = StorageCluster(
        *(node(name).label("host", name) for name in ("n1", "n2")),
        MADE, csi_driver(DRIVER, tells_capacity=True), claim("c").size("1Gi").of_class("made"),
        capacity("a", "made").room("8Gi").for_nodes(host="n1"),
        capacity("b", "made").room("2Gi").for_nodes(host="n2"),
        using(pod("p"), "c"), reference=V1_37, config=SHAPED,
    )  # fmt: skip

    attempt = cluster.step(explain=True)

    assert [each.scores["VolumeBinding"] for each in attempt.trace] == [24, 80]


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param(True, False, True, id="not any more"),
        pytest.param(True, None, True, id="says nothing any more"),
        pytest.param(False, True, False, id="from now on"),
        pytest.param(True, True, False, id="as before"),
    ],
)
def test_a_driver_that_stops_reporting_its_capacity_wakes_pods_that_name_it(before, after, want):
    old = csi_driver("d", tells_capacity=before)
    new = csi_driver("d", tells_capacity=after)
    named = mounting(pod("p"), inline_csi("d")).build()

    assert volume_binding_hints.after_driver(named, old, new) is want
    assert not volume_binding_hints.after_driver(pod("p").build(), old, new)
