"""Which waiting pods are tried again after an event, and the nominations that are withdrawn.

Queueing hints of plugins are evaluated by `queueing_hints`;
`queue/scheduling_queue.move_all_to_active_or_backoff` moves the pods. What preemption policies
block is in `blocked_by_policy`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from scheduler.core.preemption.policy.engine import PolicyEngine
from scheduler.core.requeue.blocked_by_policy import BlockedByPolicy
from scheduler.core.requeue.queueing_hints import QueueingHints
from scheduler.framework import event_diff
from scheduler.framework.cluster_events import ClusterEvent, Resource
from scheduler.framework.profile import CLAIMS, Profile
from scheduler.model.api.devices import Allocation, ClaimStatus, DeviceObject, ResourceClaim
from scheduler.model.api.objects import Pod
from scheduler.model.effects import DeallocateClaim, DeleteClaim
from scheduler.model.events import Failure
from scheduler.model.times import Seconds
from scheduler.queue.scheduling_queue import QueuedPod, SchedulingQueue
from scheduler.queue.waiting_sets import HintCheck, WaitingSet, WakeUp
from scheduler.state.cluster import Cluster
from scheduler.state.pods.nominations import Nomination

__all__ = ["Wakeups"]


class Wakeups:
    """Moves waiting pods that an event can help back to the active queue or to backoff."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        cluster: Cluster,
        queue: SchedulingQueue,
        policies: PolicyEngine,
    ) -> None:
        self._profiles: Final = profiles
        self._cluster: Final = cluster
        self._queue: Final = queue
        self._policies: Final = policies
        self._hints: Final = QueueingHints(profiles)
        #: Pods that preemption policies or wasted evictions keep from preempting.
        self.blocked: Final = BlockedByPolicy(queue)

    def hint_check(self, event: ClusterEvent, old: object, new: object) -> HintCheck:
        """Return a function that names the plugin whose hint says that an event helps a pod."""
        return self._hints.hint_check(event, old, new)

    def wake(
        self,
        event: ClusterEvent,
        old: object,
        new: object,
        now: Seconds,
    ) -> None:
        """Wake the waiting pods that an event can help."""
        if self._may_help(event):
            by_name = event.resource is Resource.PERSISTENT_VOLUME_CLAIM
            wake_up = WakeUp(
                event.label,
                self.hint_check(event, old, new),
                concerns=self._hints.concern_check(event),
                pod_specific=by_name,
                retry_each=self._needs_own_attempts,
            )
            self._queue.move_all_to_active_or_backoff(wake_up, now)

    def wake_by_freed_devices(self, now: Seconds) -> None:
        """Wake the pods that lacked devices, if an allocation in flight has come to nothing."""
        freed = self._cluster.devices.claims.take_freed()
        if freed is not None:
            self.wake_by_devices(freed, now)

    def wake_by_devices(self, freed: Allocation, now: Seconds) -> None:
        """Wake the pods that lacked devices: an allocation counts no more."""
        event = event_diff.devices_changed(ResourceClaim.__name__, added=False, gone=False)
        before = ResourceClaim(status=ClaimStatus(allocation=freed))
        self.wake(event, before, ResourceClaim(), now)

    def wake_by_evictable(self, held: Allocation, priority: int | None, now: Seconds) -> None:
        """Wake the pods that lacked devices, and that may evict who has them from now on.

        Args:
            held: The devices.
            priority: Of the pod that has them; `None` if it is not known.
            now: The time.
        """
        event = event_diff.devices_changed(ResourceClaim.__name__, added=False, gone=False)
        before = ResourceClaim(status=ClaimStatus(allocation=held))
        check, nominations = (
            self.hint_check(event, before, ResourceClaim()),
            self._cluster.nominations,
        )

        def helped_by(pod: Pod, rejectors: frozenset[str]) -> str:
            may_evict = priority is None or pod.priority > priority
            waits = nominations.get(pod.uid) is not None
            return check(pod, rejectors) if may_evict and not waits else ""

        if self._may_help(event):
            wake_up = WakeUp(
                event.label,
                helped_by,
                concerns=self._hints.concern_check(event),
                retry_each=self._needs_own_attempts,
            )
            self._queue.move_all_to_active_or_backoff(wake_up, now)

    def wake_users(
        self,
        event: ClusterEvent,
        old: DeviceObject | None,
        new: DeviceObject | None,
        uids: Iterable[str],
        now: Seconds,
    ) -> None:
        """Wake the waiting pods that a changed claim can help, of those that name it.

        Pods that other plugins or extenders rejected are asked whether they name it or not.
        """
        if not self._may_help(event):
            return
        check = self._hints.hint_check(event, old, new)
        others = self._hints.registered_plugins(event) - {CLAIMS}
        if others:
            concerns = others.isdisjoint
            wake_up = WakeUp(event.label, check, lambda rejectors: not concerns(rejectors))
            self._queue.move_all_to_active_or_backoff(wake_up, now)
        for queued in filter(None, map(self._queue.get, uids)):
            plugin = check(queued.pod, queued.rejectors) if queued.rejectors else ""
            if plugin:
                self._queue.move_to_active_or_backoff(queued, now, event.label, plugin)

    def wake_by_freed_resources(
        self,
        gone: Pod,
        done_waiting: Iterable[str],
        fits: Callable[[Mapping[str, QueuedPod]], bool],
        now: Seconds,
    ) -> None:
        """Wake the waiting pods that can use the resources which a pod has freed.

        Any freed resources help a pod that may preempt. A pod that waits for its victims may not
        preempt: where it lacked only resources, only enough free resources help it.

        Differs from kube-scheduler, which tries such pods again whichever pod is gone.

        Args:
            gone: The pod that is gone.
            done_waiting: Preemptors, by uid, that no longer wait for victims on its node.
            fits: Returns whether pods of one set fit on its node now and did not before.
            now: The time.
        """
        event = event_diff.POD_DELETED
        if not self._may_help(event):
            return
        helped_by = self.hint_check(event, gone, None)

        def spares(waiting_set: WaitingSet, pods: Mapping[str, QueuedPod]) -> bool:
            return (
                waiting_set.victims_terminating
                and self._lacks_only_resources(pods)
                and not fits(pods)
            )

        wake_up = WakeUp(
            event.label, helped_by, rules_out=spares, retry_each=self._needs_own_attempts
        )
        self._queue.move_all_to_active_or_backoff(wake_up, now)
        for queued in filter(None, map(self._queue.get, done_waiting)):
            # The plan is more precise than the hints: the resources that it waited for are free.
            plugin = helped_by(queued.pod, queued.rejectors)
            self._queue.move_to_active_or_backoff(queued, now, event.label, plugin)

    def wake_by_freed_claim(
        self,
        before: ResourceClaim,
        gone: bool,
        done_waiting: Iterable[str],
        fits: Callable[[Mapping[str, QueuedPod]], bool],
        now: Seconds,
    ) -> None:
        """Wake the waiting pods that can use the devices which a claim has lost.

        A pod that waits for the devices of its victims is not helped by others that it cannot use.

        Differs from kube-scheduler, which tries all pods that lack devices.

        Args:
            before: The claim before.
            gone: Whether the claim is gone, too.
            done_waiting: Preemptors, by uid, that waited for nothing else.
            fits: Returns whether pods of one set may fit where the devices are.
            now: The time.
        """
        kind = ResourceClaim.__name__
        event = event_diff.devices_changed(kind, added=False, gone=gone)
        after = None if gone else replace(before, status=ClaimStatus())

        nominations = self._cluster.devices.nominations

        def spares(waiting_set: WaitingSet, pods: Mapping[str, QueuedPod]) -> bool:
            return (
                waiting_set.victims_terminating
                and all(nominations.get(uid) is not None for uid in pods)
                and self._lacks_only_resources(pods, CLAIMS)
                and not fits(pods)
            )

        if self._may_help(event):
            wake_up = WakeUp(
                event.label,
                self.hint_check(event, before, after),
                concerns=self._hints.concern_check(event),
                rules_out=spares,
                retry_each=self._needs_own_attempts,
            )
            self._queue.move_all_to_active_or_backoff(wake_up, now)
        for uid in done_waiting:
            self.retry(uid, now, event.label)

    def _lacks_only_resources(self, pods: Mapping[str, QueuedPod], *more: str) -> bool:
        """Return whether a set was rejected only for what deleted pods can free.

        Args:
            pods: The set.
            *more: Plugins that may have rejected them as well.
        """
        first = next(iter(pods.values()))
        profile = self._profiles[first.pod.spec.scheduler_name]
        return first.rejectors <= {*profile.capacity_filters, *more}

    def wake_lower_priority(self, nomination: Nomination, now: Seconds) -> None:
        """Wake waiting pods that may use resources which a nominated pod no longer reserves."""
        pod = nomination.pod
        # Its status may never have named the node: our nomination is newer than the watch.
        status = replace(pod.status, nominated_node_name=nomination.node)
        helped_by = self.hint_check(event_diff.POD_DELETED, replace(pod, status=status), None)

        def lower_helped_by(other: Pod, rejectors: frozenset[str]) -> str:
            return helped_by(other, rejectors) if other.priority <= pod.priority else ""

        wake_up = WakeUp(
            event_diff.POD_DELETED.label, lower_helped_by, retry_each=self._needs_own_attempts
        )
        self._queue.move_all_to_active_or_backoff(wake_up, now)

    def wake_relieved(self, now: Seconds) -> None:
        """Wake the pods that are blocked by disruption budgets which allow more than before."""
        freed = self._policies.relieved_pdbs(now)
        if freed:
            self.blocked.wake_for_pdbs(now, freed)

    def plan_ended(self, uid: str, now: Seconds) -> None:
        """End the evictions in flight of a plan, by uid of its preemptor, and wake blocked pods."""
        self._policies.plan_ended(uid)
        self.wake_relieved(now)

    def withdraw(self, uid: str, now: Seconds) -> None:
        """Withdraw the nomination of a pod and let others use the resources."""
        nomination = self._cluster.nominations.get(uid)
        if nomination is not None:
            self._cluster.withdraw(uid)
            self.wake_lower_priority(nomination, now)

    def retry(self, uid: str, now: Seconds, event: str) -> None:
        """Wake one pod, if it is in the queue."""
        queued = self._queue.get(uid)
        if queued is not None:
            self._queue.move_to_active_or_backoff(queued, now, event)

    def claim_deleted(self, effect: DeleteClaim, now: Seconds) -> None:
        """Wake the pod for which a claim was deleted."""
        self.retry(effect.pod.uid, now, "ResourceClaimDelete")

    def claim_not_freed(
        self, effect: DeleteClaim | DeallocateClaim, _failure: Failure, now: Seconds
    ) -> None:
        """Wake the pod for which a claim was not deleted or deallocated."""
        self.retry(effect.pod.uid, now, "ClaimNotFreed")

    def _may_help(self, event: ClusterEvent) -> bool:
        """Return whether pods wait and some plugin listens to an event."""
        return self._queue.has_waiting_pods() and self._hints.is_registered(event)

    def _needs_own_attempts(self, pods: Mapping[str, QueuedPod]) -> bool:
        """Return whether a pod of a set needs an attempt of its own.

        It does where it is nominated, or where its last result is not in its status yet.
        """
        nominations, unreported = self._cluster.nominations, self._queue.unreported
        if unreported and not unreported.isdisjoint(pods):
            return True
        if len(nominations) < len(pods):
            return any(each.pod.uid in pods for each in nominations)
        return any(nominations.get(uid) is not None for uid in pods)
