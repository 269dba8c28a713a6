"""A cluster whose pending pods are scheduled in memory: what would happen.

It begins with a copy of a machine, or empty, and gets objects after that. What the copied machine
has asked for and has no answer to is done first: it is bound, evicted, nominated, saved.

Each pending pod is attempted once. With `settle`, terminating pods disappear and pending pods are
tried again, until nothing changes. Only extenders are really called.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as replaced
from typing import Final, Literal, TypeAlias

from msgspec.structs import replace

from scheduler.config.settings import Settings
from scheduler.core.machine import Machine
from scheduler.core.snapshot.encoding import restore
from scheduler.framework.profile import Profile
from scheduler.model import times
from scheduler.model.api import pod_changes
from scheduler.model.api.device_claims import Allocation
from scheduler.model.api.objects import LocalObject, ObjectMeta, Pod
from scheduler.model.decisions import Attempt, Detail, Gated, Placed, Preempting, Waiting
from scheduler.model.effects import Ask, BindClaims, BindVolumes, Effect, PodRef
from scheduler.model.events import (
    Answered,
    BudgetObserved,
    DeviceClassObserved,
    DevicesObserved,
    Event,
    NamespaceObserved,
    NodeObserved,
    PolicyObserved,
    StorageObserved,
    WorkloadObserved,
)
from scheduler.model.extender_answers import ExtenderAnswer
from scheduler.model.rest.preemptions import PreemptionDevices
from scheduler.model.times import Seconds
from scheduler.observe.api.preempted_devices import devices_of
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.queue.phases import QueuePhase
from scheduler.queue.queued_pod import QueuedPod
from scheduler.sim.claim_controller import SimulatedClaims
from scheduler.sim.disruption_controller import SimulatedBudgets
from scheduler.sim.manifests import Manifests, keep
from scheduler.sim.virtual_cluster import VirtualCluster
from scheduler.sim.volume_controller import SimulatedStorage
from scheduler.state.cluster import Cluster

__all__ = [
    "Blocker", "Displacement", "State", "WhatIfCluster", "WhatIfOptions", "events_of", "objects_of",
]  # fmt: skip

GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"

#: Longer than any back-off, and longer than a pod may wait for an event.
_PAST_BACKOFF: Final = 3600.0
#: Rounds of `settle` after which a cluster that still changes is left as it is.
_MAX_ROUNDS: Final = 10_000

#: Kinds of the controllers whose pods a drain leaves: each node has such a pod of its own.
_NOT_DRAINED: Final = frozenset({"DaemonSet", "Node"})

#: Why a pod disappears: its node is drained, or it is evicted for another pod.
Cause: TypeAlias = Literal["drain", "preemption"]
#: Calls extenders about a pod of a simulated cluster, whose pods are given by uid.
CallExtenders: TypeAlias = Callable[[Ask, Mapping[str, Pod]], tuple[ExtenderAnswer, ...]]


@dataclass(frozen=True, slots=True)
class WhatIfOptions:
    """How the pods of a cluster are scheduled."""

    #: Only pods of this scheduler name; empty for all of the configured profiles.
    scheduler_name: str = ""
    explain: bool = False
    #: Calls extenders; `None` if none is configured.
    ask: CallExtenders | None = None
    #: The time of the simulated cluster; preemption policies depend on it.
    now: Seconds = 0.0
    #: How much attempts tell.
    detail: Detail = Detail.NONE
    #: Whether victims are evicted only within their disruption budgets, as with `--evict-only`.
    evict_only: bool = False
    #: Whether a single profile schedules pods of any scheduler name.
    adopts: bool = True
    #: Whether controllers make pods again that disappear.
    recreates: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """A scheduler at one moment, and how it decides."""

    #: The lines of a copy of its machine (`core/snapshot`).
    snapshot: Sequence[bytes]
    settings: Settings
    now: Seconds
    evict_only: bool = False
    #: Whether the live scheduler asks extenders, which this does not.
    has_extenders: bool = False


@dataclass(frozen=True, slots=True)
class Displacement:
    """A pod that has disappeared from its node, and the one that its controller made instead."""

    pod: Pod
    #: `None` if the pod has no controller.
    replacement: Pod | None
    cause: Cause = "preemption"


@dataclass(frozen=True, slots=True)
class Blocker:
    """A pod at which the drain of its node stops."""

    pod: Pod
    #: The disruption budgets that do not allow its eviction, by key.
    budgets: tuple[str, ...]


class WhatIfCluster(VirtualCluster):
    """A cluster of manifests."""

    def __init__(
        self,
        manifests: Manifests,
        profiles: Mapping[str, Profile],
        backoff: PodBackoff,
        options: WhatIfOptions,
        snapshot: Iterable[bytes] = (),
    ) -> None:
        """Create a cluster.

        Args:
            manifests: Its objects, beside those that the snapshot has.
            profiles: The plugins, by scheduler name.
            backoff: How long pods wait after a failure.
            options: How pods are scheduled.
            snapshot: The lines of the copy of a machine that goes on here; empty for none.
        """
        machine = Machine(
            profiles,
            backoff,
            evict_only=options.evict_only,
            detail=options.detail,
        )
        if snapshot:
            restore(machine, snapshot)
        super().__init__(machine, options.now)
        self._profiles = profiles
        self._options = options
        self.volumes = SimulatedStorage(machine.cluster.volumes)
        self.claims = SimulatedClaims(machine.cluster.devices.claims, makes_ready=True)
        #: The first and the last attempt of each pod, by uid.
        self.first: dict[str, Attempt] = {}
        self.last: dict[str, Attempt] = {}
        #: What the claims of each placed pod have, by uid of the pod and key of the claim.
        self.allocations: dict[str, dict[str, Allocation]] = {}
        #: The devices that the first preemption for each pod frees, by its uid.
        self.devices: dict[str, PreemptionDevices] = {}
        #: The pods that are scheduled, in the order of the queue or of the files.
        self.pending: list[PodRef] = []
        self._gone: list[Pod] = []
        self._displaced: dict[str, Displacement] = {}
        self.budgets: Final = SimulatedBudgets(machine.cluster.pdbs)
        #: Uids of pods whose nodes are drained, and whose budgets did not allow to evict them yet.
        self._undrained: list[str] = []
        #: Uids of the pods that terminate from the beginning: their successors exist already.
        self._leaving: set[str] = set()
        if snapshot:
            self._go_on()
        self.apply(manifests)

    def _go_on(self) -> None:
        """Do what the machine waits for, so that all objects are as it has decided."""
        cluster, queue = self.machine.cluster, self.machine.queue
        self.pods |= {pod.uid: pod for pod in cluster.pods}
        self.pods |= {queued.uid: queued.pod for queued in queue}
        for effect in [*self.machine.outstanding()]:
            self._execute(effect)
        for uid in sorted(cluster.evicting_uids()):
            self.put(self._evicted(self.pods[uid]))
        for queued in [*queue]:
            self._show(queued)
        self._leaving = {pod.uid for pod in self.pods.values() if pod.terminating}
        self.pending = [queued.pod.ref for queued in queue]

    def _show(self, queued: QueuedPod) -> None:
        """Let the API server have a pod of the queue as the machine has decided."""
        cluster, pod = self.machine.cluster, queued.pod
        if queued.phase is QueuePhase.BINDING:
            self.put(self._bound(pod, cluster.node_of(pod.uid) or ""))
            return
        if queued.phase is QueuePhase.WAITING_FOR_EXTENDERS:
            # Its attempt was not copied, so it begins again.
            self.machine.queue.begin_again(queued, self.now)
        node = cluster.nominations.node(pod.uid) or ""
        shown = self._adopted(pod)
        if shown.status.nominated_node_name != node:
            shown = pod_changes.nominated(shown, node)
        if shown is not pod:
            self.put(shown)

    def manifests(self) -> Manifests:
        """Return all objects."""
        return replaced(objects_of(self.machine.cluster), pods=[*self.pods.values()])

    def apply(self, manifests: Manifests, former: Iterable[Pod] = ()) -> None:
        """Let objects appear or change.

        Args:
            manifests: The objects.
            former: Pending pods that disappear before.
        """
        for pod in former:
            self.remove(pod.uid)
        gone = {pod.uid for pod in former}
        self.pending = [reference for reference in self.pending if reference.uid not in gone]
        for item in manifests.storage:
            self.volumes.add(item)
        for device in manifests.devices:
            self.claims.add(device)
        self._leaving |= {pod.uid for pod in manifests.pods if pod.terminating}
        for event in events_of(manifests):
            self.observe(event)
        self._observe_pods(manifests.pods)

    def attempts(self) -> Iterator[Attempt]:
        """Attempt each pending pod once; gated pods come last."""
        while self.machine.active():
            attempt = self.step(explain=self._options.explain)
            if attempt is not None:
                self._note(attempt)
                yield attempt
        for reference in self.pending:
            pod = self.pods[reference.uid]
            if self.machine.gate_reason(pod) is not None:
                gated = self._gated(pod)
                self._note(gated)
                yield gated

    def settle(self) -> Iterator[Attempt]:
        """Continue until nothing changes any more.

        An attempt with the same result as the last attempt of its pod is not reported again.
        """
        for _ in range(_MAX_ROUNDS):
            terminating = [pod for pod in self.pods.values() if pod.terminating]
            for pod in terminating:
                recreates = self._options.recreates and pod.uid not in self._leaving
                self._displace(pod, recreates=recreates)
            # After every back-off and after the longest wait, all pending pods are tried again.
            self.advance(self.now + _PAST_BACKOFF)
            changed = bool(terminating)
            self._restore_budgets()
            if self._undrained:
                changed |= self._drain_on()
            while self.machine.active():
                attempt = self.step(explain=self._options.explain)
                if attempt is None:
                    break
                before = self.last.get(attempt.pod.uid)
                self._note(attempt)
                if before is None or before.decision != attempt.decision:
                    changed = True
                    yield attempt
            if not changed:
                return

    def drain(self, nodes: Collection[str]) -> None:
        """Evict the pods of nodes as far as disruption budgets allow; controllers re-create them.

        As with `kubectl drain --ignore-daemonsets --force`, pods of DaemonSets and those of the
        kubelet stay. The nodes are expected to be unschedulable.
        """
        found = [pod for pod in self.pods.values() if pod.spec.node_name in nodes]
        self._undrained = [
            pod.uid
            for pod in sorted(found, key=lambda pod: pod.key)
            if not any(
                owner.controller and owner.kind in _NOT_DRAINED
                for owner in pod.metadata.owner_references
            )
        ]
        self._drain_on()

    def _drain_on(self) -> bool:
        """Evict what budgets allow by now; return whether that was any pod."""
        before, self._undrained = self._undrained, []
        for uid in before:
            pod = self.pods.get(uid)
            if pod is None:
                continue
            if self.budgets.refusing(pod):
                self._undrained.append(uid)
                continue
            made = self._displace(pod, recreates=True, cause="drain")
            charged = self.budgets.evicted(pod, made)
            if charged is not None:
                self.observe(BudgetObserved(charged))
        return len(self._undrained) < len(before)

    def _restore_budgets(self) -> None:
        """Let budgets allow more where replacements of evicted pods run."""
        for pdb in self.budgets.placed(self.pods):
            self.observe(BudgetObserved(pdb))

    def blockers(self) -> list[Blocker]:
        """Return the pods at which drains stop."""
        pods = filter(None, map(self.pods.get, self._undrained))
        return [Blocker(pod, self.budgets.refusing(pod)) for pod in pods]

    def known(self) -> Iterator[Pod]:
        """Yield all pods, those that have disappeared too."""
        yield from self.pods.values()
        yield from self._gone

    def displaced(self) -> dict[str, Displacement]:
        """Return the pods that have disappeared from nodes, and the victims that will, by uid."""
        displaced = dict(self._displaced)
        for attempt in self.first.values():
            if isinstance(attempt.decision, Preempting):
                for victim in attempt.decision.victims:
                    pod = self.pods.get(victim.uid)
                    if pod is not None and not self.was_leaving(victim.uid):
                        displaced.setdefault(victim.uid, Displacement(pod, None))
        return displaced

    def was_leaving(self, uid: str) -> bool:
        """Return whether a pod has terminated from the beginning."""
        return uid in self._leaving

    def node_of(self, uid: str) -> str:
        """Return the node of a pod now; empty if it has none, or has disappeared."""
        pod = self.pods.get(uid)
        return "" if pod is None else pod.spec.node_name

    def final(self) -> dict[str, str | None]:
        """Return the node of each pod that was pending, by key; `None` if it has none."""
        return {each.key: self.node_of(each.uid) or None for each in self.pending}

    def _observe_pods(self, pods: Iterable[Pod]) -> None:
        waiting = []
        for pod in pods:
            if pod.terminal or (not pod.spec.node_name and pod.terminating):
                continue
            if pod.spec.node_name:
                self.put(pod)
            else:
                waiting.append(pod)
        # The queue keeps the order of arrival among pods of equal priority.
        for pod in sorted(waiting, key=_created):
            self.put(self._adopted(pod))
        adopted = (self.pods[pod.uid] for pod in waiting)
        self.pending += [pod.ref for pod in adopted if pod.spec.scheduler_name in self._profiles]

    def _adopted(self, pod: Pod) -> Pod:
        """Return a pod with the scheduler name of the profile that schedules it."""
        wanted = self._options.scheduler_name
        if wanted and pod.spec.scheduler_name != wanted:
            return replace(pod, spec=replace(pod.spec, scheduler_name=""))
        if self._options.adopts and len(self._profiles) == 1:
            (only,) = self._profiles
            return replace(pod, spec=replace(pod.spec, scheduler_name=only))
        return pod

    def _displace(self, pod: Pod, *, recreates: bool, cause: Cause = "preemption") -> Pod | None:
        """Let a pod disappear, and its controller make it again if that is wanted; return that."""
        self.remove(pod.uid)
        self._gone.append(pod)
        if not pod.spec.node_name:
            return None
        made = self.recreate(pod, self._profile_of(pod)) if recreates else None
        if made is not None:
            self.pending.append(made.ref)
            self.budgets.replaced(pod, made)
        if pod.uid not in self._leaving:
            self._displaced[pod.uid] = Displacement(pod, made, cause)
        return made

    def _profile_of(self, pod: Pod) -> str:
        """Return the profile of ours that schedules a pod: that of its name, else the first one."""
        wanted = pod.spec.scheduler_name
        return wanted if wanted in self._profiles else next(iter(self._profiles))

    def step(self, *, explain: bool = False) -> Attempt | None:
        """Let the machine decide for one pod, with the answers of extenders."""
        while True:
            attempt = super().step(explain=explain)
            if attempt is None or not isinstance(attempt.decision, Waiting):
                break
        if attempt is not None and isinstance(attempt.decision, Placed):
            used = self.claims.used_by(attempt.pod.uid)
            if used:
                self.allocations[attempt.pod.uid] = used
        return attempt

    def _execute(self, effect: Effect) -> None:
        super()._execute(effect)
        if isinstance(effect, BindVolumes | BindClaims):
            pod = self.pods[effect.pod.uid]
            if not pod.spec.node_name:  # it waits for nothing: volumes and devices come at once
                self.put(self._bound(pod, effect.node))

    def _asked(self, effect: Ask) -> Event:
        ask = self._options.ask
        if ask is None:
            return super()._asked(effect)
        return Answered(effect.pod, effect.number, ask(effect, self.pods))

    def _note(self, attempt: Attempt) -> None:
        self.first.setdefault(attempt.pod.uid, attempt)
        self.last[attempt.pod.uid] = attempt
        if isinstance(attempt.decision, Preempting):
            self.budgets.preempted(self.pods[victim.uid] for victim in attempt.decision.victims)
            self._note_devices(attempt.pod.uid)

    def _note_devices(self, uid: str) -> None:
        """Note which devices a pod waits for, while its victims have them."""
        plan = self.machine.preemptions.state.plan_of(uid)
        if plan is not None and uid not in self.devices:
            devices = devices_of(plan.placement(uid), self.machine.cluster)
            if devices is not None:
                self.devices[uid] = devices

    def _gated(self, pod: Pod) -> Attempt:
        return Attempt(
            pod=pod.ref,
            scheduler_name=pod.spec.scheduler_name,
            priority=pod.priority,
            decision=Gated(GATED),
            effects=(),
            number=0,
            nodes=0,
            feasible=0,
        )


def objects_of(cluster: Cluster) -> Manifests:
    """Return all objects of a cluster except pods."""
    namespaces = cluster.namespaces.items()
    found = Manifests(
        namespaces=[LocalObject(ObjectMeta(name=name, labels=each)) for name, each in namespaces],
        policies=[*cluster.policies],
    )
    for item in cluster.objects():
        keep(found, item)
    return found


def events_of(manifests: Manifests) -> Iterator[Event]:
    """Yield the events of all objects except pods, in an order in which they can be applied."""
    yield from map(NamespaceObserved, manifests.namespaces)
    yield from map(PolicyObserved, manifests.policies)
    yield from map(NodeObserved, manifests.nodes)
    yield from map(BudgetObserved, manifests.pdbs)
    yield from map(WorkloadObserved, manifests.workloads)
    yield from map(StorageObserved, manifests.storage)
    yield from map(DeviceClassObserved, manifests.device_classes)
    yield from map(DevicesObserved, manifests.devices)


def _created(pod: Pod) -> Seconds:
    """Return when a pod was created; a pod without a creation time counts as the oldest."""
    return times.parse(pod.metadata.creation_timestamp) or 0.0
