"""The control plane with our rights, and for each test a scene and schedulers of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.tools.controlplane.cluster import ControlPlane
from tests.integration.access import RBAC, subject
from tests.integration.devices import Devices
from tests.integration.objects import forget_history, prepare
from tests.integration.scene import Scene
from tests.support.fault_proxy import FaultProxy
from tests.support.live import Scheduler, Schedulers


@pytest.fixture(scope="session")
def plane(control_plane: ControlPlane) -> ControlPlane:
    """The shared control plane, prepared for these tests."""
    prepare(control_plane.api)
    return control_plane


@pytest.fixture
def kubeconfig(plane: ControlPlane) -> Path:
    """That of our ServiceAccount, with the rights that we ship."""
    return plane.service_account_kubeconfig("preemptive-scheduler", "preemptive-scheduler")


@pytest.fixture
def schedulers(tmp_path: Path, kubeconfig: Path, plane: ControlPlane) -> Iterator[Schedulers]:
    """Starts schedulers, which know nothing of the preemptions of earlier tests."""
    forget_history(plane.api)
    with Schedulers(tmp_path, kubeconfig) as started:
        yield started


@pytest.fixture
def scene(plane: ControlPlane, namespace: str, schedulers: Schedulers) -> Iterator[Scene]:
    """A namespace, and nodes that are removed again; what happened there is audited."""
    made = Scene(plane, namespace, schedulers.name)
    yield made
    schedulers.close()
    try:
        made.audit()
    finally:
        made.clear()


@pytest.fixture
def scheduler(schedulers: Schedulers) -> Scheduler:
    """A scheduler that has begun before there is anything to schedule."""
    return schedulers.start()


@pytest.fixture
def proxy(kubeconfig: Path, tmp_path: Path) -> Iterator[FaultProxy]:
    """Stands between a scheduler and the API server."""
    with FaultProxy(tmp_path, kubeconfig) as between:
        yield between


@pytest.fixture
def devices(scene: Scene) -> Iterator[Devices]:
    """Classes, slices and claims; no device may ever be in two claims."""
    made = Devices(scene)
    yield made
    try:
        made.audit()
    finally:
        made.clear()


@pytest.fixture
def token(plane, namespace):
    """A function that returns a token of a new ServiceAccount."""

    def make(name):
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        plane.api.post(accounts, {"metadata": {"name": name}})
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        return plane.api.post(f"{accounts}/{name}/token", request)["status"]["token"]

    return make


@pytest.fixture
def grant(plane, namespace):
    """A function that lets a ServiceAccount, or a user, read pages until the test ends."""
    made = []

    def give(name, *paths, user=""):
        full = f"{namespace}-{name}"
        rules = [{"nonResourceURLs": list(paths), "verbs": ["get"]}]
        plane.api.post(f"{RBAC}/clusterroles", {"metadata": {"name": full}, "rules": rules})
        made.append(f"{RBAC}/clusterroles/{full}")
        group = "rbac.authorization.k8s.io"
        binding = {
            "metadata": {"name": full},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": full},
            "subjects": [subject(name, namespace, user)],
        }
        plane.api.post(f"{RBAC}/clusterrolebindings", binding)
        made.append(f"{RBAC}/clusterrolebindings/{full}")

    yield give
    for path in made:
        plane.api.delete(path)
