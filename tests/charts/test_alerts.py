"""Each alert fires when its trouble comes, ends with it, and is silent in a busy healthy cluster.

promtool evaluates the rules as the chart renders them; the cases are in `alert_cases`.
"""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deploy.tools.controlplane import binaries
from tests.charts.alert_cases import BEGIN, CASES, END, HEALTH, LAST, Cluster, Steps
from tests.charts.rendering import MONITORED, NAME, Helm, Json, one

pytestmark = pytest.mark.chart

LEADS = 'leader_election_master_status{pod="a"}'


@pytest.fixture(scope="session")
def promtool() -> Path:
    """Where promtool is; it is built if it is nowhere."""
    return binaries.find("promtool")


@dataclass(frozen=True)
class Rules:
    """The alerts as the chart renders them, and the promtool that evaluates them."""

    promtool: Path
    folder: Path
    spec: Json

    def alert(self, name: str) -> Json:
        (found,) = (
            rule
            for group in self.spec["groups"]
            for rule in group["rules"]
            if rule["alert"] == f"PreemptiveScheduler{name}"
        )
        return dict(found)

    def names(self) -> set[str]:
        rules = (rule for group in self.spec["groups"] for rule in group["rules"])
        return {rule["alert"].removeprefix("PreemptiveScheduler") for rule in rules}

    def run(self, *tests: Json) -> None:
        """Fail unless what promtool finds in these tests is what they expect."""
        (self.folder / "rules.json").write_text(json.dumps(self.spec))
        file = self.folder / "test.json"
        wanted: dict[str, Any] = {
            "rule_files": ["rules.json"],
            "evaluation_interval": "1m",
            "tests": [{"interval": "1m", **test} for test in tests],
        }
        file.write_text(json.dumps(wanted))
        answer = subprocess.run(
            [self.promtool, "test", "rules", file],
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert answer.returncode == 0, answer.stdout + answer.stderr

    def life(self, name: str, **labels: str) -> list[Json]:
        """Return what promtool is to expect before, in and after the trouble of a case."""
        case, rule = CASES[name], self.alert(name)
        said = {
            "exp_labels": {"severity": case.severity, **case.labels, **labels},
            "exp_annotations": {**rule["annotations"], "description": case.description},
        }

        def at(minute: int, *expected: Json) -> Json:
            return {
                "eval_time": f"{minute}m", "alertname": rule["alert"], "exp_alerts": list(expected)
            }  # fmt: skip

        return [
            at(BEGIN - 1),
            at(BEGIN + case.fires_within, said),
            at(END + case.ends_within),
        ]


def series(cluster: Cluster, added: str = "") -> list[Json]:
    """Return the input of promtool, with the labels by which the rules select, and more."""
    where = f'{{job="{NAME}",namespace="{NAME}",{added}'
    return [
        {"series": key.replace("{", where, 1), "values": " ".join(value.samples())}
        for key, value in cluster.items()
    ]


@pytest.fixture(scope="module")
def spec(helm: Helm) -> Json:
    """The PrometheusRule of the chart."""
    return dict(one(helm.template(MONITORED), "PrometheusRule")["spec"])


@pytest.fixture
def rules(spec: Json, promtool: Path, tmp_path: Path) -> Rules:
    return Rules(promtool, tmp_path, spec)


@pytest.fixture
def rules_for_clusters(helm: Helm, promtool: Path, tmp_path: Path) -> Rules:
    """The alerts for a Prometheus that has the series of several clusters."""
    rule = {**MONITORED["prometheusRule"], "clusterLabel": "cluster"}
    objects = helm.template({**MONITORED, "prometheusRule": rule})
    return Rules(promtool, tmp_path, dict(one(objects, "PrometheusRule")["spec"]))


def test_every_alert_has_a_case(rules):
    assert rules.names() == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_an_alert_fires_with_its_cause_and_ends_with_it(rules, name):
    cluster = {**HEALTH, **CASES[name].trouble}

    rules.run({"input_series": series(cluster), "alert_rule_test": rules.life(name)})


def test_an_alert_is_about_the_cluster_in_trouble_and_not_about_others(rules_for_clusters):
    """Each trouble has a cluster of its name, and beside them there is a healthy one."""
    there = series(HEALTH, 'cluster="healthy",')
    for name, case in CASES.items():
        there += series({**HEALTH, **case.trouble}, f'cluster="{name}",')

    def found(minute: int, selected: str, *clusters: str) -> Json:
        samples = [{"labels": f'{{cluster="{name}"}}', "value": 1} for name in clusters]
        query = f'group by (cluster) (ALERTS{{alertstate="firing",{selected}}})'
        return {"expr": query, "eval_time": f"{minute}m", "exp_samples": samples}

    rules_for_clusters.run(
        {
            "input_series": there,
            "promql_expr_test": [
                found(BEGIN - 1, ""),
                *(found(minute, 'cluster=~"healthy|"') for minute in range(BEGIN, END, 5)),
                *(
                    found(
                        BEGIN + case.fires_within,
                        f'alertname="PreemptiveScheduler{name}",cluster="{name}"',
                        name,
                    )
                    for name, case in CASES.items()
                ),
            ],
        }
    )


@pytest.mark.parametrize("clusters", [(), ("blue", "green")], ids=["one", "two clusters"])
def test_a_busy_healthy_cluster_has_no_alert_not_even_a_pending_one(
    rules, rules_for_clusters, clusters
):
    there = [
        each
        for name in clusters or ("",)
        for each in series(HEALTH, f'cluster="{name}",' if name else "")
    ]

    (rules_for_clusters if clusters else rules).run(
        {
            "input_series": there,
            "promql_expr_test": [
                {
                    "expr": "count by (alertname) (ALERTS)",
                    "eval_time": f"{minute}m",
                    "exp_samples": [],
                }
                for minute in (1, 5, 16, 61, LAST - 1)
            ],
        }
    )


def test_a_scheduler_that_has_never_been_there_is_down(rules):
    rule, case = rules.alert("Down"), CASES["Down"]
    said = {
        "exp_labels": {"severity": case.severity},
        "exp_annotations": {**rule["annotations"], "description": case.description},
    }
    other = [{"series": 'up{job="other"}', "values": "1x20"}]
    expected = {"eval_time": "6m", "alertname": rule["alert"], "exp_alerts": [said]}

    rules.run({"input_series": other, "alert_rule_test": [expected]})


def test_a_replica_with_a_new_address_breaks_no_rule(rules):
    """As when its node restarts. Prometheus ends the series of the old target a little later."""
    rules.run(
        {
            "input_series": [
                *series({**HEALTH, LEADS: Steps({0: 1, 31: None})}, 'instance="old",'),
                *series({**HEALTH, LEADS: Steps({0: None, 30: 1})}, 'instance="new",'),
            ],
            "promql_expr_test": [
                {"expr": "vector(1)", "eval_time": "60m", "exp_samples": [{"value": 1}]}
            ],
        }
    )


def test_the_upgrade_of_a_control_plane_raises_no_alert(rules):
    """API servers of both releases answer from minute 60 to 80; replicas restart ten later."""
    upgrade: dict[str, Steps] = {}
    for pod, minute in (("a", 92), ("b", 90)):
        info = f'scheduler_reference_info{{pod="{pod}",reference='
        upgrade[f'scheduler_reference_mismatch{{pod="{pod}"}}'] = Steps({0: 0, 60: 1, minute: 0})
        upgrade[f'{info}"v1.36.3"}}'] = Steps({0: 1, minute: None})
        upgrade[f'{info}"v1.37.2"}}'] = Steps({0: None, minute: 1})

    firing = 'count by (alertname) (ALERTS{alertstate="firing"})'
    rules.run(
        {
            "input_series": series({**HEALTH, **upgrade}),
            "promql_expr_test": [
                {"expr": firing, "eval_time": f"{minute}m", "exp_samples": []}
                for minute in range(60, 150, 5)
            ],
        }
    )
