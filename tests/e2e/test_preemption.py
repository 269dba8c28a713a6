"""Preemption of containers that really run, and really take their time to end."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.operating import Cluster
from tests.e2e.release import Release, leaving, ready
from tests.e2e.workloads import POLITE, await_pod, bound, deal, pod

Json = dict[str, Any]

#: Keeps the object of a pod when its containers are gone, so that one can see how they ended.
KEEP = "e2e.example/keep"


@pytest.fixture(autouse=True)
def slots(cluster: Cluster) -> Iterator[None]:
    """Room for one pod on each node."""
    deal(cluster.api, dict.fromkeys(cluster.nodes, 1))
    yield
    deal(cluster.api, dict.fromkeys(cluster.nodes, 0))


def place(
    cluster: Cluster, release: Release, namespace: str, name: str, node: str, **more: Any
) -> None:
    """Place a pod on a node by our scheduler, and wait until it runs."""
    selector = {"kubernetes.io/hostname": node}
    body = pod(name, release.name, slots=1, nodeSelector=selector, **more)
    body["metadata"]["finalizers"] = [KEEP]
    cluster.api.post(f"/api/v1/namespaces/{namespace}/pods", body)
    await_pod(cluster.api, namespace, name)


def let_go(cluster: Cluster, namespace: str, *names: str) -> None:
    for name in names:
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        cluster.api.patch(path, {"metadata": {"finalizers": None}})


def ended(pod: Json) -> bool:
    """Tell whether the container of a pod has ended."""
    return "terminated" in pod["status"]["containerStatuses"][0]["state"]


def test_a_victim_ends_in_its_own_time_and_then_the_preemptor_runs(cluster, release, namespace):
    first, second = cluster.nodes
    place(cluster, release, namespace, "cheap", first, priority="e2e-lower", script=POLITE)
    place(cluster, release, namespace, "dear", second, priority="e2e-low", script=POLITE)

    cluster.api.post(
        f"/api/v1/namespaces/{namespace}/pods",
        pod("urgent", release.name, slots=1, priority="e2e-high"),
    )

    waiting = await_pod(cluster.api, namespace, "urgent", _nominated)
    assert waiting["status"]["nominatedNodeName"] == first
    assert not bound(waiting)
    victim = await_pod(cluster.api, namespace, "cheap", lambda pod: leaving(pod) and ended(pod))
    state = victim["status"]["containerStatuses"][0]["state"]["terminated"]
    assert state["exitCode"] == 0
    assert state["message"] == "good-bye"
    reasons = {each["type"]: each.get("reason") for each in victim["status"]["conditions"]}
    assert reasons["DisruptionTarget"] == "PreemptionByScheduler"
    let_go(cluster, namespace, "cheap")
    running = await_pod(cluster.api, namespace, "urgent")
    assert running["spec"]["nodeName"] == first
    assert placed_at(running) >= state["finishedAt"], "it was placed while its victim still ran"
    spared = await_pod(cluster.api, namespace, "dear")
    assert not leaving(spared)


def _nominated(pod: Json) -> bool:
    return "nominatedNodeName" in pod["status"]


def placed_at(pod: Json) -> str:
    """Return when a pod was placed, to the second."""
    (at,) = (
        each["lastTransitionTime"]
        for each in pod["status"]["conditions"]
        if each["type"] == "PodScheduled" and each["status"] == "True"
    )
    return str(at)


def test_pods_that_run_without_need_to_leave_are_not_touched(cluster, release, namespace):
    """A pod that fits nowhere even after preemption evicts nobody."""
    first, _ = cluster.nodes
    place(cluster, release, namespace, "cheap", first, priority="e2e-lower")

    cluster.api.post(
        f"/api/v1/namespaces/{namespace}/pods",
        pod("greedy", release.name, slots=2, priority="e2e-high"),
    )

    told = await_pod(cluster.api, namespace, "greedy", _unschedulable)
    (condition,) = (c for c in told["status"]["conditions"] if c["type"] == "PodScheduled")
    assert "Insufficient e2e.example/slot" in condition["message"]
    assert "nominatedNodeName" not in told["status"]
    assert ready(await_pod(cluster.api, namespace, "cheap"))


def _unschedulable(pod: Json) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(c["type"] == "PodScheduled" and c["status"] == "False" for c in conditions)
