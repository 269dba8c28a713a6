"""Whatever happens to a release, lease and ledger stay with its processes, and end with it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.controlplane.manifests import ResourcePaths
from tests.charts.rendering import CHART, Helm
from tests.charts.test_live import RELEASE, start

pytestmark = [pytest.mark.chart, pytest.mark.cluster]

#: A ledger that counts nothing, but that no process would write by itself.
TEXT: Final = {"ledger.json": '{"version":1,"names":["kept"]}'}
VALUES: Final = {"fullnameOverride": RELEASE, "config": {"profiles": [{"schedulerName": RELEASE}]}}


class Release:
    """An installed release, two replicas that run on this machine, and their state."""

    def __init__(self, helm: Helm, cluster: ControlPlane, namespace: str) -> None:
        self._helm = helm
        self._cluster = cluster
        self._where = ("--namespace", namespace, "--kubeconfig", str(cluster.admin_kubeconfig))
        self._paths = ResourcePaths(lambda root: cluster.api.get(root)["resources"])
        self._objects = helm.template(VALUES, release=RELEASE, namespace=namespace)
        self.namespace = namespace
        self.lease = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{RELEASE}"
        self.ledger = f"/api/v1/namespaces/{namespace}/configmaps/{RELEASE}-ledger"

    def upgrade(self, *flags: str, replicas: int = 2) -> None:
        values = {**VALUES, "replicaCount": replicas}
        self._helm.run("upgrade", RELEASE, str(CHART), *flags, *self._where, values=values)

    def rollback(self) -> None:
        self._helm.run("rollback", RELEASE, *self._where)

    def uninstall(self) -> None:
        self._helm.run("uninstall", RELEASE, "--wait", *self._where)

    def replace(self) -> None:
        """Replace every object, as `kubectl replace` and Argo CD with `Replace=true` do."""
        api = self._cluster.api
        for each in self._objects:
            path = self._paths.of(each)
            version = api.get(path)["metadata"]["resourceVersion"]
            metadata = {**each["metadata"], "resourceVersion": version}
            api.put(path, {**each, "metadata": metadata})

    def apply(self) -> None:
        """Apply every object, as Argo CD does with `ServerSideApply=true`."""
        query = {"fieldManager": "argocd-controller", "force": "true"}
        for each in self._objects:
            self._cluster.api.patch(self._paths.of(each), each, "apply", **query)


@pytest.fixture
def release(
    helm: Helm, control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> Iterator[Release]:
    """A release whose first replica leads; the second one stands by."""
    made = Release(helm, control_plane, namespace)
    made.upgrade("--install")
    metadata = {"name": f"{RELEASE}-ledger"}
    folder = f"/api/v1/namespaces/{namespace}/configmaps"
    control_plane.api.post(folder, {"metadata": metadata, "data": TEXT})
    start(control_plane, namespace, tmp_path, "first")
    control_plane.api.wait_for(made.lease, lambda found: found is not None)
    start(control_plane, namespace, tmp_path, "second")
    yield made
    for process in ("second", "first"):
        control_plane.stop(process)


def test_lease_and_ledger_survive_every_change_of_the_release_and_end_with_it(
    control_plane, release
):
    api = control_plane.api
    taken = api.get(release.lease)

    for change in (
        lambda: release.upgrade("--force"),
        release.replace,
        lambda: release.upgrade(replicas=3),
        release.rollback,
        release.apply,
    ):
        change()
        assert api.get(release.ledger)["data"] == TEXT
        found = api.get(release.lease)
        assert found["metadata"]["uid"] == taken["metadata"]["uid"]
        assert found["spec"]["holderIdentity"] == taken["spec"]["holderIdentity"]
    api.delete(release.ledger)
    api.wait_for(release.ledger, lambda found: found is not None and found.get("data") == TEXT)
    for path in (release.lease, release.ledger):
        labels = api.get(path)["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == "preemptive-scheduler"

    release.uninstall()
    for path in (release.lease, release.ledger):
        api.wait_for(path, lambda found: found is None)
    for process in ("second", "first"):
        control_plane.stop(process)
    for path in (release.lease, release.ledger):
        api.wait_for(path, lambda found: found is None)
