"""From the choice of a node to the binding: what a pod holds beside room, and what it waits for.

Most pods hold nothing, and their binding is asked for at once. For the others the effects of their
holds go out first; when all are done and all holds are settled, the binding follows. A hold that
fails, or is not settled in time, takes the pod off its node again, and it is tried again later.

Source: kube-scheduler v1.36.3 schedule_one.go bindingCycle, handleBindingCycleError.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from scheduler.core.requeue import pod_status
from scheduler.core.requeue.context import Context
from scheduler.framework import event_diff
from scheduler.framework.extender_protocol import binder
from scheduler.framework.plugin import Reservation, ReservationFailed, Reserve
from scheduler.framework.profile import PREEMPTION, Profile
from scheduler.model.api.storage import PersistentVolume, PersistentVolumeClaim, key
from scheduler.model.effects import Bind, BindVolumes, Evict
from scheduler.model.events import Failure, StorageGone, StorageObserved
from scheduler.model.times import Seconds
from scheduler.queue.deadlines import Deadlines
from scheduler.queue.scheduling_queue import QueuedPod

__all__ = ["BindingCycle"]

_NODE: Final = "Node"


@dataclass(slots=True, eq=False)
class _Reserved:
    """One hold of a pod, and how far it has come."""

    plugin: str
    hold: Reservation
    #: When the effect was done plus the patience; `None` before.
    deadline: Seconds | None = None


@dataclass(slots=True)
class _Waiting:
    """A pod that was placed and cannot be bound yet."""

    queued: QueuedPod
    node: str
    held: list[_Reserved] = field(default_factory=list)


class BindingCycle:
    """All pods between the choice of their node and the request to bind them."""

    def __init__(self, context: Context, profiles: Mapping[str, Profile]) -> None:
        self._context = context
        self._reservers = {
            name: tuple(each for each in profile.filters if isinstance(each, Reserve))
            for name, profile in profiles.items()
        }
        self._waiting: dict[str, _Waiting] = {}
        #: When a hold runs out of patience.
        self._due: Final[Deadlines[_Waiting]] = Deadlines(self._waits)
        self._concerned: dict[tuple[str, str], dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def placed(self, queued: QueuedPod, node: str) -> str:
        """Go on with a pod that was assumed on a node: reserve, or have it bound at once.

        Returns:
            Why a plugin could not reserve; empty where the pod is on its way. Nothing is held then.
        """
        held: list[_Reserved] = []
        for plugin in self._reservers[queued.pod.spec.scheduler_name]:
            try:
                hold = plugin.reserve(queued.pod, node, self._context.cluster)
            except Exception as error:  # noqa: BLE001 - a plugin of others may raise anything
                for each in reversed(held):
                    each.hold.release()
                return f'running Reserve plugin "{plugin.name}": {error}'
            if hold is not None:
                held.append(_Reserved(plugin.name, hold))
        if not held:
            self._bind(queued, node)
            return ""
        self._waiting[queued.uid] = _Waiting(queued, node, held)
        for concern in self._concerns(held, node):
            self._concerned.setdefault(concern, {})[queued.uid] = None
        self._context.outbox.extend(each.hold.effect for each in held)
        return ""

    def done(self, effect: BindVolumes, now: Seconds) -> None:
        """Go on when an effect of a hold is done."""
        waiting = self._waiting.get(effect.pod.uid)
        if waiting is None:
            return
        for each in waiting.held:
            if each.hold.effect == effect and each.deadline is None:
                each.deadline = now + each.hold.timeout_seconds
                self._due.put(waiting, each.deadline)
        self._look(effect.pod.uid, now)

    def failed(self, effect: BindVolumes, failure: Failure, now: Seconds) -> None:
        """Take a pod off its node when an effect of a hold was refused."""
        waiting = self._waiting.get(effect.pod.uid)
        for each in waiting.held if waiting is not None else ():
            if each.hold.effect == effect and waiting is not None:
                self._give_up(waiting, each.plugin, failure.message, now)
                return

    def pod(self, uid: str, now: Seconds) -> None:
        """Look after a pod of which there was news."""
        waiting = self._waiting.get(uid) if self._waiting else None
        if waiting is None:
            return
        cluster, queued = self._context.cluster, self._context.queue.get(uid)
        if not cluster.is_assumed(uid) or queued is None or queued.pod.terminating:
            self._end(waiting, now)

    def node(self, name: str, now: Seconds) -> None:
        """Look after the pods that wait on a node of which there was news."""
        self._news(((_NODE, name),), now)

    def storage(self, event: StorageObserved | StorageGone, now: Seconds) -> None:
        """Look after the pods that wait for a storage object of which there was news."""
        if not self._waiting:
            return
        if isinstance(event, StorageGone):
            self._news([(event.kind, event.key)], now)
            return
        item = event.item
        concerns = [(type(item).__name__, key(item))]
        if isinstance(item, PersistentVolume) and item.spec.claim_ref is not None:
            concerns.append((PersistentVolumeClaim.__name__, item.spec.claim_ref.key))
        self._news(concerns, now)

    def flush(self, now: Seconds) -> None:
        """Give up what was waited for too long."""
        for waiting in self._due.pop_until(now):
            self._look(waiting.queued.uid, now)

    def next_wakeup(self) -> Seconds | None:
        """Return when `flush` next has something to do; `None` when never."""
        return self._due.first()

    def release(self, eviction: Evict, now: Seconds) -> bool:
        """Take a victim off its node if it is not bound yet: it need not be deleted.

        Returns:
            Whether it was; otherwise it has to be evicted.

        Source: kube-scheduler v1.36.3 framework/preemption.NewExecutor.
        """
        waiting = self._waiting.get(eviction.victim.uid)
        if waiting is None:
            return False
        version = waiting.queued.pod.metadata.resource_version
        self._give_up(waiting, "", f"preempted by {PREEMPTION}", now)
        pod_status.announce_released(self._context, eviction, version)
        return True

    def _bind(self, queued: QueuedPod, node: str) -> None:
        pod = queued.pod
        profile = self._context.profiles[pod.spec.scheduler_name]
        extender = binder(profile.extenders, pod)
        bind = Bind(pod.ref, node, pod.spec.scheduler_name, extender)
        self._context.outbox.append(bind)

    def _concerns(self, held: Iterable[_Reserved], node: str) -> set[tuple[str, str]]:
        return {(_NODE, node), *(concern for each in held for concern in each.hold.watched_objects)}

    def _news(self, concerns: Iterable[tuple[str, str]], now: Seconds) -> None:
        if self._waiting:
            uids = {uid: None for each in concerns for uid in self._concerned.get(each, ())}
            for uid in uids:
                self._look(uid, now)

    def _waits(self, waiting: _Waiting, _moment: Seconds) -> bool:
        return self._waiting.get(waiting.queued.uid) is waiting

    def _look(self, uid: str, now: Seconds) -> None:
        """Find out whether a pod can be bound now, or never on this node."""
        waiting = self._waiting.get(uid)
        if waiting is None or any(each.deadline is None for each in waiting.held):
            return
        ready = True
        for each in waiting.held:
            said = each.hold.poll()
            if isinstance(said, ReservationFailed):
                self._give_up(waiting, each.plugin, said.reason, now)
                return
            if not said and each.deadline is not None and now >= each.deadline:
                self._give_up(waiting, each.plugin, each.hold.timed_out.reason, now)
                return
            ready = ready and said
        if ready:
            self._forget(waiting)
            self._bind(waiting.queued, waiting.node)

    def _give_up(self, waiting: _Waiting, plugin: str, reason: str, now: Seconds) -> None:
        """Take a pod off its node and try it again after a back-off."""
        if not self._end(waiting, now):
            return
        context, queued = self._context, waiting.queued
        text = f'running PreBind plugin "{plugin}": {reason}' if plugin else reason
        context.queue.retry(queued, now)
        pod_status.announce_failure(context, queued.pod, text)
        # The nomination went out with the first effect, whether its status says so already or not.
        pod_status.set_condition(
            context, queued, pod_status.SCHEDULER_ERROR, text, clear_nomination=True
        )

    def _end(self, waiting: _Waiting, now: Seconds) -> bool:
        """Give up everything that a pod holds; tell whether it is still to be scheduled."""
        context, uid = self._context, waiting.queued.uid
        self._forget(waiting)
        for each in waiting.held:
            each.hold.release()
        context.binding.pop(uid, None)
        if not context.cluster.is_assumed(uid):
            return False
        left = context.cluster.forget(uid)
        context.wake(event_diff.POD_DELETED, left, None, now)
        queued = context.queue.get(uid)
        if queued is None:
            return False
        if queued.pod.terminating:
            context.queue.drop(uid, now)
            return False
        return True

    def _forget(self, waiting: _Waiting) -> None:
        uid = waiting.queued.uid
        del self._waiting[uid]
        for concern in self._concerns(waiting.held, waiting.node):
            uids = self._concerned[concern]
            del uids[uid]
            if not uids:
                del self._concerned[concern]

    def check(self) -> None:
        """Assert the invariants: who waits is assumed, and is found by what it waits for."""
        for uid, waiting in self._waiting.items():
            assert self._context.cluster.is_assumed(uid)
            assert self._context.queue.get(uid) is waiting.queued
            for concern in self._concerns(waiting.held, waiting.node):
                assert uid in self._concerned[concern]
        waiting_uids = {uid for uids in self._concerned.values() for uid in uids}
        assert waiting_uids == set(self._waiting)
