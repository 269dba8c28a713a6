"""VolumeBinding: which events requeue a pod without matching volumes."""

import pytest

from scheduler.model.api.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.model.decisions import Unschedulable
from scheduler.plugins.volumes import volume_binding_hints
from tests.support.builders import node, pod
from tests.support.storage import (
    StorageCluster,
    capacity,
    claim,
    csi_driver,
    csi_node,
    inline_csi,
    mounting,
    storage_class,
    using,
    volume,
)

LOCAL = storage_class("local").waits()
A = node("a").label("zone", "a")


def wakes(cluster: StorageCluster, *changes: object) -> bool:
    before = cluster.phase("p")
    cluster.add(*changes)
    return cluster.phase("p") is not before


@pytest.fixture
def unschedulable() -> StorageCluster:
    """Give a cluster in which the pod `p` finds no volume for its claim `c`."""
    made = StorageCluster(
        A, LOCAL, csi_node("a"), volume("v").of_class("x"), claim("c").of_class("local"),
        capacity("r", "local").room("2Gi"),
    )  # fmt: skip
    assert isinstance(made.schedule(using(pod("p"), "c")), Unschedulable)
    return made


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(volume("w"), id="a new volume"),
        pytest.param(volume("v").of_class("local"), id="any change of a volume"),
        pytest.param(claim("c").of_class("made"), id="any change of its claim"),
        pytest.param(storage_class("other"), id="a new class"),
        pytest.param(LOCAL.allows(zone="b"), id="other topologies of a class"),
        pytest.param(node("n"), id="a new node"),
        pytest.param(A.label("x", "y"), id="other labels of a node"),
        pytest.param(csi_node("b"), id="a new CSINode"),
        pytest.param(csi_node("a").migrated("x"), id="another migrated plugin"),
        pytest.param(capacity("s", "y"), id="a new capacity"),
        pytest.param(capacity("r", "local").room("3Gi"), id="more room"),
        pytest.param(capacity("r", "local").room("1Gi").at_most("4Gi"), id="larger volumes"),
    ],
)
def test_what_can_help_wakes(unschedulable, change):
    assert wakes(unschedulable, change)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(claim("d"), id="another claim"),
        pytest.param(claim("c").namespace("other"), id="a claim of another namespace"),
        pytest.param(LOCAL.made_by("x"), id="another provisioner"),
        pytest.param(csi_node("a").driver("d", 5), id="a new driver"),
        pytest.param(capacity("r", "local").room("1Gi"), id="less capacity"),
        pytest.param(capacity("r", "local"), id="a capacity without an amount"),
        pytest.param(csi_driver("d"), id="a new CSIDriver"),
        pytest.param(pod("other").on("a"), id="a pod"),
    ],
)
def test_a_change_that_cannot_help_does_not_wake(unschedulable, change):
    assert not wakes(unschedulable, change)


@pytest.mark.parametrize(
    ("kind", "key"), [(PersistentVolume, "v"), (PersistentVolumeClaim, "default/c")]
)
def test_a_deleted_object_does_not_wake(unschedulable, kind, key):
    before = unschedulable.phase("p")

    unschedulable.remove_stored(kind, key)

    assert unschedulable.phase("p") is before


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
