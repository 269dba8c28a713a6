"""Reports the live scheduler's work to metrics and to the log."""

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from scheduler.core.binding import DeviceWait
from scheduler.core.machine import Machine
from scheduler.core.outbox import Bound
from scheduler.kube.instrumentation import Instrumentation
from scheduler.kube.leader_election import LeaderElector
from scheduler.kube.policies.policy_informer import PolicyInformer
from scheduler.kube.watch.cache_comparer import Drift
from scheduler.kube.watch.informer import Informer
from scheduler.kube.watch.resources import RESOURCES
from scheduler.kube.write.no_writer import NoWriter
from scheduler.kube.write.writer import Writer
from scheduler.model.decisions import Attempt, AttemptPhase, Waiting
from scheduler.model.effects import Bind
from scheduler.model.events import Answered, EffectDone, EffectFailed, Event, Failure
from scheduler.model.times import Seconds
from scheduler.observe.api.costs import NamespaceCosts
from scheduler.observe.logs.attempt_log import AttemptLog
from scheduler.observe.logs.logs import Logs
from scheduler.observe.metrics.instruments import Histogram
from scheduler.observe.metrics.metrics import Metrics
from scheduler.observe.recorder.recorder import GAP_REASONS, Gap
from scheduler.observe.shadow.shadow import Shadow
from scheduler.queue.phases import PendingReason, QueuePhase
from scheduler.service.recording import Recording
from scheduler.service.release_watch import Agreement

__all__ = [
    "ApiTelemetry",
    "Telemetry",
    "provide",
    "provide_agreement",
    "provide_certificate",
    "provide_costs",
    "provide_leadership",
    "provide_recording",
    "provide_shadow",
]

_METHODS: Final[Mapping[str, str]] = {
    "get": "GET", "list": "GET", "watch": "GET", "create": "POST", "update": "PUT",
    "patch": "PATCH", "delete": "DELETE",
}  # fmt: skip
#: The resource of each type of object that can be observed.
_NAMES: Final[Mapping[type[Any], str]] = {resource.type: resource.name for resource in RESOURCES}

#: Why evictions can be wasted; each reason has a counter from the start, so that `rate` sees the
#: first count.
_WASTED: Final = (
    "room_lost", "placed_elsewhere", "preemptor_gone", "node_gone", "victim_hangs", "plan_failed",
    "not_deallocated",
)  # fmt: skip

#: How many drifted objects of each kind one log line names.
_NAMED: Final = 10


