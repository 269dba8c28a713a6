"""The machine: events in, attempts and effects out.

`observe` applies an event, `step` decides for at most one pod. Neither does I/O, reads a clock or
owns a thread. Both return effects, which the caller carries out, and every effect comes back as
exactly one outcome. The live scheduler, `plan` and the tests run this very machine.

`observe` may be called at any time, `step` whenever `ready` returns that a pod waits for its turn.
An attempt that calls extenders is suspended, and continues in a later step.
"""

import functools
from collections import Counter, deque
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Final, assert_never

from scheduler.core.attempt.equivalence import no_longer_equivalent
from scheduler.core.attempt.node_results import node_traces
from scheduler.core.attempt.scheduling_attempt import AttemptResult, SchedulingAlgorithm
from scheduler.core.binding import BindingCycle, DeviceWait
from scheduler.core.cycle.commit import DecisionCommitter
from scheduler.core.cycle.event_handlers import EventHandlers
from scheduler.core.cycle.policy_events import PolicyEvent, PolicyEventHandlers
from scheduler.core.cycle.suspended_attempts import AttemptRun, StartAttempt, SuspendedAttempts
from scheduler.core.eviction.phases import PreemptionPhase
from scheduler.core.eviction.plan import PreemptionPlan
from scheduler.core.eviction.plan_runner import PlanRunner
from scheduler.core.eviction.victim_tracker import VictimTracker
from scheduler.core.outbox import Bound, Outbox
from scheduler.core.pod_status import StatusReporter
from scheduler.core.preemption.policy.engine import PolicyEngine
from scheduler.core.preemption.policy.vetoes import Explain
from scheduler.core.requeue.wakeups import Wakeups
from scheduler.framework.plugin import PluginError
from scheduler.framework.profile import Profile
from scheduler.framework.verdicts import Verdicts
from scheduler.model.api.objects import Pod
from scheduler.model.api.quantity import QuantityError
from scheduler.model.base import Record
from scheduler.model.decisions import Attempt, AttemptPhase, Decision
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
    ClaimAnswered,
    DeviceClassGone,
    DeviceClassObserved,
    DevicesGone,
    DevicesObserved,
    EffectDone,
    EffectFailed,
    Event,
    Failure,
    NodeGone,
    NodeObserved,
    PodGone,
    PodObserved,
    StorageGone,
    StorageObserved,
)
from scheduler.model.releases import OLDEST
from scheduler.model.times import Seconds
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.queue.phases import QueuePhase
from scheduler.queue.scheduling_queue import QueuedPod, SchedulingQueue
from scheduler.state.cluster import Cluster
from scheduler.state.columns.change_log import ChangeLog
from scheduler.state.preemption.ledger import Ledger, LedgerError

__all__ = ["Machine", "Reaction"]


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


