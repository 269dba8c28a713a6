"""Each alert fires when its trouble comes, ends with it, and is silent in a busy healthy cluster.

promtool evaluates the rules as the chart renders them. Every case is the healthy cluster of
`HEALTH` with some series in trouble from minute 60 on, for an hour: so an alert that health hides,
because other pods are bound and preempted meanwhile, fails its test.
"""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from deploy.tools.controlplane import binaries
from scheduler.observe.metrics.catalogue import CATALOGUE
from tests.charts.rendering import MONITORED, NAME, Helm, Json, one
from tests.charts.test_monitoring import SERIES

pytestmark = pytest.mark.chart

#: Minutes: trouble begins, trouble ends, and the end of all samples.
BEGIN, END, LAST = 60, 120, 240
#: A sample that is missing.
NONE: Final = "_"

Samples: TypeAlias = list[str]


@dataclass(frozen=True)
class Gauge:
    """A value in health and one in trouble; `None` where there is no sample."""

    health: float | None
    trouble: float | None = None
    #: In trouble the value grows by so much a minute instead.
    grows: float = 0.0

    def samples(self) -> Samples:
        made = []
        for minute in range(LAST):
            troubled = BEGIN <= minute < END
            value = self.trouble if troubled else self.health
            if troubled and self.grows:
                value = (minute - BEGIN) * self.grows
            made.append(NONE if value is None else f"{value:g}")
        return made


@dataclass(frozen=True)
class Counter:
    """A number that grows each minute, in health and in trouble."""

    health: float
    trouble: float
    #: It does not exist before the trouble, and begins with one: so no increase is seen.
    appears: bool = False

    def samples(self) -> Samples:
        made, value = [], 1.0 if self.appears else 0.0
        for minute in range(LAST):
            if self.appears and minute < BEGIN:
                made.append(NONE)
                continue
            value += self.trouble if BEGIN < minute < END else self.health
            made.append(f"{value:g}")
        return made


def steady(value: float) -> Gauge:
    return Gauge(value, value)


def growing(rate: float) -> Counter:
    return Counter(rate, rate)


Cluster: TypeAlias = Mapping[str, Gauge | Counter]

ATTEMPTS: Final = "scheduler_scheduling_attempt_duration_seconds_bucket"
WASTED: Final = "scheduler_preemption_victims_wasted_total"
LAG: Final = "scheduler_loop_lag_seconds_bucket"


def effects(effect: str, outcome: str) -> str:
    return f'scheduler_effects_total{{effect="{effect}",outcome="{outcome}",pod="a"}}'


def policies(standing: str) -> str:
    return f'scheduler_preemption_policies{{in_force="{standing}",pod="a"}}'


def requests(code: str) -> str:
    return f'rest_client_requests_total{{code="{code}",host="h",method="GET",pod="a"}}'


#: Two replicas of which `a` leads, busy: a binding a second, a preemption every twenty seconds.
HEALTH: Final[Cluster] = {
    'scheduler_build_info{pod="a"}': steady(1),
    'scheduler_build_info{pod="b"}': steady(1),
    'leader_election_master_status{pod="a"}': steady(1),
    'leader_election_master_status{pod="b"}': steady(0),
    'scheduler_pending_pods{pod="a",queue="active"}': steady(0),
    # A replica that stands by takes no pod out of its queue.
    'scheduler_pending_pods{pod="b",queue="active"}': steady(50),
    'scheduler_scheduling_algorithm_duration_seconds_count{pod="a"}': growing(60),
    f'{ATTEMPTS}{{le="0.512",pod="a",profile="p",result="scheduled"}}': growing(60),
    f'{ATTEMPTS}{{le="16.384",pod="a",profile="p",result="scheduled"}}': growing(60),
    f'{ATTEMPTS}{{le="+Inf",pod="a",profile="p",result="scheduled"}}': growing(60),
    'scheduler_schedule_attempts_total{pod="a",profile="p",result="scheduled"}': growing(60),
    'scheduler_schedule_attempts_total{pod="a",profile="p",result="error"}': growing(0.5),
    effects("Bind", "done"): growing(60),
    effects("Bind", "conflict"): growing(0.5),
    effects("Evict", "done"): growing(6),
    effects("Evict", "refused"): growing(0.1),
    effects("SaveLedger", "done"): growing(3),
    effects("SaveLedger", "conflict"): growing(0.1),
    'scheduler_nominations{pod="a"}': steady(3),
    'scheduler_oldest_nomination_seconds{pod="a"}': steady(40),
    'scheduler_oldest_nomination_seconds{pod="b"}': steady(40),
    'scheduler_preemption_victims_leaving{pod="a"}': steady(6),
    'scheduler_preemption_oldest_victim_leaving_seconds{pod="a"}': steady(40),
    'scheduler_preemption_victims_sum{pod="a"}': growing(6),
    'scheduler_preemption_victims_count{pod="a"}': growing(3),
    f'{WASTED}{{pod="a",reason="room_lost"}}': growing(0),
    f'{WASTED}{{pod="a",reason="preemptor_gone"}}': growing(0.1),
    'scheduler_preemption_loops_total{pod="a"}': growing(0),
    policies("current"): steady(2),
    policies("behind"): steady(0),
    policies("none"): steady(0),
    requests("200"): growing(600),
    requests("500"): growing(1),
    'scheduler_effect_queue_length{lane="bind",pod="a"}': steady(20),
    'scheduler_watch_age_seconds{pod="a",resource="pods"}': steady(20),
    'scheduler_watch_age_seconds{pod="b",resource="pods"}': steady(50),
    'scheduler_cache_drift{difference="stale",pod="a",resource="pods"}': steady(0),
    f'{LAG}{{le="0.008",pod="a"}}': growing(240),
    f'{LAG}{{le="1.024",pod="a"}}': growing(240),
    f'{LAG}{{le="+Inf",pod="a"}}': growing(240),
}


