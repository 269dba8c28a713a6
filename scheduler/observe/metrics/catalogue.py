"""Every metric this process exposes, as one table.

`metrics` makes the instruments from it and `docs/metrics.md` is printed from it:

    python -m deploy.tools.pages.metrics > docs/metrics.md

A metric has kube-scheduler's name only where it means what it means there, so that dashboards
and alerts made for kube-scheduler hold; `note` says what a reader might still stumble over.

Labels hold no names of pods, nodes or namespaces: their values are few, whatever the cluster
does, and whoever may read metrics learns nothing about tenants.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["ABSENT", "CATALOGUE", "Absent", "Kind", "Origin", "Row", "Stability"]


class Kind(StrEnum):
    """How a metric behaves."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Stability(StrEnum):
    """What may change; as in Kubernetes."""

    STABLE = "STABLE"
    BETA = "BETA"
    ALPHA = "ALPHA"


class Origin(StrEnum):
    """Who gave a metric its name and meaning."""

    KUBERNETES = "Kubernetes"
    OURS = "ours"


@dataclass(frozen=True, slots=True)
class Row:
    """One metric."""

    name: str
    kind: Kind
    stability: Stability
    origin: Origin
    #: What it counts or measures; the HELP text, without the stability.
    help: str
    labels: tuple[str, ...] = ()
    #: Upper bounds of a histogram, ascending, without infinity.
    buckets: tuple[float, ...] = ()
    #: For the documentation: values of labels, and what differs from kube-scheduler.
    note: str = ""

    @property
    def text(self) -> str:
        """The HELP text, led by the stability as in Kubernetes."""
        return f"[{self.stability}] {self.help}"


@dataclass(frozen=True, slots=True)
class Absent:
    """Metrics of kube-scheduler that have no meaning here."""

    names: tuple[str, ...]
    why: str


def _exponential(first: float, factor: float, count: int) -> tuple[float, ...]:
    return tuple(float(f"{first * factor**i:.6g}") for i in range(count))


_ATTEMPT: Final = _exponential(0.001, 2, 15)
_COUNTER, _GAUGE, _HISTOGRAM = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM
_STABLE, _BETA, _ALPHA = Stability.STABLE, Stability.BETA, Stability.ALPHA
_KUBE, _OURS = Origin.KUBERNETES, Origin.OURS

