"""Pods that are placed and wait until their devices are ready: when they go on, what is counted."""

import pytest
from msgspec.structs import replace

from scheduler.model import times
from scheduler.model.api.devices import AllocatedDevice
from scheduler.model.api.objects import Condition
from scheduler.model.effects import Bind, BindClaims, Nominate
from scheduler.queue.phases import QueuePhase
from tests.properties.taped import restored, snapshot_of
from tests.support.builders import node, pod
from tests.support.cluster import Cluster
from tests.support.devices import (
    DRIVER,
    claim,
    claiming,
    device,
    device_class,
    gpus,
    wants,
)

GPU = "example.com/gpu"
SLOW = gpus("n1", device("a", binding_conditions=["Ready"], binding_failure_conditions=["Broken"]))


@pytest.fixture
def waiting() -> Cluster:
    """A pod with a claim, which waits for its device."""
    cluster = Cluster(node("n1"), device_class(), SLOW, claim("c", wants()))
    cluster.schedule(claiming("p", "c"))
    assert cluster.asked(Bind) == []
    return cluster


@pytest.fixture
def extended() -> Cluster:
    """A pod with an extended resource, which waits for its device."""
    cluster = Cluster(node("n1"), device_class(resource=GPU), SLOW)
    cluster.schedule(pod("p").requests({GPU: "1"}))
    assert cluster.asked(Bind) == []
    return cluster


def only_claim(cluster: Cluster) -> str:
    (name,) = (each.metadata.name for each in cluster.machine.cluster.devices.claims)
    return name


def report(cluster: Cluster, *conditions: Condition) -> None:
    """Let the driver say something of the device."""
    known = cluster.claim(only_claim(cluster))
    said = AllocatedDevice(DRIVER, "n1", "a", None, list(conditions))
    cluster.add(replace(known, status=replace(known.status, devices=[said])))


@pytest.mark.parametrize(
    ("condition", "seconds", "status"),
    [
        (Condition("Ready", "True"), 0, "success"),
        (Condition("Broken", "True"), 0, "failure"),
        (Condition("Ready", "False"), 600, "timeout"),
    ],
    ids=["ready", "broken", "late"],
)
def test_the_end_of_a_wait_for_devices_is_reported_once(waiting, condition, seconds, status):
    report(waiting, condition)
    waiting.wait(seconds)

    (wait,) = waiting.machine.take_device_waits()

    assert (wait.status, wait.devices) == (status, ((DRIVER, True),))
    assert wait.seconds == seconds
    assert waiting.machine.take_device_waits() == ()


def test_a_wait_for_a_claim_that_vanishes_ends_with_an_error(waiting):
    waiting.delete_claim("c")

    assert [each.status for each in waiting.machine.take_device_waits()] == ["error"]


def test_a_pod_whose_devices_have_no_binding_conditions_does_not_wait():
    cluster = Cluster(node("n1"), device_class(), gpus("n1", "a"), claim("c", wants()))
    cluster.schedule(claiming("p", "c"))

    (effect,) = cluster.asked(BindClaims)
    assert not effect.awaits_devices
    assert len(cluster.asked(Bind)) == 1
    assert cluster.machine.take_device_waits() == ()


@pytest.mark.parametrize("scene", ["waiting", "extended"])
def test_the_write_of_claims_says_that_a_pod_will_wait_for_devices(scene, request):
    cluster = request.getfixturevalue(scene)

    (effect,) = cluster.asked(BindClaims)

    assert effect.awaits_devices


def test_a_pod_that_shares_the_claim_of_a_waiting_pod_waits_too(waiting):
    waiting.schedule(claiming("q", "c"))

    _, effect = waiting.asked(BindClaims)
    assert effect.awaits_devices


def test_a_pod_is_bound_when_the_devices_of_its_extended_resources_are_ready(extended):
    report(extended, Condition("Ready", "True"))

    assert len(extended.asked(Bind)) == 1


def test_a_pod_whose_claim_for_extended_resources_vanishes_is_tried_again(extended):
    extended.delete_claim(only_claim(extended))

    assert extended.asked(Bind) == []
    assert [each.status for each in extended.machine.take_device_waits()] == ["error"]
    assert extended.phase("p") is QueuePhase.BACKOFF


def preempting(cluster: Cluster) -> None:
    """Let a pod preempt on the node of its claim, where its device is not ready."""
    cluster.schedule(claiming("user", "c"))
    known = cluster.claim("c")
    stamped = replace(known.status.allocation, allocation_timestamp=times.stamp(cluster.now))
    cluster.add(replace(known, status=replace(known.status, allocation=stamped)))
    report(cluster, Condition("Ready", "False"))
    cluster.add(pod("low").on("n1").cpu("4").priority(1))
    cluster.hold(Nominate)
    cluster.schedule(claiming("high", "c").cpu("4").priority(10))


@pytest.mark.parametrize("copied", [False, True], ids=["machine", "copy"])
@pytest.mark.parametrize(("seconds", "evicted"), [(599, ["low"]), (601, [])])
def test_a_plan_is_checked_again_with_the_time_of_the_check(seconds, evicted, copied):
    cluster = Cluster(node("n1").cpu("4"), device_class(), SLOW, claim("c", wants()))
    preempting(cluster)
    if copied:
        cluster.machine = restored(snapshot_of(cluster.machine))

    cluster.now += seconds
    cluster.add(node("n1").cpu("4").label("changed", "true"))
    cluster.done()

    assert cluster.evicted() == evicted
