"""Runs the machine against a simulated cluster in memory.

Effects are carried out at once and never fail: a bound pod runs on its node, a victim terminates,
a nominated pod has its nomination. Only extenders are really called. With `settle`, terminating
pods disappear and pending pods are tried again, until nothing changes.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from msgspec.structs import replace

from scheduler.core.machine import Machine
from scheduler.framework.profile import Profile
from scheduler.model import times
from scheduler.model.api import pod_changes
from scheduler.model.api.device_claims import Allocation
from scheduler.model.api.objects import Pod
from scheduler.model.decisions import Attempt, Gated, Placed, Waiting
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
    PodRef,
    ReleaseClaims,
    SetCondition,
)
from scheduler.model.events import (
    Answered,
    BudgetObserved,
    DeviceClassObserved,
    DevicesObserved,
    EffectDone,
    EffectFailed,
    Event,
    Failure,
    FailureKind,
    NamespaceObserved,
    NodeObserved,
    PodGone,
    PodObserved,
    PolicyObserved,
    StorageObserved,
    WorkloadObserved,
)
from scheduler.model.extender_answers import ExtenderAnswer
from scheduler.model.times import Seconds
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.sim.claim_controller import SimulatedClaims
from scheduler.sim.manifests import Manifests
from scheduler.sim.volume_controller import SimulatedStorage

__all__ = ["Planner"]

GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"

#: Longer than any back-off, and longer than a pod may wait for an event.
_PAST_BACKOFF: Final = 3600.0
#: Rounds of `settle` after which a cluster that still changes is left as it is.
_MAX_ROUNDS: Final = 10_000

#: Calls extenders about a pod of a simulated cluster, whose pods are given by uid.
CallExtenders: TypeAlias = Callable[[Ask, Mapping[str, Pod]], tuple[ExtenderAnswer, ...]]


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What a plan is about."""

    #: Only pods of this scheduler name; empty for all of the configured profiles.
    scheduler_name: str = ""
    explain: bool = False
    #: Calls extenders; `None` if none is configured.
    ask: CallExtenders | None = None
    #: The time of the simulated cluster; preemption policies depend on it.
    now: Seconds = 0.0


