"""A busy healthy cluster, and a trouble for each alert, as series of Prometheus.

Every case is the healthy cluster of `HEALTH` with some series in trouble from minute 60 on, for an
hour: so an alert that health hides, because other pods are bound and preempted meanwhile, fails its
test.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

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


@dataclass(frozen=True)
class Steps:
    """Values, each from a minute on; `None` where there is no sample."""

    values: Mapping[int, float | None]

    def samples(self) -> Samples:
        made: Samples = []
        for begin, value in self.values.items():
            made[begin:] = [NONE if value is None else f"{value:g}"] * (LAST - begin)
        return made


def steady(value: float) -> Gauge:
    return Gauge(value, value)


def growing(rate: float) -> Counter:
    return Counter(rate, rate)


Cluster: TypeAlias = Mapping[str, Gauge | Counter | Steps]

ATTEMPTS: Final = "scheduler_scheduling_attempt_duration_seconds_bucket"
DECISIONS: Final = "scheduler_scheduling_algorithm_duration_seconds_bucket"
POSTS: Final = "rest_client_request_duration_seconds_bucket"
EXPIRES: Final = "scheduler_serving_certificate_expiration_timestamp_seconds"
VALID_SINCE: Final = "scheduler_serving_certificate_start_timestamp_seconds"
WASTED: Final = "scheduler_preemption_victims_wasted_total"
LAG: Final = "scheduler_loop_lag_seconds_bucket"


def effects(effect: str, outcome: str) -> str:
    return f'scheduler_effects_total{{effect="{effect}",outcome="{outcome}",pod="a"}}'


def policies(standing: str) -> str:
    return f'scheduler_preemption_policies{{in_force="{standing}",pod="a"}}'


def requests(code: str) -> str:
    return f'rest_client_requests_total{{code="{code}",host="h",method="GET",pod="a"}}'


#: Two replicas of which `a` leads, busy: a binding and two evictions a second.
HEALTH: Final[Cluster] = {
    'scheduler_build_info{pod="a"}': steady(1),
    'scheduler_build_info{pod="b"}': steady(1),
    'leader_election_master_status{pod="a"}': steady(1),
    'leader_election_master_status{pod="b"}': steady(0),
    'scheduler_ready{pod="a"}': steady(1),
    'scheduler_ready{pod="b"}': steady(1),
    'process_start_time_seconds{pod="a"}': steady(1000),
    'process_start_time_seconds{pod="b"}': steady(1000),
    # Under a steady load the queue is never empty.
    'scheduler_pending_pods{pod="a",queue="active"}': steady(30),
    # A replica that stands by takes no pod out of its queue.
    'scheduler_pending_pods{pod="b",queue="active"}': steady(50),
    'scheduler_scheduling_algorithm_duration_seconds_count{pod="a"}': growing(60),
    f'{DECISIONS}{{le="0.512",pod="a"}}': growing(60),
    f'{DECISIONS}{{le="16.384",pod="a"}}': growing(60),
    f'{DECISIONS}{{le="+Inf",pod="a"}}': growing(60),
    f'{POSTS}{{host="h",le="0.1",pod="a",verb="POST"}}': growing(60),
    f'{POSTS}{{host="h",le="+Inf",pod="a",verb="POST"}}': growing(60),
    # A tenth of the pods waits for a new volume.
    f'{ATTEMPTS}{{le="0.512",pod="a",profile="p",result="scheduled"}}': growing(54),
    f'{ATTEMPTS}{{le="16.384",pod="a",profile="p",result="scheduled"}}': growing(60),
    f'{ATTEMPTS}{{le="+Inf",pod="a",profile="p",result="scheduled"}}': growing(60),
    'scheduler_schedule_attempts_total{pod="a",profile="p",result="scheduled"}': growing(60),
    'scheduler_schedule_attempts_total{pod="a",profile="p",result="error"}': growing(5.5),
    effects("Bind", "done"): growing(60),
    effects("Bind", "conflict"): growing(0.5),
    # Namespaces of CI jobs are deleted while their pods wait, and a webhook refuses Events.
    effects("Bind", "gone"): growing(5),
    effects("RecordEvent", "done"): growing(60),
    effects("RecordEvent", "gone"): growing(5),
    effects("RecordEvent", "refused"): growing(5),
    effects("Evict", "done"): growing(120),
    # Disruption budgets protect some, for which the eviction API answers 429.
    effects("Evict", "refused"): growing(12),
    requests("429"): growing(12),
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
    requests("200"): growing(200),
    requests("500"): growing(1),
    'scheduler_effect_queue_length{lane="bind",pod="a"}': steady(20),
    'scheduler_watch_age_seconds{pod="a",resource="pods"}': steady(20),
    'scheduler_watch_age_seconds{pod="b",resource="pods"}': steady(50),
    'scheduler_cache_drift{difference="stale",pod="a",resource="pods"}': steady(0),
    'scheduler_reference_mismatch{pod="a"}': steady(0),
    'scheduler_reference_mismatch{pod="b"}': steady(0),
    'scheduler_reference_info{pod="a",reference="v1.36.3"}': steady(1),
    'scheduler_reference_info{pod="b",reference="v1.36.3"}': steady(1),
    # A certificate of ten days, a day old.
    f'{VALID_SINCE}{{pod="a"}}': steady(-774_000),
    f'{EXPIRES}{{pod="a"}}': steady(954_000),
    'scheduler_recording_bytes{pod="a"}': steady(1_000_000),
    'scheduler_recording_gaps_total{pod="a",reason="disk"}': growing(0),
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
        "critical",
    ),
    "ReplicasMissing": Case(
        {'scheduler_ready{pod="b"}': Gauge(1)},
        21, 1, "1 of 2 replicas are ready. If the last one fails, pods stay pending.",
    ),
    "Restarts": Case(
        {'process_start_time_seconds{pod="b"}': Gauge(1000, grows=60)},
        3, 61, "b has started 4 times in the last hour.", labels={"pod": "b"},
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
            'scheduler_pending_pods{pod="a",queue="active"}': Gauge(30, 7),
            'scheduler_scheduling_algorithm_duration_seconds_count{pod="a"}': Counter(60, 0),
        },
        12, 1, "7 pods are in the active queue, and no attempt was made for five minutes.",
        "critical",
    ),
    "Backlog": Case(
        {'scheduler_pending_pods{pod="a",queue="active"}': Gauge(30, 5000)},
        21, 16, "At the present rate of attempts a pod waits for 1h 23m 20s in the active queue.",
    ),
    "Slow": Case(
        {f'{DECISIONS}{{le="0.512",pod="a"}}': Counter(60, 54)},
        20, 11, "The slowest 1% of decisions and of POST requests take 14.9s together.",
    ),
    "AttemptErrors": Case(
        {'scheduler_schedule_attempts_total{pod="a",profile="p",result="error"}': Counter(5.5, 60)},
        20, 11, "45.83% of the attempts end with an error instead of a decision.",
    ),
    "BindErrors": Case(
        {effects("Bind", "conflict"): Counter(0.5, 60)},
        20, 11, "48% of the bindings fail; their pods are scheduled again.",
    ),
    "Forbidden": Case(
        {effects("Evict", "forbidden"): Counter(0, 0, appears=True)},
        5, 20, "The scheduler has no right to the requests of Evict, so its decisions are not"
        " carried out.",
        "critical", {"effect": "Evict"},
    ),
    "EventsForbidden": Case(
        {effects("RecordEvent", "forbidden"): Counter(0, 0, appears=True)},
        5, 20, "About 1 Events in 15 minutes were not written. Pods are scheduled, but nobody sees"
        " why.",
    ),
    "EvictionsFail": Case(
        {effects("Evict", "refused"): Counter(12, 120)},
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
        {requests("500"): Counter(1, 200)},
        20, 11, "48.54% of the requests are throttled, fail, or get no response.",
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
    "ReferenceMismatch": Case(
        {'scheduler_reference_mismatch{pod="b"}': Gauge(0, 1)},
        46, 11, "b follows another release of kube-scheduler than an API server has.",
        labels={"pod": "b"},
    ),
    "ReferencesDiffer": Case(
        {
            'scheduler_reference_info{pod="b",reference="v1.36.3"}': Gauge(1, None),
            'scheduler_reference_info{pod="b",reference="v1.37.2"}': Gauge(None, 1),
        },
        16, 6, "Replicas follow 2 releases of kube-scheduler: a failover changes decisions.",
    ),
    "LoopLag": Case(
        {f'{LAG}{{le="0.008",pod="a"}}': Counter(240, 120)},
        20, 11, "The loop of a is up to 1.004s late; reads and writes are delayed as much.",
        labels={"pod": "a"},
    ),
    "CertificateExpires": Case(
        {f'{EXPIRES}{{pod="a"}}': Gauge(954_000, 90_000)},
        17, 1, "The certificate of a expires in 23h 43m 0s. Prometheus and the API server then"
        " refuse it.",
        labels={"pod": "a"},
    ),
    "NotRecording": Case(
        {'scheduler_recording_gaps_total{pod="a",reason="disk"}': Counter(0, 1)},
        20, 61, "a cannot write the recording to its disk, so decisions cannot be replayed.",
        labels={"pod": "a"},
    ),
}  # fmt: skip
