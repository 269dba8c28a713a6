"""A real Prometheus reads the right numbers; alerts and dashboard mean something to it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.operating import CHART
from tests.e2e.release import Release, leaving
from tests.e2e.scraping import READER, Prometheus, prometheus, token, tool
from tests.e2e.workloads import await_pod, deal, pod

Json = dict[str, Any]


@pytest.fixture(scope="module")
def rules(installed: Release) -> list[Json]:
    """The groups of the PrometheusRule that the chart renders."""
    values = installed.values(prometheusRule={"enabled": True, "runbookUrl": "https://x.example"})
    version = installed.api.get("/version")["gitVersion"]
    flags = (
        *("--namespace", installed.name, "--kube-version", version),
        *("--show-only", "templates/prometheusrule.yaml"),
    )
    text = installed.operator.helm("template", installed.name, str(CHART), *flags, values=values)
    groups: list[Json] = yaml.safe_load(text)["spec"]["groups"]
    return groups


@pytest.fixture
def server(release: Release, tmp_path: Path, rules: list[Json]) -> Iterator[Prometheus]:
    with prometheus(release, tmp_path, rules) as server:
        yield server


def test_who_shows_no_right_token_reads_nothing(cluster, release):
    leader = release.await_leader()
    other = {**READER, "name": "somebody-else"}

    assert release.page(leader, "/metrics")[0] == 401
    assert release.page(leader, "/metrics", "not-a-token")[0] == 401
    assert release.page(leader, "/metrics", token(cluster.api, other))[0] == 403
    assert release.page(leader, "/debug/queue", token(cluster.api, READER))[0] == 403
    assert release.page(leader, "/metrics", token(cluster.api, READER))[0] == 200
    assert release.page(leader, "/readyz")[0] == 200


def test_a_preemption_is_counted_as_it_was(cluster, release, namespace, server):
    names = {
        "attempts": "sum(scheduler_preemption_attempts_total)",
        "preemptions": "sum(scheduler_preemption_victims_count)",
        "victims": "sum(scheduler_preemption_victims_sum)",
        "scheduled": 'sum(scheduler_schedule_attempts_total{result="scheduled"})',
    }
    before = {name: server.value(expression) for name, expression in names.items()}
    deal(cluster.api, {cluster.nodes[0]: 2})
    path = f"/api/v1/namespaces/{namespace}/pods"
    for name in ("cheap-1", "cheap-2"):
        cluster.api.post(path, pod(name, release.name, slots=1, priority="e2e-low"))
        await_pod(cluster.api, namespace, name)

    cluster.api.post(path, pod("urgent", release.name, slots=2, priority="e2e-high"))

    await_pod(cluster.api, namespace, "urgent")
    deal(cluster.api, {cluster.nodes[0]: 0})
    server.await_value(names["scheduled"], before["scheduled"] + 3)
    server.await_value(names["victims"], before["victims"] + 2)
    server.await_value(names["preemptions"], before["preemptions"] + 1)
    # It was tried again when one victim was gone and the other was not.
    server.await_value(f"{names['attempts']} - {before['attempts']} >= bool 1", 1)
    server.await_value("sum(scheduler_preemption_victims_leaving)", 0)
    server.await_value("sum(scheduler_nominations)", 0)
    server.await_value("sum(leader_election_master_status)", 1)
    assert [each for each in cluster.api.items(path) if not leaving(each)]


def test_prometheus_evaluates_every_alert_and_none_fires(server, rules, tmp_path):
    checked = subprocess.run(
        [tool("promtool"), "check", "rules", tmp_path / "rules.yaml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    wanted = sum(len(group["rules"]) for group in rules)
    assert f"{wanted} rules found" in checked.stdout

    found = server.evaluated_rules()
    assert len(found) == wanted
    assert {rule["health"] for rule in found} == {"ok"}
    assert [rule["name"] for rule in found if rule["state"] == "firing"] == []