class Machine:
    """The scheduler without its surroundings."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        backoff: PodBackoff,
        *,
        evict_only: bool = False,
        compares: bool = False,
        detailed: bool = False,
    ) -> None:
        """Create a machine that knows no objects yet.

        Args:
            profiles: The plugins, by scheduler name.
            backoff: How long pods wait after a failure.
            evict_only: Whether the API server may refuse each eviction for a disruption budget.
            compares: Whether each preemption says how its candidates compared.
            detailed: Whether attempts have details.
        """
        self._profiles = profiles
        #: The release of kube-scheduler whose decisions are reproduced.
        self.reference: Final = next((each.reference for each in profiles.values()), OLDEST)
        self.cluster: Final = Cluster(self.reference)
        cluster = self.cluster
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
        self._attempts = SchedulingAlgorithm(
            profiles, cluster, Verdicts(), self.policies, compares=compares
        )
        self._attempts.detailed = detailed
        self._binding = BindingCycle(profiles, cluster, queue, wakeups, outbox, status)
        #: Pods that were placed and whose binding has no answer yet, by uid.
        self.binding: Final = self._binding.in_flight
        self._plan_runner = PlanRunner(
            profiles=profiles,
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
        self._handlers = EventHandlers(profiles, cluster, queue, wakeups, self._plan_runner)
        self._policy_handlers = PolicyEventHandlers(
            cluster, self.ledger, self.policies, wakeups, self._plan_runner
        )
        self._committer = DecisionCommitter(
            cluster, queue, wakeups, status, self._plan_runner, self._binding
        )
        self._suspended = SuspendedAttempts(queue, outbox)
        #: Whether this instance has decided anything: only the leader does.
        self._is_leader = False

    def observe(self, event: Event, now: Seconds) -> Reaction:
        """Apply an event."""
        refused = ""
        # Overdue work comes first, so that a replay, which calls no `flush`, decides the same.
        self._binding.flush(now)
        self._plan_runner.tracking.flush(now)
        try:
            self._dispatch(event, now)
        except (QuantityError, LedgerError) as error:
            refused = str(error)
        return self._take_reaction(refused)

    def take_device_waits(self) -> tuple[DeviceWait, ...]:
        """Return and remove the waits for devices that have ended, for metrics."""
        return self._binding.take_device_waits()

    @property
    def preemption_durations(self) -> deque[tuple[Seconds, bool]]:
        """How long preemptions took and whether they succeeded, for metrics, which remove them."""
        return self._plan_runner.durations

    def prepare(self) -> bool:
        """Do a part of the work that the next decision needs; return whether more is left.

        It changes no decision: `step` does what is left. Each part takes about a millisecond.
        """
        return self.cluster.devices.prepare()

    def step(self, now: Seconds, *, explain: bool = False) -> Attempt | None:
        """Decide for the next pod, or go on with an attempt; `None` when no pod waits for its turn.

        Args:
            now: The time.
            explain: Whether the attempt carries a trace of every node.
        """
        if not self._is_leader:
            self._is_leader = True
            self._plan_runner.inherited.take_over(self.queue, now)
        self.flush(now)
        run = self._suspended.pop_resumable(now) or self._start_next(now, explain=explain)
        if run is None:
            return None
        queued, pod = run.queued, run.queued.pod
        # Evictions that were wasted until now already count for this attempt.
        self._plan_runner.tracking.close_if_lost(queued.uid, now)
        questions, outcome, error = self._run(run)
        self._attempts.enter_phase(AttemptPhase.COMMIT)
        decision: Decision
        if questions:
            decision = self._suspended.suspend(run, questions, now)
        else:
            self.policies.count_refusals(outcome.refusals)
            decision = self._committer.commit(queued, outcome, error, now)
        return Attempt(
            pod=pod.ref,
            scheduler_name=pod.spec.scheduler_name,
            priority=pod.priority,
            decision=decision,
            effects=self._take_reaction("").effects,
            number=queued.attempts,
            nodes=outcome.nodes,
            feasible=outcome.feasible,
            plugins=tuple(sorted(outcome.rejectors)),
            preemption_tried=outcome.preemption_tried,
            refusals=outcome.refusals,
            waited=now - run.started_at,
            trace=node_traces(outcome.results),
            details=outcome.details,
            comparison=None if outcome.candidate is None else outcome.candidate.comparison,
            violating=frozenset() if outcome.candidate is None else outcome.candidate.violating,
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
        moments = (
            self.queue.next_wakeup(),
            self._binding.next_wakeup(),
            self._wakeups.blocked.next_wakeup(),
            self._plan_runner.tracking.next_wakeup(),
        )
        return min((moment for moment in moments if moment is not None), default=None)

    def flush(self, now: Seconds) -> None:
        """Do what is due: move pods, give up what took too long."""
        self.queue.flush(now)
        self._binding.flush(now)
        self._wakeups.blocked.flush(now)
        self._plan_runner.tracking.flush(now)

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
            preempting=len(self._plan_runner),
        )

    def explain(self, queued: QueuedPod, now: Seconds) -> tuple[AttemptResult, str]:
        """Run an attempt for a pod of the queue without acting on its result.

        Args:
            queued: The pod.
            now: The time.

        Returns:
            The result of an attempt, with what was found about every node, and the error that
            prevents one; empty where there is none. Vetoes do not name pods.
        """
        begin = self._attempt_starter(queued, now, Explain.IN_BULK)
        questions, outcome, error = self._run(AttemptRun(queued, queued.timestamp, begin))
        return (
            outcome,
            "the attempt would call extenders; an explanation does not call them"
            if questions
            else error,
        )

    def gate_reason(self, pod: Pod) -> str | None:
        """Return why a pod must not be scheduled yet, `None` when it may."""
        gate = self._profiles[pod.spec.scheduler_name].run_pre_enqueue(pod, self.cluster)
        return None if gate is None else gate[1]

    @property
    def tracking(self) -> VictimTracker:
        """The preemptions whose victims were evicted, and what came of them."""
        return self._plan_runner.tracking

    def plan_of(self, uid: str) -> PreemptionPlan | None:
        """Return the preemption for a pod, under way or waiting for its victims; only to read."""
        return self._plan_runner.plan_of(uid)

    def plans(self) -> list[PreemptionPlan]:
        """Return all preemptions that are not over; only to read."""
        return self._plan_runner.plans()

    @property
    def profile_names(self) -> Set[str]:
        """The scheduler names of the profiles."""
        return self._profiles.keys()

    @property
    def change_logs(self) -> tuple[ChangeLog, ...]:
        """The logs of changes whose positions preemption plans record."""
        return self._plan_runner.revalidation.change_logs()

    @property
    def preemptions(self) -> Counter[PreemptionPhase]:
        """How many preemptions are in each phase."""
        return self._plan_runner.phases()

    def is_still_planned(self, effect: Evict) -> bool:
        """Return whether an eviction that was not sent yet is still part of a plan."""
        return self._plan_runner.is_still_planned(effect)

    def check(self) -> None:
        """Assert the invariants of everything that the machine keeps."""
        self.cluster.check()
        self.queue.check()
        self._binding.check()
        self._suspended.check()
        self._wakeups.blocked.check()
        self._plan_runner.check()
        for queued in self.queue:
            on_node = self.cluster.find_pod(queued.uid) is not None
            assert on_node == self.cluster.is_assumed(queued.uid), queued.pod.key
            assert on_node == (queued.phase is QueuePhase.BINDING), queued.pod.key

    def _dispatch(self, event: Event, now: Seconds) -> None:
        match event:
            case PodObserved(pod):
                self._handlers.on_pod(pod, now)
                self._binding.on_pod(pod.uid, now)
            case PodGone(uid=uid):
                self._handlers.on_pod_gone(uid, now)
                self._binding.on_pod(uid, now)
            case NodeObserved(node):
                self._handlers.on_node(node, now)
                self._binding.on_node(node.metadata.name, now)
            case NodeGone(name):
                self._handlers.on_node_gone(name, now)
                self._binding.on_node(name, now)
            case EffectDone() | EffectFailed() | Answered():
                self._on_outcome(event, now)
            case _:
                self._dispatch_other(event, now)

    def _dispatch_other(
        self,
        event: StorageObserved
        | StorageGone
        | DeviceClassObserved
        | DeviceClassGone
        | DevicesObserved
        | DevicesGone
        | ClaimAnswered
        | PolicyEvent,
        now: Seconds,
    ) -> None:
        match event:
            case StorageObserved() | StorageGone():
                self._handlers.on_storage(event, now)
                self._binding.on_storage(event, now)
            case DeviceClassObserved() | DeviceClassGone():
                self._handlers.on_device_class(event, now)
            case DevicesObserved() | DevicesGone() | ClaimAnswered():
                self._handlers.on_devices(event, now)
                self._binding.on_devices(event, now)
            case _:
                self._policy_handlers.handle(event, now)

    def _on_outcome(self, event: EffectDone | EffectFailed | Answered, now: Seconds) -> None:
        match event:
            case EffectDone(effect, changed):
                self._on_done(effect, now, changed=changed)
            case EffectFailed(effect, failure):
                self._on_failed(effect, failure, now)
            case Answered():
                self._suspended.answered(event)

    def _on_done(self, effect: Effect, now: Seconds, *, changed: bool) -> None:
        match effect:
            case Bind():
                self._committer.bound(effect, now)
            case BindVolumes() | BindClaims() | ReleaseClaims():
                self._binding.done(effect, now)
            case Nominate():
                self._plan_runner.nominated(effect, now)
            case SaveLedger():
                self._plan_runner.ledger_saved(effect, now)
            case Evict():
                self._plan_runner.evicted(effect, now, changed=changed)
            case DeleteClaim():
                self._wakeups.retry(effect.pod.uid, now, "ResourceClaimDelete")
            case SetCondition() | ClearNomination() | RecordEvent() | Ask() | DeallocateClaim():
                pass  # the events of a claim say what has changed
            case _:
                assert_never(effect)

    def _on_failed(self, effect: Effect, failure: Failure, now: Seconds) -> None:
        match effect:
            case Bind():
                self._committer.not_bound(effect, failure, now)
            case BindVolumes() | BindClaims() | ReleaseClaims():
                self._binding.failed(effect, failure, now)
            case Nominate() | SaveLedger() | Evict():
                self._plan_runner.failed(effect, failure, now)
            case SetCondition():
                self._status.condition_not_set(effect)
            case Ask():
                self._suspended.failed(effect, failure)
            case DeallocateClaim() | DeleteClaim():
                self._wakeups.retry(effect.pod.uid, now, "ClaimNotFreed")
            case ClearNomination() | RecordEvent():
                pass
            case _:
                assert_never(effect)

    def _start_next(self, now: Seconds, *, explain: bool) -> AttemptRun | None:
        """Start an attempt for the next pod; `None` when none waits for its turn."""
        queued = self.queue.pop(now)
        if queued is None:
            return None
        how = Explain.IN_DETAIL if explain else Explain.NOTHING
        return AttemptRun(queued, now, self._attempt_starter(queued, now, how))

    def _attempt_starter(self, queued: QueuedPod, now: Seconds, explain: Explain) -> StartAttempt:
        """Return a function that starts an attempt for a pod."""
        since = now if queued.unschedulable_since is None else queued.unschedulable_since
        return functools.partial(self._attempts.decide, now=now, since=since, explain=explain)

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
