"""Pods get their devices: claims on a real API server, which checks every write of them."""

import itertools
from collections.abc import Iterator

import pytest

from tests.integration.objects import Json, pod
from tests.integration.scene import Scene

pytestmark = pytest.mark.cluster

_numbers = itertools.count(1)
_GROUP = "/apis/resource.k8s.io/v1"


class Devices:
    """Creates classes, slices and claims for one scene; removes what outlives its namespace."""

    def __init__(self, scene: Scene) -> None:
        self._api = scene.api
        self.claims = f"{_GROUP}/namespaces/{scene.namespace}/resourceclaims"
        self.name = f"live-{next(_numbers)}"
        self._made: list[str] = []

    def device_class(self) -> str:
        """Create a class; return its name."""
        self._create(f"{_GROUP}/deviceclasses", {"metadata": {"name": self.name}, "spec": {}})
        return self.name

    def slice(self, node: str, *devices: str) -> None:
        """Publish devices of a node."""
        spec = {
            "driver": f"{self.name}.example.com",
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": device} for device in devices],
        }
        name = f"{self.name}-{node}"
        self._create(f"{_GROUP}/resourceslices", {"metadata": {"name": name}, "spec": spec})

    def claim(self, name: str) -> Json:
        """Create a claim for one device."""
        selector = f'device.driver == "{self.name}.example.com"'
        exactly = {
            "deviceClassName": self.name,
            "selectors": [{"cel": {"expression": selector}}],
        }
        requests = [{"name": "r", "exactly": exactly}]
        spec = {"devices": {"requests": requests}}
        return self._api.post(self.claims, {"metadata": {"name": name}, "spec": spec})

    def taint(self, pool: str) -> str:
        """Create a rule that taints the devices of a pool; return its path."""
        taint = {"key": "example.com/broken", "effect": "NoSchedule"}
        spec = {"deviceSelector": {"pool": pool}, "taint": taint}
        path = f"{_GROUP}/devicetaintrules"
        self._api.post(path, {"metadata": {"name": self.name}, "spec": spec})
        return f"{path}/{self.name}"

    def _create(self, path: str, body: Json) -> None:
        self._api.post(path, body)
        self._made.append(f"{path}/{body['metadata']['name']}")

    def clear(self) -> None:
        """Remove the classes and slices."""
        for path in self._made:
            self._api.delete(path)


@pytest.fixture
def devices(scene: Scene) -> Iterator[Devices]:
    made = Devices(scene)
    yield made
    made.clear()


def using(name: str, claim: str) -> Json:
    return pod(name, resourceClaims=[{"name": "x", "resourceClaimName": claim}])


def test_a_pod_is_bound_where_its_claim_got_a_device(scene, scheduler, devices):
    _, second = scene.nodes(2)
    devices.device_class()
    devices.slice(second, "d0")
    devices.claim("c")

    scene.create(using("p", "c"))

    assert scene.wait_bound("p") == second
    claim = scene.api.get(f"{devices.claims}/c")
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    assert (result["pool"], result["device"]) == (second, "d0")
    assert [each["name"] for each in claim["status"]["reservedFor"]] == ["p"]
    assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]


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


def test_an_extended_resource_is_backed_by_a_claim(scene, scheduler, devices):
    (node,) = scene.nodes(1)
    name = devices.device_class()
    devices.slice(node, "d0")
    amount = {f"deviceclass.resource.kubernetes.io/{name}": "1"}
    wanted = pod("p")
    requested = wanted["spec"]["containers"][0]["resources"]["requests"]
    wanted["spec"]["containers"][0]["resources"] = {
        "requests": {**requested, **amount},
        "limits": amount,
    }
    scene.create(wanted)

    assert scene.wait_bound("p") == node
    status = scene.pod("p")["status"]["extendedResourceClaimStatus"]
    claim = scene.api.get(f"{devices.claims}/{status['resourceClaimName']}")
    assert claim["status"]["allocation"]["devices"]["results"][0]["device"] == "d0"


@pytest.mark.needs_server("1.37", "older API servers do not serve DeviceTaintRules by default")
def test_a_device_that_a_rule_taints_is_used_once_the_rule_is_gone(scene, scheduler, devices):
    (node,) = scene.nodes(1)
    devices.device_class()
    devices.slice(node, "d0")
    rule = devices.taint(node)
    devices.claim("c")
    scene.create(using("p", "c"))
    scene.wait_rejected("p", "cannot allocate all claims")

    scene.api.delete(rule)

    assert scene.wait_bound("p") == node