@dataclass(frozen=True)
class Case:
    """A trouble of an hour."""

    trouble: Cluster
    #: Minutes from the begin of the trouble until the alert fires at the latest, and from the end
    #: of the trouble until it is over.
    fires_within: int
    ends_within: int
    #: What it says after `fires_within` minutes.
    description: str
    severity: str = "warning"
    labels: Mapping[str, str] = field(default_factory=dict)


CASES: Final[Mapping[str, Case]] = {
    "Down": Case(
        {key: Gauge(1) for key in HEALTH if key.startswith("scheduler_build_info")},
        11, 1, "Pods that name this scheduler stay pending. No replica was scraped for five"
        " minutes.",
        "critical", {"job": NAME, "namespace": NAME},
    ),
    "NoLeader": Case(
        {'leader_election_master_status{pod="a"}': Gauge(1, 0)},
        2, 1, "Replicas run, but none holds the lease, so none schedules.", "critical",
    ),
    "SeveralLeaders": Case(
        {'leader_election_master_status{pod="b"}': Gauge(0, 1)},
        2, 1, "2 replicas act as leader and may overcommit nodes.",
        "critical",
    ),
    "Stalled": Case(
        {
            'scheduler_pending_pods{pod="a",queue="active"}': Gauge(0, 7),
            'scheduler_scheduling_algorithm_duration_seconds_count{pod="a"}': Counter(60, 0),
        },
        12, 1, "7 pods are in the active queue, and no attempt was made for five minutes.",
        "critical",
    ),
    "Backlog": Case(
        {'scheduler_pending_pods{pod="a",queue="active"}': Gauge(0, 7)},
        21, 1, "The active queue was never empty for 15 minutes; it never held fewer than 7 pods.",
    ),
    "Slow": Case(
        {f'{ATTEMPTS}{{le="0.512",pod="a",profile="p",result="scheduled"}}': Counter(60, 54)},
        20, 11, "1% of the attempts take longer than 14.8s from the queue to the binding.",
    ),
    "AttemptErrors": Case(
        {'scheduler_schedule_attempts_total{pod="a",profile="p",result="error"}': Counter(0.5, 60)},
        20, 11, "50% of the attempts end with an error instead of a decision.",
    ),
    "BindErrors": Case(
        {effects("Bind", "conflict"): Counter(0.5, 60)},
        20, 11, "50% of the bindings fail; their pods are scheduled again.",
    ),
    "Forbidden": Case(
        {effects("Evict", "forbidden"): Counter(0, 0, appears=True)},
        1, 20, "The API server rejects Evict requests of the scheduler with 403 Forbidden.",
        "critical", {"effect": "Evict"},
    ),
    "EvictionsFail": Case(
        {effects("Evict", "refused"): Counter(0.1, 6)},
        31, 16, "50% of the evictions fail; the nomination is cleared each time.",
    ),
    "StuckNominations": Case(
        {'scheduler_oldest_nomination_seconds{pod="a"}': Gauge(40, grows=60)},
        21, 1, "A pod has been nominated for 21m 0s and is not bound.",
    ),
    "VictimsStay": Case(
        {'scheduler_preemption_oldest_victim_leaving_seconds{pod="a"}': Gauge(40, grows=60)},
        36, 1, "A pod was evicted 36m 0s ago and still exists.",
    ),
    "VictimsWasted": Case(
        {f'{WASTED}{{pod="a",reason="room_lost"}}': Counter(0, 3)},
        59, 61, "50.83% of the victims of the last hour freed resources that their preemptors"
        " did not get.",
    ),
    "PreemptionLoop": Case(
        {'scheduler_preemption_loops_total{pod="a"}': Counter(0, 1)},
        4, 61, "Preemption was stopped about 4 times in the last hour; the preemptors have the"
        " Event PreemptionLoop or PreemptionStopped.",
    ),
    "PreemptionStopped": Case(
        {'scheduler_preemption_stopped{pod="a"}': Gauge(0, 1)},
        15, 1, "No pod is evicted, and pods of high priority wait, until the policy is removed.",
    ),
    "PolicyRefused": Case(
        {policies("none"): Gauge(0, 1)},
        1, 1, "1 policies were never accepted; none of their rules applies.",
        "critical",
    ),
    "PolicyBehind": Case(
        {policies("behind"): Gauge(0, 1)},
        5, 1, "1 policies are in force in an older generation.",
    ),
    "LedgerNotWritten": Case(
        {effects("SaveLedger", "done"): Counter(3, 0), effects("SaveLedger", "refused"): Counter(0,
        2)}, 20, 5, "About 31.5 writes failed in 15 minutes and none succeeded. Preemptions that a"
        " policy budget counts are canceled.",
    ),
    "BudgetsViolated": Case(
        {
            'scheduler_preemption_pdb_violations_total{pod="a",preemptor="pod"}':
            Counter(0, 0, appears=True)
        },
        1, 20, "About 1 victims in 15 minutes were protected by a PodDisruptionBudget; every"
        " candidate had such victims.",
        "info", {},
    ),
    "ApiErrors": Case(
        {requests("500"): Counter(1, 600)},
        20, 11, "50% of the requests are throttled, fail, or get no response.",
    ),
    "WriteBacklog": Case(
        {'scheduler_effect_queue_length{lane="bind",pod="a"}': Gauge(20, 2000)},
        5, 1, "2000 writes wait to be sent to the API server.",
    ),
    "WatchStale": Case(
        {'scheduler_watch_age_seconds{pod="b",resource="pods"}': Gauge(50, grows=60)},
        8, 1, "b has received nothing about pods for 8m 0s and schedules with stale state.",
        "critical", {"pod": "b", "resource": "pods"},
    ),
    "UndecodableObjects": Case(
        {
            'scheduler_undecodable_objects_total{pod="a",resource="nodes"}':
            Counter(0, 0, appears=True)
        },
        1, 61, "The scheduler ignores some nodes.", labels={"resource": "nodes"},
    ),
    "CacheDrift": Case(
        {'scheduler_cache_drift{difference="stale",pod="a",resource="pods"}': Gauge(0, 2)},
        1, 1, "a has 2 stale objects of pods: a watch missed an event.",
        labels={"pod": "a", "resource": "pods", "difference": "stale"},
    ),
    "LoopLag": Case(
        {f'{LAG}{{le="0.008",pod="a"}}': Counter(240, 120)},
        20, 11, "The loop of a is up to 1.004s late; reads and writes are delayed as much.",
        labels={"pod": "a"},
    ),
}  # fmt: skip


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

    def check(self, cluster: Cluster, **tests: list[Json]) -> None:
        """Fail unless what promtool finds on these series is what is expected."""
        (self.folder / "rules.json").write_text(json.dumps(self.spec))
        file = self.folder / "test.json"
        wanted: dict[str, Any] = {
            "rule_files": ["rules.json"],
            "evaluation_interval": "1m",
            "tests": [{"interval": "1m", "input_series": series(cluster), **tests}],
        }
        file.write_text(json.dumps(wanted))
        answer = subprocess.run(
            [self.promtool, "test", "rules", file],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert answer.returncode == 0, answer.stdout + answer.stderr


def series(cluster: Cluster) -> list[Json]:
    """Return the input of promtool, with the labels by which the rules select."""
    where = f'{{job="{NAME}",namespace="{NAME}",'
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


def test_every_alert_has_a_case(rules: Rules):
    assert rules.names() == set(CASES)


def test_the_series_of_the_cases_exist():
    clusters = [HEALTH, *(case.trouble for case in CASES.values())]
    names = {key.split("{")[0] for cluster in clusters for key in cluster}

    assert names <= SERIES.keys()
    assert len(names) < len(CATALOGUE) * 3


@pytest.mark.parametrize("name", CASES)
def test_an_alert_fires_with_its_cause_and_ends_with_it(rules: Rules, name: str):
    case, rule = CASES[name], rules.alert(name)
    said = {
        "exp_labels": {"severity": case.severity, **case.labels},
        "exp_annotations": {**rule["annotations"], "description": case.description},
    }

    def at(minute: int, *expected: Json) -> Json:
        return {
            "eval_time": f"{minute}m", "alertname": rule["alert"], "exp_alerts": list(expected)
        }  # fmt: skip

    rules.check(
        {**HEALTH, **case.trouble},
        alert_rule_test=[
            at(BEGIN - 1),
            at(BEGIN + case.fires_within, said),
            at(END + case.ends_within),
        ],
    )


def test_a_busy_healthy_cluster_has_no_alert_not_even_a_pending_one(rules: Rules):
    rules.check(
        HEALTH,
        promql_expr_test=[
            {"expr": "count by (alertname) (ALERTS)", "eval_time": f"{minute}m", "exp_samples": []}
            for minute in (1, 5, 16, 61, LAST - 1)
        ],
    )
