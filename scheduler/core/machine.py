"""The machine: events in, attempts and effects out.

`observe` applies an event, `step` decides for at most one pod. Neither does I/O, reads a clock or
owns a thread. Both return effects, which the caller carries out, and every effect comes back as
exactly one outcome. The live scheduler, `plan` and the tests run this very machine.

`observe` may be called at any time, `step` whenever `ready` returns that a pod waits for its turn.
An attempt that calls extenders is suspended, and continues in a later step.
"""

import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from scheduler.core.attempt.equivalence import no_longer_equivalent
from scheduler.core.attempt.node_results import node_traces
from scheduler.core.attempt.scheduling_attempt import AttemptResult, SchedulingAlgorithm
from scheduler.core.binding import BindingCycle, DeviceWait
from scheduler.core.cycle.commit import DecisionCommitter
from scheduler.core.cycle.event_handlers import EventHandlers
from scheduler.core.cycle.policy_events import PolicyEventHandlers
from scheduler.core.cycle.suspended_attempts import AttemptRun, StartAttempt, SuspendedAttempts
from scheduler.core.eviction.phases import IN_PROGRESS
from scheduler.core.eviction.preemptions import Preemptions
from scheduler.core.eviction.state import PreemptionsState
from scheduler.core.outbox import Bound, Outbox
from scheduler.core.pod_status import StatusReporter
from scheduler.core.preemption.policy.engine import PolicyEngine, PolicyEngineState
from scheduler.core.requeue.blocked_by_policy import BlockedByPolicy
from scheduler.core.requeue.wakeups import Wakeups
from scheduler.core.timers import Timers
from scheduler.framework.plugin import PluginError
from scheduler.framework.profile import Profile
from scheduler.framework.verdicts import Verdicts
from scheduler.model.api.objects import Pod
from scheduler.model.api.quantity import QuantityError
from scheduler.model.base import Record
from scheduler.model.classified_pod import ClassifiedPod
from scheduler.model.decisions import Attempt, AttemptPhase, Decision, Detail
from scheduler.model.effects import (
    Ask,
    Bind,
    BindClaims,
    BindVolumes,
    ClearNomination,
    DeallocateClaim,
    DeleteClaim,
    Effect,
    Evict,
    Nominate,
    Question,
    RecordEvent,
    ReleaseClaims,
    SaveLedger,
    SetCondition,
)
from scheduler.model.events import (
    Answered,
    BudgetGone,
    BudgetObserved,
    ClaimAnswered,
    ClockAhead,
    DeviceClassGone,
    DeviceClassObserved,
    DevicesGone,
    DevicesObserved,
    EffectDone,
    EffectFailed,
    Event,
    Failure,
    LedgerLoaded,
    NamespaceGone,
    NamespaceObserved,
    NodeGone,
    NodeObserved,
    PodGone,
    PodObserved,
    PolicyGone,
    PolicyObserved,
    StorageGone,
    StorageObserved,
    WorkloadGone,
    WorkloadObserved,
)
from scheduler.model.releases import OLDEST
from scheduler.model.times import Seconds
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.queue.phases import QueuePhase
from scheduler.queue.scheduling_queue import QueuedPod, SchedulingQueue
from scheduler.state.cluster import Cluster, ClusterState
from scheduler.state.preemption.ledger import Ledger, LedgerError

__all__ = ["Machine", "MachineState", "Reaction"]

#: Handles an event, or an effect that is done: both have handlers for each of their types.
_Handler: TypeAlias = Callable[[Any, Seconds], None]
#: Handles an effect that has failed.
_FailureHandler: TypeAlias = Callable[[Any, Failure, Seconds], None]


