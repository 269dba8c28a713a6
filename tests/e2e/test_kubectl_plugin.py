"""`kubectl preemptive` on a real cluster: kubectl finds it, and it reaches the leader."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.operating import PATIENCE_SECONDS, Cluster, Operator
from tests.e2e.release import Release
from tests.e2e.workloads import await_pod, deal, pod


@pytest.fixture(autouse=True)
def slots(cluster: Cluster) -> Iterator[None]:
    """Room for one pod on the first node."""
    first, *others = cluster.nodes
    deal(cluster.api, {first: 1} | dict.fromkeys(others, 0))
    yield
    deal(cluster.api, dict.fromkeys(cluster.nodes, 0))


def ask(operator: Operator, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run `kubectl preemptive` as the administrator, whose kubeconfig has a client certificate."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {
        "PATH": path,
        "HOME": str(operator.folder),
        "KUBECONFIG": str(operator.cluster.kubeconfig),
    }
    return subprocess.run(
        [operator.kubectl_path, "preemptive", *arguments], env=environment, input=given,
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip


def test_kubectl_runs_the_plugin_and_it_reaches_the_leader(operator: Operator, release: Release):
    answer = ask(operator, "version", "--scheduler-namespace", release.name)

    assert answer.returncode == 0, answer.stderr
    assert f"instance   {release.leader()}, leader" in answer.stdout


def test_why_a_pod_waits_and_what_would_be_evicted(
    cluster: Cluster, operator: Operator, release: Release, namespace: str
):
    pods = f"/api/v1/namespaces/{namespace}/pods"
    cluster.api.post(pods, pod("cheap", release.name, slots=1, priority="e2e-lower"))
    await_pod(cluster.api, namespace, "cheap")
    cluster.api.post(pods, pod("waiting", release.name, slots=1, priority="e2e-lower"))
    where = ("-n", namespace, "--scheduler-namespace", release.name)
    urgent = {"apiVersion": "v1", "kind": "Pod",
              **pod("urgent", release.name, slots=1, priority="e2e-high")}  # fmt: skip

    why = until_found(operator, "why", "waiting", *where)
    plan = ask(operator, "plan", "-f", "-", "--diff", *where, given=yaml.safe_dump(urgent))

    assert "Insufficient e2e.example/slot" in why.stdout
    assert plan.returncode == 3, plan.stdout + plan.stderr
    assert f"- {namespace}/cheap" in plan.stdout
    assert f"+ {namespace}/urgent" in plan.stdout
    assert cluster.api.get(f"{pods}/cheap")["metadata"].get("deletionTimestamp") is None


def until_found(operator: Operator, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Ask until the pod is in the queue and was attempted."""
    for _ in range(60):
        answer = ask(operator, *arguments)
        if answer.returncode == 0 and "NODES" in answer.stdout:
            return answer
        time.sleep(0.5)
    raise AssertionError(answer.stdout + answer.stderr)
