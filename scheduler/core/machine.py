"""The machine: news in, attempts and effects out.

`observe` takes what happened, `step` decides for at most one pod. Neither does I/O, reads a clock
or owns a thread; what should happen outside comes back as effects, and every effect comes back as
exactly one outcome. The live scheduler, `plan` and the tests run this very machine.

`observe` may be called at any time, `step` whenever `ready` says that a pod waits for its turn. An
attempt that asks extenders is put aside, and goes on in a later step.
"""

import functools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias, assert_never

from scheduler.core.attempt import signatures
from scheduler.core.attempt.scheduling_attempt import AttemptResult, SchedulingAlgorithm
from scheduler.core.binding import BindingCycle
from scheduler.core.cycle.commit import DecisionCommitter
from scheduler.core.cycle.event_handlers import EventHandlers
from scheduler.core.cycle.suspended_attempts import AttemptRun, Begin, SuspendedAttempts
from scheduler.core.eviction.executor import Executor
from scheduler.core.eviction.phases import PreemptionPhase
from scheduler.core.eviction.tracking import VictimTracker
from scheduler.core.preemption.policy.engine import PolicyEngine
from scheduler.core.requeue import pod_status
from scheduler.core.requeue.context import Bound, Context
from scheduler.framework.plugin import PluginError
from scheduler.framework.profile import Profile
from scheduler.framework.verdicts import Verdicts
from scheduler.model.api.objects import Pod
from scheduler.model.api.quantity import QuantityError
from scheduler.model.base import Record
from scheduler.model.decisions import Attempt, Decision
from scheduler.model.effects import (
    Ask,
    Bind,
    BindVolumes,
    ClearNomination,
    Effect,
    Evict,
    Nominate,
    Question,
    RecordEvent,
    SaveLedger,
    SetCondition,
)
from scheduler.model.events import (
    Answered,
    BudgetGone,
    BudgetObserved,
    ClockAhead,
    DeviceClassGone,
    DeviceClassObserved,
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
from scheduler.model.times import Seconds
from scheduler.queue.backoff import PodBackoff
from scheduler.queue.phases import QueuePhase
from scheduler.queue.scheduling_queue import QueuedPod, SchedulingQueue
from scheduler.state.cluster import Cluster
from scheduler.state.preemption.ledger import LedgerError

__all__ = ["Machine", "Reaction"]

#: Events that no plugin is asked about; they wake nobody, or only pods that policies hold.
Unheard: TypeAlias = (
    BudgetObserved
    | BudgetGone
    | PolicyObserved
    | PolicyGone
    | NamespaceObserved
    | NamespaceGone
    | WorkloadObserved
    | WorkloadGone
    | LedgerLoaded
    | ClockAhead
)


class Reaction(Record, frozen=True):
    """What an event asks of the world, and what it tells."""

    effects: tuple[Effect, ...] = ()
    #: Bindings that the API server has accepted.
    bound: tuple[Bound, ...] = ()
    #: Why the observed object was ignored; empty when it was not.
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Numbers:
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
        self, profiles: Mapping[str, Profile], backoff: PodBackoff, *, evict_only: bool = False
    ) -> None:
        """Make it.

        Args:
            profiles: The plugins, by scheduler name.
            backoff: How long pods wait after a failure.
            evict_only: Whether the API server may refuse each eviction for a disruption budget.
        """
        self.cluster: Final = Cluster()
        strangers = functools.partial(signatures.strangers, volumes=self.cluster.volumes)
        self.queue: Final = SchedulingQueue(backoff, self._gate, strangers)
        self._profiles = profiles
        self._context = Context(profiles, self.cluster, self.queue)
        self.ledger: Final = self._context.ledger
        self.binding: Final = self._context.binding
        self.policing: Final = PolicyEngine(
            self.cluster, self.ledger, self._context.is_ours, evict_only=evict_only
        )
        self._context.bounds = self.policing
        self._attempts = SchedulingAlgorithm(profiles, self.cluster, Verdicts(), self.policing)
        self._binding = BindingCycle(self._context, profiles)
        self._executor = Executor(self._context, self._attempts, self._binding)
        self._observing = EventHandlers(self._context, self._executor)
        self._acting = DecisionCommitter(self._context, self._executor, self._binding)
        self._asking = SuspendedAttempts(self._context)
        #: Whether anything was decided here: only who leads decides.
        self._leads = False

    def observe(self, event: Event, now: Seconds) -> Reaction:
        """Take note of what happened."""
        refused = ""
        # What is overdue comes first, so that a replay, which knows no flush, decides the same.
        self._binding.flush(now)
        self._executor.tracking.flush(now)
        try:
            self._dispatch(event, now)
        except (QuantityError, LedgerError) as error:
            refused = str(error)
        return self._reaction(refused)

    def step(self, now: Seconds, *, explain: bool = False) -> Attempt | None:
        """Decide for the next pod, or go on with an attempt; `None` when nothing is to be done.

        Args:
            now: The time.
            explain: Whether the attempt carries a trace of every node.
        """
        if not self._leads:
            self._leads = True
            self._executor.take_over(now)
        self.flush(now)
        under_way = self._asking.resumed(now) or self._begun(now, explain=explain)
        if under_way is None:
            return None
        queued, pod = under_way.queued, under_way.queued.pod
        # What was in vain until now already counts for this attempt.
        self._executor.tracking.settle_lost(queued.uid, now)
        questions, outcome, error = self._go_on(under_way)
        decision: Decision
        if questions:
            decision = self._asking.ask(under_way, questions, now)
        else:
            decision = self._acting.act(queued, outcome, error, now)
        return Attempt(
            pod=pod.ref,
            scheduler_name=pod.spec.scheduler_name,
            priority=pod.priority,
            decision=decision,
            effects=self._reaction("").effects,
            number=queued.attempts,
            nodes=outcome.nodes,
            feasible=outcome.feasible,
            plugins=tuple(sorted(outcome.rejectors)),
            preemption_tried=outcome.preemption_tried,
            refusals=outcome.refusals,
            waited=now - under_way.begun,
            trace=outcome.trace,
        )

    def ready(self) -> bool:
        """Tell whether a pod waits for its turn, or can go on after extenders were asked."""
        return self._asking.ready() or self.queue.ready()

    def active(self) -> bool:
        """Tell whether a pod has its turn without being taken out of back-off early."""
        return self._asking.ready() or self.queue.active()

    def next_wakeup(self) -> Seconds | None:
        """Return when `flush` next has something to do."""
        moments = (
            self.queue.next_wakeup(),
            self._binding.next_wakeup(),
            self._context.held.next_wakeup(),
            self._executor.tracking.next_wakeup(),
        )
        return min((each for each in moments if each is not None), default=None)

    def flush(self, now: Seconds) -> None:
        """Move pods whose time has come."""
        self.queue.flush(now)
        self._binding.flush(now)
        self._context.held.flush(now)
        self._executor.tracking.flush(now)

    def due(self) -> tuple[Effect, ...]:
        """Return the effects of what `flush` has found; to be asked after it."""
        return self._reaction("").effects if self._context.outbox else ()

    def numbers(self) -> Numbers:
        """Return how much of everything there is."""
        return Numbers(
            queue=self.queue.lengths(),
            nodes=self.cluster.columns.node_count,
            pods=len(self.cluster.pods) - len(self.cluster.nominations),
            assumed=self.cluster.assumed,
            nominations=len(self.cluster.nominations),
            preempting=len(self._executor),
        )

    def explain(self, queued: QueuedPod, now: Seconds) -> tuple[AttemptResult, str]:
        """Judge a pod of the queue against the cluster as it is; nothing comes of it.

        Args:
            queued: The pod.
            now: The time.

        Returns:
            What an attempt would find, with a trace of every node, and why it finds nothing:
            empty, or an error.
        """
        begin = self._beginning(queued, now, explain=True)
        questions, outcome, error = self._go_on(AttemptRun(queued, queued.timestamp, begin))
        return outcome, "extenders would be asked first" if questions else error

    def gated_because(self, pod: Pod) -> str | None:
        """Return why a pod must not be scheduled yet, `None` when it may."""
        said = self._profiles[pod.spec.scheduler_name].run_pre_enqueue(pod)
        return None if said is None else said[1]

    @property
    def tracking(self) -> VictimTracker:
        """What became of preemptions."""
        return self._executor.tracking

    @property
    def preemptions(self) -> Counter[PreemptionPhase]:
        """How many preemptions are in each phase."""
        return self._executor.phases()

    def still_wanted(self, effect: Evict) -> bool:
        """Tell whether an eviction that was not sent yet is still part of a plan."""
        return self._executor.still_wanted(effect)

    def check(self) -> None:
        """Assert the invariants of everything that the machine keeps."""
        self.cluster.check()
        self.queue.check()
        self._binding.check()
        self._asking.check()
        self._context.held.check()
        for queued in self.queue:
            on_node = self.cluster.placed(queued.uid) is not None
            assert on_node == self.cluster.is_assumed(queued.uid), queued.pod.key
            assert on_node == (queued.phase is QueuePhase.BINDING), queued.pod.key

    def _gate(self, pod: Pod) -> str | None:
        said = self._profiles[pod.spec.scheduler_name].run_pre_enqueue(pod)
        return None if said is None else said[0]

    def _dispatch(self, event: Event, now: Seconds) -> None:
        match event:
            case PodObserved(pod):
                self._observing.pod(pod, now)
                self._binding.pod(pod.uid, now)
            case PodGone(uid=uid):
                self._observing.pod_gone(uid, now)
                self._binding.pod(uid, now)
            case NodeObserved(node):
                self._observing.node(node, now)
                self._binding.node(node.metadata.name, now)
            case NodeGone(name):
                self._observing.node_gone(name, now)
                self._binding.node(name, now)
            case StorageObserved() | StorageGone():
                self._observing.storage(event, now)
                self._binding.storage(event, now)
            case DeviceClassObserved() | DeviceClassGone():
                self._observing.device_class(event, now)
            case EffectDone() | EffectFailed() | Answered():
                self._outcome(event, now)
            case _:
                self._note(event, now)

    def _note(self, event: Unheard, now: Seconds) -> None:
        """Take over objects that no plugin is asked about."""
        match event:
            case BudgetObserved() | BudgetGone():
                self._observing.budget(event, now)
            case PolicyObserved() | PolicyGone():
                self._observing.policy(event, now)
            case NamespaceObserved() | NamespaceGone():
                self._observing.namespace(event, now)
            case WorkloadObserved(workload):
                self.cluster.workloads.write(workload)
            case WorkloadGone(kind, key):
                self.cluster.workloads.erase(kind, key)
            case LedgerLoaded(text):
                self.ledger.merge(text, now)
            case ClockAhead(seconds):
                self._observing.clock_ahead(seconds, now)
            case _:
                assert_never(event)

    def _outcome(self, event: EffectDone | EffectFailed | Answered, now: Seconds) -> None:
        match event:
            case EffectDone(effect, changed):
                self._done(effect, now, changed=changed)
            case EffectFailed(effect, failure):
                self._failed(effect, failure, now)
            case Answered():
                self._asking.answered(event)

    def _done(self, effect: Effect, now: Seconds, *, changed: bool) -> None:
        match effect:
            case Bind():
                self._acting.bound(effect, now)
            case BindVolumes():
                self._binding.done(effect, now)
            case Nominate():
                self._executor.nominated(effect, now)
            case SaveLedger():
                self._executor.remembered(effect, now)
            case Evict():
                self._executor.evicted(effect, now, changed=changed)
            case SetCondition() | ClearNomination() | RecordEvent() | Ask():
                pass
            case _:
                assert_never(effect)

    def _failed(self, effect: Effect, failure: Failure, now: Seconds) -> None:
        match effect:
            case Bind():
                self._acting.not_bound(effect, failure, now)
            case BindVolumes():
                self._binding.failed(effect, failure, now)
            case Nominate() | SaveLedger() | Evict():
                self._executor.failed(effect, failure, now)
            case SetCondition():
                pod_status.condition_not_set(self._context, effect)
            case Ask():
                self._asking.failed(effect, failure)
            case ClearNomination() | RecordEvent():
                pass
            case _:
                assert_never(effect)

    def _begun(self, now: Seconds, *, explain: bool) -> AttemptRun | None:
        """Begin with the next pod; `None` when none waits for its turn."""
        queued = self.queue.pop(now)
        if queued is None:
            return None
        return AttemptRun(queued, now, self._beginning(queued, now, explain=explain))

    def _beginning(self, queued: QueuedPod, now: Seconds, *, explain: bool) -> Begin:
        """Return what begins an attempt for a pod."""
        since = now if queued.unschedulable_since is None else queued.unschedulable_since
        return functools.partial(self._attempts.decide, now=now, since=since, explain=explain)

    def _go_on(self, under_way: AttemptRun) -> tuple[tuple[Question, ...], AttemptResult, str]:
        """Return what to ask, or what was found, or nothing and an error."""
        nothing = AttemptResult(nodes=self.cluster.columns.node_count)
        try:
            return under_way.go_on(), nothing, ""
        except StopIteration as end:
            return (), end.value, ""
        except PluginError as error:
            return (), nothing, str(error)
        except Exception as error:  # noqa: BLE001 - one odd object must not stop all other pods
            return (), nothing, f"{type(error).__name__}: {error}"

    def _reaction(self, refused: str) -> Reaction:
        context = self._context
        if not context.outbox and not context.bound and not refused:
            return _NOTHING
        reaction = Reaction(tuple(context.outbox), tuple(context.bound), refused)
        context.outbox.clear()
        context.bound.clear()
        return reaction


_NOTHING = Reaction()