class Telemetry:
    """Reports attempts and outcomes."""

    def __init__(self, metrics: Metrics, logs: Logs) -> None:
        self._metrics = metrics
        self._logs = logs
        self._log = AttemptLog(logs.logger, logs.verbosity)

    def attempt(
        self,
        attempt: Attempt,
        seconds: Seconds,
        algorithm_seconds: Seconds,
        phases: Mapping[AttemptPhase, Seconds],
    ) -> None:
        """Report an attempt that has ended, or waits for extenders."""
        self._metrics.record_phases(phases.items())
        if not isinstance(attempt.decision, Waiting):
            evaluation = phases.get(AttemptPhase.PREEMPT, 0.0)
            self._metrics.record_attempt(attempt, seconds, algorithm_seconds, evaluation)
        self._log.attempt(attempt)

    def bound(self, attempt: Attempt, bound: Bound, seconds: Seconds) -> None:
        """Report that a pod was bound."""
        self._metrics.record_bound(attempt, seconds, bound.waited_seconds)
        self._log.bound(attempt, bound.node, seconds)

    def not_bound(self, attempt: Attempt, bind: Bind, failure: Failure, seconds: Seconds) -> None:
        """Report that a pod could not be bound."""
        self._metrics.record_bind_failed(attempt, seconds)
        self._log.bind_failed(attempt, bind.node, failure)

    def device_wait(self, wait: DeviceWait) -> None:
        """Report how the wait for devices of a pod has ended."""
        self._metrics.record_device_wait(
            wait.scheduler_name, wait.devices, wait.status, wait.seconds
        )

    def preemption_executed(self, seconds: Seconds, succeeded: bool) -> None:
        """Report how long it took to have the victims of a preemption evicted."""
        self._metrics.record_preemption_execution(seconds, succeeded=succeeded)

    def claims_deallocated(self, seconds: Seconds) -> None:
        """Report for how long the claims of victims that were gone kept devices."""
        self._metrics.record_deallocation(seconds)

    def outcome(self, outcome: EffectDone | EffectFailed | Answered) -> None:
        """Report the outcome of an effect."""
        self._metrics.record_outcome(outcome)
        if not isinstance(outcome, Answered):
            self._log.outcome(outcome)

    def event_rejected(self, event: Event, problem: str) -> None:
        """Report that an observed object was ignored."""
        values = (getattr(event, name) for name in event.__struct_fields__)
        kind = next((_NAMES[type(value)] for value in values if type(value) in _NAMES), "other")
        self._metrics.record_undecodable(kind)
        self._logs.logger.warning("object_ignored", resource=kind, problem=problem)

    def handling(self, kind: type[Event]) -> Histogram:
        """Return the histogram of seconds per event of a type; the caller keeps it by type."""
        return self._metrics.handling(kind.__name__)

    def recording_gap(self, gap: Gap) -> None:
        """Log that a part of the recording is missing."""
        self._logs.logger.warning("recording_gap", reason=gap.reason, problem=gap.problem)

    def loop_lag(self, seconds: Seconds) -> None:
        """Report how late the loop was, and flush the log."""
        self._metrics.record_loop_lag(seconds)
        self._logs.flush()


class ApiTelemetry(Instrumentation):
    """Reports requests, lists and watches."""

    def __init__(self, metrics: Metrics, logs: Logs, host: str) -> None:
        self._metrics = metrics
        self._log = logs.logger
        self._host = host
        #: Their pauses end when a request succeeds after others got no answer.
        self.informers: list[Informer[Any]] = []
        self._away = False

    def request_ended(self, verb: str, resource: str, code: str, seconds: float) -> None:
        """Count a request."""
        method = _METHODS.get(verb, verb.upper())
        if (verb, resource) == ("create", "resourceclaims"):
            self._metrics.record_claim_creation(succeeded=code.startswith("2"))
        answered = "<error>" if code == "unreachable" else code
        self._metrics.record_request(method, self._host, answered, seconds)
        if code == "unreachable":
            self._away = True
        elif self._away and code.startswith("2"):
            self._away = False
            for informer in self.informers:
                informer.resume()

    def retried(self, verb: str, resource: str, problem: str) -> None:
        """Log that a request is sent again."""
        self._log.debug("request_retried", verb=verb, resource=resource, problem=problem)

    def listed(self, resource: str, objects: int) -> None:
        """Log that a resource was listed."""
        self._log.info("resource_listed", resource=resource, objects=objects)

    def restarted(self, resource: str) -> None:
        """Count a watch that starts again."""
        self._metrics.record_watch_restart(resource, "error")

    def interrupted(self, resource: str, problem: str) -> None:
        """Log why a watch does not work."""
        self._log.warning("watch_interrupted", resource=resource, problem=problem)

    def undecodable(self, resource: str, key: str, problem: str) -> None:
        """Count and log an object that cannot be decoded."""
        self._metrics.record_undecodable(resource)
        self._log.warning("object_ignored", resource=resource, object=key, problem=problem)

    def compared(self, resource: str, drift: Drift) -> None:
        """Count and log the result of a comparison with the API server."""
        self._metrics.record_comparison(resource, drift.counts())
        if drift:
            named = {
                kind: keys[:_NAMED] for kind, keys in dataclasses.asdict(drift).items() if keys
            }
            self._log.error("cache_drift", resource=resource, **drift.counts(), objects=named)

    def not_compared(self, resource: str, problem: str) -> None:
        """Count and log that a comparison could not be made."""
        self._metrics.record_comparison_failed(resource)
        self._log.warning("cache_not_compared", resource=resource, problem=problem)

    def ledger_forbidden(self, problem: str) -> None:
        """Log that the right to read the ledger is missing."""
        self._log.warning("ledger_forbidden", problem=problem)

    def ledger_unreadable(self, problem: str) -> None:
        """Log that the ledger could not be read."""
        self._log.warning("ledger_unreadable", problem=problem)

    def ledger_changed(self, problem: str) -> None:
        """Log that something else has changed the ledger."""
        self._log.warning("ledger_changed", problem=problem)

    def ledger_not_restored(self, problem: str) -> None:
        """Log that the ledger could not be written again."""
        self._log.warning("ledger_not_restored", problem=problem)

    def unowned(self, problem: str) -> None:
        """Log that lease and ledger do not get an owner."""
        self._log.warning("owner_not_set", problem=problem)

    def authorization_unavailable(self, problem: str) -> None:
        """Log that callers of the pages cannot be reviewed, so that access is refused."""
        self._log.warning("authorization_unavailable", problem=problem)

    def client_ca_unavailable(self, problem: str) -> None:
        """Log that the CA of client certificates cannot be read."""
        self._log.warning("client_ca_unavailable", problem=problem)

    def extender_failed(self, extender: str, verb: str, problem: str) -> None:
        """Log that an extender gave no usable answer."""
        self._log.warning("extender_failed", extender=extender, verb=verb, problem=problem)

    def policy_changed(self, name: str, verdict: str, detail: str) -> None:
        """Log whether a policy is accepted, refused or gone."""
        log = self._log.warning if verdict == "refused" else self._log.info
        fields = {"problem" if verdict == "refused" else "generation": detail} if detail else {}
        log(f"policy_{verdict}", policy=name, **fields)


