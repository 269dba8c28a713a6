"""The metrics of kube-scheduler that this process does not have, and why."""

from dataclasses import dataclass
from typing import Final

__all__ = ["ABSENT", "Absent"]


@dataclass(frozen=True, slots=True)
class Absent:
    """Metrics of kube-scheduler that this scheduler does not have."""

    names: tuple[str, ...]
    why: str


ABSENT: Final[tuple[Absent, ...]] = (
    Absent(
        (
            "scheduler_framework_extension_point_duration_seconds",
            "scheduler_plugin_execution_duration_seconds",
            "scheduler_plugin_evaluation_total",
            "scheduler_queueing_hint_execution_duration_seconds",
        ),
        "plugins run on all nodes at once, for classes of equal pods, and reuse results of earlier "
        "attempts, so a time or a count per plugin and attempt would not be comparable; the "
        "clock is not read while an attempt is decided",
    ),
    Absent(
        ("scheduler_goroutines", "scheduler_preemption_goroutines_duration_seconds",
         "scheduler_preemption_goroutines_execution_total"),
        "there is one event loop; see `scheduler_loop_lag_seconds` and `scheduler_effects_total`",
    ),
    Absent(
        ("scheduler_queued_entities", "scheduler_queue_incoming_entities_total"),
        "every entity is a pod; see `scheduler_pending_pods` and "
        "`scheduler_queue_incoming_pods_total`",
    ),
    Absent(
        ("scheduler_pre_queueing_hint_evaluations_total",),
        "hints are asked once for each group of equal waiting pods",
    ),
    Absent(
        ("scheduler_inflight_events",),
        "an attempt ends before the next event is handled, so no event has to be kept for it",
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
         "scheduler_batch_rescore_attempts_total", "scheduler_batch_rescore_duration_seconds",
         "scheduler_get_node_hint_duration_seconds",
         "scheduler_store_schedule_results_duration_seconds"),
        "equal pods always share their results; there is no separate batch mode",
    ),
    Absent(
        ("scheduler_podgroup_schedule_attempts_total",
         "scheduler_podgroup_scheduling_attempt_duration_seconds",
         "scheduler_podgroup_scheduling_algorithm_duration_seconds",
         "scheduler_workload_preemption_attempts_total", "scheduler_workload_preemption_victims",
         "scheduler_preemption_workload_disruptions", "scheduler_generated_placements_total",
         "scheduler_placement_evaluations_total",
         "scheduler_placement_evaluation_duration_seconds"),
        "pod groups and placements, behind the feature gates `GenericWorkload` and "
        "`TopologyAwareWorkloadScheduling`, are not supported",
    ),
)  # fmt: skip
