"""VolumeZone: volumes with labels of a zone or a region."""

import pytest

from scheduler.model.decisions import Placed, Unschedulable
from scheduler.plugins.volumes.volume_zone import VolumeZone
from tests.support.builders import node, pod
from tests.support.storage import StorageCluster, claim, storage_class, using, volume

ZONE = "topology.kubernetes.io/zone"
BETA = "failure-domain.beta.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
REASON = "node(s) had no available volume zone"
#: Binding would complain first about most claims that this rule complains about.
ALONE = """
profiles:
- schedulerName: preemptive-scheduler
  plugins:
    multiPoint:
      disabled: [{name: VolumeBinding}, {name: VolumeRestrictions}, {name: NodeVolumeLimits}]
"""

CASES = [
    pytest.param({ZONE: "a"}, {ZONE: "a"}, True, id="the same zone"),
    pytest.param({ZONE: "a"}, {ZONE: "b"}, False, id="another zone"),
    pytest.param({ZONE: "a__b"}, {ZONE: "b"}, True, id="one of several zones"),
    pytest.param({ZONE: "a__ b "}, {ZONE: "b"}, True, id="blanks around a zone"),
    pytest.param({ZONE: "a__"}, {ZONE: "b"}, True, id="a label that means nothing"),
    pytest.param({ZONE: "a"}, {}, True, id="a node without any zone"),
    pytest.param({ZONE: "a"}, {REGION: "r"}, False, id="a node with a region only"),
    pytest.param({BETA: "a"}, {ZONE: "a"}, True, id="an old label, met by the new one"),
    pytest.param({ZONE: "a"}, {BETA: "a"}, False, id="a new label is not met by the old one"),
    pytest.param({BETA: "a"}, {BETA: "b", ZONE: "a"}, False, id="the old label decides if there"),
    pytest.param({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "s"}, False, id="both must match"),
    pytest.param({}, {ZONE: "b"}, True, id="a volume without labels"),
]


@pytest.mark.parametrize(("has", "at", "fits"), CASES)
def test_a_volume_is_used_in_its_zone_only(has: dict[str, str], at: dict[str, str], fits: bool):
    bound, there = volume("v"), node("n1")
    for key, value in has.items():
        bound = bound.label(key, value)
    for key, value in at.items():
        there = there.label(key, value)
    cluster = StorageCluster(there, bound, claim("c").bound_to("v"))

    decision = cluster.schedule(using(pod("p"), "c"))

    if fits:
        assert decision == Placed("n1")
    else:
        assert isinstance(decision, Unschedulable)
        assert decision.message.startswith(f"0/1 nodes are available: 1 {REASON}.")


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        pytest.param(
            claim("c").of_class(None),
            "PersistentVolumeClaim had no pv name and storageClass name",
            id="no class",
        ),
        pytest.param(
            claim("c").of_class("unknown"),
            'storageclass.storage.k8s.io "unknown" not found',
            id="an unknown class",
        ),
        pytest.param(
            claim("c").of_class("odd"),
            'VolumeBindingMode not set for StorageClass "odd"',
            id="a class without binding mode",
        ),
        pytest.param(claim("c").of_class("now"), "PersistentVolume had no name", id="not bound"),
        pytest.param(
            claim("c").bound_to("gone"), 'persistentvolume "gone" not found', id="no volume"
        ),
        pytest.param(claim("d"), 'persistentvolumeclaim "c" not found', id="no claim"),
    ],
)
def test_a_claim_without_volume_rejects_the_pod(wanted, reason):
    odd = storage_class("odd").having(volume_binding_mode=None)
    cluster = StorageCluster(node("n1"), storage_class("now"), odd, wanted, config=ALONE)

    decision = cluster.schedule(using(pod("p"), "c"))

    assert isinstance(decision, Unschedulable)
    assert decision.message.startswith(f"0/1 nodes are available: {reason}.")


def test_a_claim_that_waits_for_its_consumer_does_not_reject():
    cluster = StorageCluster(
        node("n1").label(ZONE, "a"),
        storage_class("late").waits(),
        claim("c").of_class("late"),
        config=ALONE,
    )

    assert cluster.schedule(using(pod("p"), "c")) == Placed("n1")


def test_a_moved_volume_or_node_wakes():
    cluster = StorageCluster(
        node("n1").label(ZONE, "b"), volume("v").label(ZONE, "a"), claim("c").bound_to("v"),
        config=ALONE,
    )  # fmt: skip
    cluster.schedule(using(pod("p"), "c"))
    before = cluster.phase("p")

    cluster.add(volume("v").label(ZONE, "a").label("other", "x"))
    cluster.add(claim("d").bound_to("v"), node("n1").label(ZONE, "b").condition("Ready", "True"))
    assert cluster.phase("p") is before

    cluster.add(volume("v").label(ZONE, "b"))
    assert cluster.phase("p") is not before


def test_only_a_class_that_waits_for_its_consumer_wakes():
    (hint,) = (
        event.hint
        for event in VolumeZone().events_to_register()
        if event.resource.value.endswith("StorageClass")
    )
    waiting = pod("p").build()

    assert not hint(waiting, None, storage_class("now").build())
    assert hint(waiting, None, storage_class("late").waits().build())