class Reaction(Record, frozen=True):
    """The effects of an event, and what else the caller has to know."""

    effects: tuple[Effect, ...] = ()
    #: Bindings that the API server has accepted.
    bound: tuple[Bound, ...] = ()
    #: Why the observed object was ignored; empty when it was applied.
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes, for metrics and the debug pages."""

    queue: dict[str, int] = field(default_factory=dict)
    nodes: int = 0
    pods: int = 0
    assumed: int = 0
    nominations: int = 0
    preempting: int = 0


@dataclass(slots=True)
class MachineState:
    """What a machine remembers; all else follows from observed objects and the configuration."""

    cluster: ClusterState
    queue: SchedulingQueue
    ledger: Ledger
    policies: PolicyEngineState
    blocked: BlockedByPolicy
    binding: BindingCycle
    preemptions: PreemptionsState
    #: Whether this instance has decided anything: only the leader does.
    is_leader: bool = False


class Machine:
    """The scheduling core: it does no I/O, reads no clock and has no thread."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        backoff: PodBackoff,
        *,
        evict_only: bool = False,
        detail: Detail = Detail.NONE,
    ) -> None:
        """Create a machine that knows no objects yet.

        Args:
            profiles: The plugins, by scheduler name.
            backoff: How long pods wait after a failure.
            evict_only: Whether the API server may refuse each eviction for a disruption budget.
            detail: How much each attempt tells.
        """
        self._profiles = profiles
        #: The release of kube-scheduler whose decisions are reproduced.
        self.reference: Final = next((each.reference for each in profiles.values()), OLDEST)
        cluster = Cluster(self.reference)
        self.cluster: Final = cluster
        cluster.held_devices.is_used = any(each.frees_devices for each in profiles.values())
        split_off = functools.partial(no_longer_equivalent, volumes=cluster.volumes)
        self.queue: Final = SchedulingQueue(backoff, self.gate_reason, split_off, self.reference)
        queue = self.queue
        #: What preemption remembers across restarts.
        self.ledger: Final = Ledger()
        self.policies: Final = PolicyEngine(
            cluster, self.ledger, self._is_ours, evict_only=evict_only
        )
        self._outbox = outbox = Outbox()
        self._status = status = StatusReporter(queue, outbox)
        self._wakeups = wakeups = Wakeups(profiles, cluster, queue, self.policies)
        self._attempts = SchedulingAlgorithm(profiles, cluster, Verdicts(), self.policies, detail)
        #: The total scores of some nodes, for comparisons.
        self.totals: Final = self._attempts.totals
        self._binding = BindingCycle(profiles, cluster, queue, wakeups, outbox, status)
        #: Pods that were placed and whose binding has no answer yet, by uid.
        self.bindings_in_flight: Final = self._binding.in_flight
        #: Preemptions, until it is certain which pods use what they have freed.
        self.preemptions: Final = Preemptions(
            profiles=profiles,
            is_ours=self._is_ours,
            cluster=cluster,
            queue=queue,
            ledger=self.ledger,
            policies=self.policies,
            wakeups=wakeups,
            outbox=outbox,
            status=status,
            fit_checker=self._attempts,
            binding=self._binding,
        )
        self._handlers = EventHandlers(profiles, cluster, queue, wakeups, self.preemptions)
        self._policy_handlers = PolicyEventHandlers(
            cluster, self.ledger, self.policies, wakeups, self.preemptions
        )
        self._committer = DecisionCommitter(
            cluster, queue, wakeups, outbox, status, self.preemptions, self._binding
        )
        self._suspended = SuspendedAttempts(queue, outbox)
        #: What handles each event; and that an effect is done, and that it has failed.
        self.handlers: Final = self._event_handlers()
        self.outcome_handlers: Final = self._outcome_handlers()
        self._timers: Final = Timers(queue, self._binding, wakeups.blocked, self.preemptions)
        #: What is done before each event, so that a replay, which calls no `flush`, decides the
        #: same.
        self._overdue: Final = Timers(self._binding, self.preemptions)
        self.state: Final = MachineState(
            cluster,
            queue,
            self.ledger,
            self.policies,
            wakeups.blocked,
            self._binding,
            self.preemptions.state,
        )
        #: Whether it is being copied step by step: it must not be called, nor `explain`.
        self.is_copied = False

    def observe(self, event: Event, now: Seconds) -> Reaction:
        """Apply an event."""
        refused = ""
        self._overdue.flush(now)
        try:
            for handle in self.handlers[type(event)]:
                handle(event, now)
        except (QuantityError, LedgerError) as error:
            refused = str(error)
        return self._take_reaction(refused)

    def take_device_waits(self) -> tuple[DeviceWait, ...]:
        """Return and remove the waits for devices that have ended, for metrics."""
        return self._binding.take_device_waits()

    def prepare(self) -> bool:
        """Do a part of the work that the next decision needs; return whether more is left.

        It changes no decision: `step` does what is left. Each part takes about a millisecond.
        """
        return self.cluster.prepare()

    def step(self, now: Seconds, *, explain: bool = False) -> Attempt | None:
        """Decide for the next pod, or go on with an attempt; `None` when no pod waits for its turn.

        Args:
            now: The time.
            explain: Whether the attempt carries a trace of every node.
        """
        if not self.state.is_leader:
            self.state.is_leader = True
            self.preemptions.take_over(self.queue, now)
        self.flush(now)
        run = self._suspended.pop_resumable(now) or self._start_next(now, explain=explain)
        if run is None:
            return None
        queued, pod = run.queued, run.queued.pod
        # Evictions that were wasted until now already count for this attempt.
        self.preemptions.close_if_lost(queued.uid, now)
        questions, result, error = self._run(run)
        self._attempts.enter_phase(AttemptPhase.COMMIT)
        candidate = result.post_filter.candidate
        decision: Decision
        if questions:
            decision = self._suspended.suspend(run, questions, now)
        else:
            self.policies.count_vetoes(result.vetoes)
            decision = self._committer.commit(queued, result, error, now)
        return Attempt(
            pod=pod.ref,
            scheduler_name=pod.spec.scheduler_name,
            priority=pod.priority,
            decision=decision,
            effects=self._take_reaction("").effects,
            number=queued.attempts,
            nodes=result.nodes,
            feasible=result.feasible,
            plugins=tuple(sorted(result.rejectors)),
            preemption_tried=result.post_filter.preemption_tried,
            vetoes=result.vetoes,
            waited=now - run.started_at,
            trace=node_traces(result.results),
            details=result.details,
            comparison=None if candidate is None else candidate.comparison,
            violating=frozenset() if candidate is None else candidate.violating,
        )

    def measure(self, enter_phase: Callable[[AttemptPhase], None]) -> None:
        """Call a function whenever an attempt begins a phase, so that its caller can time it."""
        self._attempts.enter_phase = enter_phase

    def ready(self) -> bool:
        """Return whether a pod waits for its turn, or an attempt has its answers of extenders."""
        return self._suspended.ready() or self.queue.ready()

    def active(self) -> bool:
        """Return whether a pod has its turn without being taken out of backoff early."""
        return self._suspended.ready() or self.queue.active()

    def next_wakeup(self) -> Seconds | None:
        """Return when `flush` next has something to do."""
        return self._timers.next_wakeup()

    def flush(self, now: Seconds) -> None:
        """Do what is due: move pods, give up what took too long."""
        self._timers.flush(now)

    def flushed_effects(self) -> tuple[Effect, ...]:
        """Return the effects of `flush`; to be called after it."""
        return self._take_reaction("").effects if self._outbox else ()

    def sizes(self) -> Sizes:
        """Return the sizes of everything."""
        return Sizes(
            queue=self.queue.lengths(),
            nodes=self.cluster.columns.node_count,
            pods=len(self.cluster.pods) - len(self.cluster.nominations),
            assumed=self.cluster.assumed,
            nominations=len(self.cluster.nominations),
            preempting=sum(plan.phase in IN_PROGRESS for plan in self.preemptions.state),
        )

    def explain(
        self, queued: QueuedPod, now: Seconds, priority: int | None = None,
        detail: Detail = Detail.NODES,
    ) -> tuple[AttemptResult, str]:  # fmt: skip
        """Run an attempt for a pod of the queue without acting on its result.

        Args:
            queued: The pod.
            now: The time.
            priority: Explain it as if it had this priority.
            detail: How much the result tells; by default also what was found about every node.

        Returns:
            The result of an attempt, whose vetoes name no pods, and the error that prevents one.
        """
        if priority is not None:
            spec = replace(queued.pod.spec, priority=priority)
            queued = copy.copy(queued)
            queued.classified = ClassifiedPod(replace(queued.pod, spec=spec))
        begin = self._attempt_starter(queued, now, detail)
        questions, result, error = self._run(AttemptRun(queued, queued.timestamp, begin))
        return (
            result,
            "the attempt would call extenders; an explanation does not call them"
            if questions
            else error,
        )

    def gate_reason(self, pod: Pod) -> str | None:
        """Return why a pod must not be scheduled yet, `None` when it may."""
        gate = self._profiles[pod.spec.scheduler_name].run_pre_enqueue(pod, self.cluster)
        return None if gate is None else gate[1]

    @property
    def profile_names(self) -> Set[str]:
        """The scheduler names of the profiles."""
        return self._profiles.keys()

    def outstanding(self) -> Iterator[Effect]:
        """Yield the effects whose outcomes are yet to come and change something.

        Nominations lack their messages.
        """
        yield from self._binding.outstanding()
        yield from self.preemptions.state.outstanding()

    def not_copied(self) -> tuple[str, ...]:
        """Return what a copy of the state would lack now; nothing in most moments.

        Attempts that wait for extenders, and reservations of volumes and devices, are running code.
        """
        lacking = {
            "attempts that wait for extenders": len(self._suspended),
            "pods that wait for volumes or devices": len(self._binding),
            "volumes and claims in an assumed state": self.cluster.volumes.assumed,
            "allocations of devices that are being written": self.cluster.devices.claims.in_flight,
        }
        return tuple(f"{name}: {number}" for name, number in lacking.items() if number)

    def check(self) -> None:
        """Assert the invariants of everything that the machine keeps."""
        self.cluster.check()
        self.queue.check()
        self._binding.check()
        self._suspended.check()
        self._wakeups.blocked.check()
        self.preemptions.check()
        for queued in self.queue:
            on_node = self.cluster.find_pod(queued.uid) is not None
            assert on_node == self.cluster.is_assumed(queued.uid), queued.pod.key
            assert on_node == (queued.phase is QueuePhase.BINDING), queued.pod.key

    def _event_handlers(self) -> Mapping[type[Event], tuple[_Handler, ...]]:
        """Return what handles each event, in this order."""
        objects, policies, binding = self._handlers, self._policy_handlers, self._binding
        return {
            PodObserved: (objects.on_pod, binding.on_pod),
            PodGone: (objects.on_pod_gone, binding.on_pod),
            NodeObserved: (objects.on_node, binding.on_node),
            NodeGone: (objects.on_node_gone, binding.on_node),
            StorageObserved: (objects.on_storage, binding.on_storage),
            StorageGone: (objects.on_storage, binding.on_storage),
            DeviceClassObserved: (objects.on_device_class,),
            DeviceClassGone: (objects.on_device_class,),
            DevicesObserved: (objects.on_devices, binding.on_devices),
            DevicesGone: (objects.on_devices, binding.on_devices),
            ClaimAnswered: (objects.on_devices, binding.on_devices),
            BudgetObserved: (policies.on_pdb,),
            BudgetGone: (policies.on_pdb,),
            PolicyObserved: (policies.on_policy,),
            PolicyGone: (policies.on_policy,),
            NamespaceObserved: (policies.on_namespace,),
            NamespaceGone: (policies.on_namespace,),
            WorkloadObserved: (policies.on_workload,),
            WorkloadGone: (policies.on_workload,),
            LedgerLoaded: (policies.on_ledger,),
            ClockAhead: (policies.on_clock_ahead,),
            EffectDone: (self._on_done,),
            EffectFailed: (self._on_failed,),
            Answered: (self._suspended.answered,),
        }

    def _outcome_handlers(
        self,
    ) -> Mapping[type[Effect], tuple[_Handler | None, _FailureHandler | None]]:
        """Return what handles that an effect is done, and that it has failed; `None`: nothing."""
        binding, preemptions, wakeups = self._binding, self.preemptions, self._wakeups
        return {
            Bind: (self._committer.bound, self._committer.not_bound),
            BindVolumes: (binding.done, binding.failed),
            BindClaims: (binding.done, binding.failed),
            ReleaseClaims: (binding.released, binding.not_released),
            Nominate: (preemptions.nominated, preemptions.not_nominated),
            SaveLedger: (preemptions.ledger_saved, preemptions.ledger_not_saved),
            Evict: (preemptions.evicted, preemptions.not_evicted),
            SetCondition: (None, self._status.condition_not_set),
            Ask: (None, self._suspended.failed),
            # The events of a claim say what has changed.
            DeallocateClaim: (None, wakeups.claim_not_freed),
            DeleteClaim: (wakeups.claim_deleted, wakeups.claim_not_freed),
            ClearNomination: (None, None),
            RecordEvent: (None, None),
        }

    def _on_done(self, event: EffectDone, now: Seconds) -> None:
        effect = event.effect
        if event.changed and isinstance(effect, Evict):
            self.preemptions.victim_deleted(effect, now)
        done, _ = self.outcome_handlers[type(effect)]
        if done is not None:
            done(effect, now)

    def _on_failed(self, event: EffectFailed, now: Seconds) -> None:
        _, failed = self.outcome_handlers[type(event.effect)]
        if failed is not None:
            failed(event.effect, event.failure, now)

    def _start_next(self, now: Seconds, *, explain: bool) -> AttemptRun | None:
        """Start an attempt for the next pod; `None` when none waits for its turn."""
        if (queued := self.queue.pop(now)) is None:
            return None
        detail = Detail.PODS if explain else Detail.NONE
        begin = self._attempt_starter(queued, now, detail)
        return AttemptRun(queued, now, begin)

    def _attempt_starter(self, queued: QueuedPod, now: Seconds, detail: Detail) -> StartAttempt:
        """Return a function that starts an attempt for a pod."""
        since = now if queued.unschedulable_since is None else queued.unschedulable_since
        return functools.partial(self._attempts.decide, now=now, since=since, detail=detail)

    def _run(self, run: AttemptRun) -> tuple[tuple[Question, ...], AttemptResult, str]:
        """Return what to ask extenders, or the result, or an empty result and an error."""
        nothing = AttemptResult(nodes=self.cluster.columns.node_count)
        try:
            return run.advance(), nothing, ""
        except StopIteration as end:
            return (), end.value, ""
        except PluginError as error:
            return (), nothing, str(error)
        except Exception as error:  # noqa: BLE001 - one odd object must not stop all other pods
            return (), nothing, f"{type(error).__name__}: {error}"

    def _take_reaction(self, refused: str) -> Reaction:
        if not self._outbox and not refused:
            return _NOTHING
        effects, bound = self._outbox.take()
        return Reaction(effects, bound, refused)

    def _is_ours(self, pod: Pod) -> bool:
        """Return whether a pod names one of our profiles."""
        return pod.spec.scheduler_name in self._profiles


_NOTHING = Reaction()
