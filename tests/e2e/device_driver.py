"""A driver of devices that do not exist: a plugin of one node's kubelet, as vendors write them.

It registers with the kubelet, publishes a slice, and prepares devices by files of the Container
Device Interface (CDI): the container gets an environment variable that names its device.
"""

import contextlib
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from deploy.tools.controlplane.api import ApiClient, ApiError
from tests.e2e.kubelet_api import MESSAGES, serve

Json = dict[str, Any]

GROUP: Final = "/apis/resource.k8s.io/v1"
#: The environment variable that a container gets.
VARIABLE: Final = "E2E_DEVICE"
PATIENCE_SECONDS: Final = 60.0


class DeviceDriver:
    """The driver on one node.

    Attributes:
        record: what the kubelet has asked for, in order: "prepare" or "unprepare", the name of the
            claim, and its device.

    Args:
        api: for the slice and the claims.
        name: of the driver.
        node: where it runs.
        disk: the folder with the disk of that node.
    """

    def __init__(self, api: ApiClient, name: str, node: str, disk: Path) -> None:
        self.record: list[tuple[str, str, str]] = []
        self._api, self._name, self._node = api, name, node
        self._cdi = disk / "cdi"
        self._prepared: dict[str, str] = {}
        self._registered = threading.Event()
        self._changed = threading.Condition()
        kubelet = disk / "var-lib" / "kubelet"
        self._endpoint = kubelet / "plugins" / name / "dra.sock"
        plugin = {
            "NodePrepareResources": self._prepare_all,
            "NodeUnprepareResources": self._unprepare_all,
        }
        registration = {"GetInfo": self._info, "NotifyRegistrationStatus": self._notified}
        socket = kubelet / "plugins_registry" / f"{name}.sock"
        self._servers = [
            serve(self._endpoint, "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin", plugin),
            serve(socket, "pluginregistration.Registration", registration),
        ]

    def __enter__(self) -> "DeviceDriver":
        if not self._registered.wait(PATIENCE_SECONDS):
            self.close()
            raise TimeoutError(f"the kubelet of {self._node} does not register {self._name}")
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def publish(self, *devices: str) -> None:
        """Publish devices of the node. A kubelet removes the slice when the driver is gone."""
        spec = {
            "driver": self._name,
            "nodeName": self._node,
            "pool": {"name": self._node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": device} for device in devices],
        }
        metadata = {"name": f"{self._node}-{self._name}"}
        self._api.post(f"{GROUP}/resourceslices", {"metadata": metadata, "spec": spec})

    def await_record(self, accepted: Callable[[list[tuple[str, str, str]]], bool]) -> None:
        """Wait until the record is as wanted."""
        with self._changed:
            if not self._changed.wait_for(lambda: accepted(self.record), PATIENCE_SECONDS):
                raise TimeoutError(f"{self._name} has done no more than {self.record}")

    def close(self) -> None:
        """Withdraw the slice and end."""
        with contextlib.suppress(ApiError):
            self._api.delete(f"{GROUP}/resourceslices/{self._node}-{self._name}")
        for server in self._servers:
            server.stop(None).wait()

    def _info(self, _: Any) -> Any:
        return MESSAGES["PluginInfo"](
            type="DRAPlugin",
            name=self._name,
            endpoint=f"/var/lib/kubelet/plugins/{self._name}/dra.sock",
            supported_versions=["v1.DRAPlugin"],
        )

    def _notified(self, status: Any) -> Any:
        if status.plugin_registered:
            self._registered.set()
        return MESSAGES["RegistrationStatusResponse"]()

    def _prepare_all(self, request: Any) -> Any:
        response = MESSAGES["NodePrepareResourcesResponse"]()
        for claim in request.claims:
            prepared = response.claims.add(key=claim.uid).value
            try:
                for result in self._results(claim):
                    prepared.devices.add(
                        request_names=[result["request"]],
                        pool_name=result["pool"],
                        device_name=result["device"],
                        cdi_device_ids=[self._described(claim, result["device"])],
                    )
            except (ApiError, LookupError) as error:
                prepared.error = str(error)
        return response

    def _results(self, claim: Any) -> list[Json]:
        """Return the devices of this driver that a claim has.

        Raises:
            LookupError: It is another claim, or not allocated.
        """
        path = f"{GROUP}/namespaces/{claim.namespace}/resourceclaims/{claim.name}"
        found = self._api.get(path)
        if found["metadata"]["uid"] != claim.uid:
            raise LookupError(f"claim {claim.name} is another one by now")
        results: list[Json] = found["status"]["allocation"]["devices"]["results"]
        return [result for result in results if result["driver"] == self._name]

    def _described(self, claim: Any, device: str) -> str:
        """Describe a device for the container runtime; return its full name."""
        edits = {"env": [f"{VARIABLE}={device} of {self._node}"]}
        kind = f"{self._name}/device"
        name = f"{claim.uid}-{device}"
        described = {"name": name, "containerEdits": edits}
        body = {"cdiVersion": "0.6.0", "kind": kind, "devices": [described]}
        file = self._file(claim)
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(body))
        partial.rename(file)
        self._prepared[claim.uid] = device
        self._note("prepare", claim, device)
        return f"{kind}={name}"

    def _unprepare_all(self, request: Any) -> Any:
        response = MESSAGES["NodeUnprepareResourcesResponse"]()
        for claim in request.claims:
            response.claims.add(key=claim.uid).value.SetInParent()
            self._file(claim).unlink(missing_ok=True)
            self._note("unprepare", claim, self._prepared.get(claim.uid, ""))
        return response

    def _file(self, claim: Any) -> Path:
        return self._cdi / f"{self._name}-{claim.uid}.json"

    def _note(self, action: str, claim: Any, device: str) -> None:
        with self._changed:
            self.record.append((action, claim.name, device))
            self._changed.notify_all()
