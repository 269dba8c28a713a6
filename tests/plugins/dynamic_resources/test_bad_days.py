"""What pods are told when devices are many, incomplete or gone: the reasons of kube-scheduler."""

import pytest

from scheduler.model.decisions import Failed, Placed, Unschedulable
from scheduler.model.events import DeviceClassGone
from scheduler.queue.phases import QueuePhase
from tests.support.builders import node
from tests.support.cluster import Cluster
from tests.support.devices import (
    DRIVER,
    claim,
    claiming,
    device,
    device_class,
    devices_of,
    gpus,
    wants,
)

#: Slices of one pool, each with as many devices as the API server takes: 100,096 in all.
SLICES, DEVICES = 782, 128


def large(missing: int = 0):
    return [
        gpus(
            "",
            *(device(f"d{each}", model="a") for each in range(at * DEVICES, (at + 1) * DEVICES)),
            name=f"s{at:04}",
            pool="large",
            count=SLICES,
            all_nodes=True,
        )
        for at in range(SLICES - missing)
    ]


@pytest.fixture(scope="module")
def crowded() -> Cluster:
    return Cluster(node("n1"), device_class(), *large())


def of_model(model: str) -> str:
    return f'device.attributes["{DRIVER}"].model == "{model}"'


def test_one_of_100000_devices_is_allocated(crowded):
    crowded.add(claim("c", wants("r", "gpu", of_model("a"))))

    assert crowded.schedule(claiming("p", "c")) == Placed("n1")
    assert devices_of(crowded.claim("c")) == ["r=large/d0"]


def test_none_of_100000_devices_matches(crowded):
    crowded.add(claim("none", wants("r", "gpu", of_model("b"))))

    decision = crowded.schedule(claiming("q", "none"))

    assert isinstance(decision, Unschedulable)
    assert decision.message.startswith("0/1 nodes are available: 1 cannot allocate all claims.")


def test_a_pod_waits_until_a_pool_is_complete():
    *parts, last = large()
    cluster = Cluster(node("n1"), device_class(), *parts, claim("c", wants()))
    before = cluster.schedule(claiming("p", "c"))

    cluster.add(last)
    cluster.wait(60)

    assert isinstance(before, Unschedulable)
    assert "1 cannot allocate all claims" in before.message
    assert cluster.drain()[-1].decision == Placed("n1")


def test_a_class_that_vanishes_rejects_pods_until_it_is_back():
    claims = [claim("c", wants()), claim("d", wants())]
    cluster = Cluster(node("n1"), device_class(), gpus("n1", "a", "b"), *claims)
    first = cluster.schedule(claiming("p", "c"))

    cluster.observe(DeviceClassGone("gpu"))
    gone = cluster.schedule(claiming("q", "d"))
    sharing = cluster.schedule(claiming("r", "c"))
    cluster.add(device_class())
    cluster.wait(60)

    assert first == sharing == Placed("n1")
    assert isinstance(gone, Unschedulable)
    assert "request r: device class gpu does not exist" in gone.message
    assert cluster.drain()[-1].decision == Placed("n1")


def test_selectors_that_cost_much_are_evaluated_in_several_attempts():
    numbers = f"[{','.join(map(str, range(15)))}]"
    own = f'device.attributes["{DRIVER}"].?model.orValue("")'
    costly = f"{numbers}.all(a, {numbers}.all(b, {numbers}.all(c, string(c) != {own})))"
    slices = gpus("n1", *(device(f"d{at}", model="a", number=at) for at in range(3)), "last")
    wanted = wants("r", "gpu", costly, f'!("model" in device.attributes["{DRIVER}"])')
    cluster = Cluster(node("n1"), device_class(), slices, claim("c", wanted))

    first = cluster.schedule(claiming("p", "c"))
    cluster.wait(60)

    assert isinstance(first, Failed)
    assert first.message.endswith("node n1: timed out trying to allocate devices")
    assert cluster.drain()[-1].decision == Placed("n1")


def test_a_selector_beyond_the_limit_fails_the_attempt_and_the_pod_backs_off():
    endless = f'lists.range(60000).all(a, device.attributes["{DRIVER}"].model != string(a))'
    slices = gpus("n1", device("d", model="m"), "other")
    claims = [claim("c", wants("r", "gpu", endless)), claim("d", wants())]
    cluster = Cluster(node("n1"), device_class(), slices, *claims)

    first = cluster.schedule(claiming("p", "c"))
    other = cluster.schedule(claiming("q", "d"))

    assert isinstance(first, Failed)
    assert "operation cancelled: actual cost limit exceeded" in first.message
    assert cluster.phase("p") is not QueuePhase.ACTIVE
    assert other == Placed("n1")
