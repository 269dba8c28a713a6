"""What reads the deployed scheduler: Prometheus by its Service, and an administrator by kubectl.

Other tests say what the metrics count, which alerts they fire, and what each command prints.
"""

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.conftest import READER
from tests.e2e.operating import PATIENCE_SECONDS, Operator
from tests.e2e.workloads import await_pod, deal, pod
from tests.support.live import connect


@contextlib.contextmanager
def forward(operator: Operator, namespace: str, target: str) -> Iterator[int]:
    """Lead a port of this machine to the port of a Service; yields ours."""
    command = [operator.kubectl_path, "-n", namespace, "port-forward", target, ":https"]
    with subprocess.Popen(
        command, env=operator.environ(), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"127\.0\.0\.1:(\d+) ->", process.stdout.readline())
            assert found is not None
            yield int(found[1])
        finally:
            process.terminate()


def scraped(port: int, token: str) -> tuple[int, str]:
    """Read the metrics as Prometheus does: status and text."""
    connection = connect(port, 30)
    try:
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def token_of(operator: Operator, name: str) -> str:
    """Return a token of an account, which is created with its namespace if it is missing."""
    namespace = READER["namespace"]
    metadata = {"name": name, "namespace": namespace}
    for kind, about in (("Namespace", {"name": namespace}), ("ServiceAccount", metadata)):
        operator.cluster.api.apply({"apiVersion": "v1", "kind": kind, "metadata": about})
    return operator.kubectl("-n", namespace, "create", "token", name).strip()


def test_the_account_of_prometheus_scrapes_the_service_and_no_other_does(operator, release):
    reader, other = (token_of(operator, name) for name in (READER["name"], "somebody-else"))

    with forward(operator, release.name, f"service/{release.name}") as port:
        status, text = scraped(port, reader)

        assert [scraped(port, token)[0] for token in ("not-a-token", other)] == [401, 403]
    assert status == 200
    names = {family.name for family in text_string_to_metric_families(text)}
    assert {"scheduler_schedule_attempts", "leader_election_master_status"} <= names


@pytest.fixture
def slots(cluster):
    """Room for one pod on the first node."""
    deal(cluster.api, dict.fromkeys(cluster.nodes, 0) | {cluster.nodes[0]: 1})
    yield
    deal(cluster.api, dict.fromkeys(cluster.nodes, 0))


def plugin(operator: Operator, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run `kubectl preemptive`, which kubectl finds where the package is installed."""
    environment = operator.environ()
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    return subprocess.run(
        [operator.kubectl_path, "preemptive", *words], env=environment, input=given,
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip


def test_kubectl_runs_the_plugin_which_asks_the_leader(
    cluster, operator, release, namespace, slots
):
    path = f"/api/v1/namespaces/{namespace}/pods"
    cluster.api.post(path, pod("cheap", release.name, slots=1, priority="e2e-lower"))
    await_pod(cluster.api, namespace, "cheap")
    cluster.api.post(path, pod("waiting", release.name, slots=1, priority="e2e-lower"))
    urgent = {"apiVersion": "v1", "kind": "Pod"}
    urgent |= pod("urgent", release.name, slots=1, priority="e2e-high")
    where = ("-n", namespace, "--scheduler-namespace", release.name)

    version = plugin(operator, "version", "--scheduler-namespace", release.name)
    for _ in range(60):  # until the pod was attempted
        why = plugin(operator, "why", "waiting", *where)
        if "NODES" in why.stdout:
            break
        time.sleep(0.5)
    plan = plugin(operator, "plan", "-f", "-", "--diff", *where, given=yaml.safe_dump(urgent))

    assert f"instance   {release.leader()}, leader" in version.stdout, version.stderr
    assert "Insufficient e2e.example/slot" in why.stdout, why.stderr
    assert plan.returncode == 3, plan.stdout + plan.stderr
    assert f"- {namespace}/cheap" in plan.stdout
    assert f"+ {namespace}/urgent" in plan.stdout
    assert "deletionTimestamp" not in cluster.api.get(f"{path}/cheap")["metadata"]