CATALOGUE: Final[tuple[Row, ...]] = (
    # Attempts.
    Row(
        "scheduler_schedule_attempts_total", _COUNTER, _STABLE, _KUBE,
        "Attempts to schedule a pod, by result: 'unschedulable' means that the pod fitted "
        "nowhere, 'error' that something else went wrong.",
        ("result", "profile"),
        note="`result`: `scheduled` (counted when the binding is made), `unschedulable` "
        "(including attempts that nominate a node), `error`. `profile`: the scheduler name.",
    ),
    Row(
        "scheduler_scheduling_attempt_duration_seconds", _HISTOGRAM, _STABLE, _KUBE,
        "From taking a pod out of the queue to the end of the attempt, binding included.",
        ("result", "profile"), _ATTEMPT,
    ),
    Row(
        "scheduler_scheduling_algorithm_duration_seconds", _HISTOGRAM, _ALPHA, _KUBE,
        "Time to decide: filters, scores and, where nothing fits, preemption.",
        (), _ATTEMPT,
        note="Most decisions take less than the lowest bucket of 1 ms; use the sum.",
    ),
    Row(
        "scheduler_pod_scheduling_attempts", _HISTOGRAM, _STABLE, _KUBE,
        "Attempts that it took to schedule a pod, counted when it is bound.",
        (), _exponential(1, 2, 5),
    ),
    Row(
        "scheduler_pod_scheduling_sli_duration_seconds", _HISTOGRAM, _BETA, _KUBE,
        "From the first entry of a pod into the active queue to its binding, over all attempts.",
        ("attempts",), _exponential(0.01, 2, 20),
        note="`attempts`: `1` to `14`, `15+`. Time spent gated does not count.",
    ),
    # Queues and cache.
    Row(
        "scheduler_pending_pods", _GAUGE, _STABLE, _KUBE,
        "Pods that wait to be scheduled, by queue.",
        ("queue",),
        note="`queue`: `active`, `backoff`, `unschedulable`, `gated`.",
    ),
    Row(
        "scheduler_queue_incoming_pods_total", _COUNTER, _STABLE, _KUBE,
        "Pods that entered a queue, by queue and by the event that moved them.",
        ("queue", "event"),
        note="`event`: as in kube-scheduler, for example `AssignedPodDelete`, `BackoffComplete`.",
    ),
    Row(
        "scheduler_unschedulable_pods", _GAUGE, _BETA, _KUBE,
        "Waiting pods, by each plugin that rejected them; a pod counts once for every plugin.",
        ("plugin", "profile"),
    ),
    Row(
        "scheduler_cache_size", _GAUGE, _ALPHA, _KUBE,
        "Objects in the cache.",
        ("type",),
        note="`type`: `nodes`, `pods`, `assumed_pods`. Read at each scrape.",
    ),
    Row(
        "scheduler_event_handling_duration_seconds", _HISTOGRAM, _ALPHA, _KUBE,
        "Time to take in one event.",
        ("event",), _exponential(0.0001, 2, 12),
        note="`event`: kind of object and what happened, for example `PodObserved` (it exists in "
        "this state), `NodeGone`; kube-scheduler has `AssignedPodAdd` and the like. Outcomes of "
        "effects are events as well: `EffectDone`, `EffectFailed`.",
    ),
    Row(
        "scheduler_wasted_wakeups_total", _COUNTER, _ALPHA, _OURS,
        "Pods that an event had woken and that the same plugins rejected again, by the plugin "
        "whose hint saw hope and by the event.",
        ("plugin", "event"),
        note="High beside `scheduler_queue_incoming_pods_total`: events wake pods in vain.",
    ),
    # Preemption.
    Row(
        "scheduler_preemption_attempts_total", _COUNTER, _STABLE, _KUBE,
        "Attempts that tried preemption because the pod fitted nowhere.",
    ),
    Row(
        "scheduler_preemption_victims", _HISTOGRAM, _STABLE, _KUBE,
        "Victims of a preemption that was decided, those that leave already included.",
        (), _exponential(1, 2, 7),
    ),
    Row(
        "scheduler_preemption_violations_total", _COUNTER, _ALPHA, _OURS,
        "Victims that a disruption budget would have protected.",
        ("profile",),
    ),
    Row(
        "scheduler_preemption_victims_leaving", _GAUGE, _ALPHA, _OURS,
        "Victims that were asked to leave and are still there.",
    ),
    Row(
        "scheduler_preemption_oldest_victim_leaving_seconds", _GAUGE, _ALPHA, _OURS,
        "How long ago the victim was asked to leave that is there longest; 0 without any.",
        note="From the first scrape that saw it in this process; a change of leader begins again. "
        "Victims that hang beyond their grace period count until they are gone.",
    ),
    Row(
        "scheduler_preemption_policy_refusals_total", _COUNTER, _ALPHA, _OURS,
        "Attempts in which a rule of a PreemptionPolicy refused preemption, on some node or "
        "altogether.",
        ("policy", "rule", "mode"),
        note="`rule`: the field of the policy. `mode`: `Enforce`, or `Audit` for what would have "
        "been refused about a preemption that happened. Of the first 100 policies; others count "
        "as `<other>`.",
    ),
    Row(
        "scheduler_preemption_policy_victims_total", _COUNTER, _ALPHA, _OURS,
        "Victims that were evicted under a PreemptionPolicy, which selects them and the preemptor.",
        ("policy", "mode"),
        note="With several policies a victim counts for each.",
    ),
    Row(
        "scheduler_preemption_policies", _GAUGE, _ALPHA, _OURS,
        "PreemptionPolicies, by what is in force of each.",
        ("in_force",),
        note="`in_force`: `current` (its newest generation), `behind` (an older one, because the "
        "newest is refused), `none` (no generation of it, so that it protects nothing). Each "
        "replica tells what it knows.",
    ),
    Row(
        "scheduler_preemption_victims_wasted_total", _COUNTER, _ALPHA, _OURS,
        "Victims whose preemptor did not get the room that they left, by reason.",
        ("reason",),
        note="`reason`: `room_lost` (others took it), `placed_elsewhere`, `preemptor_gone`, "
        "`node_gone`, `victim_hangs` (in termination, beyond its grace period), `plan_failed` "
        "(another victim could not be evicted). Counted when that is certain. A victim whose room "
        "another pod of this scheduler has, which could have evicted it, is not wasted.",
    ),
    Row(
        "scheduler_preemption_fruitless_total", _COUNTER, _ALPHA, _OURS,
        "Preemptions that came to nothing and are remembered, by reason.",
        ("reason",),
        note="`reason`: `room_lost`, `placed_elsewhere`. From the second one for the same owners "
        "and node on there are pauses.",
    ),
    Row(
        "scheduler_preemption_loops_total", _COUNTER, _ALPHA, _OURS,
        "How often preemption was stopped because evictions were in vain.",
        note="Each has an Event `PreemptionLoop` or `PreemptionStopped` at the preemptor.",
    ),
    Row(
        "scheduler_nominations", _GAUGE, _ALPHA, _OURS,
        "Pods that hold room on a node they are nominated to.",
    ),
    Row(
        "scheduler_oldest_nomination_seconds", _GAUGE, _ALPHA, _OURS,
        "How long the pod of this scheduler has been nominated that waits longest; 0 without any.",
        note="From the first scrape that saw it in this process. Another node for the same pod is "
        "no new nomination.",
    ),
    # Effects: what is written.
    Row(
        "scheduler_effects_total", _COUNTER, _ALPHA, _OURS,
        "Effects by how they ended; every effect ends exactly once.",
        ("effect", "outcome"),
        note="`effect`: `Bind`, `Nominate`, `SaveLedger`, `Evict`, `SetCondition`, "
        "`ClearNomination`, `RecordEvent`. `outcome`: `done`, or why not: `gone`, `conflict`, "
        "`forbidden`, `refused`, `unavailable`, `abandoned`.",
    ),
    Row(
        "scheduler_effect_queue_length", _GAUGE, _ALPHA, _OURS,
        "Effects that wait to be written, by lane.",
        ("lane",),
    ),
    Row(
        "rest_client_requests_total", _COUNTER, _ALPHA, _KUBE,
        "Requests to the API server, by status code, method and host.",
        ("code", "method", "host"),
        note="`code` is `<error>` where no answer came, as in Kubernetes.",
    ),
    Row(
        "rest_client_request_duration_seconds", _HISTOGRAM, _ALPHA, _KUBE,
        "From sending a request to its answer, by method and host.",
        ("verb", "host"), (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0),
    ),
    # Watches: what is read.
    Row(
        "scheduler_watch_age_seconds", _GAUGE, _ALPHA, _OURS,
        "Time since a watch last said anything, its orderly end included.",
        ("resource",),
        note="The API server is asked to end each watch after 45 to 90 seconds, so several minutes "
        "mean that watches do not work. While they fail, an answer to a list does not count.",
    ),
    Row(
        "scheduler_watch_restarts_total", _COUNTER, _ALPHA, _OURS,
        "Watches that ended and were started again, by cause.",
        ("resource", "reason"),
    ),
    Row(
        "scheduler_undecodable_objects_total", _COUNTER, _ALPHA, _OURS,
        "Objects that could not be read and were left out.",
        ("resource",),
        note="Each is logged. Not zero: some pod or node is invisible to the scheduler.",
    ),
    Row(
        "scheduler_cache_drift", _GAUGE, _ALPHA, _OURS,
        "Objects of which the last comparison with the API server found that a watch has missed "
        "something, by kind of difference.",
        ("resource", "difference"),
        note="`difference`: `missing` (there, and not known), `surplus` (known, and not there), "
        "`stale` (known in another state). Each is logged. Not zero: decisions were made from "
        "something that was not so; the resource was listed again, and the next comparison tells "
        "whether that helped.",
    ),
    Row(
        "scheduler_cache_comparisons_total", _COUNTER, _ALPHA, _OURS,
        "Comparisons of what is known with the API server, by result.",
        ("resource", "result"),
        note="`result`: `same`, `drift`, or `failed` when the API server could not be asked.",
    ),
    # The process.
    Row(
        "scheduler_loop_lag_seconds", _HISTOGRAM, _ALPHA, _OURS,
        "How late the loop came to what was due; all reading and writing waits this long.",
        (), _exponential(0.0005, 2, 14),
    ),
    Row(
        "scheduler_log_lines_lost_total", _COUNTER, _ALPHA, _OURS,
        "Log lines that could not be written.",
    ),
    Row(
        "leader_election_master_status", _GAUGE, _ALPHA, _KUBE,
        "Whether this process holds the lease: 1 if so, 0 if it stands by.",
        ("name",),
        note="`name`: the name of the lease.",
    ),
    Row(
        "scheduler_build_info", _GAUGE, _ALPHA, _OURS,
        "Always 1; the labels say what runs.",
        ("version", "python_version"),
    ),
)  # fmt: skip

