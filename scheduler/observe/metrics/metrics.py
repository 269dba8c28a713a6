"""Records metrics: takes values of the model, and updates counters, gauges and histograms.

The service calls a `record_` method after each event. The owner of a number that can be read at any
time registers a function with `provide`. All metrics are rows of `catalogue`, and all of them are
in the registry that is passed in.

An attempt that places a pod ends with its binding. `record_attempt` therefore records only how
long the decision took; `record_bound` or `record_bind_failed` records the outcome of the `Bind`
effect.
"""

import platform
from collections.abc import Iterable, Mapping
from typing import Final, assert_never

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder

from scheduler import __version__
from scheduler.model.decisions import (
    Attempt,
    AttemptPhase,
    Failed,
    Gated,
    Placed,
    Preempting,
    Unschedulable,
    Waiting,
)
from scheduler.model.effects import Ask
from scheduler.model.events import Answered, EffectDone, EffectFailed
from scheduler.model.times import Seconds
from scheduler.observe.metrics.catalogue import CATALOGUE, MetricType
from scheduler.observe.metrics.instruments import Histogram, HistogramFamily, NumberFamily, Read

__all__ = ["Metrics"]

#: `attempts` label values of the service level metric; more attempts share the last.
_ATTEMPTS: Final = ("0", *map(str, range(1, 15)), "15+")


