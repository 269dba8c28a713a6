"""One cluster with real nodes for all end-to-end tests, and the chart installed on it.

Nothing is skipped: where there can be no cluster, the run ends at once and says why. `make e2e
E2E=off` is the way to leave these tests out.
"""

import itertools
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.tools.controlplane import binaries
from deploy.tools.controlplane.nodes import NodeShape, is_ready, node
from deploy.tools.nodes import images
from tests.e2e.measuring import LINES, tell
from tests.e2e.operating import Cluster, Operator
from tests.e2e.release import Release
from tests.e2e.workloads import Stream, pod_spec

_NUMBERS = itertools.count(1)
#: Priorities that the tests use; the chart makes them.
PRIORITIES = {"e2e-lower": 50, "e2e-low": 100, "e2e-high": 10_000}
#: Whose token Prometheus shows; the chart gives it the right to read metrics.
READER = {"kind": "ServiceAccount", "name": "prometheus", "namespace": "e2e-monitoring"}
#: Nodes that KWOK plays: room for pods that need not run.
PLAYED = 50
PLAYED_LABEL = {"e2e.example/played": "yes"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is in this folder."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(300))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what was measured."""
    if LINES:
        terminalreporter.section("measured")
        terminalreporter.write_line("\n".join(LINES))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The cluster that E2E_CLUSTER names: `nodes` (the default) or `kind`."""
    kind = os.environ.get("E2E_CLUSTER") or "nodes"
    began = time.monotonic()
    try:
        made = start(kind)
    except Exception as error:  # noqa: BLE001 - whatever it is, no test can run
        pytest.exit(f"there is no cluster for the end-to-end tests: {error}", returncode=1)
    tell(f"cluster of {kind} in {time.monotonic() - began:.1f} s")
    yield made
    made.close()


def start(kind: str) -> Cluster:
    """Start a cluster with both images on its nodes."""
    archives = [images.workload_archive(), images.given_or_built()]
    if kind == "kind":
        from deploy.tools.kind.cluster import KindCluster

        return KindCluster(archives)
    if kind != "nodes":
        raise ValueError(f"E2E_CLUSTER={kind} is not known (known: nodes, kind)")
    from deploy.tools.nodes.cluster import NodeCluster

    return NodeCluster(archives)


@pytest.fixture(scope="session")
def operator(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Operator:
    folder = tmp_path_factory.mktemp("operator")
    return Operator(cluster, binaries.find("helm"), binaries.find("kubectl"), folder)


@pytest.fixture(scope="session")
def image() -> dict[str, str]:
    """The image that the nodes have, as values of the chart."""
    repository, _, tag = images.SCHEDULER.rpartition(":")
    return {"repository": repository, "tag": tag}


@pytest.fixture(scope="session")
def installed(operator: Operator, image: dict[str, str]) -> Release:
    """The chart, installed once for all tests that do not break it."""
    release = Release(operator, "preemptive-scheduler", image)
    began = time.monotonic()
    classes = [{"name": name, "value": value} for name, value in PRIORITIES.items()]
    release.install(priorityClasses=classes, metrics={"readers": [READER]})
    tell(f"helm install --wait in {time.monotonic() - began:.1f} s")
    return release


@pytest.fixture
def release(installed: Release) -> Release:
    """That installation with both replicas ready and one that leads."""
    installed.await_settled()
    return installed


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A fresh namespace; its pods are gone when the test ends."""
    name = f"e2e-{next(_NUMBERS)}"
    cluster.api.post("/api/v1/namespaces", {"metadata": {"name": name}})
    cluster.api.wait_for(f"/api/v1/namespaces/{name}/serviceaccounts/default")
    yield name
    empty(cluster, name)
    cluster.api.delete(f"/api/v1/namespaces/{name}")


def empty(cluster: Cluster, namespace: str) -> None:
    """Remove all pods of a namespace, and wait until they are gone."""
    deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    pods = f"/api/v1/namespaces/{namespace}/pods"
    cluster.api.delete(deployments, propagationPolicy="Background")
    for pod in cluster.api.items(pods):
        if pod["metadata"].get("finalizers"):
            path = f"{pods}/{pod['metadata']['name']}"
            cluster.api.patch(path, {"metadata": {"finalizers": None}})
    cluster.api.delete(pods, gracePeriodSeconds="0")
    cluster.api.wait_for_list(pods, lambda found: not found, 60.0)


@pytest.fixture(scope="session")
def played(cluster: Cluster) -> dict[str, str]:
    """Nodes that KWOK plays; returns the label that they have."""
    taints = ({"key": "e2e.example/played", "effect": "NoSchedule"},)
    shape = NodeShape(labels=PLAYED_LABEL, taints=taints)
    cluster.api.post_all("/api/v1/nodes", [node(f"played-{i}", i, shape) for i in range(PLAYED)])

    def all_ready(nodes: list[dict[str, object]]) -> bool:
        return len(nodes) == PLAYED and all(is_ready(each) for each in nodes)

    cluster.api.wait_for_list(
        "/api/v1/nodes?labelSelector=e2e.example/played%3Dyes", all_ready, 60.0
    )
    return PLAYED_LABEL


@pytest.fixture
def stream(
    cluster: Cluster, release: Release, namespace: str, played: dict[str, str]
) -> Iterator[Stream]:
    """Pods that are placed one after the other while things happen."""
    spec = pod_spec(release.name, nodeSelector=played, tolerations=[{"operator": "Exists"}])
    with Stream(cluster.api, namespace, spec) as stream:
        yield stream
