"""Applies what informers report to the cluster and the queue, and requeues pods that it may help.

Each event has a full state. A repeated state changes nothing, an old state that comes late changes
nothing that matters, and pods of one name are distinguished by their uids.

Source: kube-scheduler v1.36.3 eventhandlers.go.
"""

from collections.abc import Mapping
from typing import Any

from scheduler.core.eviction.preemptions import Preemptions
from scheduler.core.requeue.wakeups import Wakeups
from scheduler.framework import event_diff
from scheduler.framework.cluster_events import ClusterEvent
from scheduler.framework.profile import Profile
from scheduler.model.api.devices import DeviceObject, ResourceClaim
from scheduler.model.api.objects import Pod
from scheduler.model.api.start_time import runs_since
from scheduler.model.classified_pod import ClassifiedPod
from scheduler.model.events import (
    ClaimAnswered,
    DeviceClassGone,
    DeviceClassObserved,
    DevicesGone,
    DevicesObserved,
    NodeGone,
    NodeObserved,
    PodGone,
    PodObserved,
    StorageGone,
    StorageObserved,
)
from scheduler.model.policy_vetoes import Rule
from scheduler.model.times import Seconds
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.state.cluster import Cluster

__all__ = ["EventHandlers"]


class EventHandlers:
    """Handlers of the events that plugins may listen to."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        cluster: Cluster,
        queue: SchedulingQueue,
        wakeups: Wakeups,
        preemptions: Preemptions,
    ) -> None:
        self._profiles = profiles
        self._cluster = cluster
        self._queue = queue
        self._wakeups = wakeups
        self._preemptions = preemptions

    def on_pod(self, event: PodObserved, now: Seconds) -> None:
        """Apply the state of a pod.

        Raises:
            QuantityError: A request of the pod is not a quantity; nothing is changed then.
        """
        pod = event.pod
        if pod.terminal:
            self._remove_pod(pod.uid, now)
        elif pod.spec.node_name:
            self._on_assigned_pod(pod, now)
        elif self._cluster.is_assumed(pod.uid):
            # It is being bound to a node: this state is older than ours.
            queued = self._queue.get(pod.uid)
            if queued is not None:
                queued.classified = ClassifiedPod(pod)
        else:
            if self._cluster.find_pod(pod.uid) is not None:
                # It was on a node, and no API server takes it off: etcd was restored.
                self._remove_pod(pod.uid, now)
            if pod.spec.scheduler_name in self._profiles:
                self._on_pending_pod(pod, now)
            else:
                self._sync_foreign_nomination(pod, now)

    def on_pod_gone(self, event: PodGone, now: Seconds) -> None:
        """Remove a pod that is gone."""
        self._remove_pod(event.uid, now)

    def _remove_pod(self, uid: str, now: Seconds) -> None:
        """Remove a pod that is gone or has finished."""
        self._queue.delete(uid, now)
        self._cluster.devices.users.forget(uid)
        self._wakeups.blocked.unblock(uid)
        self._preemptions.pod_gone(uid, now)
        nomination = self._cluster.nominations.get(uid)
        removed = self._cluster.remove(uid)
        if removed is not None:
            self._preemptions.resources_freed(removed, now)
        elif nomination is not None:
            self._wakeups.wake_lower_priority(nomination, now)

    def on_node(self, event: NodeObserved, now: Seconds) -> None:
        """Apply the state of a node.

        Raises:
            QuantityError: An allocatable amount is not a quantity; nothing is changed then.
        """
        node = event.node
        before = self._cluster.write_node(node)
        events = (
            [event_diff.NODE_ADDED] if before is None else event_diff.node_changes(before, node)
        )
        for change in events:
            self._wakeups.wake(change, before, node, now)

    def on_node_gone(self, event: NodeGone, now: Seconds) -> None:
        """Remove a node; nominations to it are withdrawn."""
        name = event.name
        before = self._cluster.columns.node(name)
        if before is None:
            return
        self._wakeups.wake(event_diff.NODE_DELETED, before, None, now)
        self._cluster.erase_node(name)
        self._preemptions.node_gone(name, now)

    def on_storage(self, event: StorageObserved | StorageGone, now: Seconds) -> None:
        """Apply the state of a storage object, or remove it.

        Raises:
            QuantityError: An amount is not a quantity; nothing is changed then.
        """
        before: Any
        after: Any = None
        if isinstance(event, StorageObserved):
            after = event.item
            before = self._cluster.volumes.write(event.item)
            change = event_diff.storage_change(before, event.item)
        else:
            before = self._cluster.volumes.erase(event.kind, event.key)
            change = event_diff.storage_deleted(event.kind)
        if before != after:
            self._wakeups.wake(change, before, after, now)

    def on_device_class(self, event: DeviceClassObserved | DeviceClassGone, now: Seconds) -> None:
        """Apply the state of a device class, or remove it."""
        before: Any
        after: Any = None
        if isinstance(event, DeviceClassObserved):
            after = event.device_class
            before = self._cluster.write_device_class(event.device_class)
        else:
            before = self._cluster.erase_device_class(event.name)
        if before != after:
            change = event_diff.device_class_changed(before, after)
            self._wakeups.wake(change, before, after, now)

    def on_devices(
        self, event: DevicesObserved | DevicesGone | ClaimAnswered, now: Seconds
    ) -> None:
        """Apply the state of a claim, a slice or a taint rule, or remove it.

        Raises:
            QuantityError: An amount is not a quantity; nothing is changed then.
        """
        devices = self._cluster.devices
        before: DeviceObject | None
        after: DeviceObject | None = None
        match event:
            case DevicesObserved(item):
                before, matters = devices.write(item)
                kind, after = type(item).__name__, item
            case DevicesGone(kind, key):
                before, matters = devices.erase(kind, key)
            case _:
                before, matters = devices.answer(event.claim, created=event.created)
                kind, after = type(event.claim).__name__, event.claim
        self._wakeups.wake_by_freed_devices(now)
        if not matters or before == after:
            return
        change = event_diff.devices_changed(kind, added=before is None, gone=after is None)
        if isinstance(before, ResourceClaim) and _is_freed(before, after):
            self._preemptions.devices_freed(before, now, gone=after is None)
        elif isinstance(before, ResourceClaim):
            self._claim_kept(before, change, now)
        elif kind != ResourceClaim.__name__:
            self._wakeups.wake(change, before, after, now)
        if kind == ResourceClaim.__name__:
            self._claim_changed(change, before, after, now)

    def _claim_kept(self, claim: ResourceClaim, change: ClusterEvent, now: Seconds) -> None:
        """Wake preemptors that waited for a claim which others have reserved: nobody frees it."""
        waiting = self._cluster.devices.nominations.waiting_for(claim.key)
        for uid in filter(self._preemptions.facts.has_victims_gone, waiting):
            self._wakeups.retry(uid, now, change.label)
        known = self._cluster.devices.claims.get(claim.key)
        if self._cluster.held_devices.is_used and known is not None:
            held, is_same = known.status.allocation, known.status == claim.status
            if held is not None and not is_same:
                self._wakeups.wake_by_evictable(held, None, now)

    def _devices_evictable(self, pod: Pod, now: Seconds) -> None:
        """Wake pods that may evict a pod for its devices: its claims count as its own now."""
        claims = self._cluster.devices.claims
        for claim in map(claims.get, claims.consumers.of(pod.uid)):
            if claim is not None and claim.status.allocation is not None:
                self._wakeups.wake_by_evictable(claim.status.allocation, pod.priority, now)

    def _claim_changed(
        self,
        change: ClusterEvent,
        before: DeviceObject | None,
        after: DeviceObject | None,
        now: Seconds,
    ) -> None:
        """Wake the pods that name a claim; those that waited for it may enter the queue now."""
        known = after or before
        uids = () if known is None else self._cluster.devices.users.of(known.metadata.key)
        self._wakeups.wake_users(change, before, after, uids, now)
        for uid in uids:
            self._queue.ungate(uid, now, change.label)

    def _on_assigned_pod(self, pod: Pod, now: Seconds) -> None:
        """Count a pod on its node."""
        cluster, wakeups, uid, node = self._cluster, self._wakeups, pod.uid, pod.spec.node_name
        confirmed = cluster.is_assumed(uid)
        assumed_on = cluster.node_of(uid)
        nomination = cluster.nominations.get(uid)
        before = cluster.place(pod, node)
        self._queue.delete(uid, now)
        cluster.devices.users.forget(uid)
        wakeups.blocked.unblock(uid)
        self._preemptions.pod_bound(uid, node, now)
        if before is not None and assumed_on != node:
            # Another scheduler bound it, and not to the node on which it was assumed.
            self._preemptions.resources_freed(before, now)
        if before is not None and runs_since(before) != runs_since(pod):
            wakeups.blocked.wake(now, "PodStarted", Rule.MIN_RUNTIME)
        if before is None or confirmed:
            wakeups.wake(event_diff.POD_ADDED, None, pod, now)
            if cluster.held_devices.is_used:
                self._devices_evictable(pod, now)
        elif before is not pod:
            for event in event_diff.pod_changes(before, pod, self._cluster.reference):
                wakeups.wake(event, before, pod, now)
        if nomination is not None and nomination.node != node:
            wakeups.wake_lower_priority(nomination, now)

    def _on_pending_pod(self, pod: Pod, now: Seconds) -> None:
        """Apply the state of a pod of ours that waits for a node."""
        if pod.terminating:
            # It will never run: it must not be bound or nominated any more.
            self._remove_pod(pod.uid, now)
            return
        self._cluster.footprints.validate(pod)
        self._cluster.devices.users.note(pod)
        queued = self._queue.get(pod.uid)
        if queued is None:
            self._sync_nomination(pod, None, now)
            self._queue.add(ClassifiedPod(pod), now, f"{self._cluster.reference.waiting_pod}Add")
            return
        old = queued.pod
        self._sync_nomination(pod, old, now)
        events = [
            event
            for event in event_diff.pod_changes(old, pod, self._cluster.reference)
            if old.metadata.resource_version != pod.metadata.resource_version
        ]
        self._update(pod, old, events, now)

    def _update(self, pod: Pod, old: Pod, events: list[ClusterEvent], now: Seconds) -> None:
        """Update the pod in the queue, and wake it if its own change can help it."""
        hint_checks = [self._wakeups.hint_check(event, old, pod) for event in events]

        def helped_by(waiting: Pod, rejectors: frozenset[str]) -> str:
            return next(filter(None, (check(waiting, rejectors) for check in hint_checks)), "")

        unchanged = f"{self._cluster.reference.changed_waiting_pod}Update"
        label = events[0].label if events else unchanged
        self._queue.update(ClassifiedPod(pod), now, helped_by, label)

    def _sync_nomination(self, pod: Pod, old: Pod | None, now: Seconds) -> None:
        """Apply a change of the nomination in a pod's status, unless ours is newer.

        Where the status names the same node as before, our own nomination stays on its node, and
        so it does while a plan is carried out. What it reserves there follows the pod.

        Source: kube-scheduler v1.36.3 backend/queue.nominator.UpdateNominatedPod.
        """
        node = self._nominated_node(pod)
        known = self._cluster.nominations.get(pod.uid)
        kept = old is not None and (
            pod.status.nominated_node_name == old.status.nominated_node_name
            and node == self._nominated_node(old)
        )
        if kept or self._preemptions.state.in_progress(pod.uid):
            if known is not None and not _same_footprint(known.pod, pod):
                self._cluster.nominate(pod, known.node)
                self._wakeups.wake_lower_priority(known, now)
            return
        if not node:
            self._wakeups.withdraw(pod.uid, now)
        elif known is None or known.node != node or not _same_footprint(known.pod, pod):
            moved = known is not None and known.node != node
            self._cluster.nominate(pod, node)
            if moved and known is not None:
                self._wakeups.wake_lower_priority(known, now)

    def _nominated_node(self, pod: Pod) -> str:
        """Return the node that a pod of ours is nominated to.

        In v1.36 a gated pod reserves nothing.

        Source: kube-scheduler v1.36.3 backend/queue.moveToActiveQ, v1.37.2 backend/queue.addPod.
        """
        if self._cluster.reference.gated_pods_keep_nominations:
            return pod.status.nominated_node_name
        profile = self._profiles[pod.spec.scheduler_name]
        gated = profile.run_pre_enqueue(pod, self._cluster) is not None
        return "" if gated else pod.status.nominated_node_name

    def _sync_foreign_nomination(self, pod: Pod, now: Seconds) -> None:
        """Apply the nomination of another scheduler's pod."""
        known = self._cluster.nominations.get(pod.uid)
        node = "" if pod.terminating else pod.status.nominated_node_name
        if known is not None and known.node == node and _same_footprint(known.pod, pod):
            return
        if node:
            self._cluster.nominate(pod, node)
        if known is not None:
            if not node:
                self._cluster.withdraw(pod.uid)
            self._wakeups.wake_lower_priority(known, now)


def _is_freed(before: ResourceClaim, after: DeviceObject | None) -> bool:
    """Return whether a claim has lost its allocation, which may help every waiting pod."""
    return before.status.allocation is not None and (
        not isinstance(after, ResourceClaim) or after.status.allocation is None
    )


def _same_footprint(one: Pod, other: Pod) -> bool:
    """Return whether other pods see no difference between two states of a nominated pod."""
    return one.spec == other.spec and one.metadata.labels == other.metadata.labels
