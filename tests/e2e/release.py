"""An installation of our chart: its objects, its pods, who leads."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from deploy.tools.controlplane.api import ApiClient
from tests.e2e.operating import CHART, CommandError, Operator

Json = dict[str, Any]

#: Enforced in every namespace of the scheduler.
RESTRICTED: Final = {
    "pod-security.kubernetes.io/enforce": "restricted",
    "pod-security.kubernetes.io/enforce-version": "latest",
}
PATIENCE_SECONDS: Final = 120.0


@dataclass(frozen=True)
class Release:
    """A release of the chart; also the name of its namespace, objects and first profile."""

    operator: Operator
    name: str
    image: Json

    @property
    def api(self) -> ApiClient:
        return self.operator.cluster.api

    @property
    def takes_devices(self) -> str:
        """The name of the profile whose pods preempt for devices."""
        return f"{self.name}-takes-devices"

    def values(self, **more: Any) -> Json:
        """Return values: the image that the nodes have, two profiles, and what is given."""
        args = {"name": "PreemptiveScheduler", "args": {"preemptForDevices": True}}
        taking = {"schedulerName": self.takes_devices, "pluginConfig": [args]}
        profiles = {"profiles": [{"schedulerName": self.name}, taking]}
        return {"image": self.image, "config": profiles, "fullnameOverride": self.name, **more}

    def install(self, *flags: str, **values: Any) -> str:
        """Make the namespace, install the chart and wait until it is ready."""
        self.api.apply(
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": self.name, "labels": RESTRICTED},
            }
        )
        where = ("--namespace", self.name, "--wait", "--timeout", "180s")
        given = self.values(**values)
        return self.operator.helm("install", self.name, str(CHART), *where, *flags, values=given)

    def upgrade(self, *flags: str, **values: Any) -> str:
        """Change the values of the release."""
        where = ("--namespace", self.name, *flags)
        given = self.values(**values)
        return self.operator.helm("upgrade", self.name, str(CHART), *where, values=given)

    def uninstall(self) -> str:
        """Uninstall the release and wait until its pods are gone."""
        flags = ("--namespace", self.name, "--wait", "--cascade", "foreground")
        try:
            return self.operator.helm("uninstall", self.name, *flags, "--timeout", "180s")
        except CommandError as error:
            raise CommandError(f"{error}\nwhat is still there:\n{self._what_is_there()}") from error

    # What there is

    def _what_is_there(self) -> str:
        """Return the objects of the release and its pods, with what keeps them."""
        listed = self.operator.kubectl("api-resources", "--verbs=list,delete", "-o", "name")
        columns = (
            "KIND:.kind,NAME:.metadata.name,DELETED:.metadata.deletionTimestamp,"
            "FINALIZERS:.metadata.finalizers,OWNERS:.metadata.ownerReferences[*].name,"
            "PHASE:.status.phase"
        )
        flags = ("-A", "-l", f"app.kubernetes.io/instance={self.name}", "-o")
        resources = ",".join(listed.split())
        return self.operator.kubectl("get", resources, *flags, f"custom-columns={columns}")

    @property
    def pods_path(self) -> str:
        """Where its pods are listed."""
        selector = f"app.kubernetes.io/instance={self.name}".replace("=", "%3D")
        return f"/api/v1/namespaces/{self.name}/pods?labelSelector={selector}"

    def pods(self) -> list[Json]:
        """Return its pods that are not about to leave."""
        return [pod for pod in self.api.items(self.pods_path) if not leaving(pod)]

    def await_pods(self, accepted: Callable[[list[Json]], bool]) -> list[Json]:
        """Wait until those of its pods that are not about to leave are as wanted."""

        def satisfied(pods: list[Json]) -> bool:
            return accepted([pod for pod in pods if not leaving(pod)])

        return self.api.wait_for_list(self.pods_path, satisfied, PATIENCE_SECONDS)

    def await_settled(self, replicas: int = 2) -> list[Json]:
        """Wait until so many pods are ready, no other is there, and one of them leads."""
        self.api.wait_for_list(
            self.pods_path,
            lambda pods: len(pods) == replicas and all(ready(pod) for pod in pods),
            PATIENCE_SECONDS,
        )
        self.await_leader()
        return self.pods()

    @property
    def lease_path(self) -> str:
        """Where its lease is."""
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.name}/leases/{self.name}"

    def leader(self) -> str:
        """Return the name of the pod that leads; empty if none does."""
        return _holder(self.api.get(self.lease_path))

    def await_leader(self, other_than: str = "") -> str:
        """Wait until a pod leads that is there, and not of that name; return its name."""
        names = {pod["metadata"]["name"] for pod in self.pods()}

        def is_another(lease: Json | None) -> bool:
            return lease is not None and _holder(lease) in names - {other_than}

        found = self.api.wait_for(self.lease_path, is_another, PATIENCE_SECONDS)
        assert found is not None
        return _holder(found)


def leaving(pod: Json) -> bool:
    """Tell whether a pod is about to leave."""
    return "deletionTimestamp" in pod["metadata"]


def ready(pod: Json) -> bool:
    """Tell whether a pod is ready and stays."""
    conditions = pod["status"].get("conditions") or ()
    return not leaving(pod) and any(
        each["type"] == "Ready" and each["status"] == "True" for each in conditions
    )


def _holder(lease: Json) -> str:
    """Return the pod in the identity of a holder, POD_UUID."""
    identity: str = lease["spec"].get("holderIdentity") or ""
    return identity.partition("_")[0]
