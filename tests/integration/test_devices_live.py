"""Pods get their devices: claims on a real API server, which checks every write of them."""

import pytest

from tests.integration.devices import claim_of, extended, is_free, using

pytestmark = pytest.mark.cluster


def test_a_pod_waits_for_its_claim_and_another_one_for_a_device(scene, scheduler, devices):
    (node,) = scene.nodes(1)
    devices.device_class()
    devices.slice(node, "d0")
    scene.create(using("early", "c"))
    devices.claim("c")
    scene.wait_bound("early")
    devices.claim("d")

    scene.create(using("late", "d"))

    scene.wait_rejected("late", "cannot allocate all claims")


@pytest.mark.needs_server("1.36", "older API servers drop extended resources of classes")
def test_an_extended_resource_is_backed_by_a_claim(scene, scheduler, devices):
    (node,) = scene.nodes(1)
    name = devices.device_class()
    devices.slice(node, "d0")
    scene.create(extended("p", name))

    assert scene.wait_bound("p") == node
    assert devices.allocated(claim_of(scene.pod("p"))) == [(node, "d0")]


@pytest.mark.needs_server("1.37", "older API servers do not serve DeviceTaintRules by default")
def test_a_device_that_a_rule_taints_is_used_once_the_rule_is_gone(scene, schedulers, devices):
    (node,) = scene.nodes(1)
    devices.device_class()
    devices.slice(node, "d0")
    rule = devices.taint(node)
    schedulers.start()
    devices.claim("c")
    scene.create(using("p", "c"))
    scene.wait_rejected("p", "cannot allocate all claims")

    scene.api.delete(rule)

    assert scene.wait_bound("p") == node


def test_two_pods_race_for_the_last_device(scene, scheduler, devices):
    (node,) = scene.nodes(1)
    devices.device_class()
    devices.claim("a")
    devices.claim("b")
    scene.create(using("a", "a"), using("b", "b"))
    for name in "ab":
        scene.wait_rejected(name, "cannot allocate all claims")

    devices.slice(node, "d0")

    (loser,) = scene.wait_bound_count(1)
    (winner,) = {"a", "b"} - {loser}
    scene.wait_rejected(loser, "cannot allocate all claims")
    assert devices.allocated(winner) == [(node, "d0")]
    assert devices.allocated(loser) == []
    # The controller deallocates the claim when its only consumer is gone; that wakes the other pod.
    scene.remove(winner)
    assert scene.wait_bound(loser) == node
    assert devices.wait(winner, is_free)
    assert devices.allocated(loser) == [(node, "d0")]


def test_pods_that_share_a_claim_are_bound_to_one_node(scene, scheduler, devices):
    first, second = scene.nodes(2)
    devices.device_class()
    for node in (first, second):
        devices.slice(node, "d0")
    devices.claim("c")

    scene.create(*(using(f"p-{i}", "c") for i in range(4)))

    assert scene.wait_bound_count(4) == set()
    ((pool, _),) = devices.allocated("c")
    assert {scene.wait_bound(f"p-{i}") for i in range(4)} == {pool}
    assert sorted(devices.consumers("c")) == [f"p-{i}" for i in range(4)]


def test_a_device_that_its_driver_reports_without_conditions_stays_taken(scene, scheduler, devices):
    (node,) = scene.nodes(1)
    devices.device_class()
    devices.slice(node, "d0")
    for name in "cd":
        devices.claim(name)
    scene.create(using("p", "c"))
    scene.wait_bound("p")

    report = {"driver": devices.driver, "pool": node, "device": "d0"}
    scene.api.patch(f"{devices.path('c')}/status", {"status": {"devices": [report]}})
    scene.create(using("q", "d"))

    scene.wait_rejected("q", "cannot allocate all claims")
    assert scheduler.logged("object_ignored") == []
