"""Pods of some namespaces get this scheduler, and no others, on a real API server."""

import threading
from collections.abc import Iterator

import pytest

from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.controlplane.manifests import ResourcePaths
from tests.charts.rendering import Helm, Json

pytestmark = [pytest.mark.chart, pytest.mark.cluster]

PROFILE = "named"
LABELS = {"team": "batch"}
OWN = "name-own"
#: Namespaces by name, with their labels; one is that of the release.
NAMESPACES = {"name-given": LABELS, "name-other": {}, OWN: LABELS}
DAEMONSET = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d"}
REPLICA_SET = DAEMONSET | {"kind": "ReplicaSet"}


@pytest.fixture(scope="module")
def named(helm: Helm, control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A cluster that names the scheduler as the chart has it do."""
    paths = ResourcePaths(lambda root: control_plane.api.get(root)["resources"])
    values = {
        "fullnameOverride": PROFILE,
        "config": {"profiles": [{"schedulerName": PROFILE}]},
        "schedulerNameFor": {"namespaceSelector": {"matchLabels": LABELS}},
    }
    objects = [
        each
        for each in helm.template(values, namespace=OWN)
        if each["kind"].startswith("MutatingAdmissionPolicy")
    ]
    assert len(objects) == 2
    for name, labels in NAMESPACES.items():
        control_plane.create_namespace(name, labels)
    for each in objects:
        control_plane.api.apply(each)
    pause = threading.Event()
    for _ in range(150):
        if scheduler_of(control_plane, "name-given", {}, {}) == PROFILE:
            break
        pause.wait(0.2)
    yield control_plane
    for each in objects:
        control_plane.api.delete(paths.of(each))
    for name in NAMESPACES:
        control_plane.api.delete(f"/api/v1/namespaces/{name}")


def scheduler_of(cluster: ControlPlane, namespace: str, metadata: Json, spec: Json) -> str:
    """Return the scheduler that a pod has after its admission; the pod is not stored."""
    containers = {"containers": [{"name": "c", "image": "i"}]}
    body = {"metadata": {"name": "p", **metadata}, "spec": {**containers, **spec}}
    made = cluster.api.post(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", body)
    return str(made["spec"]["schedulerName"])


@pytest.mark.parametrize(
    ("namespace", "metadata", "spec", "want"),
    [
        pytest.param("name-given", {}, {}, PROFILE, id="a pod of a selected namespace"),
        pytest.param(
            "name-given", {"ownerReferences": [REPLICA_SET]}, {}, PROFILE, id="of a ReplicaSet"
        ),
        pytest.param(
            "name-given", {}, {"schedulerName": "mine"}, "mine", id="that names another scheduler"
        ),
        pytest.param(
            "name-given",
            {"ownerReferences": [DAEMONSET]},
            {},
            "default-scheduler",
            id="of a DaemonSet",
        ),
        pytest.param(
            "name-given", {}, {"nodeName": "n"}, "default-scheduler", id="that has a node"
        ),
        pytest.param("name-other", {}, {}, "default-scheduler", id="of another namespace"),
        pytest.param(OWN, {}, {}, "default-scheduler", id="of the release's namespace"),
    ],
)
def test_it_gets_the_scheduler_or_keeps_its_own(named, namespace, metadata, spec, want):
    assert scheduler_of(named, namespace, metadata, spec) == want
