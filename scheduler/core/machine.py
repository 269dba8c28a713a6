"""The machine: news in, attempts and effects out.

`observe` takes what happened, `step` decides for at most one pod. Neither does I/O, reads a clock
or owns a thread; what should happen outside comes back as effects, and every effect comes back as
exactly one outcome. The live scheduler, `plan` and the tests run this very machine.

`observe` may be called at any time, `step` whenever `ready` says that a pod waits for its turn.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias, assert_never

from scheduler.core import changes, telling
from scheduler.core.attempt import Attempts, Outcome
from scheduler.core.context import Bound, Context, reference
from scheduler.core.observing import Observing
from scheduler.core.preempting import Preempting as PreemptionsUnderWay
from scheduler.core.reserving import Reserving
from scheduler.framework.plugin import PluginError
from scheduler.framework.profile import Profile
from scheduler.framework.verdicts import Verdicts
from scheduler.model.decisions import (
    Attempt,
    Decision,
    Failed,
    Placed,
    Preempting,
    Unschedulable,
)
from scheduler.model.effects import (
    Announce,
    Bind,
    BindVolumes,
    ClearNomination,
    Effect,
    Evict,
    Nominate,
    SetCondition,
)
from scheduler.model.events import (
    BudgetGone,
    BudgetObserved,
    EffectDone,
    EffectFailed,
    Event,
    Failure,
    FailureKind,
    NamespaceGone,
    NamespaceObserved,
    NodeGone,
    NodeObserved,
    PodGone,
    PodObserved,
    StorageGone,
    StorageObserved,
    WorkloadGone,
    WorkloadObserved,
)
from scheduler.model.objects import Pod
from scheduler.model.quantity import QuantityError
from scheduler.model.times import Seconds
from scheduler.state.backoff import Backoff
from scheduler.state.cluster import Cluster
from scheduler.state.queue import QueuedPod, SchedulingQueue
from scheduler.state.transitions import Phase

__all__ = ["Machine", "Reaction"]

#: Events that no waiting pod is woken by.
Unheard: TypeAlias = (
    BudgetObserved
    | BudgetGone
    | NamespaceObserved
    | NamespaceGone
    | WorkloadObserved
    | WorkloadGone
)


@dataclass(frozen=True, slots=True)
class Reaction:
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

    def __init__(self, profiles: Mapping[str, Profile], backoff: Backoff) -> None:
        self.cluster: Final = Cluster()
        self.queue: Final = SchedulingQueue(backoff, self._gate)
        self._profiles = profiles
        self._context = Context(profiles, self.cluster, self.queue)
        self._attempts = Attempts(profiles, self.cluster, Verdicts())
        self._preempting = PreemptionsUnderWay(self._context)
        self._observing = Observing(self._context, self._preempting)
        self._reserving = Reserving(self._context, profiles)

    def observe(self, event: Event, now: Seconds) -> Reaction:
        """Take note of what happened."""
        refused = ""
        # What is overdue comes first, so that a replay, which knows no flush, decides the same.
        self._reserving.flush(now)
        try:
            self._dispatch(event, now)
        except QuantityError as error:
            refused = str(error)
        return self._reaction(refused)

    def step(self, now: Seconds, *, explain: bool = False) -> Attempt | None:
        """Decide for the next pod; `None` when none waits for its turn.

        Args:
            now: The time.
            explain: Whether the attempt carries a trace of every node.
        """
        self.flush(now)
        queued = self.queue.pop(now)
        if queued is None:
            return None
        pod = queued.pod
        outcome, error = self._decide(queued, explain=explain)
        decision = self._act(queued, outcome, error, now)
        return Attempt(
            pod=reference(pod),
            scheduler_name=pod.spec.scheduler_name,
            priority=pod.priority,
            decision=decision,
            effects=self._reaction("").effects,
            number=queued.attempts,
            nodes=outcome.nodes,
            feasible=outcome.feasible,
            plugins=tuple(sorted(outcome.rejectors)),
            preemption_tried=outcome.preemption_tried,
            trace=outcome.trace,
        )

    def ready(self) -> bool:
        """Tell whether a pod waits for its turn."""
        return self.queue.ready()

    def next_wakeup(self) -> Seconds | None:
        """Return when `flush` next has something to do."""
        moments = (self.queue.next_wakeup(), self._reserving.next_wakeup())
        return min((each for each in moments if each is not None), default=None)

    def flush(self, now: Seconds) -> None:
        """Move pods whose time has come."""
        self.queue.flush(now)
        self._reserving.flush(now)

    def numbers(self) -> Numbers:
        """Return how much of everything there is."""
        return Numbers(
            queue=self.queue.lengths(),
            nodes=self.cluster.columns.node_count,
            pods=len(self.cluster.pods) - len(self.cluster.nominations),
            assumed=self.cluster.assumed,
            nominations=len(self.cluster.nominations),
            preempting=len(self._preempting),
        )

    def gated_because(self, pod: Pod) -> str | None:
        """Return why a pod must not be scheduled yet, `None` when it may."""
        said = self._profiles[pod.spec.scheduler_name].gate(pod)
        return None if said is None else said[1]

    def check(self) -> None:
        """Assert the invariants of everything that the machine keeps."""
        self.cluster.check()
        self.queue.check()
        self._reserving.check()
        for queued in self.queue:
            on_node = self.cluster.placed(queued.uid) is not None
            assert on_node == self.cluster.is_assumed(queued.uid), queued.pod.key
            assert on_node == (queued.phase is Phase.BINDING), queued.pod.key

    def _gate(self, pod: Pod) -> str | None:
        said = self._profiles[pod.spec.scheduler_name].gate(pod)
        return None if said is None else said[0]

    def _dispatch(self, event: Event, now: Seconds) -> None:
        match event:
            case PodObserved(pod):
                self._observing.pod(pod, now)
                self._reserving.pod(pod.uid, now)
            case PodGone(uid=uid):
                self._observing.pod_gone(uid, now)
                self._reserving.pod(uid, now)
            case NodeObserved(node):
                self._observing.node(node, now)
                self._reserving.node(node.metadata.name, now)
            case NodeGone(name):
                self._observing.node_gone(name, now)
                self._reserving.node(name, now)
            case StorageObserved() | StorageGone():
                self._observing.storage(event, now)
                self._reserving.storage(event, now)
            case EffectDone(effect, changed):
                self._done(effect, now, changed=changed)
            case EffectFailed(effect, failure):
                self._failed(effect, failure, now)
            case _:
                self._note(event)

    def _note(self, event: Unheard) -> None:
        """Take over objects that no waiting pod is woken by."""
        match event:
            case BudgetObserved(budget):
                self.cluster.write_budget(budget)
            case BudgetGone(key):
                self.cluster.erase_budget(key)
            case NamespaceObserved(namespace):
                self.cluster.write_namespace(namespace)
            case NamespaceGone(name):
                self.cluster.erase_namespace(name)
            case WorkloadObserved(workload):
                self.cluster.workloads.write(workload)
            case WorkloadGone(kind, key):
                self.cluster.workloads.erase(kind, key)
            case _:
                assert_never(event)

    def _done(self, effect: Effect, now: Seconds, *, changed: bool) -> None:
        match effect:
            case Bind():
                self._bound(effect, now)
            case BindVolumes():
                self._reserving.done(effect, now)
            case Nominate():
                self._preempting.nominated(effect, now)
                for spared in self._reserving.spare(now):
                    self._preempting.evicted(spared, now, changed=False)
            case Evict():
                self._preempting.evicted(effect, now, changed=changed)
            case SetCondition() | ClearNomination() | Announce():
                pass
            case _:
                assert_never(effect)

    def _failed(self, effect: Effect, failure: Failure, now: Seconds) -> None:
        match effect:
            case Bind():
                self._not_bound(effect, failure, now)
            case BindVolumes():
                self._reserving.failed(effect, failure, now)
            case Nominate():
                self._preempting.not_nominated(effect, failure, now)
            case Evict():
                self._preempting.not_evicted(effect, failure, now)
            case SetCondition():
                queued = self.queue.get(effect.pod.uid)
                if queued is not None:
                    queued.told = None
            case ClearNomination() | Announce():
                pass
            case _:
                assert_never(effect)

    def _bound(self, effect: Bind, now: Seconds) -> None:
        """Let go of a pod that the API server has bound; the watch will confirm it."""
        context, uid = self._context, effect.pod.uid
        self.queue.drop(uid, now)
        queued = context.binding.pop(uid, None)
        if queued is None:
            return
        waited = now - (now if queued.first_active is None else queued.first_active)
        context.bound.append(
            Bound(
                pod=effect.pod,
                node=effect.node,
                scheduler_name=effect.scheduler_name,
                attempts=queued.attempts,
                waited_seconds=waited,
                flushed=queued.flushed,
            )
        )
        telling.announce_scheduled(context, queued.pod, effect.node)

    def _not_bound(self, effect: Bind, failure: Failure, now: Seconds) -> None:
        """Take a pod off the node that it could not be bound to, and try it again later."""
        uid = effect.pod.uid
        self._context.binding.pop(uid, None)
        if not self.cluster.is_assumed(uid):
            return
        left = self.cluster.forget(uid)
        self._context.wake(changes.POD_DELETED, left, None, now)
        queued = self.queue.get(uid)
        if queued is None:
            return
        if failure.kind is FailureKind.GONE or queued.pod.terminating:
            self.queue.drop(uid, now)
            return
        error = f'running Bind plugin "DefaultBinder": {failure.message}'
        self.queue.retry(queued, now)
        nominated = bool(queued.pod.status.nominated_node_name)
        self._tell_failure(queued, telling.SCHEDULER_ERROR, error, clear_nomination=nominated)

    def _decide(self, queued: QueuedPod, *, explain: bool) -> tuple[Outcome, str]:
        """Return what was found, or nothing and an error."""
        try:
            return self._attempts.decide(queued.pod, queued.key, explain=explain), ""
        except PluginError as error:
            return Outcome(nodes=self.cluster.columns.node_count), str(error)
        except Exception as error:  # noqa: BLE001 - one odd object must not stop all other pods
            return Outcome(
                nodes=self.cluster.columns.node_count
            ), f"{type(error).__name__}: {error}"

    def _act(self, queued: QueuedPod, outcome: Outcome, error: str, now: Seconds) -> Decision:
        pod = queued.pod
        if error:
            clear = self._give_back(queued, now)
            self.queue.retry(queued, now)
            self._tell_failure(queued, telling.SCHEDULER_ERROR, error, clear_nomination=clear)
            return Failed(error)
        if outcome.node is not None:
            self._leave_other_claim(pod, outcome.node, now)
            self.cluster.assume(pod, outcome.node)
            self.queue.assumed(queued, now)
            self._context.binding[pod.uid] = queued
            self._reserving.placed(queued, outcome.node)
            return Placed(outcome.node)
        if outcome.candidate is not None:
            self._leave_other_claim(pod, self.cluster.columns.names[outcome.candidate.row], now)
            self.queue.hold(queued, outcome.rejectors, now)
            telling.announce_failure(self._context, pod, outcome.message)
            node = self._preempting.start(queued, outcome.candidate, outcome.message)
            victims = tuple(reference(victim) for victim in outcome.candidate.victims)
            return Preempting(node, victims, outcome.candidate.violations, outcome.message)
        return self._give_up(queued, outcome, now)

    def _give_up(self, queued: QueuedPod, outcome: Outcome, now: Seconds) -> Decision:
        """Park a pod that fits nowhere."""
        clear = not outcome.keeps_nomination and self._give_back(queued, now)
        if outcome.rejectors:
            self.queue.reject(queued, outcome.rejectors, now)
        else:
            self.queue.retry(queued, now)
        text = outcome.message
        self._tell_failure(queued, telling.UNSCHEDULABLE, text, clear_nomination=clear)
        return Unschedulable(text)

    def _give_back(self, queued: QueuedPod, now: Seconds) -> bool:
        """Drop the claim of a pod; tell whether its status may still carry the nomination."""
        claimed = self.cluster.nominations.get(queued.uid) is not None
        self._context.withdraw(queued.uid, now)
        return claimed or bool(queued.pod.status.nominated_node_name)

    def _leave_other_claim(self, pod: Pod, node: str, now: Seconds) -> None:
        """Let others use the room that a pod claimed on another node than the chosen one."""
        claim = self.cluster.nominations.get(pod.uid)
        if claim is not None and claim.node != node:
            self._context.withdraw(pod.uid, now)

    def _tell_failure(
        self, queued: QueuedPod, reason: str, text: str, *, clear_nomination: bool
    ) -> None:
        telling.announce_failure(self._context, queued.pod, text)
        telling.set_condition(
            self._context, queued, reason, text, clear_nomination=clear_nomination
        )

    def _reaction(self, refused: str) -> Reaction:
        context = self._context
        if not context.outbox and not context.bound and not refused:
            return _NOTHING
        reaction = Reaction(tuple(context.outbox), tuple(context.bound), refused)
        context.outbox.clear()
        context.bound.clear()
        return reaction


_NOTHING = Reaction()
