"""What the parts of the machine share: the cluster, the queue, and what goes out.

One machine has one context; nothing outside `core` sees it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from scheduler.core.preemption.policy.charge import Bounds, Unbounded
from scheduler.core.requeue.blocked_by_policy import BlockedByPolicy
from scheduler.core.requeue.queueing_hints import QueueingHints
from scheduler.framework import event_diff
from scheduler.framework.cluster_events import ClusterEvent, Resource
from scheduler.framework.profile import PREEMPTION, Profile
from scheduler.model.api.objects import Node, Pod
from scheduler.model.base import Record
from scheduler.model.effects import Effect, PodRef
from scheduler.model.times import Seconds
from scheduler.queue.scheduling_queue import QueuedPod, SchedulingQueue
from scheduler.queue.waiting_groups import Judge, WaitingGroup, WakeUp
from scheduler.state.cluster import Cluster
from scheduler.state.pods.nominations import Nomination
from scheduler.state.preemption.ledger import Ledger

__all__ = ["Bound", "Context"]


class Bound(Record, frozen=True):
    """A pod whose binding the API server has accepted."""

    pod: PodRef
    node: str
    scheduler_name: str
    attempts: int
    #: Since the pod first was in the active queue.
    waited_seconds: Seconds
    #: Whether only the periodic flush had released it.
    flushed: bool


class Context:
    """The state of one machine and its outbox."""

    def __init__(
        self, profiles: Mapping[str, Profile], cluster: Cluster, queue: SchedulingQueue
    ) -> None:
        self.profiles: Final = profiles
        self.cluster: Final = cluster
        self.queue: Final = queue
        self._waker: Final = QueueingHints(profiles)
        #: Pods that wait for more than a change of the cluster.
        self.held: Final = BlockedByPolicy(queue)
        #: What preemption remembers beyond a restart.
        self.ledger: Final = Ledger()
        #: Who evaluates policies for preemptions that are carried out.
        self.bounds: Bounds = Unbounded()
        #: Effects that were asked for since they were last taken.
        self.outbox: list[Effect] = []
        #: Bindings that were accepted since they were last taken.
        self.bound: list[Bound] = []
        #: Pods whose binding was asked for and not answered yet.
        self.binding: Final[dict[str, QueuedPod]] = {}

    def is_ours(self, pod: Pod) -> bool:
        """Tell whether a pod names one of our profiles."""
        return pod.spec.scheduler_name in self.profiles

    @property
    def policies_version(self) -> tuple[int, int]:
        """What grows with each change of a policy, and of labels that policies select by."""
        return self.cluster.policies.version, self.cluster.namespaces_version

    def may_preempt(self, pod: Pod) -> bool:
        """Tell whether a pod of ours may evict others at all.

        Source: kube-scheduler v1.36.3 defaultpreemption.PodEligibleToPreemptOthers.
        """
        profile = self.profiles[pod.spec.scheduler_name]
        return PREEMPTION in profile.post_filters and pod.spec.preemption_policy != "Never"

    def judge(self, event: ClusterEvent, old: Node | Pod | None, new: Node | Pod | None) -> Judge:
        """Return a function that names the plugin that sees hope for a rejected pod in an event."""
        return self._waker.judge(event, old, new)

    def wake(
        self,
        event: ClusterEvent,
        old: Node | Pod | None,
        new: Node | Pod | None,
        now: Seconds,
    ) -> None:
        """Wake the waiting pods that an event can help."""
        if self._is_heard(event):
            by_name = event.resource is Resource.PERSISTENT_VOLUME_CLAIM
            wake_up = WakeUp(
                event.label,
                self.judge(event, old, new),
                concerns=self._waker.hears(event),
                pod_specific=by_name,
                retry_each=self._apart,
            )
            self.queue.wake(wake_up, now)

    def wake_by_room(
        self,
        gone: Pod,
        served: Iterable[str],
        fits: Callable[[Mapping[str, QueuedPod]], bool],
        now: Seconds,
    ) -> None:
        """Wake the waiting pods that can use the room of a pod that is gone.

        Any room helps a pod that may preempt. One that waits for its victims may not, so where
        nothing but room was missing, nothing but enough of it is a help.

        Differs from kube-scheduler, which tries them again whoever is gone.

        Args:
            gone: The pod that is gone.
            served: Preemptors, by uid, that wait for victims on its node no longer.
            fits: Tells whether some pods of one class fit on its node, and could not before.
            now: The time.
        """
        event = event_diff.POD_DELETED
        if not self._is_heard(event):
            return
        helped_by = self.judge(event, gone, None)

        def spares(group: WaitingGroup, pods: Mapping[str, QueuedPod]) -> bool:
            return group.victims_terminating and self.about_room(pods) and not fits(pods)

        wake_up = WakeUp(event.label, helped_by, rules_out=spares, retry_each=self._apart)
        self.queue.wake(wake_up, now)
        for queued in filter(None, map(self.queue.get, served)):
            # Its plan knows better than the hints: the room that it was made for is there.
            plugin = helped_by(queued.pod, queued.rejectors)
            self.queue.wake_pod(queued, now, event.label, plugin)

    def about_room(self, pods: Mapping[str, QueuedPod]) -> bool:
        """Tell whether nothing but room, as far as pods that go can change it, rejected a group."""
        first = next(iter(pods.values()))
        return (
            first.rejectors <= self.profiles[first.pod.spec.scheduler_name].capacity_filters.keys()
        )

    def wake_below(self, claim: Nomination, now: Seconds) -> None:
        """Wake the waiting pods that may use room which a nominated pod no longer claims."""
        # Its own status may never have said so: the claim is older than what the watch brings.
        status = replace(claim.pod.status, nominated_node_name=claim.node)
        helped_by = self.judge(event_diff.POD_DELETED, replace(claim.pod, status=status), None)
        priority = claim.pod.priority

        def lower_helped_by(other: Pod, rejectors: frozenset[str]) -> str:
            return helped_by(other, rejectors) if other.priority <= priority else ""

        wake_up = WakeUp(event_diff.POD_DELETED.label, lower_helped_by, retry_each=self._apart)
        self.queue.wake(wake_up, now)

    def _is_heard(self, event: ClusterEvent) -> bool:
        """Tell whether an event may help somebody at all."""
        return self.queue.has_waiting_pods() and self._waker.anyone_listens(event)

    def _apart(self, pods: Mapping[str, QueuedPod]) -> bool:
        """Tell whether one of some pods has to be tried for itself.

        It may claim room, or still has to be told what was found about it.
        """
        claims, untold = self.cluster.nominations, self.queue.unreported
        if untold and not untold.isdisjoint(pods):
            return True
        if len(claims) < len(pods):
            return any(claim.pod.uid in pods for claim in claims)
        return any(claims.get(uid) is not None for uid in pods)

    def promises_ended(self, uid: str, now: Seconds) -> None:
        """Note that a plan has ended, by uid of its preemptor, and with it what it promised."""
        self.bounds.ended(uid)
        self.wake_freed(now)

    def wake_freed(self, now: Seconds) -> None:
        """Wake the pods that wait for disruption budgets which allow more than before."""
        freed = self.bounds.freed(now)
        if freed:
            self.held.wake_budgets(now, freed)

    def withdraw(self, uid: str, now: Seconds) -> None:
        """Drop the claim of a pod and let others use the room."""
        claim = self.cluster.nominations.get(uid)
        if claim is not None:
            self.cluster.withdraw(uid)
            self.wake_below(claim, now)
