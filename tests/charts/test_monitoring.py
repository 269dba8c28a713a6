"""Alerts and dashboard are about metrics that there are, and lead to a page that helps."""

import json
import re
from typing import Final, get_args

import pytest

from scheduler.model.effects import Effect
from scheduler.model.events import FailureKind
from scheduler.observe.metrics.catalogue import CATALOGUE, MetricType
from tests.charts.rendering import CHART, MONITORED, ROOT, VALUES, expressions, one

_PREFIXES: Final = (
    "scheduler", "rest_client", "leader_election", "process", "dynamic_resource_allocation",
)  # fmt: skip
METRIC: Final = re.compile(rf"\b(?:{'|'.join(_PREFIXES)})_[a-z_]+")
SELECTOR: Final = re.compile(r"\b([a-z_]+)\{([^}]*)\}")
#: Prometheus adds them.
ADDED: Final = {"namespace", "pod", "job", "cluster"}
PROCESS: Final = {
    "process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds",
}  # fmt: skip
RUNBOOKS: Final = (ROOT / "docs" / "operations.md").read_text()
DASHBOARD: Final = json.loads((CHART / "dashboards" / "preemptive-scheduler.json").read_text())
ALERTS: Final = (CHART / "alerts" / "alerts.yaml").read_text()
ROWS: Final = {row.name: row for row in CATALOGUE}

#: Each series that is exposed, with its labels.
SERIES: Final[dict[str, set[str]]] = {
    **{
        f"{row.name}{suffix}": set(row.labels) | ({"le"} if suffix == "_bucket" else set())
        for row in CATALOGUE
        for suffix in (("_bucket", "_sum", "_count") if row.kind is MetricType.HISTOGRAM else ("",))
    },
    **{name: set() for name in PROCESS},
}
VALUES_OF_LABELS: Final = {
    "in_force": {"current", "behind", "none"},
    "queue": {"active", "backoff", "unschedulable", "gated"},
    "result": {"scheduled", "unschedulable", "error"},
    "effect": {kind.__name__ for kind in get_args(Effect)},
    "outcome": {"done", *(kind.value for kind in FailureKind)},
}


def panels() -> list[tuple[str, str]]:
    """Return title and expression of everything that the dashboard draws."""
    return [
        (panel["title"], target["expr"])
        for panel in DASHBOARD["panels"]
        for target in panel.get("targets", ())
    ]


def check(expression: str) -> None:
    """Fail unless metrics and labels of an expression exist."""
    metrics = METRIC.findall(expression)
    assert metrics
    assert [name for name in metrics if name not in SERIES] == []
    selected = SELECTOR.findall(expression)
    assert [name for name, _ in selected] == metrics, "a metric without the selector of the job"
    for name, selector in selected:
        matchers = re.findall(r'(\w+)(=~|!~|!=|=)"([^"]*)"', selector)
        assert {"namespace", "job"} <= {label for label, _, _ in matchers}
        for label, _, value in matchers:
            assert label in SERIES[name] | ADDED
            known = VALUES_OF_LABELS.get(label)
            assert known is None or set(value.split("|")) <= known
    labels = set.union(ADDED, *(SERIES[name] for name in metrics))
    for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression):
        assert {label.strip() for label in group.split(",")} <= labels
    if "histogram_quantile" in expression:
        assert all(name.endswith("_bucket") for name in metrics)
    assert expression.count("(") == expression.count(")")


@pytest.mark.chart
def test_every_alert_queries_metrics_that_exist(helm):
    alerts = dict(expressions(helm.template(MONITORED)))

    assert len(alerts) > 10
    for name, expression in alerts.items():
        assert "$" not in expression, name
        check(expression)


@pytest.mark.chart
def test_every_alert_leads_to_a_section_of_the_runbook_and_every_section_is_led_to(helm):
    (group,) = one(helm.template(MONITORED), "PrometheusRule")["spec"]["groups"]
    anchors = {heading.lower() for heading in re.findall(r"^### (\w+)$", RUNBOOKS, re.MULTILINE)}

    linked = {rule["annotations"]["runbook_url"] for rule in group["rules"]}

    assert linked == {f"https://docs.example/operations#{anchor}" for anchor in anchors}


