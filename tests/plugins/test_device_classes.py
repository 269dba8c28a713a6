"""Extended resources of device classes: node by node, from a device plugin or from devices."""

import pytest

from scheduler.framework.cluster_events import Action, Resource
from scheduler.model.api.devices import DeviceClass, DeviceClassSpec
from scheduler.model.api.objects import ObjectMeta
from scheduler.model.events import DeviceClassGone
from scheduler.plugins.dynamic_resources.dynamic_resources import DynamicResources
from scheduler.plugins.node_resources.fit import NodeResourcesFit
from scheduler.queue.phases import QueuePhase
from scheduler.state.devices.device_classes import DeviceClasses
from tests.support.builders import node, pod
from tests.support.cluster import Cluster
from tests.support.plugin_checks import hint, rejections, state_of

GPU = "example.com/gpu"
OWN = "deviceclass.resource.kubernetes.io/gpus"
WANTS = pod("p").requests({GPU: "1"})


def device_class(name: str = "gpus", resource: str | None = GPU) -> DeviceClass:
    return DeviceClass(ObjectMeta(name=name), DeviceClassSpec(resource))


def test_resource_fit_skips_a_class_resource_on_nodes_that_do_not_offer_it():
    state = state_of(node("n1").cpu("4"), node("n2").cpu("4").has({GPU: "1"}), node("n3").cpu("1"))
    state.write_device_class(device_class())

    assert rejections(NodeResourcesFit(), WANTS.requests({GPU: "2", "cpu": "4"}), state) == {
        "n2": f"Insufficient {GPU}",
        "n3": "Insufficient cpu",
    }


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


def test_a_new_class_wakes_a_pod_that_lacked_its_resource():
    cluster = Cluster(node("n1"))
    cluster.schedule(WANTS)

    cluster.add(device_class("other", "example.com/other"))
    asleep = cluster.phase("p")
    cluster.add(device_class())

    assert asleep is QueuePhase.UNSCHEDULABLE
    assert cluster.phase("p") is not QueuePhase.UNSCHEDULABLE


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        (None, device_class(), True),
        (None, device_class("gpus", None), False),
        (None, device_class("gpus", "example.com/other"), False),
        (device_class(), device_class(), False),
        (device_class(resource=None), device_class(), True),
        (device_class(), device_class(resource=None), False),
    ],
    ids=["new", "new, without a name", "new, another", "the same", "named now", "no more named"],
)
def test_the_hint_of_resource_fit_queues_for_classes_that_name_the_resource(old, new, want):
    event = (Resource.DEVICE_CLASS, Action.ADD if old is None else Action.UPDATE_OTHER)

    assert hint(NodeResourcesFit(), event, WANTS, Raw(old), Raw(new)) == want


def test_the_hint_for_the_implicit_resource_of_a_class_queues_for_that_class_only():
    wanted, event = pod("p").requests({OWN: "1"}), (Resource.DEVICE_CLASS, Action.ADD)

    assert hint(NodeResourcesFit(), event, wanted, None, Raw(device_class(resource=None)))
    assert not hint(NodeResourcesFit(), event, wanted, None, Raw(device_class("other")))


def test_the_hint_of_dynamic_resources_queues_for_every_class():
    plugin = DynamicResources()

    assert hint(plugin, (Resource.DEVICE_CLASS, Action.ADD), WANTS, None, Raw(device_class()))
    assert hint(plugin, (Resource.DEVICE_CLASS, Action.UPDATE_OTHER), WANTS, None, None)
    assert not hint(plugin, (Resource.DEVICE_CLASS, Action.DELETE), WANTS, None, None)


def test_a_name_that_two_classes_share_exists_until_both_are_deleted():
    classes = DeviceClasses()
    classes.write(device_class("a"))
    classes.write(device_class("b"))

    classes.erase("a")
    after_one = GPU in classes.resources
    classes.erase("b")

    assert after_one
    assert not classes.resources


class Raw:
    """An object that needs no builder."""

    def __init__(self, thing):
        self.thing = thing

    def build(self):
        return self.thing
