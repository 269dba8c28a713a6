"""A cluster in memory around the machine that schedules its pods.

It does what API servers and controllers do with the effects of a machine: objects change, the
machine observes the changes, then the outcome of the effect. Everything happens at once and
succeeds. A subclass delays or refuses it: `carry_out` executes effects, `_report` passes a change
on to the machine.

`sim/what_if_cluster` and `sim/diverged_history` are such clusters, and those of the tests.
"""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from scheduler.core.machine import Machine
from scheduler.model import times
from scheduler.model.api import pod_changes
from scheduler.model.api.objects import Pod
from scheduler.model.decisions import Attempt
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
    SaveLedger,
    SetCondition,
)
from scheduler.model.events import (
    DevicesObserved,
    EffectDone,
    EffectFailed,
    Event,
    Failure,
    FailureKind,
    PodGone,
    PodObserved,
    StorageObserved,
)
from scheduler.model.times import Seconds
from scheduler.sim import recreation
from scheduler.sim.claim_controller import SimulatedClaims
from scheduler.sim.virtual_clock import VirtualClock
from scheduler.sim.volume_controller import SimulatedStorage

__all__ = ["VirtualCluster"]


class VirtualCluster:
    """What an API server has of a cluster, and the machine that decides about it.

    Args:
        machine: The machine.
        now: The time of the cluster.
        ends_after: How long victims take to terminate, in seconds; `None` if they terminate until
            `remove` is called.

    Attributes:
        pods: The pods that exist, by uid.
        ledger: The ledger as it was written last.
    """

    def __init__(
        self, machine: Machine, now: Seconds = 0.0, ends_after: Seconds | None = None
    ) -> None:
        self.machine = machine
        self.clock = VirtualClock(now)
        self.pods: dict[str, Pod] = {}
        self.claims = SimulatedClaims(())
        self.volumes = SimulatedStorage(())
        self.ledger = ""
        self._ends_after = ends_after

    @property
    def now(self) -> Seconds:
        """The time of the cluster."""
        return self.clock.now

    # The machine ----------------------------------------------------------------------------------

    def observe(self, event: Event) -> None:
        """Pass an event to the machine, and carry out what it asks for."""
        self.carry_out(self.machine.observe(event, self.now).effects)

    def step(self, *, explain: bool = False) -> Attempt | None:
        """Let the machine decide for one pod, and carry the decision out."""
        attempt = self.machine.step(self.now, explain=explain)
        if attempt is not None:
            self.carry_out(attempt.effects)
        return attempt

    def advance(self, to: Seconds) -> None:
        """Let time pass, and the machine do what is due."""
        self.clock.advance(to)
        self.machine.flush(self.now)
        self.carry_out(self.machine.flushed_effects())

    def carry_out(self, effects: Iterable[Effect]) -> None:
        """Execute effects, and report their outcomes."""
        for effect in effects:
            self._execute(effect)

    def _execute(self, effect: Effect) -> None:
        if isinstance(effect, Ask):
            self.observe(self._asked(effect))
        else:
            self.observe(EffectDone(effect, changed=self.change_objects(effect)))

    def _asked(self, effect: Ask) -> Event:
        """Return the answer of extenders."""
        return EffectFailed(
            effect, Failure(FailureKind.REFUSED, "no extender client is configured")
        )

    # The API server -------------------------------------------------------------------------------

    def put(self, pod: Pod) -> None:
        """Create a pod, or replace it by its new state."""
        self.pods[pod.uid] = pod
        self._report(PodObserved(pod))

    def remove(self, uid: str) -> None:
        """Let a pod disappear; devices of claims that no pod uses any more are taken back."""
        gone = self.pods.pop(uid)
        self._report(PodGone(gone.key, uid))
        for claim in self.claims.pod_gone(uid):
            self._report(DevicesObserved(claim))

    def recreate(self, gone: Pod, scheduler_name: str) -> Pod | None:
        """Create the pod that the controller of a deleted pod makes in its place.

        Args:
            gone: The deleted pod.
            scheduler_name: The scheduler of the new pod.

        Returns:
            The new pod; `None` if the deleted one has no controller.
        """
        made = recreation.recreated(gone, self.now)
        if made is None:
            return None
        self._copy_claims(gone, made)
        made = replace(made, spec=replace(made.spec, scheduler_name=scheduler_name))
        self.put(made)
        return made

    def change_objects(self, effect: Effect) -> bool:  # noqa: C901 - one case for each kind of effect
        """Change the objects as the API server does; return whether the object still exists."""
        match effect:
            case Bind(pod, node):
                return self._alter(pod, lambda pod: self._bound(pod, node))
            case Nominate(pod, node, plan=plan):
                return self._alter(pod, lambda pod: pod_changes.nominated(pod, node, plan))
            case ClearNomination(pod):
                return self._alter(pod, lambda pod: pod_changes.nominated(pod, ""))
            case SetCondition(pod):
                return self._alter(pod, lambda pod: _unscheduled(pod, effect))
            case Evict(victim=victim):
                return self._alter(victim, self._evicted)
            case BindVolumes(pod):
                for item in self.volumes.bind(effect, self.pods[pod.uid]):
                    self._report(StorageObserved(item))
            case BindClaims() | ReleaseClaims() | DeallocateClaim() | DeleteClaim():
                for event in self.claims.carry_out(effect):
                    self._report(event)
            case SaveLedger(text=text):
                self.ledger = text
            case _:
                pass
        return True

    def _alter(self, reference: PodRef, change: Callable[[Pod], Pod]) -> bool:
        pod = self.pods.get(reference.uid)
        if pod is None:
            return False
        changed = change(pod)
        if changed is not pod:
            self.put(changed)
        return True

    def _bound(self, pod: Pod, node: str) -> Pod:
        """Return a pod on its node, where it runs at once."""
        return pod_changes.bound(pod, node)

    def _evicted(self, pod: Pod) -> Pod:
        if pod.terminating:
            return pod
        if self._ends_after is not None:
            self.clock.call_at(self.now + self._ends_after, lambda: self._end(pod.uid))
        return pod_changes.evicted(pod, times.stamp(self.now))

    def _end(self, uid: str) -> None:
        """Let a victim disappear that has terminated."""
        if uid in self.pods:
            self.remove(uid)

    def _report(self, event: Event) -> None:
        """Tell the machine of a change."""
        self.observe(event)

    def _copy_claims(self, gone: Pod, made: Pod) -> None:
        """Generate the claims of a re-created pod, like those of its predecessor."""
        namespace = made.metadata.namespace
        names = {
            each.name: each.resource_claim_name for each in gone.status.resource_claim_statuses
        }
        for each in made.status.resource_claim_statuses:
            claim = self.claims.find(f"{namespace}/{names.get(each.name)}")
            if claim is not None and each.resource_claim_name is not None:
                copy = recreation.copied_claim(claim, each.resource_claim_name, made)
                self._report(DevicesObserved(self.claims.store(copy)))
        for volume in gone.spec.volumes:
            old = self.volumes.claim(f"{namespace}/{gone.metadata.name}-{volume.name}")
            if volume.ephemeral is not None and old is not None:
                name = f"{made.metadata.name}-{volume.name}"
                copied = recreation.copied_volume_claim(old, name, made)
                self.volumes.add(copied)
                self._report(StorageObserved(copied))


def _unscheduled(pod: Pod, effect: SetCondition) -> Pod:
    changed = pod_changes.unscheduled(pod, effect.reason, effect.message)
    return pod_changes.nominated(changed, "") if effect.clear_nomination else changed
