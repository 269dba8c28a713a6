"""What would happen: the machine against a cluster that exists only in memory.

Effects are carried out at once and without failure: a bound pod runs on its node, a victim is
terminating, a nominated pod holds its claim. Only extenders are asked in earnest. With `settle`
terminating pods disappear and waiting pods are tried again, until nothing changes.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from msgspec.structs import replace

from scheduler.core.machine import Machine
from scheduler.framework.profile import Profile
from scheduler.model import times
from scheduler.model.api.objects import Condition, Pod
from scheduler.model.decisions import Attempt, Gated, Waiting
from scheduler.model.effects import (
    Ask,
    Bind,
    BindVolumes,
    ClearNomination,
    Effect,
    Evict,
    Nominate,
    PodRef,
    SetCondition,
)
from scheduler.model.events import (
    Answered,
    BudgetObserved,
    DeviceClassObserved,
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
from scheduler.queue.backoff import PodBackoff
from scheduler.sim.manifests import Manifests
from scheduler.sim.volume_controller import ImaginedStorage

__all__ = ["Planner"]

GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"

#: Longer than any back-off, and longer than a pod may wait for an event.
_PAST_BACKOFF: Final = 3600.0
#: A settled cluster stops changing; one that never does is cut off after so many rounds.
_MOST_ROUNDS: Final = 10_000

#: Asks extenders about a pod of an imagined cluster, whose pods are given by uid.
Answering: TypeAlias = Callable[[Ask, Mapping[str, Pod]], tuple[ExtenderAnswer, ...]]


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What to decide."""

    #: Only pods of this scheduler name; empty for all of the configured profiles.
    scheduler_name: str = ""
    explain: bool = False
    #: How extenders are asked; `None` where none is configured.
    ask: Answering | None = None
    #: The time at which the imagined cluster stands; preemption policies look at it.
    now: Seconds = 0.0


class Planner:
    """One imagined cluster."""

    def __init__(
        self, manifests: Manifests, profiles: Mapping[str, Profile], backoff: PodBackoff,
        options: PlanOptions,
    ) -> None:  # fmt: skip
        self._machine = Machine(profiles, backoff)
        self._profiles = profiles
        self._options = options
        self._storage = ImaginedStorage(manifests.storage)
        self._pods: dict[str, Pod] = {}
        #: The last attempt of each pod, by uid.
        self._last: dict[str, Attempt] = {}
        self._now: Seconds = options.now
        #: The pods that are decided for, in file order.
        self.pending: list[PodRef] = []
        for event in self._first_events(manifests):
            self._observe(event)

    def attempts(self) -> Iterator[Attempt]:
        """Decide once for each pending pod; gated ones last."""
        while self._machine.active():
            attempt = self._step()
            if attempt is not None:
                self._last[attempt.pod.uid] = attempt
                yield attempt
        for reference in self.pending:
            pod = self._pods[reference.uid]
            if self._machine.gated_because(pod) is not None:
                yield self._gated(pod)

    def settle(self) -> Iterator[Attempt]:
        """Go on until nothing changes any more.

        A pod's attempt that ends as its last one did is not reported again.
        """
        for _ in range(_MOST_ROUNDS):
            leaving = [pod for pod in self._pods.values() if pod.terminating]
            for pod in leaving:
                del self._pods[pod.uid]
                self._observe(PodGone(pod.key, pod.uid))
            # Past every back-off and past the longest wait, everything that waits is tried again.
            self._now += _PAST_BACKOFF
            self._machine.flush(self._now)
            changed = bool(leaving)
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
        """Return where each pod that was pending is now."""
        places: dict[str, str | None] = {}
        for reference in self.pending:
            pod = self._pods.get(reference.uid)
            places[reference.key] = (pod.spec.node_name or None) if pod is not None else None
        return places

    def _first_events(self, manifests: Manifests) -> Iterator[Event]:
        yield from (NamespaceObserved(each) for each in manifests.namespaces)
        yield from (PolicyObserved(each) for each in manifests.policies)
        yield from (NodeObserved(each) for each in manifests.nodes)
        yield from (BudgetObserved(each) for each in manifests.budgets)
        yield from (WorkloadObserved(each) for each in manifests.workloads)
        yield from (StorageObserved(each) for each in manifests.storage)
        yield from (DeviceClassObserved(each) for each in manifests.device_classes)
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
        """Return a pod under the name of the profile that it is decided with."""
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
            if attempt is None or not isinstance(attempt.decision, Waiting):
                return attempt

    def _observe(self, event: Event) -> None:
        self._carry_out(self._machine.observe(event, self._now).effects)

    def _carry_out(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            if isinstance(effect, Ask):
                self._observe(self._asked(effect))
                continue
            changed = self._change(effect)
            self._observe(EffectDone(effect))
            if isinstance(effect, BindVolumes):
                changed = self._bind_volumes(effect)
            if changed is not None:
                self._pods[changed.uid] = changed
                self._observe(PodObserved(changed))

    def _asked(self, effect: Ask) -> Event:
        if self._options.ask is None:
            failure = Failure(FailureKind.REFUSED, "no extender client is configured")
            return EffectFailed(effect, failure)
        return Answered(effect.pod, effect.number, self._options.ask(effect, self._pods))

    def _bind_volumes(self, effect: BindVolumes) -> Pod | None:
        """Bind what there is; a pod for which volumes are to be made does not wait for them."""
        uid = effect.pod.uid
        for item in self._storage.bind(effect, self._pods[uid]):
            self._observe(StorageObserved(item))
        if self._pods[uid].spec.node_name:
            return None
        return self._change(Bind(effect.pod, effect.node, self._pods[uid].spec.scheduler_name))

    def _change(self, effect: Effect) -> Pod | None:
        """Return the pod as it is after an effect."""
        match effect:
            case Bind(pod, node):
                bound = self._pods[pod.uid]
                status = replace(bound.status, phase="Running", nominated_node_name="")
                spec = replace(bound.spec, node_name=node)
                return replace(bound, spec=spec, status=status)
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
        if pod is None:
            return None
        return replace(pod, status=replace(pod.status, nominated_node_name=node))

    def _evicted(self, reference: PodRef) -> Pod | None:
        pod = self._pods.get(reference.uid)
        if pod is None:
            return None
        target = Condition("DisruptionTarget", "True", "PreemptionByScheduler")
        metadata = replace(pod.metadata, deletion_timestamp=times.stamp(self._now))
        status = replace(pod.status, conditions=[*pod.status.conditions, target])
        return replace(pod, metadata=metadata, status=status)

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
    """Return when a pod was created; one that does not say counts as the oldest."""
    return times.parse(pod.metadata.creation_timestamp) or 0.0
