"""Runs the machine against a simulated cluster in memory.

Effects are carried out at once and never fail: a bound pod runs on its node, a victim terminates, a
nominated pod has its nomination. Only extenders are really called. With `settle`, terminating pods
disappear and pending pods are tried again, until nothing changes. If that is wanted, the
controllers of pods that disappear re-create them.
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
    LedgerLoaded,
    NamespaceObserved,
    NodeObserved,
    PodGone,
    PodObserved,
    PolicyObserved,
    StorageObserved,
    WorkloadObserved,
)
from scheduler.model.extender_answers import ExtenderAnswer
from scheduler.model.releases import Reference
from scheduler.model.times import Seconds
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.sim import recreation
from scheduler.sim.claim_controller import SimulatedClaims
from scheduler.sim.manifests import Manifests
from scheduler.sim.volume_controller import SimulatedStorage
from scheduler.state.cluster import Cluster

__all__ = ["Displacement", "PlanOptions", "Planner"]

GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"

#: Longer than any back-off, and longer than a pod may wait for an event.
_PAST_BACKOFF: Final = 3600.0
#: Rounds of `settle` after which a cluster that still changes is left as it is.
_MAX_ROUNDS: Final = 10_000

#: Kinds of the controllers whose pods a drain leaves: each node has such a pod of its own.
_NOT_DRAINED: Final = frozenset({"DaemonSet", "Node"})

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
    #: Whether attempts have details.
    detailed: bool = False
    #: Whether victims are evicted only within their disruption budgets, as with `--evict-only`.
    evict_only: bool = False
    #: Whether a single profile schedules pods of any scheduler name.
    adopts: bool = True
    #: Whether controllers make pods again that disappear.
    recreates: bool = False
    #: What preemption remembers, as the ledger is saved; empty for nothing.
    ledger: str = ""


@dataclass(frozen=True, slots=True)
class Displacement:
    """A pod that has disappeared from its node, and the one that its controller made instead."""

    pod: Pod
    #: `None` if the pod has no controller.
    replacement: Pod | None


class Planner:
    """One simulated cluster and the machine that schedules its pods."""

    def __init__(
        self, manifests: Manifests, profiles: Mapping[str, Profile], backoff: PodBackoff,
        options: PlanOptions,
    ) -> None:  # fmt: skip
        self._machine = Machine(
            profiles,
            backoff,
            evict_only=options.evict_only,
            compares=options.detailed,
            detailed=options.detailed,
        )
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
        self._gone: list[Pod] = []
        #: The pods that have disappeared from nodes, in that order.
        self.displaced: list[Displacement] = []
        #: Uids of the pods that terminate from the beginning: their successors exist already.
        self._leaving = {pod.uid for pod in manifests.pods if pod.terminating}
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
                recreates = self._options.recreates and pod.uid not in self._leaving
                self._remove(pod, recreates=recreates)
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

    def drain(self, node: str) -> None:
        """Delete the pods of a node, and let their controllers make them again.

        As with `kubectl drain --ignore-daemonsets --force`, pods of DaemonSets and those of the
        kubelet stay. The node is expected to be unschedulable.
        """
        for pod in [pod for pod in self._pods.values() if pod.spec.node_name == node]:
            owners = pod.metadata.owner_references
            if not any(owner.controller and owner.kind in _NOT_DRAINED for owner in owners):
                self._remove(pod, recreates=True)

    def known(self) -> Iterator[Pod]:
        """Yield all pods, those that have disappeared too."""
        yield from self._pods.values()
        yield from self._gone

    def was_leaving(self, uid: str) -> bool:
        """Return whether a pod has terminated from the beginning."""
        return uid in self._leaving

    def pod(self, uid: str) -> Pod | None:
        """Return a pod as it is now; `None` if it has disappeared."""
        return self._pods.get(uid)

    @property
    def cluster(self) -> Cluster:
        """The state of the simulated cluster."""
        return self._machine.cluster

    @property
    def reference(self) -> Reference:
        """The release whose decisions are reproduced."""
        return self._machine.reference

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
        if self._options.ledger:
            yield LedgerLoaded(self._options.ledger)
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
        if self._options.adopts and len(self._profiles) == 1:
            (only,) = self._profiles
            return replace(pod, spec=replace(pod.spec, scheduler_name=only))
        return pod

    def _remove(self, pod: Pod, *, recreates: bool) -> None:
        """Let a pod disappear, and its controller make it again if that is wanted."""
        del self._pods[pod.uid]
        self._observe(PodGone(pod.key, pod.uid))
        for claim in self._claims.pod_gone(pod.uid):
            self._observe(DevicesObserved(claim))
        self._gone.append(pod)
        if not pod.spec.node_name:
            return
        made = recreation.recreated(pod, self._now) if recreates else None
        if made is not None:
            self._copy_claims(pod, made)
            made = self._scheduled_by_us(made)
            self._pods[made.uid] = made
            self.pending.append(made.ref)
            self._observe(PodObserved(made))
        if pod.uid not in self._leaving:
            self.displaced.append(Displacement(pod, made))

    def _copy_claims(self, pod: Pod, made: Pod) -> None:
        """Generate the claims of a re-created pod, like those of its predecessor."""
        namespace = made.metadata.namespace
        names = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
        for each in made.status.resource_claim_statuses:
            claim = self._claims.find(f"{namespace}/{names.get(each.name)}")
            if claim is not None and each.resource_claim_name is not None:
                copy = recreation.copied_claim(claim, each.resource_claim_name, made)
                self._observe(DevicesObserved(self._claims.store(copy)))
        for volume in pod.spec.volumes:
            old = self._storage.claim(f"{namespace}/{pod.metadata.name}-{volume.name}")
            if volume.ephemeral is not None and old is not None:
                name = f"{made.metadata.name}-{volume.name}"
                copied = recreation.copied_volume_claim(old, name, made)
                self._storage.add(copied)
                self._observe(StorageObserved(copied))

    def _scheduled_by_us(self, pod: Pod) -> Pod:
        """Return a pod with a profile of ours: that of its name, else the first one."""
        if pod.spec.scheduler_name in self._profiles:
            return pod
        return replace(pod, spec=replace(pod.spec, scheduler_name=next(iter(self._profiles))))

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