def provide(
    metrics: Metrics,
    machine: Machine,
    informers: list[Informer[Any]],
    policies: PolicyInformer,
    writer: Writer | NoWriter,
    logs: Logs,
) -> None:
    """Connect the gauges with the objects that hold their values."""
    metrics.provide("scheduler_reference_info", lambda: {machine.reference.version: 1})
    metrics.provide("scheduler_pending_pods", machine.queue.lengths)
    metrics.provide("scheduler_queue_incoming_pods_total", lambda: machine.queue.incoming)
    metrics.provide("scheduler_wasted_wakeups_total", lambda: machine.queue.wasted_wakeups)
    metrics.provide("scheduler_unschedulable_pods", lambda: _rejections(machine))
    metrics.provide("scheduler_pending_pods_by_reason", lambda: _pending_reasons(machine))
    metrics.provide("scheduler_cache_size", lambda: _cache_size(machine))
    metrics.provide("scheduler_nominations", lambda: {(): len(machine.cluster.nominations)})
    metrics.provide("scheduler_preemption_victims_leaving", lambda: {(): machine.cluster.evicting})
    policing = machine.policies
    metrics.provide("scheduler_preemption_policy_refusals_total", lambda: policing.refusal_counts)
    metrics.provide("scheduler_preemption_policy_victims_total", lambda: policing.victim_counts)
    metrics.provide("scheduler_preemption_policies", policies.count_by_state)
    metrics.provide("scheduler_preemption_stopped", lambda: {(): float(policies.stops)})
    waste = machine.preemptions.state.waste
    metrics.provide(
        "scheduler_preemption_victims_wasted_total",
        lambda: dict.fromkeys(_WASTED, 0) | waste.wasted_evictions,
    )
    metrics.provide("scheduler_preemption_fruitless_total", lambda: waste.failed_preemptions)
    metrics.provide("scheduler_preemption_loops_total", lambda: {(): waste.stops})
    devices, kept = machine.preemptions.devices, machine.cluster.devices.nominations
    metrics.provide(
        "scheduler_preemption_devices_kept",
        lambda: {(): sum(one.device_count for each in kept for one in each.allocations)},
    )
    metrics.provide("scheduler_preemption_devices_freed_total", lambda: devices.outcomes)
    metrics.provide(
        "scheduler_preemption_devices_deallocations_total", lambda: {(): devices.deallocations}
    )
    metrics.provide("scheduler_effect_queue_length", writer.lengths)
    metrics.provide("scheduler_log_lines_lost_total", lambda: {(): logs.lost})
    metrics.provide(
        "scheduler_watch_age_seconds",
        lambda: {
            health.resource: health.silent_seconds
            for informer in informers
            if (health := informer.health()).silent_seconds is not None
        },
    )