class Planner:
    """One simulated cluster and the machine that schedules its pods."""

    def __init__(
        self, manifests: Manifests, profiles: Mapping[str, Profile], backoff: PodBackoff,
        options: PlanOptions,
    ) -> None:  # fmt: skip
        self._machine = Machine(profiles, backoff)
        self._profiles = profiles
        self._options = options
        self._storage = SimulatedStorage(manifests.storage)
        self._claims = SimulatedClaims(manifests.devices, makes_ready=True)
        self._pods: dict[str, Pod] = {}
        #: The last attempt of each pod, by uid.
        self._last: dict[str, Attempt] = {}
        #: What the claims of each placed pod have, by uid of the pod and key of the claim.
        self.allocations: dict[str, dict[str, Allocation]] = {}
        self._now: Seconds = options.now
        #: The pods that are scheduled, in file order.
        self.pending: list[PodRef] = []
        for event in self._first_events(manifests):
            self._observe(event)

    def attempts(self) -> Iterator[Attempt]:
        """Attempt each pending pod once; gated pods come last."""
        while self._machine.active():
            attempt = self._step()
            if attempt is not None:
                self._last[attempt.pod.uid] = attempt
                yield attempt
        for reference in self.pending:
            pod = self._pods[reference.uid]
            if self._machine.gate_reason(pod) is not None:
                yield self._gated(pod)

    def settle(self) -> Iterator[Attempt]:
        """Continue until nothing changes any more.

        An attempt with the same result as the last attempt of its pod is not reported again.
        """
        for _ in range(_MAX_ROUNDS):
            terminating = [pod for pod in self._pods.values() if pod.terminating]
            for pod in terminating:
                del self._pods[pod.uid]
                self._observe(PodGone(pod.key, pod.uid))
                for claim in self._claims.pod_gone(pod.uid):
                    self._observe(DevicesObserved(claim))
            # After every back-off and after the longest wait, all pending pods are tried again.
            self._now += _PAST_BACKOFF
            self._machine.flush(self._now)
            changed = bool(terminating)
            while self._machine.active():
                attempt = self._step()
                if attempt is None:
                    break
                before = self._last.get(attempt.pod.uid)
                self._last[attempt.pod.uid] = attempt
                if before is None or before.decision != attempt.decision:
                    changed = True
                    yield attempt
            if not changed:
                return

    def final(self) -> dict[str, str | None]:
        """Return the node of each pod that was pending, by key; `None` if it has none."""
        nodes: dict[str, str | None] = {}
        for reference in self.pending:
            pod = self._pods.get(reference.uid)
            nodes[reference.key] = (pod.spec.node_name or None) if pod is not None else None
        return nodes

    @property
    def claims(self) -> SimulatedClaims:
        """The claims of devices, as they are now."""
        return self._claims

    def _first_events(self, manifests: Manifests) -> Iterator[Event]:
        yield from map(NamespaceObserved, manifests.namespaces)
        yield from map(PolicyObserved, manifests.policies)
        yield from map(NodeObserved, manifests.nodes)
        yield from map(BudgetObserved, manifests.pdbs)
        yield from map(WorkloadObserved, manifests.workloads)
        yield from map(StorageObserved, manifests.storage)
        yield from map(DeviceClassObserved, manifests.device_classes)
        yield from map(DevicesObserved, manifests.devices)
        waiting = []
        for pod in manifests.pods:
            if pod.terminal or (not pod.spec.node_name and pod.terminating):
                continue
            if pod.spec.node_name:
                self._pods[pod.uid] = pod
                yield PodObserved(pod)
            else:
                waiting.append(pod)
        # The queue keeps the order of arrival among pods of equal priority.
        for pod in sorted(waiting, key=_created):
            adopted = self._adopted(pod)
            self._pods[pod.uid] = adopted
            yield PodObserved(adopted)
        self.pending = [
            PodRef(pod.metadata.namespace, pod.metadata.name, pod.uid)
            for pod in waiting
            if self._pods[pod.uid].spec.scheduler_name in self._profiles
        ]

    def _adopted(self, pod: Pod) -> Pod:
        """Return a pod with the scheduler name of the profile that schedules it."""
        wanted = self._options.scheduler_name
        if wanted and pod.spec.scheduler_name != wanted:
            return replace(pod, spec=replace(pod.spec, scheduler_name=""))
        if len(self._profiles) == 1:
            (only,) = self._profiles
            return replace(pod, spec=replace(pod.spec, scheduler_name=only))
        return pod

    def _step(self) -> Attempt | None:
        while True:
            attempt = self._machine.step(self._now, explain=self._options.explain)
            if attempt is not None:
                self._carry_out(attempt.effects)
                if isinstance(attempt.decision, Placed):
                    self._note_allocations(attempt.pod.uid)
            if attempt is None or not isinstance(attempt.decision, Waiting):
                return attempt

    def _note_allocations(self, uid: str) -> None:
        used = self._claims.used_by(uid)
        if used:
            self.allocations[uid] = used

    def _observe(self, event: Event) -> None:
        self._carry_out(self._machine.observe(event, self._now).effects)

    def _carry_out(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            if isinstance(effect, Ask):
                self._observe(self._asked(effect))
                continue
            if isinstance(effect, BindClaims | ReleaseClaims | DeallocateClaim | DeleteClaim):
                for event in self._claims.carry_out(effect):
                    self._observe(event)
            changed = self._change(effect)
            self._observe(EffectDone(effect))
            if isinstance(effect, BindVolumes):
                changed = self._bind_volumes(effect)
            elif isinstance(effect, BindClaims):
                changed = self._bound(effect)
            if changed is not None:
                self._pods[changed.uid] = changed
                self._observe(PodObserved(changed))

    def _asked(self, effect: Ask) -> Event:
        if self._options.ask is None:
            failure = Failure(FailureKind.REFUSED, "no extender client is configured")
            return EffectFailed(effect, failure)
        return Answered(effect.pod, effect.number, self._options.ask(effect, self._pods))

    def _bind_volumes(self, effect: BindVolumes) -> Pod | None:
        """Bind existing volumes; the pod does not wait for volumes that must be provisioned."""
        uid = effect.pod.uid
        for item in self._storage.bind(effect, self._pods[uid]):
            self._observe(StorageObserved(item))
        return self._bound(effect)

    def _bound(self, effect: BindVolumes | BindClaims) -> Pod | None:
        """Return the pod on its node, unless it is there; nothing that it may wait for happens."""
        pod = self._pods[effect.pod.uid]
        if pod.spec.node_name:
            return None
        return self._change(Bind(effect.pod, effect.node, pod.spec.scheduler_name))

    def _change(self, effect: Effect) -> Pod | None:
        """Return the pod that an effect changes, as it is afterwards; `None` if it changes none."""
        match effect:
            case Bind(pod, node):
                return pod_changes.bound(self._pods[pod.uid], node)
            case Nominate(pod, node):
                return self._with_nomination(pod, node)
            case ClearNomination(pod):
                return self._with_nomination(pod, "")
            case SetCondition(pod, clear_nomination=True):
                return self._with_nomination(pod, "")
            case Evict(victim=victim):
                return self._evicted(victim)
            case _:
                return None

    def _with_nomination(self, reference: PodRef, node: str) -> Pod | None:
        pod = self._pods.get(reference.uid)
        return None if pod is None else pod_changes.nominated(pod, node)

    def _evicted(self, reference: PodRef) -> Pod | None:
        pod = self._pods.get(reference.uid)
        return None if pod is None else pod_changes.evicted(pod, times.stamp(self._now))

    def _gated(self, pod: Pod) -> Attempt:
        return Attempt(
            pod=PodRef(pod.metadata.namespace, pod.metadata.name, pod.uid),
            scheduler_name=pod.spec.scheduler_name,
            priority=pod.priority,
            decision=Gated(GATED),
            effects=(),
            number=0,
            nodes=0,
            feasible=0,
        )


def _created(pod: Pod) -> Seconds:
    """Return when a pod was created; a pod without a creation time counts as the oldest."""
    return times.parse(pod.metadata.creation_timestamp) or 0.0
