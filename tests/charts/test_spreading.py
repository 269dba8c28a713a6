"""Where kube-scheduler places the replicas: not on one node, and not in one zone."""

import itertools
from collections.abc import Collection, Iterator

import pytest

from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.controlplane.nodes import NodeShape
from tests.charts.rendering import Helm, Json, one
from tests.integration.peers import COMMON, KubeScheduler

pytestmark = [pytest.mark.chart, pytest.mark.cluster]

#: Nodes that may run the replicas.
PLACE = {"spreading": "here"}
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
#: At the same time. Spread over nodes alone, every fourth update left both replicas in one zone.
RELEASES, ROLLOUTS = 6, 3


@pytest.fixture(scope="module", autouse=True)
def kube_scheduler(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """The scheduler of other pods, with its defaults; it places ours."""
    scheduler = KubeScheduler(control_plane, tmp_path_factory.mktemp("peer"), COMMON)
    yield
    scheduler.close()


@pytest.fixture
def nodes(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[dict[str, Json]]:
    """Some nodes in some zones: their labels by name."""
    count, zones = request.param
    shape = NodeShape(labels=PLACE, zones=zones)
    names = control_plane.create_nodes(count, shape, prefix="spread")
    found = control_plane.api.items("/api/v1/nodes")
    yield {
        each["metadata"]["name"]: each["metadata"]["labels"]
        for each in found
        if each["metadata"]["name"] in names
    }
    for name in names:
        control_plane.api.delete(f"/api/v1/nodes/{name}")


@pytest.mark.parametrize(
    "nodes", [(6, ("a", "b", "c")), (6, ())], ids=["three zones", "no zones"], indirect=True
)
def test_no_rolling_update_leaves_both_replicas_in_one_zone_or_on_one_node(
    helm, control_plane, namespace, nodes
):
    deployments = [deployment(helm, namespace, f"release-{n}") for n in range(RELEASES)]
    domains = [key for key in (HOSTNAME, ZONE) if key in next(iter(nodes.values()))]

    shared = []
    for rollout in map(str, range(ROLLOUTS)):
        for each in deployments:
            each["spec"]["template"]["metadata"]["labels"]["rollout"] = rollout
        control_plane.api.apply(deployments)
        for pods in settled(control_plane, namespace, rollout):
            first, second = (nodes[each["spec"]["nodeName"]] for each in pods)
            shared += [key for key in domains if first[key] == second[key]]

    assert shared == []


def deployment(helm: Helm, namespace: str, release: str) -> Json:
    """Return the Deployment of a release, on the nodes of this test."""
    found = one(helm.template(release=release), "Deployment")
    found["metadata"]["namespace"] = namespace
    found["spec"]["template"]["spec"] |= {"nodeSelector": PLACE, "serviceAccountName": "default"}
    return found


def name_of(pod: Json) -> str:
    return str(pod["metadata"]["name"])


def settled(
    cluster: ControlPlane, namespace: str, rollout: str, without: Collection[str] = ()
) -> list[list[Json]]:
    """Wait until the pods of a rollout alone are there, all placed; return them by release."""

    def counted(pods: list[Json]) -> list[Json]:
        return [each for each in pods if name_of(each) not in without]

    def alone(found: list[Json]) -> bool:
        pods = counted(found)
        labels = [each["metadata"]["labels"]["rollout"] for each in pods]
        placed = all("nodeName" in each["spec"] for each in pods)
        return placed and labels == [rollout] * (2 * RELEASES)

    found = cluster.api.wait_for_list(f"/api/v1/namespaces/{namespace}/pods", alone)

    def release(pod: Json) -> str:
        return str(pod["metadata"]["labels"]["app.kubernetes.io/instance"])

    groups = itertools.groupby(sorted(counted(found), key=release), release)
    return [list(pods) for _, pods in groups]
