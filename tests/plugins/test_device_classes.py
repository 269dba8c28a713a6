"""Extended resources of device classes: node by node, from a device plugin or from devices."""

from scheduler.model.api.devices import DeviceClass, DeviceClassSpec
from scheduler.model.api.objects import ObjectMeta
from scheduler.model.events import DeviceClassGone
from scheduler.state.devices.device_classes import DeviceClasses
from tests.support.builders import node, pod
from tests.support.cluster import Cluster

GPU = "example.com/gpu"


def device_class(name: str = "gpus", resource: str | None = GPU) -> DeviceClass:
    return DeviceClass(ObjectMeta(name=name), DeviceClassSpec(resource))


def test_what_is_kept_for_a_class_of_pods_follows_the_device_classes():
    cluster = Cluster(node("n1"), *(node(f"n{i}").cordoned() for i in range(2, 40)))
    seen = []

    for name, change in (
        ("a", None), ("b", device_class()), ("c", device_class(resource="example.com/other")),
        ("d", device_class()), ("e", DeviceClassGone("gpus")),
    ):  # fmt: skip
        if isinstance(change, DeviceClassGone):
            cluster.observe(change)
        elif change is not None:
            cluster.add(change)
        cluster.schedule(pod(name).requests({GPU: "1"}))
        seen.append(cluster.attempts[-1].plugins[0])

    assert seen == [
        "NodeResourcesFit", "DynamicResources", "NodeResourcesFit", "DynamicResources",
        "NodeResourcesFit",
    ]  # fmt: skip


def test_a_name_that_two_classes_share_exists_until_both_are_deleted():
    classes = DeviceClasses()
    classes.write(device_class("a"))
    classes.write(device_class("b"))

    classes.erase("a")
    after_one = GPU in classes.resources
    classes.erase("b")

    assert after_one
    assert not classes.resources
