"""Claims survive whatever happens while they are written: no device is given to two of them.

A claim is written in two steps, the finalizer and then the status with allocation and reservation;
after that the pod is bound. Each test stops, changes or loses one of these requests.
"""

import json

import pytest

from tests.integration.devices import is_allocated, is_protected, using
from tests.integration.objects import condition, is_gone

pytestmark = pytest.mark.cluster

FINALIZER = ("PATCH", "/resourceclaims/c$")
STATUS = ("PATCH", "/resourceclaims/c/status$")
BINDING = ("POST", "/pods/p/binding$")


def has_failed(found):
    return condition(found or {}, "PodScheduled").get("status") == "False"


def allocations(proxy) -> int:
    """Return how many writes gave devices to c or d; others reserve what is allocated again."""
    written = proxy.passed("PATCH", "/resourceclaims/./status$")
    return sum("allocation" in json.loads(each.body)["status"] for each in written)


@pytest.fixture
def node(scene, devices):
    """The only node, which has one device; a class for it, and the claims c and d."""
    (name,) = scene.nodes(1)
    devices.device_class()
    devices.slice(name, "d0")
    for claim in "cd":
        devices.claim(claim)
    return name


@pytest.mark.parametrize(
    "stopped_at",
    [
        pytest.param(FINALIZER, id="before the finalizer"),
        pytest.param(STATUS, id="before the allocation"),
        pytest.param(BINDING, id="between allocation and binding"),
    ],
)
def test_killed_at_any_boundary_the_next_one_finishes(
    scene, schedulers, proxy, devices, node, stopped_at
):
    scheduler = schedulers.start(kubeconfig=proxy.kubeconfig)
    held = proxy.hold(*stopped_at)
    scene.create(using("p", "c"))
    held.wait(1)
    written = devices.allocated("c")

    scheduler.kill()
    held.drop()
    scene.create(using("q", "d"))
    schedulers.start(kubeconfig=proxy.kubeconfig)

    # What was allocated stays with its pod; what was only in memory may go to the other one.
    (waiting,) = scene.wait_bound_count(1)
    assert waiting == "q" or not written
    scene.wait_rejected(waiting, "cannot allocate all claims")
    held_by = "c" if waiting == "q" else "d"
    assert devices.allocated(held_by) == [(node, "d0")]
    assert devices.allocated({"c": "d", "d": "c"}[held_by]) == []
    assert allocations(proxy) == 1


def test_an_allocation_without_its_binding_keeps_its_node_and_devices(
    scene, schedulers, proxy, devices
):
    nodes = scene.nodes(3)
    devices.device_class()
    for each in nodes:
        devices.slice(each, "d0", "d1")
    devices.claim("c")
    scheduler = schedulers.start(kubeconfig=proxy.kubeconfig)
    held = proxy.hold(*BINDING)
    scene.create(using("p", "c"))
    held.wait(1)
    ((pool, device),) = devices.allocated("c")

    scheduler.kill()
    held.drop()
    # Whatever else would be better by now: the claim is where it is.
    scene.patch_node(pool, {"metadata": {"labels": {"changed": "yes"}}})
    schedulers.start(kubeconfig=proxy.kubeconfig)

    assert scene.wait_bound("p") == pool
    assert devices.allocated("c") == [(pool, device)]
    assert devices.consumers("c") == ["p"]
    assert allocations(proxy) == 1


def test_a_claim_that_is_deleted_meanwhile_frees_its_device(
    scene, schedulers, proxy, devices, node
):
    schedulers.start(kubeconfig=proxy.kubeconfig)
    held = proxy.hold(*STATUS)
    scene.create(using("p", "c"))
    held.wait(1)
    devices.wait("c", is_protected)

    scene.api.delete(devices.path("c"))
    devices.wait("c", is_gone)  # the controller takes the finalizer off
    held.release()

    # Until the write has failed, the device is taken for all other pods.
    scene.wait("p", has_failed)
    scene.create(using("q", "d"))
    assert scene.wait_bound("q") == node
    assert devices.allocated("d") == [(node, "d0")]
    assert "nodeName" not in scene.pod("p")["spec"]
    scene.remove("q")
    devices.claim("c")
    assert scene.wait_bound("p") == node
    assert devices.allocated("c") == [(node, "d0")]


def test_a_claim_that_another_scheduler_allocates_meanwhile_is_used_as_it_is(
    scene, schedulers, proxy, devices
):
    nodes = scene.nodes(2)
    devices.device_class()
    for each in nodes:
        devices.slice(each, "d0")
    devices.claim("c")
    schedulers.start(kubeconfig=proxy.kubeconfig)
    held = proxy.hold(*STATUS)
    scene.create(using("p", "c"))
    held.wait(1)
    status = json.loads(held.bodies[0])["status"]
    ours = status["allocation"]["devices"]["results"][0]["pool"]
    (other,) = set(nodes) - {ours}

    allocation = json.loads(json.dumps(status["allocation"]).replace(ours, other))
    claim = scene.api.get(devices.path("c"))
    scene.api.put(f"{devices.path('c')}/status", {**claim, "status": {"allocation": allocation}})
    held.release()

    assert scene.wait_bound("p") == other
    assert devices.allocated("c") == [(other, "d0")]
    assert devices.consumers("c") == ["p"]


def test_a_status_that_got_lost_on_the_way_is_sent_again(scene, schedulers, proxy, devices, node):
    schedulers.start(kubeconfig=proxy.kubeconfig)
    lost = proxy.lose_request(*STATUS)

    scene.create(using("p", "c"))

    lost.wait(1)
    assert scene.wait_bound("p") == node
    assert len(proxy.passed(*STATUS)) == 1


def test_a_pod_that_cannot_be_bound_gives_up_its_reservation_and_keeps_the_allocation(
    scene, schedulers, proxy, devices, node
):
    scheduler = schedulers.start(kubeconfig=proxy.kubeconfig)
    refused = proxy.refuse(*BINDING, 422, times=1)

    scene.create(using("p", "c"))

    refused.wait(1)
    assert scene.wait_bound("p") == node
    scheduler.wait_log("pod_bound", attempts=2)
    writes = [json.loads(each.body)["status"] for each in proxy.passed(*STATUS)]
    assert [sorted(each) for each in writes] == [
        ["allocation", "reservedFor"],
        ["reservedFor"],
        ["reservedFor"],
    ]
    assert [each["reservedFor"][0].get("$patch") for each in writes] == [None, "delete", None]
    assert devices.wait("c", is_allocated)
    assert devices.allocated("c") == [(node, "d0")]
    assert devices.consumers("c") == ["p"]
