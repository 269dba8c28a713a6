"""Applies what informers report to the cluster and the queue, and wakes pods that it may help.

Each event has a full state. A repeated state changes nothing, an old state that comes late changes
nothing that matters, and pods of one name are distinguished by their uids.

Source: kube-scheduler v1.36.3 eventhandlers.go.
"""

import functools
from collections.abc import Mapping
from typing import Any

from scheduler.core.eviction.executor import Executor
from scheduler.core.requeue.wakeups import Wakeups
from scheduler.framework import event_diff
from scheduler.framework.cluster_events import ClusterEvent
from scheduler.framework.profile import Profile
from scheduler.model.api.objects import Node, Pod
from scheduler.model.api.runtime import runs_since
from scheduler.model.classified_pod import ClassifiedPod
from scheduler.model.events import (
    DeviceClassGone,
    DeviceClassObserved,
    StorageGone,
    StorageObserved,
)
from scheduler.model.policy_refusals import Rule
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
        executor: Executor,
    ) -> None:
        self._profiles = profiles
        self._cluster = cluster
        self._queue = queue
        self._wakeups = wakeups
        self._executor = executor

    def pod(self, pod: Pod, now: Seconds) -> None:
        """Apply the state of a pod.

        Raises:
            QuantityError: A request of the pod is no quantity; nothing is changed then.
        """
        if pod.terminal:
            self.pod_gone(pod.uid, now)
        elif pod.spec.node_name:
            self._on_node(pod, now)
        elif self._cluster.placed(pod.uid) is not None:
            # It is on a node, or being bound to one: this state is older than ours.
            queued = self._queue.get(pod.uid)
            if queued is not None:
                queued.classified = ClassifiedPod(pod)
        elif pod.spec.scheduler_name in self._profiles:
            self._waiting(pod, now)
        else:
            self._sync_foreign_nomination(pod, now)

    def pod_gone(self, uid: str, now: Seconds) -> None:
        """Remove a pod that is gone or has finished."""
        self._queue.drop(uid, now)
        self._wakeups.blocked.unblock(uid)
        self._executor.preemptor_gone(uid, now)
        nomination = self._cluster.nominations.get(uid)
        removed = self._cluster.remove(uid)
        if removed is not None:
            self._wake_by_room(removed, now)
        elif nomination is not None:
            self._wakeups.wake_below(nomination, now)

    def node(self, node: Node, now: Seconds) -> None:
        """Apply the state of a node.

        Raises:
            QuantityError: An allocatable amount is no quantity; nothing is changed then.
        """
        before = self._cluster.write_node(node)
        events = (
            [event_diff.NODE_ADDED] if before is None else event_diff.node_changes(before, node)
        )
        for event in events:
            self._wakeups.wake(event, before, node, now)

    def node_gone(self, name: str, now: Seconds) -> None:
        """Remove a node; nominations to it are withdrawn."""
        before = self._cluster.columns.node(name)
        if before is None:
            return
        self._wakeups.wake(event_diff.NODE_DELETED, before, None, now)
        self._cluster.erase_node(name)
        self._executor.node_gone(name, now)

    def storage(self, event: StorageObserved | StorageGone, now: Seconds) -> None:
        """Apply the state of a storage object, or remove it.

        Raises:
            QuantityError: An amount is no quantity; nothing is changed then.
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

    def device_class(self, event: DeviceClassObserved | DeviceClassGone, now: Seconds) -> None:
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

    def _on_node(self, pod: Pod, now: Seconds) -> None:
        """Count a pod on its node."""
        cluster, wakeups, uid, node = self._cluster, self._wakeups, pod.uid, pod.spec.node_name
        confirmed = cluster.is_assumed(uid)
        assumed_on = cluster.node_of(uid)
        nomination = cluster.nominations.get(uid)
        before = cluster.place(pod, node)
        self._queue.drop(uid, now)
        wakeups.blocked.unblock(uid)
        self._executor.bound(uid, node, now)
        if before is not None and assumed_on != node:
            # Another scheduler bound it, and not to the node on which it was assumed.
            self._wake_by_room(before, now)
        if before is not None and runs_since(before) != runs_since(pod):
            wakeups.blocked.wake(now, "PodStarted", Rule.MIN_RUNTIME)
        if before is None or confirmed:
            wakeups.wake(event_diff.POD_ADDED, None, pod, now)
        elif before is not pod:
            for event in event_diff.pod_changes(before, pod):
                wakeups.wake(event, before, pod, now)
        if nomination is not None and nomination.node != node:
            wakeups.wake_below(nomination, now)

    def _wake_by_room(self, gone: Pod, now: Seconds) -> None:
        """Wake the pods that can use the resources of a pod that has left its node."""
        executor, node = self._executor, gone.spec.node_name
        fits = functools.partial(executor.revalidation.fit_beside, node=node)
        self._wakeups.wake_by_room(gone, executor.tracking.served(node), fits, now)

    def _waiting(self, pod: Pod, now: Seconds) -> None:
        """Apply the state of a pod of ours that waits for a node."""
        if pod.terminating:
            # It will never run: it must not be bound or nominated any more.
            self.pod_gone(pod.uid, now)
            return
        self._cluster.shapes.validate(pod)
        queued = self._queue.get(pod.uid)
        if queued is None:
            self._sync_nomination(pod, None, now)
            self._queue.add(ClassifiedPod(pod), now, "UnschedulablePodAdd")
            return
        old = queued.pod
        self._sync_nomination(pod, old, now)
        events = [
            event
            for event in event_diff.pod_changes(old, pod)
            if old.metadata.resource_version != pod.metadata.resource_version
        ]
        self._update(pod, old, events, now)

    def _update(self, pod: Pod, old: Pod, events: list[ClusterEvent], now: Seconds) -> None:
        """Update the pod in the queue, and wake it if its own change can help it."""
        judges = [self._wakeups.judge(event, old, pod) for event in events]

        def helped_by(waiting: Pod, rejectors: frozenset[str]) -> str:
            return next(filter(None, (judge(waiting, rejectors) for judge in judges)), "")

        label = events[0].label if events else "UnschedulablePodUpdate"
        self._queue.update(ClassifiedPod(pod), now, helped_by, label)

    def _sync_nomination(self, pod: Pod, old: Pod | None, now: Seconds) -> None:
        """Apply a change of the nomination in a pod's status, unless ours is newer.

        Where the status names the same node as before, our own nomination stays as it is.

        Source: kube-scheduler v1.36.3 backend/queue.nominator.UpdateNominatedPod.
        """
        if self._executor.nominating(pod.uid):
            return
        node = self._nominated(pod)
        known = self._cluster.nominations.get(pod.uid)
        if old is not None and node == self._nominated(old):
            if known is not None and not _counts_alike(known.pod, pod):
                self._cluster.nominate(pod, known.node)
            return
        if not node:
            self._wakeups.withdraw(pod.uid, now)
        elif known is None or known.node != node or not _counts_alike(known.pod, pod):
            moved = known is not None and known.node != node
            self._cluster.nominate(pod, node)
            if moved and known is not None:
                self._wakeups.wake_below(known, now)

    def _nominated(self, pod: Pod) -> str:
        """Return the node that a pod of ours is nominated to; a gated pod reserves nothing."""
        gated = self._profiles[pod.spec.scheduler_name].run_pre_enqueue(pod) is not None
        return "" if gated else pod.status.nominated_node_name

    def _sync_foreign_nomination(self, pod: Pod, now: Seconds) -> None:
        """Apply the nomination of another scheduler's pod."""
        known = self._cluster.nominations.get(pod.uid)
        node = "" if pod.terminating else pod.status.nominated_node_name
        if known is not None and known.node == node and _counts_alike(known.pod, pod):
            return
        if node:
            self._cluster.nominate(pod, node)
        if known is not None:
            if not node:
                self._cluster.withdraw(pod.uid)
            self._wakeups.wake_below(known, now)


def _counts_alike(one: Pod, other: Pod) -> bool:
    """Return whether two states of a nominated pod mean the same for other pods."""
    return one.spec == other.spec and one.metadata.labels == other.metadata.labels
