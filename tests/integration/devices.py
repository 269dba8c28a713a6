"""Devices of a test on a real API server: what their driver publishes, and who got which."""

import contextlib
import itertools
from collections.abc import Callable
from typing import Any

from deploy.tools.controlplane.api import ApiError
from tests.integration.followed import Followed
from tests.integration.objects import Json, pod
from tests.integration.scene import Scene

_numbers = itertools.count(1)
GROUP = "/apis/resource.k8s.io/v1"
PROTECTION = "resource.kubernetes.io/delete-protection"


class Devices:
    """Creates classes, slices and claims for one scene; removes what outlives its namespace.

    Attributes:
        claims: the API path of the claims.
        name: the name of the class and of what else has no namespace; no other test uses it.
        driver: the name of the driver.
    """

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._api = scene.api
        self.claims = f"{GROUP}/namespaces/{scene.namespace}/resourceclaims"
        self.name = f"live-{next(_numbers)}"
        self.driver = f"{self.name}.example.com"
        self._made: list[str] = []
        self._followed = Followed(self._api, self.claims)

    # Create

    def device_class(self) -> str:
        """Create a class; return its name."""
        self._create(f"{GROUP}/deviceclasses", {"metadata": {"name": self.name}, "spec": {}})
        return self.name

    def template(self) -> str:
        """Create a template of claims for one device; return its name."""
        path = f"{GROUP}/namespaces/{self._scene.namespace}/resourceclaimtemplates"
        spec = {"spec": self._one_device()}
        self._api.post(path, {"metadata": {"name": self.name}, "spec": spec})
        return self.name

    def slice(
        self,
        node: str,
        *devices: str,
        generation: int = 1,
        part: int = 1,
        of: int = 1,
        **fields: Any,
    ) -> str:
        """Publish devices of a node, as one of several parts of its pool; return the path.

        Further fields are those of each device.
        """
        spec = {
            "driver": self.driver,
            "nodeName": node,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": of},
            "devices": [{"name": device, **fields} for device in devices],
        }
        name = f"{self.name}-{node}-{generation}-{part}"
        return self._create(f"{GROUP}/resourceslices", {"metadata": {"name": name}, "spec": spec})

    def claim(self, name: str) -> Json:
        """Create a claim for one device."""
        body = {"metadata": {"name": name}, "spec": self._one_device()}
        return self._api.post(self.claims, body)

    def _one_device(self) -> Json:
        selector = f'device.driver == "{self.driver}"'
        exactly = {
            "deviceClassName": self.name,
            "selectors": [{"cel": {"expression": selector}}],
        }
        return {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}

    def withdraw(self, path: str) -> None:
        """Remove a slice, given by its path, as a driver does."""
        self._api.delete(path)
        self._made.remove(path)

    def write_status(self, claim: str, **status: Any) -> None:
        """Change the status of a claim, as another scheduler or a controller would."""
        self._api.patch(f"{self.path(claim)}/status", {"status": status})

    def give(self, claim: str, node: str, device: str, user: Json) -> None:
        """Allocate a device of a node to a claim for a pod, as another scheduler would."""
        finalizers = {"metadata": {"finalizers": [PROTECTION]}}
        self._api.patch(self.path(claim), finalizers)
        result = {"request": "r", "driver": self.driver, "pool": node, "device": device}
        allocation = {"devices": {"results": [result]}}
        self.write_status(claim, allocation=allocation, reservedFor=[consumer(user)])

    def taint(self, pool: str) -> str:
        """Create a rule that taints the devices of a pool; return its path."""
        taint = {"key": "example.com/broken", "effect": "NoSchedule"}
        spec = {"deviceSelector": {"pool": pool}, "taint": taint}
        path = f"{GROUP}/devicetaintrules"
        self._api.post(path, {"metadata": {"name": self.name}, "spec": spec})
        return f"{path}/{self.name}"

    def report_ready(self, claim: str) -> None:
        """Report as the driver that the devices of a claim are ready."""
        now = "2026-01-01T00:00:00Z"
        ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
        reports = [
            {
                "driver": self.driver,
                "pool": pool,
                "device": device,
                "conditions": [{**ready, "lastTransitionTime": now}],
            }
            for pool, device in self.allocated(claim)
        ]
        self._api.patch(f"{self.path(claim)}/status", {"status": {"devices": reports}})

    # Look

    def path(self, name: str) -> str:
        """Return the API path of a claim."""
        return f"{self.claims}/{name}"

    def wait(self, name: str, predicate: Callable[[Json | None], bool]) -> Json:
        """Wait until a claim satisfies a predicate; return it, or {} if there is none."""
        return self._api.wait_for(self.path(name), predicate) or {}

    def allocated(self, name: str) -> list[tuple[str, str]]:
        """Return pool and name of each device that a claim has."""
        return devices_of(self._api.get(self.path(name)))

    def consumers(self, name: str) -> list[str]:
        """Return the names of the pods that a claim is reserved for."""
        status = self._api.get(self.path(name)).get("status", {})
        return [each["name"] for each in status.get("reservedFor", ())]

    def audit(self) -> None:
        """Assert that at no time two claims had the same device."""
        marker = self._api.post(self.claims, _empty_claim(f"marker-{next(_numbers)}"))
        holders: dict[tuple[str, str], str] = {}
        for kind, each in self._followed.until(marker):
            uid = each["metadata"]["uid"]
            taken = [] if kind == "DELETED" else devices_of(each)
            holders = {device: holder for device, holder in holders.items() if holder != uid}
            twice = [device for device in taken if device in holders]
            assert not twice, f"{each['metadata']['name']} got {twice}, which others have"
            holders |= dict.fromkeys(taken, uid)

    # End

    def clear(self) -> None:
        """Remove the classes and slices."""
        self._followed.stop()
        for path in self._made:
            with contextlib.suppress(ApiError):
                self._api.delete(path)

    def _create(self, path: str, body: Json) -> str:
        self._api.post(path, body)
        self._made.append(f"{path}/{body['metadata']['name']}")
        return self._made[-1]


