"""What would have happened from a moment of a recording on with other decisions.

The machine decides for itself, and its effects are carried out in memory: a bound pod runs at once,
a victim terminates within `TERMINATES_AFTER`. Changes by other components and users are taken from
the recording: nodes, budgets, new pods, pods that finish or that users delete. What the recorded
scheduler did is left out: its bindings, nominations and evictions. Two things are therefore not
certain, and no simulation could know them: pods that replace victims are still created although
their victims may keep running, and a pod that is pending here may have finished in the recording.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from scheduler.core.machine import Machine
from scheduler.model import times
from scheduler.model.api.objects import DISRUPTION_TARGET, Pod
from scheduler.model.decisions import Attempt
from scheduler.model.effects import (
    Ask,
    BindClaims,
    BindVolumes,
    DeallocateClaim,
    DeleteClaim,
    Effect,
    Evict,
    PodRef,
    ReleaseClaims,
)
from scheduler.model.events import (
    Answered,
    ClaimAnswered,
    EffectDone,
    EffectFailed,
    Event,
    LedgerLoaded,
    PodGone,
    PodObserved,
    PolicyGone,
    PolicyObserved,
)
from scheduler.model.plan_record import CONDITION
from scheduler.model.times import Seconds
from scheduler.sim.virtual_cluster import VirtualCluster

__all__ = ["DivergedHistory", "effect_key"]

#: How long victims take to terminate, in seconds.
TERMINATES_AFTER: Final[Seconds] = 2.0
#: More decisions at one moment are a loop.
_MOST_DECISIONS: Final = 100_000


def effect_key(effect: Effect) -> tuple[str, str]:
    """Return the type of an effect and the uid of its pod, which its outcome has, too."""
    pod = effect.victim if isinstance(effect, Evict) else getattr(effect, "pod", None)
    return type(effect).__name__, pod.uid if isinstance(pod, PodRef) else ""


class DivergedHistory(VirtualCluster):
    """Goes on from the state of a machine, with what others did in a recording.

    Args:
        machine: The machine.
        now: When the histories diverge.
        awaited: Effects whose outcomes are yet to come in the recording, by `effect_key`.
        policies: Names of policies whose recorded states are ignored.
    """

    def __init__(
        self,
        machine: Machine,
        now: Seconds,
        awaited: Counter[tuple[str, str]],
        policies: frozenset[str],
    ) -> None:
        super().__init__(machine, now, TERMINATES_AFTER)
        self._awaited = awaited
        self._policies = policies
        cluster = machine.cluster
        self.pods |= {pod.uid: pod for pod in cluster.pods}
        self.pods |= {
            queued.uid: queued.pod for queued in machine.queue if queued.uid not in self.pods
        }
        #: Victims of both histories, of this one alone, and of the recorded one alone, by uid.
        self._common_victims = cluster.evicting_uids()
        self._victims: set[str] = set()
        self._spared: set[str] = set()
        #: When pods were bound here.
        self._bound_at: dict[str, Seconds] = {}

    @property
    def victims(self) -> frozenset[str]:
        """The uids of the pods that were evicted in this history alone."""
        return frozenset(self._victims)

    def go_on(self, event: Event | None, now: Seconds) -> Iterator[Attempt]:
        """Let time pass and perhaps an event happen, then yield all decisions that follow.

        Args:
            event: What was recorded; `None` if only time passed.
            now: When.
        """
        self.advance(now)
        seen = None if event is None else self._as_seen_here(event)
        if seen is not None:
            self.observe(seen)
        for _ in range(_MOST_DECISIONS):
            attempt = self.step() if self.machine.ready() else None
            if attempt is None:
                return
            yield attempt

    # What was recorded ----------------------------------------------------------------------------

    def _as_seen_here(self, event: Event) -> Event | None:
        """Return what a recorded event is in this history; `None` where it does not happen."""
        match event:
            case PodObserved(pod):
                return self._pod_as_seen_here(pod)
            case PodGone(uid=uid):
                happens = uid not in self._spared and self.pods.pop(uid, None) is not None
            case EffectDone(effect) | EffectFailed(effect):
                key = effect_key(effect)
                happens = self._awaited[key] > 0
                self._awaited[key] -= happens
                if isinstance(effect, Evict) and not happens:
                    self._spared.add(effect.victim.uid)
            case PolicyObserved() | PolicyGone():
                name = event.name if isinstance(event, PolicyGone) else event.policy.name
                happens = name not in self._policies
            case _:
                # Answers to what the recorded scheduler has asked and written do not come here.
                happens = not isinstance(event, Answered | ClaimAnswered | LedgerLoaded)
        return event if happens else None

    def _pod_as_seen_here(self, pod: Pod) -> Event | None:
        uid = pod.uid
        if uid in self._victims:
            return None
        if pod.preempted and uid not in self._common_victims:
            self._spared.add(uid)
            return None
        if pod.spec.scheduler_name in self.machine.profile_names:
            pod = self._as_decided_here(pod)
        if pod.terminal:
            self.pods.pop(uid, None)
            return PodGone(pod.key, uid)
        self.pods[uid] = pod
        return PodObserved(pod)

    def _as_decided_here(self, pod: Pod) -> Pod:
        """Return a pod of ours with the node and the nomination that it has here."""
        cluster, status = self.machine.cluster, pod.status
        node = cluster.node_of(pod.uid) or ""
        if node and node == pod.spec.node_name:
            return pod
        conditions = [
            each for each in status.conditions if each.type not in (CONDITION, DISRUPTION_TARGET)
        ]
        at = self._bound_at.get(pod.uid)
        finished = bool(node) and pod.terminal
        status = replace(
            status,
            phase=status.phase if finished else "Running" if node else "Pending",
            start_time=None if at is None else times.stamp(at),
            nominated_node_name="" if node else cluster.nominations.node(pod.uid) or "",
            conditions=conditions,
        )
        return replace(pod, spec=replace(pod.spec, node_name=node), status=status)

    # What is done here ----------------------------------------------------------------------------

    def change_objects(self, effect: Effect) -> bool:
        """Change the pods; claims and volumes are as recorded."""
        match effect:
            case BindVolumes(pod, node) | BindClaims(pod, node):
                return self._alter(pod, lambda pod: self._bound(pod, node))
            case ReleaseClaims() | DeallocateClaim() | DeleteClaim():
                return True
            case _:
                return super().change_objects(effect)

    def _asked(self, effect: Ask) -> Event:
        return EffectDone(effect)

    def _bound(self, pod: Pod, node: str) -> Pod:
        if pod.status.phase == "Running":
            return pod
        self._bound_at[pod.uid] = self.now
        pod = super()._bound(pod, node)
        return replace(pod, status=replace(pod.status, start_time=times.stamp(self.now)))

    def _evicted(self, pod: Pod) -> Pod:
        if not pod.terminating:
            self._victims.add(pod.uid)
        return super()._evicted(pod)
