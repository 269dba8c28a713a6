"""Devices from a driver's slice to a running container, with a real kubelet and its plugin."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.device_driver import GROUP, VARIABLE, DeviceDriver
from tests.e2e.operating import Cluster
from tests.e2e.release import Release, leaving
from tests.e2e.workloads import Json, await_pod, bound, pod

DRIVER = "gpu.e2e.example"

#: Says which device it has, and runs until it is asked to end.
USER = f"echo -n ${VARIABLE} > /dev/termination-log; trap 'exit 0' TERM; while :; do sleep 1; done"
#: Ends when it is killed, or gets another signal.
STUBBORN = "trap '' TERM; trap 'exit 0' USR1; while :; do sleep 1; done"


@pytest.fixture
def node(cluster: Cluster) -> str:
    """The node with the device."""
    return cluster.nodes[0]


@pytest.fixture
def driver(cluster: Cluster, node: str) -> Iterator[DeviceDriver]:
    """A driver with one device."""
    disk = cluster.disk(node)
    if disk is None:
        pytest.skip("the disk of this node is not in reach, and a plugin serves sockets on it")
    with DeviceDriver(cluster.api, DRIVER, node, disk) as driver:
        driver.publish("d0")
        yield driver


@pytest.fixture
def device_class(cluster: Cluster) -> Iterator[str]:
    """The class of the devices of that driver."""
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    body = {"metadata": {"name": DRIVER}, "spec": {"selectors": [selector]}}
    cluster.api.post(f"{GROUP}/deviceclasses", body)
    yield DRIVER
    cluster.api.delete(f"{GROUP}/deviceclasses/{DRIVER}")


class Users:
    """Pods that need one device each, and their claims, which the controller makes."""

    def __init__(self, release: Release, namespace: str, device_class: str) -> None:
        self._release, self._namespace = release, namespace
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.claims = f"{GROUP}/namespaces/{namespace}/resourceclaims"
        request = {"name": "r", "exactly": {"deviceClassName": device_class}}
        spec = {"spec": {"devices": {"requests": [request]}}}
        templates = f"{GROUP}/namespaces/{namespace}/resourceclaimtemplates"
        release.api.post(templates, {"metadata": {"name": "one"}, "spec": spec})

    def start(self, name: str, priority: str = "", script: str = USER, **spec: Any) -> None:
        """Create a pod."""
        uses = [{"name": "x", "resourceClaimTemplateName": "one"}]
        spec |= {"resourceClaims": uses, "restartPolicy": "Never"}
        body = pod(name, self._release.name, priority=priority, script=script, **spec)
        body["spec"]["containers"][0]["resources"]["claims"] = [{"name": "x"}]
        self._release.api.post(self.pods, body)

    def end(self, name: str) -> str:
        """Ask a pod to end, and wait until it has; return what it said."""
        self.signal(name, "TERM")
        found = await_pod(self._release.api, self._namespace, name, has_succeeded)
        state = found["status"]["containerStatuses"][0]["state"]
        message: str = state["terminated"]["message"]
        return message

    def signal(self, name: str, signal: str) -> None:
        """Send a signal to the container of a pod."""
        kill = ("--", "/bin/busybox", "kill", f"-{signal}", "1")
        self._release.operator.kubectl("-n", self._namespace, "exec", name, *kill)

    def claim(self, pod: Json) -> tuple[str, list[tuple[str, str]]]:
        """Return the name of the claim of a pod, with pool and name of its devices."""
        name = pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
        found = self._release.api.get(f"{self.claims}/{name}")
        allocation = found.get("status", {}).get("allocation") or {"devices": {"results": []}}
        results = allocation["devices"]["results"]
        return name, [(result["pool"], result["device"]) for result in results]


def has_succeeded(pod: Json) -> bool:
    return bool(pod["status"].get("phase") == "Succeeded")


def is_rejected(pod: Json) -> bool:
    conditions = pod["status"].get("conditions") or ()
    messages = [each.get("message", "") for each in conditions if each["type"] == "PodScheduled"]
    return any("cannot allocate all claims" in message for message in messages)


def test_a_device_goes_from_one_pod_to_the_next(
    cluster, release, namespace, node, driver, device_class
):
    users = Users(release, namespace, device_class)
    users.start("first")
    first = await_pod(cluster.api, namespace, "first")
    users.start("second")
    waiting = await_pod(cluster.api, namespace, "second", is_rejected)

    assert first["spec"]["nodeName"] == node
    assert not bound(waiting)
    claim, devices = users.claim(first)
    next_claim, none = users.claim(waiting)
    assert (devices, none) == ([(node, "d0")], [])
    assert driver.record == [("prepare", claim, "d0")]

    assert users.end("first") == f"d0 of {node}"
    second = await_pod(cluster.api, namespace, "second")

    assert second["spec"]["nodeName"] == node
    assert users.claim(second) == (next_claim, [(node, "d0")])
    assert driver.record == [
        ("prepare", claim, "d0"),
        ("unprepare", claim, "d0"),
        ("prepare", next_claim, "d0"),
    ]

    assert users.end("second") == f"d0 of {node}"
    driver.await_record(lambda record: record[-1] == ("unprepare", next_claim, "d0"))
    assert len(driver.record) == 4
    # The controller removes the claims of pods that have ended.
    cluster.api.wait_for_list(users.claims, lambda found: not found)


@pytest.mark.parametrize("leader", ["stays", "leaves"])
def test_a_pod_runs_with_the_device_of_a_less_important_one(
    cluster, release, namespace, node, driver, device_class, leader
):
    users = Users(release, namespace, device_class)
    users.start("low", "e2e-low", script=STUBBORN, terminationGracePeriodSeconds=90)
    claim, devices = users.claim(await_pod(cluster.api, namespace, "low"))
    assert devices == [(node, "d0")]

    users.start("high", "e2e-high", schedulerName=release.takes_devices)
    await_pod(cluster.api, namespace, "low", leaving)
    if leader == "leaves":
        leads = release.leader()
        release.operator.kubectl("-n", release.name, "delete", "pod", leads)
        release.await_leader(other_than=leads)
    users.signal("low", "USR1")

    high = await_pod(cluster.api, namespace, "high")
    own_claim, devices = users.claim(high)
    assert (high["spec"]["nodeName"], devices) == (node, [(node, "d0")])
    assert driver.record == [
        ("prepare", claim, "d0"),
        ("unprepare", claim, "d0"),
        ("prepare", own_claim, "d0"),
    ]
    assert users.end("high") == f"d0 of {node}"
    names = {each["metadata"]["name"] for each in cluster.api.items(users.pods)}
    assert names == {"high"}
    (event,) = preempted(cluster, namespace)
    assert event["regarding"]["name"] == "low"


def preempted(cluster: Cluster, namespace: str) -> list[Json]:
    """Return the Events about pods that were evicted."""
    path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    found = cluster.api.wait_for_list(path, lambda all_: any(map(is_preempted, all_)))
    return list(filter(is_preempted, found))


def is_preempted(event: Json) -> bool:
    return bool(event["reason"] == "Preempted")