@pytest.mark.chart
@pytest.mark.parametrize("case", ["monitored by a service", "monitored by pods"])
def test_alerts_select_the_job_that_the_monitor_names(helm, case):
    objects = helm.template({**VALUES[case], "fullnameOverride": "second"}, namespace="there")

    (monitor,) = (each for each in objects if each["kind"].endswith("Monitor"))
    (endpoint,) = monitor["spec"].get("endpoints") or monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["relabelings"][0] == {"targetLabel": "job", "replacement": "second"}
    for name, expression in expressions(objects):
        assert 'job="second",namespace="there"' in expression, name


@pytest.mark.chart
@pytest.mark.parametrize(
    ("case", "want"),
    [
        (
            "monitored by a service",
            {"bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token"},
        ),
        (
            "monitored by pods",
            {"authorization": {"credentials": {"name": "prometheus", "key": "token"}}},
        ),
        ("monitored by everybody", {}),
    ],
)
def test_prometheus_shows_a_token_where_one_is_asked_for(helm, case, want):
    (monitor,) = (each for each in helm.template(VALUES[case]) if each["kind"].endswith("Monitor"))

    (endpoint,) = monitor["spec"].get("endpoints") or monitor["spec"]["podMetricsEndpoints"]
    shown = endpoint.keys() & {"bearerTokenFile", "authorization"}
    assert {key: endpoint[key] for key in shown} == want


@pytest.mark.chart
@pytest.mark.parametrize(
    ("values", "left_out"),
    [
        ({}, set()),
        ({"replicaCount": 1}, {"ReplicasMissing"}),
        ({"recorder": {"enabled": False}}, {"NotRecording"}),
    ],
)
def test_alerts_about_what_a_release_does_not_have_are_left_out(helm, values, left_out):
    shipped = re.findall(r"^- alert: PreemptiveScheduler(\w+)$", ALERTS, re.MULTILINE)

    found = {name for name, _ in expressions(helm.template({**MONITORED, **values}))}

    assert found == {f"PreemptiveScheduler{name}" for name in {*shipped} - left_out}


@pytest.mark.chart
def test_alerts_keep_clusters_apart_by_any_label(helm):
    rule = {**MONITORED["prometheusRule"], "clusterLabel": "k8s_cluster"}

    for name, expression in expressions(helm.template({**MONITORED, "prometheusRule": rule})):
        aggregations = re.findall(r"\b(?:sum|max|min|group)\b([^(]*\([^)]*\))", expression)
        apart = [text for text in aggregations if "k8s_cluster" in text]
        assert aggregations == apart or name.endswith("Down"), name
        assert all("k8s_cluster" in each for each in re.findall(r"\bon \([^)]*\)", expression))


@pytest.mark.chart
def test_the_dashboard_tells_clusters_apart_by_that_label_too(helm):
    rule = {"clusterLabel": "k8s_cluster"}
    objects = helm.template({"grafanaDashboard": {"enabled": True}, "prometheusRule": rule})

    text = one(objects, "ConfigMap", "preemptive-scheduler-dashboard")["data"]
    board = text["preemptive-scheduler.json"]
    assert "label_values(scheduler_build_info, k8s_cluster)" in board
    assert re.findall(r"[{(]cluster\b", board) == []


@pytest.mark.parametrize(
    ("title", "expression"), panels(), ids=[f"{title}-{n}" for n, (title, _) in enumerate(panels())]
)
def test_every_panel_draws_metrics_that_there_are(title, expression):
    check(expression)


def test_the_dashboard_shows_every_metric():
    drawn = {name for _, expression in panels() for name in METRIC.findall(expression)}

    missing = [name for name in ROWS if not any(each.startswith(name) for each in drawn)]
    assert missing == []


def test_gauges_that_every_replica_has_are_those_of_the_leader():
    """A replica that stands by knows the same pods; adding them up would count them twice."""
    shared = (
        "scheduler_pending_pods",
        "scheduler_nominations",
        "scheduler_preemption_victims_leaving",
        "scheduler_preemption_oldest_victim_leaving_seconds",
        "scheduler_oldest_nomination_seconds",
        "scheduler_preemption_policies",
        "scheduler_unschedulable_pods",
        "scheduler_cache_size",
    )

    drawn = [(title, text) for title, text in panels() if any(name in text for name in shared)]
    assert len(drawn) >= len(shared)
    assert [title for title, text in drawn if "leader_election_master_status" not in text] == []
