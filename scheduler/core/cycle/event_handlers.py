"""Takes over what was observed: keeps cluster and queue true, and wakes who may be helped.

Observations carry full states. A repeat changes nothing, an older state that comes late changes
nothing that matters, and a pod is told from another of the same name by its uid.

Source: kube-scheduler v1.36.3 eventhandlers.go.
"""

import functools
from typing import Any

from scheduler.core.eviction.executor import Executor
from scheduler.core.requeue.context import Context
from scheduler.framework import event_diff
from scheduler.framework.cluster_events import ClusterEvent
from scheduler.model.api.objects import Node, Pod
from scheduler.model.api.runtime import runs_since
from scheduler.model.classified_pod import ClassifiedPod
from scheduler.model.events import (
    BudgetGone,
    BudgetObserved,
    DeviceClassGone,
    DeviceClassObserved,
    NamespaceGone,
    NamespaceObserved,
    PolicyGone,
    PolicyObserved,
    StorageGone,
    StorageObserved,
)
from scheduler.model.policy_refusals import Rule
from scheduler.model.times import Seconds

__all__ = ["EventHandlers"]


class EventHandlers:
    """Everything that the informers report."""

    def __init__(self, context: Context, executor: Executor) -> None:
        self._context = context
        self._executor = executor

    def pod(self, pod: Pod, now: Seconds) -> None:
        """Take over the state of a pod.

        Raises:
            QuantityError: A request of the pod is no quantity; nothing is changed then.
        """
        if pod.terminal:
            self.pod_gone(pod.uid, now)
        elif pod.spec.node_name:
            self._on_node(pod, now)
        elif self._context.cluster.placed(pod.uid) is not None:
            # It is on a node, or being bound to one: this state is older than what we know.
            queued = self._context.queue.get(pod.uid)
            if queued is not None:
                queued.classified = ClassifiedPod(pod)
        elif self._context.is_ours(pod):
            self._waiting(pod, now)
        else:
            self._sync_foreign_claim(pod, now)

    def pod_gone(self, uid: str, now: Seconds) -> None:
        """Forget a pod that is gone or has finished."""
        context = self._context
        context.queue.drop(uid, now)
        context.held.let_go(uid)
        self._executor.preemptor_gone(uid, now)
        claim = context.cluster.nominations.get(uid)
        removed = context.cluster.remove(uid)
        if removed is not None:
            self._room_made(removed, now)
        elif claim is not None:
            context.wake_below(claim, now)

    def node(self, node: Node, now: Seconds) -> None:
        """Take over the state of a node.

        Raises:
            QuantityError: An allocatable amount is no quantity; nothing is changed then.
        """
        context = self._context
        before = context.cluster.write_node(node)
        events = (
            [event_diff.NODE_ADDED] if before is None else event_diff.node_changes(before, node)
        )
        for event in events:
            context.wake(event, before, node, now)

    def node_gone(self, name: str, now: Seconds) -> None:
        """Forget a node; claims on it are taken back."""
        context = self._context
        before = context.cluster.columns.node(name)
        if before is None:
            return
        context.wake(event_diff.NODE_DELETED, before, None, now)
        context.cluster.erase_node(name)
        self._executor.node_gone(name, now)

    def storage(self, event: StorageObserved | StorageGone, now: Seconds) -> None:
        """Take over the state of a storage object, or forget it.

        Raises:
            QuantityError: An amount is no quantity; nothing is changed then.
        """
        context = self._context
        before: Any
        after: Any = None
        if isinstance(event, StorageObserved):
            after = event.item
            before = context.cluster.volumes.write(event.item)
            change = event_diff.storage_change(before, event.item)
        else:
            before = context.cluster.volumes.erase(event.kind, event.key)
            change = event_diff.storage_deleted(event.kind)
        if before != after:
            context.wake(change, before, after, now)

    def device_class(self, event: DeviceClassObserved | DeviceClassGone, now: Seconds) -> None:
        """Take over the state of a device class, or forget it."""
        context = self._context
        before: Any
        after: Any = None
        if isinstance(event, DeviceClassObserved):
            after = event.device_class
            before = context.cluster.write_device_class(event.device_class)
        else:
            before = context.cluster.erase_device_class(event.name)
        if before != after:
            context.wake(event_diff.device_class_changed(before, after), before, after, now)

    def budget(self, event: BudgetObserved | BudgetGone, now: Seconds) -> None:
        """Take over the state of a disruption budget, or forget it.

        As in kube-scheduler this wakes no pod, but those that this very budget holds.
        """
        context = self._context
        if isinstance(event, BudgetObserved):
            context.cluster.write_budget(event.budget)
            context.bounds.accounted(event.budget)
            metadata = event.budget.metadata
            key = f"{metadata.namespace}/{metadata.name}"
        else:
            context.cluster.erase_budget(event.key)
            context.bounds.budget_gone(event.key)
            key = event.key
        if len(context.held):
            context.held.wake_budgets(now, {key, *context.bounds.freed(now)})

    def namespace(self, event: NamespaceObserved | NamespaceGone, now: Seconds) -> None:
        """Take over the labels of a namespace, or forget it; policies may select others then."""
        context = self._context
        before = context.cluster.namespaces_version
        if isinstance(event, NamespaceObserved):
            context.cluster.write_namespace(event.namespace)
        else:
            context.cluster.erase_namespace(event.name)
        if context.cluster.namespaces_version != before:
            context.held.wake(now, "NamespaceChange")

    def policy(self, event: PolicyObserved | PolicyGone, now: Seconds) -> None:
        """Take over a policy, or forget it; whoever is held by one is tried again."""
        context = self._context
        policies = context.cluster.policies
        if isinstance(event, PolicyObserved):
            changed = policies.write(event.policy)
        else:
            changed = policies.erase(event.name)
        if changed:
            context.ledger.reach(policies.windows())
            context.held.wake(now, "PreemptionPolicyChange")

    def clock_ahead(self, seconds: Seconds, now: Seconds) -> None:
        """Take over by how much our clock is ahead; victims may be protected until another time."""
        context = self._context
        if context.cluster.clock_ahead != seconds:
            context.cluster.clock_ahead = seconds
            context.held.wake(now, "ClockChange", Rule.MIN_RUNTIME)

    def _on_node(self, pod: Pod, now: Seconds) -> None:
        """Count a pod on its node."""
        context, uid, node = self._context, pod.uid, pod.spec.node_name
        confirmed = context.cluster.is_assumed(uid)
        left = context.cluster.node_of(uid)
        claim = context.cluster.nominations.get(uid)
        before = context.cluster.place(pod, node)
        context.queue.drop(uid, now)
        context.held.let_go(uid)
        self._executor.bound(uid, node, now)
        if before is not None and left != node:
            # Somebody else bound it, and not to the node on which it was assumed.
            self._room_made(before, now)
        if before is not None and runs_since(before) != runs_since(pod):
            context.held.wake(now, "PodStarted", Rule.MIN_RUNTIME)
        if before is None or confirmed:
            context.wake(event_diff.POD_ADDED, None, pod, now)
        elif before is not pod:
            for event in event_diff.pod_changes(before, pod):
                context.wake(event, before, pod, now)
        if claim is not None and claim.node != node:
            context.wake_below(claim, now)

    def _room_made(self, gone: Pod, now: Seconds) -> None:
        """Wake who can use the room of a pod that is on its node no longer."""
        executor, node = self._executor, gone.spec.node_name
        fits = functools.partial(executor.revalidation.fit_beside, node=node)
        self._context.wake_by_room(gone, executor.tracking.served(node), fits, now)

    def _waiting(self, pod: Pod, now: Seconds) -> None:
        """Take over the state of a pod of ours that waits for a node."""
        context = self._context
        if pod.terminating:
            # It will never run: it is neither bound nor nominated any more.
            self.pod_gone(pod.uid, now)
            return
        context.cluster.shapes.validate(pod)
        queued = context.queue.get(pod.uid)
        if queued is None:
            self._sync_claim(pod, None, now)
            context.queue.add(ClassifiedPod(pod), now, "UnschedulablePodAdd")
            return
        old = queued.pod
        self._sync_claim(pod, old, now)
        events = [
            event
            for event in event_diff.pod_changes(old, pod)
            if old.metadata.resource_version != pod.metadata.resource_version
        ]
        self._update(pod, old, events, now)

    def _update(self, pod: Pod, old: Pod, events: list[ClusterEvent], now: Seconds) -> None:
        """Hand a new state to the queue; the pod's own change may be what it waited for."""
        context = self._context
        judges = [context.judge(event, old, pod) for event in events]

        def helped_by(waiting: Pod, rejectors: frozenset[str]) -> str:
            return next(filter(None, (judge(waiting, rejectors) for judge in judges)), "")

        label = events[0].label if events else "UnschedulablePodUpdate"
        context.queue.update(ClassifiedPod(pod), now, helped_by, label)

    def _sync_claim(self, pod: Pod, old: Pod | None, now: Seconds) -> None:
        """Follow a change of the nomination in a pod's status, unless ours is newer.

        A status that says what it said before is no news: what was decided since stands.

        Source: kube-scheduler v1.36.3 backend/queue.nominator.UpdateNominatedPod.
        """
        context = self._context
        if self._executor.nominating(pod.uid):
            return
        node = self._nominated(pod)
        claim = context.cluster.nominations.get(pod.uid)
        if old is not None and node == self._nominated(old):
            if claim is not None and not _counts_alike(claim.pod, pod):
                context.cluster.nominate(pod, claim.node)
            return
        if not node:
            context.withdraw(pod.uid, now)
        elif claim is None or claim.node != node or not _counts_alike(claim.pod, pod):
            moved = claim is not None and claim.node != node
            context.cluster.nominate(pod, node)
            if moved and claim is not None:
                context.wake_below(claim, now)

    def _nominated(self, pod: Pod) -> str:
        """Return the node that a pod of ours is nominated to; a gated one claims nothing."""
        gated = self._context.profiles[pod.spec.scheduler_name].run_pre_enqueue(pod) is not None
        return "" if gated else pod.status.nominated_node_name

    def _sync_foreign_claim(self, pod: Pod, now: Seconds) -> None:
        """Respect the nomination of another scheduler's pod."""
        claim = self._context.cluster.nominations.get(pod.uid)
        node = "" if pod.terminating else pod.status.nominated_node_name
        if claim is not None and claim.node == node and _counts_alike(claim.pod, pod):
            return
        if node:
            self._context.cluster.nominate(pod, node)
        if claim is not None:
            if not node:
                self._context.cluster.withdraw(pod.uid)
            self._context.wake_below(claim, now)


def _counts_alike(one: Pod, other: Pod) -> bool:
    """Tell whether two states of a nominated pod mean the same for other pods."""
    return one.spec == other.spec and one.metadata.labels == other.metadata.labels