def provide_leadership(metrics: Metrics, elector: LeaderElector | None, name: str) -> None:
    """Connect the leader gauge with the lease; without one, every instance leads."""
    metrics.provide(
        "leader_election_master_status",
        lambda: {name: int(elector is None or elector.is_leader)},
    )


def provide_agreement(metrics: Metrics, agreement: Agreement | None) -> None:
    """Connect the gauge of other releases with the answers; `None` where no release is followed."""
    metrics.provide(
        "scheduler_reference_mismatch",
        lambda: {(): int(agreement is not None and agreement.differs)},
    )


def provide_certificate(
    metrics: Metrics, validity: Callable[[], tuple[Seconds, Seconds] | None]
) -> None:
    """Connect the gauges of the serving certificate with what it is valid from and to."""

    def read(which: int) -> dict[tuple[()], Seconds]:
        times = validity()
        return {} if times is None else {(): times[which]}

    for which, name in enumerate(("start", "expiration")):
        metrics.provide(
            f"scheduler_serving_certificate_{name}_timestamp_seconds",
            functools.partial(read, which),
        )


def provide_shadow(metrics: Metrics, shadow: Shadow | None) -> None:
    """Have metrics read what shadow mode has compared."""
    if shadow is None:
        return
    metrics.provide(
        "scheduler_shadow_acts_total",
        lambda: {outcome.value: count for outcome, count in shadow.outcomes.items()},
    )
    metrics.provide(
        "scheduler_shadow_victims_total",
        lambda: {"theirs": shadow.their_cost.victims, "ours": shadow.our_cost.victims},
    )


def provide_costs(metrics: Metrics, costs: NamespaceCosts) -> None:
    """Connect the counters of lost work, by namespaces, with what counts them."""
    for name, read in costs.series().items():
        metrics.provide(name, read)


def provide_recording(metrics: Metrics, recording: Recording | None) -> None:
    """Connect the metrics of the recording with the recorder, if there is one."""
    recorder = None if recording is None else recording.recorder
    metrics.provide(
        "scheduler_recording_bytes", lambda: {(): 0 if recorder is None else recorder.size}
    )
    metrics.provide(
        "scheduler_recording_gaps_total",
        lambda: dict.fromkeys(GAP_REASONS, 0) | ({} if recorder is None else recorder.gap_counts),
    )


def _rejections(machine: Machine) -> Counter[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    for queued in machine.queue:
        for plugin in queued.rejectors:
            counts[plugin, queued.pod.spec.scheduler_name] += 1
    return counts


def _pending_reasons(machine: Machine) -> dict[str, int]:
    counts = dict.fromkeys((reason.value for reason in PendingReason), 0)
    for queued in machine.queue:
        if queued.phase is not QueuePhase.BINDING:
            gated = queued.phase is QueuePhase.GATED
            counts[PendingReason.GATED if gated else queued.reason] += 1
    return counts


def _cache_size(machine: Machine) -> dict[str, int]:
    numbers = machine.sizes()
    return {
        "nodes": numbers.nodes,
        "pods": numbers.pods,
        "assumed_pods": numbers.assumed,
    }