class Metrics:
    """All metrics of one process.

    Only the loop that owns the machine may call it. Recording raises only if labels do not match
    the catalogue, and does so at the first use of each metric.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._numbers: dict[str, NumberFamily] = {}
        self._histograms: dict[str, HistogramFamily] = {}
        for row in CATALOGUE:
            if row.kind is MetricType.HISTOGRAM:
                self._histograms[row.name] = HistogramFamily(row, registry)
            else:
                self._numbers[row.name] = NumberFamily(row, registry)
        ProcessCollector(registry=registry)
        number, histogram = self._numbers.__getitem__, self._histograms.__getitem__
        self._attempts = number("scheduler_schedule_attempts_total")
        self._attempt_seconds = histogram("scheduler_scheduling_attempt_duration_seconds")
        self._algorithm = histogram("scheduler_scheduling_algorithm_duration_seconds").child()
        self._attempts_taken = histogram("scheduler_pod_scheduling_attempts").child()
        self._waited = histogram("scheduler_pod_scheduling_sli_duration_seconds")
        self._event_seconds = histogram("scheduler_event_handling_duration_seconds")
        self._preemptions = number("scheduler_preemption_attempts_total").child()
        self._victims = histogram("scheduler_preemption_victims").child()
        self._violations = number("scheduler_preemption_pdb_violations_total").child("pod")
        self._evaluation = histogram("scheduler_preemption_evaluation_duration_seconds")
        self._execution = histogram("scheduler_preemption_execution_duration_seconds")
        phases = histogram("scheduler_attempt_phase_duration_seconds")
        self._phase_seconds = {phase: phases.child(phase.value) for phase in AttemptPhase}
        self._effects = number("scheduler_effects_total")
        self._requests = number("rest_client_requests_total")
        self._request_seconds = histogram("rest_client_request_duration_seconds")
        self._drift = number("scheduler_cache_drift")
        self._comparisons = number("scheduler_cache_comparisons_total")
        self._lag = histogram("scheduler_loop_lag_seconds").child()
        build = number("scheduler_build_info")
        build.child(__version__, platform.python_version()).value = 1.0

    def record_phases(self, phases: Iterable[tuple[AttemptPhase, Seconds]]) -> None:
        """Record how long the phases took that an attempt went through."""
        for phase, seconds in phases:
            self._phase_seconds[phase].observe(seconds)

    def record_attempt(
        self,
        attempt: Attempt,
        seconds: Seconds,
        algorithm_seconds: Seconds,
        evaluation_seconds: Seconds,
    ) -> None:
        """Count an attempt that was decided.

        Args:
            attempt: The attempt.
            seconds: From popping the pod from the queue until its effects were handed over.
            algorithm_seconds: The part of it that the decision took.
            evaluation_seconds: The part of that in which a preemption was looked for.
        """
        self._algorithm.observe(algorithm_seconds)
        decision = attempt.decision
        match decision:
            case Placed() | Gated() | Waiting():
                pass
            case Unschedulable():
                self._ended(attempt, "unschedulable", seconds)
            case Preempting():
                self._ended(attempt, "unschedulable", seconds)
                self._violations.inc(decision.violations)
                if decision.victims:
                    self._victims.observe(len(decision.victims))
            case Failed():
                self._ended(attempt, "error", seconds)
            case _:
                assert_never(decision)
        if attempt.preemption_tried:
            self._preemptions.inc()
            result = "Success" if isinstance(decision, Preempting) else "Unschedulable"
            self._evaluation.child("pod", result).observe(evaluation_seconds)

    def record_preemption_execution(self, seconds: Seconds, *, succeeded: bool) -> None:
        """Record how long it took to have the victims of a preemption evicted."""
        self._execution.child("pod", "success" if succeeded else "error").observe(seconds)

    def record_deallocation(self, seconds: Seconds) -> None:
        """Record for how long the claims of victims that were gone kept devices."""
        name = "scheduler_preemption_devices_deallocation_duration_seconds"
        self._histograms[name].child().observe(seconds)

    def record_bound(self, attempt: Attempt, seconds: Seconds, waited_seconds: Seconds) -> None:
        """Count a pod that was bound.

        Args:
            attempt: The attempt that placed it.
            seconds: From popping the pod from the queue until the API server had bound it.
            waited_seconds: Since the pod first entered the active queue, over all attempts.
        """
        self._ended(attempt, "scheduled", seconds)
        self._attempts_taken.observe(attempt.number)
        self._waited.child(_ATTEMPTS[min(attempt.number, 15)]).observe(waited_seconds)

    def record_bind_failed(self, attempt: Attempt, seconds: Seconds) -> None:
        """Count an attempt whose binding failed."""
        self._ended(attempt, "error", seconds)

    def record_outcome(self, outcome: EffectDone | EffectFailed | Answered) -> None:
        """Count how an effect ended."""
        if isinstance(outcome, Answered):
            self._effects.child(Ask.__name__, "done").inc()
            return
        result = "done" if isinstance(outcome, EffectDone) else outcome.failure.kind.value
        self._effects.child(type(outcome.effect).__name__, result).inc()

    def handling(self, event: str) -> Histogram:
        """Return the histogram of the seconds that events with a label, as `PodObserved`, take.

        The caller keeps it: events are many, and looking up a label costs as much as counting.
        """
        return self._event_seconds.child(event)

    def record_request(self, method: str, host: str, code: str, seconds: Seconds) -> None:
        """Count a request to the API server; `code` is `<error>` if there was no response."""
        self._requests.child(code, method, host).inc()
        self._request_seconds.child(method, host).observe(seconds)

    def record_claim_creation(self, *, succeeded: bool) -> None:
        """Count a request to create a resource claim for extended resources of a pod."""
        status = "success" if succeeded else "failure"
        self._numbers["scheduler_resourceclaim_creates_total"].child(status).inc()
        shared = self._numbers["dynamic_resource_allocation_resourceclaim_creates_total"]
        shared.child(status, "false", "", "Pod").inc()

    def record_device_wait(
        self, profile: str, devices: Iterable[tuple[str, bool]], status: str, seconds: Seconds
    ) -> None:
        """Record how the wait until devices of a pod were ready has ended.

        Args:
            profile: The scheduler name of the pod.
            devices: The driver of each device of the pod, and whether it had to be made ready.
            status: `success`, `failure`, `timeout` or `error`.
            seconds: How long it took.
        """
        waits = self._histograms["scheduler_dra_bindingconditions_wait_duration_seconds"]
        allocations = self._numbers["scheduler_dra_bindingconditions_allocations_total"]
        for driver, conditional in devices:
            waits.child(profile, driver, status).observe(seconds)
            if conditional:
                allocations.child(profile, driver, status).inc()

    def record_watch_restart(self, resource: str, reason: str) -> None:
        """Count a watch that has to be restarted."""
        self._numbers["scheduler_watch_restarts_total"].child(resource, reason).inc()

    def record_undecodable(self, resource: str) -> None:
        """Count an object that could not be decoded."""
        self._numbers["scheduler_undecodable_objects_total"].child(resource).inc()

    def record_comparison(self, resource: str, differences: Mapping[str, int]) -> None:
        """Record how many objects of a resource differ from the API server's, by difference."""
        for difference, count in differences.items():
            self._drift.child(resource, difference).value = float(count)
        self._comparisons.child(resource, "drift" if any(differences.values()) else "same").inc()

    def record_comparison_failed(self, resource: str) -> None:
        """Count a comparison that failed; the result of the last one stays."""
        self._comparisons.child(resource, "failed").inc()

    def record_loop_lag(self, seconds: Seconds) -> None:
        """Record how late the loop ran something that was due."""
        self._lag.observe(seconds)

    def provide(self, name: str, read: Read) -> None:
        """Have a gauge or counter read at each scrape by a function.

        Args:
            name: A name of the catalogue.
            read: Returns all values, as `{"active": 3}`, `{("NodePorts", "p"): 1}` or `{(): 7}`.

        Raises:
            KeyError: The catalogue has no such counter or gauge.
        """
        self._numbers[name].provide(read)

    def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """Return all metrics in the format that the client accepts, and its content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def _ended(self, attempt: Attempt, result: str, seconds: Seconds) -> None:
        self._attempts.child(result, attempt.scheduler_name).inc()
        self._attempt_seconds.child(result, attempt.scheduler_name).observe(seconds)