def devices_of(claim: Json) -> list[tuple[str, str]]:
    """Return pool and name of each device that a claim has."""
    allocation: Json = claim.get("status", {}).get("allocation") or {}
    results = allocation.get("devices", {}).get("results", ())
    return [(result["pool"], result["device"]) for result in results]


def using(name: str, claim: str, **spec: Any) -> Json:
    """Return a pod with a claim."""
    return pod(name, resourceClaims=[{"name": "x", "resourceClaimName": claim}], **spec)


def generating(name: str, template: str, **spec: Any) -> Json:
    """Return a pod with a claim that is made from a template."""
    return pod(name, resourceClaims=[{"name": "x", "resourceClaimTemplateName": template}], **spec)


def extended(name: str, device_class: str, **spec: Any) -> Json:
    """Return a pod that requests one device of a class as an extended resource."""
    amount = {f"deviceclass.resource.kubernetes.io/{device_class}": "1"}
    return pod(name, requests=amount, **spec)


def claim_of(pod: Json) -> str:
    """Return the name of the only claim of a pod; empty if it has none yet."""
    status = pod["status"]
    known = status.get("extendedResourceClaimStatus", {}).get("resourceClaimName", "")
    for each in status.get("resourceClaimStatuses", ()):
        known = each["resourceClaimName"]
    for each in pod["spec"].get("resourceClaims", ()):
        known = each.get("resourceClaimName", known)
    return str(known)


def consumer(pod: Json) -> Json:
    """Return a pod as claims name those that they are reserved for."""
    return {"resource": "pods", **{key: pod["metadata"][key] for key in ("name", "uid")}}


def is_allocated(found: Json | None) -> bool:
    """Tell whether a claim has its devices."""
    return found is not None and bool(devices_of(found))


def is_free(found: Json | None) -> bool:
    """Tell whether a claim has no devices."""
    return found is not None and not devices_of(found)


def is_protected(found: Json | None) -> bool:
    """Tell whether a claim has the finalizer that an allocation needs."""
    return found is not None and PROTECTION in found["metadata"].get("finalizers", ())


def _empty_claim(name: str) -> Json:
    return {"metadata": {"name": name}, "spec": {"devices": {}}}
