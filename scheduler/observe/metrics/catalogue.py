"""Every metric that this process exposes, as one table.

`metrics` makes the instruments from it and `docs/metrics.md` is generated from it:

    python -m deploy.tools.pages.metrics > docs/metrics.md

A metric has kube-scheduler's name only where it has the same meaning, so that dashboards and
alerts made for kube-scheduler work; `note` explains what a reader might still misunderstand.

Labels hold no names of pods or nodes: the number of series stays small in any cluster. Names of
namespaces are only in the metrics of what evictions cost, and their number is limited.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["CATALOGUE", "MetricType", "Origin", "Row", "Stability"]


class MetricType(StrEnum):
    """The Prometheus type of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Stability(StrEnum):
    """The stability level of a metric, as in Kubernetes."""

    STABLE = "STABLE"
    BETA = "BETA"
    ALPHA = "ALPHA"


class Origin(StrEnum):
    """Which project defines the name and meaning of a metric."""

    KUBERNETES = "Kubernetes"
    OURS = "ours"


@dataclass(frozen=True, slots=True)
class Row:
    """One metric."""

    name: str
    kind: MetricType
    stability: Stability
    origin: Origin
    #: What it counts or measures; the HELP text, without the stability.
    help: str
    labels: tuple[str, ...] = ()
    #: Upper bounds of a histogram, ascending, without infinity.
    buckets: tuple[float, ...] = ()
    #: For the documentation: the values of labels, and what differs from kube-scheduler.
    note: str = ""

    @property
    def text(self) -> str:
        """The HELP text with the stability level in front, as in Kubernetes."""
        return f"[{self.stability}] {self.help}"


def _exponential(first: float, factor: float, count: int) -> tuple[float, ...]:
    return tuple(float(f"{first * factor**i:.6g}") for i in range(count))


_ATTEMPT: Final = _exponential(0.001, 2, 15)
_COUNTER, _GAUGE, _HISTOGRAM = MetricType.COUNTER, MetricType.GAUGE, MetricType.HISTOGRAM
_STABLE, _BETA, _ALPHA = Stability.STABLE, Stability.BETA, Stability.ALPHA
_KUBE, _OURS = Origin.KUBERNETES, Origin.OURS

_PREEMPTOR: Final = (
    "`preemptor`: `pod`. kube-scheduler has this metric from v1.37 on, behind the feature gate "
    "`GenericWorkload`."
)

#: What the metrics of lost work count, by the part of their name.
_WORK: Final = {
    "pods": "Victims that were evicted",
    "pod_seconds": "Seconds that victims had run",
    "core_seconds": "CPU requests of victims in cores, times the seconds that they had run",
    "gibibyte_seconds": "Memory requests of victims in GiB, times the seconds that they had run",
}


def _work(kind: str, more: str, note: str) -> tuple[Row, ...]:
    return tuple(
        Row(
            f"scheduler_preemption_{kind}_{unit}_total", _COUNTER, _ALPHA, _OURS,
            f"{text}{more}, by namespace of the victim and of the preemptor.",
            ("victim_namespace", "preemptor_namespace"),
            note=note if unit == "pods" else "",
        )
        for unit, text in _WORK.items()
    )  # fmt: skip