ABSENT: Final[tuple[Absent, ...]] = (
    Absent(
        (
            "scheduler_framework_extension_point_duration_seconds",
            "scheduler_plugin_execution_duration_seconds",
            "scheduler_plugin_evaluation_total",
            "scheduler_queueing_hint_execution_duration_seconds",
        ),
        "plugins work on all nodes at once, for classes of equal pods, and from what earlier "
        "attempts computed: a time or a count per plugin and attempt would not compare; "
        "deciding reads no clock in between",
    ),
    Absent(
        ("scheduler_goroutines", "scheduler_preemption_goroutines_duration_seconds",
         "scheduler_preemption_goroutines_execution_total"),
        "there is one loop; see `scheduler_loop_lag_seconds` and `scheduler_effects_total`",
    ),
    Absent(
        ("scheduler_inflight_events",),
        "an attempt ends before the next event is looked at, so no event has to be kept for it",
    ),
    Absent(
        ("scheduler_pod_scheduled_after_flush_total",),
        "see `scheduler_queue_incoming_pods_total` with event `UnschedulableTimeout`",
    ),
    Absent(
        ("scheduler_pending_async_api_calls", "scheduler_async_api_call_execution_total",
         "scheduler_async_api_call_execution_duration_seconds"),
        "see `scheduler_effect_queue_length`, `scheduler_effects_total` and "
        "`rest_client_request_duration_seconds`",
    ),
    Absent(
        ("scheduler_permit_wait_duration_seconds",),
        "there is no permit extension point",
    ),
    Absent(
        ("scheduler_batch_attempts_total", "scheduler_batch_cache_flushed_total",
         "scheduler_get_node_hint_duration_seconds",
         "scheduler_store_schedule_results_duration_seconds"),
        "equal pods always share their results; there is no separate batch mode",
    ),
)  # fmt: skip