CATALOGUE: Final[tuple[Row, ...]] = (
    # Attempts.
    Row(
        "scheduler_schedule_attempts_total", _COUNTER, _STABLE, _KUBE,
        "Attempts to schedule a pod, by result: 'unschedulable' means that no node was feasible, "
        "'error' that the attempt failed for another reason.",
        ("result", "profile"),
        note="`result`: `scheduled` (counted when the pod is bound), `unschedulable` "
        "(including attempts that nominate a node), `error`. `profile`: the scheduler name.",
    ),
    Row(
        "scheduler_scheduling_attempt_duration_seconds", _HISTOGRAM, _STABLE, _KUBE,
        "Time from popping a pod from the queue to the end of the attempt, including binding.",
        ("result", "profile"), _ATTEMPT,
    ),
    Row(
        "scheduler_scheduling_algorithm_duration_seconds", _HISTOGRAM, _ALPHA, _KUBE,
        "Time to decide: filters, scores and, if no node is feasible, preemption.",
        (), _ATTEMPT,
        note="Most decisions take less than the lowest bucket of 1 ms; use the sum.",
    ),
    Row(
        "scheduler_attempt_phase_duration_seconds", _HISTOGRAM, _ALPHA, _OURS,
        "Time that an attempt spent in a phase.",
        ("phase",), _exponential(0.0001, 2, 15),
        note="`phase`: `filter` (from popping the pod until the feasible nodes are known), "
        "`score`, `preempt` (the post filters: looks for a node and victims), `commit` (assumes "
        "the pod or starts the preemption, and hands the requests over). An attempt that waits for "
        "extenders counts once for each time that it continues; the wait itself does not count.",
    ),
    Row(
        "scheduler_pod_scheduling_attempts", _HISTOGRAM, _STABLE, _KUBE,
        "Number of attempts to schedule a pod, recorded when it is bound.",
        (), _exponential(1, 2, 5),
    ),
    Row(
        "scheduler_pod_scheduling_sli_duration_seconds", _HISTOGRAM, _BETA, _KUBE,
        "Time from a pod's first entry into the active queue to its binding, over all attempts.",
        ("attempts",), _exponential(0.01, 2, 20),
        note="`attempts`: `1` to `14`, `15+`. Time in which the pod is gated does not count.",
    ),
    # Queues and cache.
    Row(
        "scheduler_pending_pods", _GAUGE, _STABLE, _KUBE,
        "Pending pods, by queue.",
        ("queue",),
        note="`queue`: `active`, `backoff`, `unschedulable`, `gated`.",
    ),
    Row(
        "scheduler_queue_incoming_pods_total", _COUNTER, _STABLE, _KUBE,
        "Pods added to a queue, by queue and by the event that moved them.",
        ("queue", "event"),
        note="`event`: as in kube-scheduler, for example `AssignedPodDelete`, `BackoffComplete`.",
    ),
    Row(
        "scheduler_unschedulable_pods", _GAUGE, _BETA, _KUBE,
        "Pending pods, by plugin that rejected them; a pod counts once for each plugin.",
        ("plugin", "profile"),
    ),
    Row(
        "scheduler_pending_pods_by_reason", _GAUGE, _ALPHA, _OURS,
        "Pending pods, by why they are still pending; each pod counts once.",
        ("reason",),
        note="`reason`: `never_fits` (on every node something is in the way that no other pod has "
        "taken, for example a taint, or a request that is larger than the node), `busy` (other "
        "pods occupy what it needs), `policy` (a PreemptionPolicy refuses its preemption), "
        "`paused` (its preemption is paused: evictions were wasted, or victims do not terminate), "
        "`preempting` (victims were chosen), `gated`, `error` (its last attempt failed), "
        "`not_tried`. Between attempts the reason of the last one counts.",
    ),
    Row(
        "scheduler_cache_size", _GAUGE, _ALPHA, _KUBE,
        "Objects in the cache.",
        ("type",),
        note="`type`: `nodes`, `pods`, `assumed_pods`. Read at each scrape.",
    ),
    Row(
        "scheduler_event_handling_duration_seconds", _HISTOGRAM, _ALPHA, _KUBE,
        "Time to handle one event.",
        ("event",), _exponential(0.0001, 2, 12),
        note="`event`: the kind of object and what happened, for example `PodObserved` (the pod "
        "exists in this state) or `NodeGone`; kube-scheduler has values such as "
        "`AssignedPodAdd`. Outcomes of effects are events, too: `EffectDone`, `EffectFailed`; "
        "except those that change nothing.",
    ),
    Row(
        "scheduler_wasted_wakeups_total", _COUNTER, _ALPHA, _OURS,
        "Pods that an event moved out of the unschedulable queue and that the same plugins "
        "rejected again, by the plugin whose queueing hint requested it and by the event.",
        ("plugin", "event"),
        note="A high share of `scheduler_queue_incoming_pods_total` means that events requeue "
        "pods that still do not fit.",
    ),
    # Preemption.
    Row(
        "scheduler_preemption_attempts_total", _COUNTER, _STABLE, _KUBE,
        "Attempts that tried preemption because no node was feasible.",
    ),
    Row(
        "scheduler_preemption_victims", _HISTOGRAM, _STABLE, _KUBE,
        "Number of victims of a preemption, including victims that are already terminating.",
        (), _exponential(1, 2, 7),
    ),
    Row(
        "scheduler_preemption_pdb_violations_total", _COUNTER, _ALPHA, _KUBE,
        "Victims whose eviction violated a PodDisruptionBudget.",
        ("preemptor",),
        note=_PREEMPTOR,
    ),
    Row(
        "scheduler_preemption_evaluation_duration_seconds", _HISTOGRAM, _ALPHA, _KUBE,
        "Time to find the victims of a preemption, or that there are none.",
        ("preemptor", "result"), _exponential(0.001, 2, 16),
        note="`result`: `Success`, or `Unschedulable` (preemption does not help, the pod is not "
        "eligible, or an extender failed). If extenders are called, only the time after their last "
        f"response counts. {_PREEMPTOR}",
    ),
    Row(
        "scheduler_preemption_execution_duration_seconds", _HISTOGRAM, _ALPHA, _KUBE,
        "Time from choosing the victims of a preemption until the API server has accepted the "
        "eviction of all of them, or the preemption was given up.",
        ("preemptor", "result"), _exponential(0.001, 2, 16),
        note="`result`: `success`, `error`. The nomination and the ledger, which are written "
        f"before the evictions, count. {_PREEMPTOR}",
    ),
    Row(
        "scheduler_preemption_victims_leaving", _GAUGE, _ALPHA, _OURS,
        "Victims that were evicted and have not terminated yet.",
    ),
    Row(
        "scheduler_preemption_oldest_victim_leaving_seconds", _GAUGE, _ALPHA, _OURS,
        "Time since the eviction of the oldest victim that has not terminated yet; 0 if there is "
        "none.",
        note="Measured from the first scrape of this process that saw the victim, so a change of "
        "leader resets it. Victims that exceed their grace period count until they are gone.",
    ),
    Row(
        "scheduler_preemption_policy_refusals_total", _COUNTER, _ALPHA, _OURS,
        "Attempts in which a rule of a PreemptionPolicy refused preemption, on some nodes or on "
        "all.",
        ("policy", "rule", "mode"),
        note="`rule`: the field of the policy. `mode`: `Enforce`, or `Audit` for a preemption "
        "that took place and that the rule would have refused. The first 100 policies have series "
        "of their own; further ones count as `<other>`.",
    ),
    Row(
        "scheduler_preemption_policy_victims_total", _COUNTER, _ALPHA, _OURS,
        "Victims that were evicted under a PreemptionPolicy that selects them and the preemptor.",
        ("policy", "mode"),
        note="If several policies apply, a victim counts for each.",
    ),
    Row(
        "scheduler_preemption_policies", _GAUGE, _ALPHA, _OURS,
        "PreemptionPolicies, by which generation is in force.",
        ("in_force",),
        note="`in_force`: `current` (the newest generation), `behind` (an older generation, "
        "because the newest is refused), `none` (no generation; the policy protects nothing). "
        "Each replica reports its own state.",
    ),
    Row(
        "scheduler_preemption_stopped", _GAUGE, _ALPHA, _OURS,
        "1 while a PreemptionPolicy stops all preemption, otherwise 0.",
        note="Each replica reports its own state.",
    ),
    Row(
        "scheduler_preemption_victims_wasted_total", _COUNTER, _ALPHA, _OURS,
        "Victims whose preemptor did not use the resources that they freed, by reason.",
        ("reason",),
        note="`reason`: `room_lost` (other pods took the resources), `placed_elsewhere`, "
        "`preemptor_gone`, `node_gone`, `victim_hangs` (still terminating after its grace "
        "period), `plan_failed` (another victim could not be evicted), `not_deallocated` (its "
        "ResourceClaim kept its devices for a minute after it was gone). Counted once that is "
        "certain. A victim is not wasted if its resources went to another pod of this scheduler "
        "that could have preempted it.",
    ),
    Row(
        "scheduler_preemption_fruitless_total", _COUNTER, _ALPHA, _OURS,
        "Preemptions that failed and are recorded for the preemption back-off, by reason.",
        ("reason",),
        note="`reason`: `room_lost`, `placed_elsewhere`. The back-off begins with the second one "
        "for the same owners and node.",
    ),
    Row(
        "scheduler_preemption_loops_total", _COUNTER, _ALPHA, _OURS,
        "Times that preemption was stopped because evictions were wasted.",
        note="Each is reported by an Event `PreemptionLoop` or `PreemptionStopped` on the "
        "preemptor.",
    ),
    Row(
        "scheduler_preemption_devices_kept", _GAUGE, _ALPHA, _OURS,
        "Devices that are kept for pods that preempted for them.",
        note="From the decision until the preemptor has them, or the preemption is given up; while "
        "they are still taken, too.",
    ),
    Row(
        "scheduler_preemption_devices_freed_total", _COUNTER, _ALPHA, _OURS,
        "Devices for which pods were evicted, by whether their preemptor got them.",
        ("result",),
        note="`result`: `taken` (the preemptor was bound to the node), `lost` (it was not).",
    ),
    Row(
        "scheduler_preemption_devices_deallocation_duration_seconds", _HISTOGRAM, _ALPHA, _OURS,
        "Time from the end of the last victim of a preemption for devices until the ResourceClaims "
        "of its victims are deallocated.",
        (), _exponential(0.05, 2, 12),
        note="0 where they were deallocated first. kube-controller-manager deallocates claims. A "
        "preemption that is given up for that has no value: see `not_deallocated` of "
        "`scheduler_preemption_victims_wasted_total`.",
    ),
    Row(
        "scheduler_preemption_devices_deallocations_total", _COUNTER, _ALPHA, _OURS,
        "ResourceClaims of evicted pods that the scheduler asked the API server to deallocate.",
        note="Only those that no pod reserved any more five seconds after the pods were gone.",
    ),
    *_work(
        "lost", "",
        "The first 200 pairs of namespaces have series of their own; the evictions of further "
        "pairs count as `<other>`, because tenants can create namespaces.",
    ),
    *_work(
        "wasted", ", if their preemptor did not use what they freed",
        "They count in `scheduler_preemption_lost_pods_total`, too, and here as soon as that is "
        "certain.",
    ),
    Row(
        "scheduler_nominations", _GAUGE, _ALPHA, _OURS,
        "Pods that are nominated to a node and reserve resources there.",
    ),
    Row(
        "scheduler_oldest_nomination_seconds", _GAUGE, _ALPHA, _OURS,
        "Time since the oldest nomination of a pod of this scheduler; 0 if there is none.",
        note="Measured from the first scrape of this process that saw the nomination. A change of "
        "the nominated node is not a new nomination.",
    ),
    # Devices.
    Row(
        "scheduler_dra_bindingconditions_allocations_total", _COUNTER, _ALPHA, _KUBE,
        "Allocated devices that had to be made ready before the pod was bound, by how that ended.",
        ("profile", "driver", "status"),
        note="`status`: `success`, `failure` (a failure condition of the device), `timeout` "
        "(`bindingTimeout`), `error`.",
    ),
    Row(
        "scheduler_dra_bindingconditions_wait_duration_seconds", _HISTOGRAM, _ALPHA, _KUBE,
        "Time until the devices of a pod were ready, once for each device of the pod.",
        ("profile", "driver", "status"), _exponential(0.1, 2, 14),
        note="kube-scheduler looks every five seconds; here the end of the wait is seen at once.",
    ),
    Row(
        "scheduler_resourceclaim_creates_total", _COUNTER, _ALPHA, _KUBE,
        "Requests to create a ResourceClaim for the extended resources of a pod.",
        ("status",),
        note="`status`: `success`, `failure`. The name in kube-scheduler v1.36.",
    ),
    Row(
        "dynamic_resource_allocation_resourceclaim_creates_total", _COUNTER, _ALPHA, _KUBE,
        "Requests to create a ResourceClaim, by outcome, admin access and owner.",
        ("status", "admin_access", "owner_api_group", "owner_api_kind"),
        note="The same count under the name of kube-scheduler v1.37, which kube-controller-manager "
        "uses as well. `admin_access` is `false`, the owner a `Pod`.",
    ),
    # Effects: what is written.
    Row(
        "scheduler_effects_total", _COUNTER, _ALPHA, _OURS,
        "Effects (requests to the API server), by outcome; every effect has exactly one outcome.",
        ("effect", "outcome"),
        note="`effect`: `Bind`, `Nominate`, `SaveLedger`, `Evict`, `SetCondition`, "
        "`ClearNomination`, `RecordEvent`. `outcome`: `done`, or the cause of the failure: "
        "`gone` (the object, or its namespace is being deleted), `conflict` (it has changed), "
        "`forbidden` (the scheduler lacks the right), `refused` (a quota, an admission webhook or "
        "policy, validation), `unavailable`, `abandoned`.",
    ),
    Row(
        "scheduler_effect_queue_length", _GAUGE, _ALPHA, _OURS,
        "Effects that wait to be sent to the API server, by lane.",
        ("lane",),
    ),
    Row(
        "rest_client_requests_total", _COUNTER, _ALPHA, _KUBE,
        "Requests to the API server, by status code, method and host.",
        ("code", "method", "host"),
        note="`code` is `<error>` if there was no response, as in Kubernetes.",
    ),
    Row(
        "rest_client_request_duration_seconds", _HISTOGRAM, _ALPHA, _KUBE,
        "Time from sending a request to its response, by method and host.",
        ("verb", "host"), (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0),
    ),
    # Watches: what is read.
    Row(
        "scheduler_watch_age_seconds", _GAUGE, _ALPHA, _OURS,
        "Time since a watch last received anything, including its regular end.",
        ("resource",),
        note="Each watch has a timeout of 45 to 90 seconds, so several minutes mean that watches "
        "do not work. While watches fail, the response to a list does not count.",
    ),
    Row(
        "scheduler_watch_restarts_total", _COUNTER, _ALPHA, _OURS,
        "Watches that ended and were restarted, by reason.",
        ("resource", "reason"),
    ),
    Row(
        "scheduler_undecodable_objects_total", _COUNTER, _ALPHA, _OURS,
        "Objects that could not be decoded and were skipped.",
        ("resource",),
        note="Each is logged. If it is not zero, the scheduler does not know of some object.",
    ),
    Row(
        "scheduler_cache_drift", _GAUGE, _ALPHA, _OURS,
        "Objects for which the last comparison with the API server found that a watch has missed "
        "a change, by kind of difference.",
        ("resource", "difference"),
        note="`difference`: `missing` (exists, but is not in the cache), `surplus` (is in the "
        "cache, but does not exist), `stale` (is in the cache in another state). Each is logged. "
        "If it is not zero, the cache was stale and decisions were made from it. The resource is "
        "listed again; if the next comparison still finds a difference, restart the instance and "
        "report a bug.",
    ),
    Row(
        "scheduler_cache_comparisons_total", _COUNTER, _ALPHA, _OURS,
        "Comparisons of the cache with the API server, by result.",
        ("resource", "result"),
        note="`result`: `same`, `drift`, or `failed` if the API server could not be reached.",
    ),
    # Shadow mode.
    Row(
        "scheduler_shadow_acts_total", _COUNTER, _ALPHA, _OURS,
        "Acts of other schedulers that shadow mode has compared with its own decisions.",
        ("outcome",),
        note="Only in shadow mode. `outcome`: see [shadow mode](shadow.md#what-is-compared).",
    ),
    Row(
        "scheduler_shadow_victims_total", _COUNTER, _ALPHA, _OURS,
        "Pods that other schedulers have evicted for the preemptors of shadow mode, and that this "
        "one would have evicted.",
        ("side",),
        note="Only in shadow mode. `side`: `theirs`, `ours`.",
    ),
    # The process.
    Row(
        "scheduler_loop_lag_seconds", _HISTOGRAM, _ALPHA, _OURS,
        "Delay of the event loop: how late it runs what is due. All reads and writes wait this "
        "long.",
        (), _exponential(0.0005, 2, 14),
    ),
    Row(
        "scheduler_log_lines_lost_total", _COUNTER, _ALPHA, _OURS,
        "Log lines that could not be written.",
    ),
    Row(
        "scheduler_recording_bytes", _GAUGE, _ALPHA, _OURS,
        "Size of the segments of the flight recorder.",
    ),
    Row(
        "scheduler_recording_gaps_total", _COUNTER, _ALPHA, _OURS,
        "How often a part of the recording was left out.",
        ("reason",),
        note="`reason`: `behind` (the recorder could not keep up), `disk` (a write failed), `size` "
        "(one segment does not fit into `--recording-size`), `defect`.",
    ),
    Row(
        "scheduler_ready", _GAUGE, _ALPHA, _OURS,
        "Whether this process is ready, as `/readyz` says: 1 if it is, 0 if not.",
    ),
    Row(
        "scheduler_serving_certificate_start_timestamp_seconds", _GAUGE, _ALPHA, _OURS,
        "Since when the serving certificate is valid, with its whole chain.",
        note="Seconds since the epoch. No series if the pages are served without TLS.",
    ),
    Row(
        "scheduler_serving_certificate_expiration_timestamp_seconds", _GAUGE, _ALPHA, _OURS,
        "When the serving certificate, or the first certificate of its chain, expires.",
        note="Seconds since the epoch. Files are read again when they change; a self-signed "
        "certificate is replaced three months before it expires.",
    ),
    Row(
        "leader_election_master_status", _GAUGE, _ALPHA, _KUBE,
        "Whether this process holds the lease: 1 if it leads, 0 if it stands by.",
        ("name",),
        note="`name`: the name of the lease.",
    ),
    Row(
        "scheduler_build_info", _GAUGE, _ALPHA, _OURS,
        "Always 1; the labels hold the versions of the scheduler and of Python.",
        ("version", "python_version"),
    ),
    Row(
        "scheduler_reference_info", _GAUGE, _ALPHA, _OURS,
        "Always 1; the label holds the release of kube-scheduler whose decisions are reproduced.",
        ("reference",),
        note="`reference`: as `v1.36.3`.",
    ),
    Row(
        "scheduler_reference_mismatch", _GAUGE, _ALPHA, _OURS,
        "Whether an API server answered last that is of another release than the one in use.",
        note="Always 0 if the configuration names a release.",
    ),
)  # fmt: skip
