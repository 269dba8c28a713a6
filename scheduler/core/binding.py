"""From the choice of a node to the binding: the reservations that a pod waits for.

Most pods have no reservation, and their binding is requested at once. For the others the effects of
their reservations go out first; when all are done and all reservations are settled, the binding
follows. When a reservation fails, or is not settled in time, the pod is taken off its node and
tried again later.

Source: kube-scheduler v1.36.3 schedule_one.go bindingCycle, handleBindingCycleError.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from scheduler.core.requeue.outbox import Bound, Outbox
from scheduler.core.requeue.pod_status import SCHEDULER_ERROR, StatusReporter
from scheduler.core.requeue.wakeups import Wakeups
from scheduler.framework import event_diff
from scheduler.framework.extender_protocol import binder
from scheduler.framework.plugin import Reservation, ReservationFailed, Reserve
from scheduler.framework.profile import PREEMPTION, Profile
from scheduler.model.api.storage import PersistentVolume, PersistentVolumeClaim, key
from scheduler.model.effects import Bind, BindVolumes, Evict
from scheduler.model.events import Failure, StorageGone, StorageObserved
from scheduler.model.times import Seconds
from scheduler.queue.deadlines import Deadlines
from scheduler.queue.scheduling_queue import QueuedPod, SchedulingQueue
from scheduler.state.cluster import Cluster

__all__ = ["BindingCycle"]

_NODE: Final = "Node"


@dataclass(slots=True, eq=False)
class _Reserved:
    """One reservation of a pod and its progress."""

    plugin: str
    hold: Reservation
    #: When the effect was done plus the patience; `None` before that.
    deadline: Seconds | None = None


@dataclass(slots=True)
class _Waiting:
    """A pod that was placed and cannot be bound yet."""

    queued: QueuedPod
    node: str
    held: list[_Reserved] = field(default_factory=list)


class BindingCycle:
    """All pods between the choice of their node and the request to bind them."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        cluster: Cluster,
        queue: SchedulingQueue,
        wakeups: Wakeups,
        outbox: Outbox,
        status: StatusReporter,
    ) -> None:
        self._profiles = profiles
        self._cluster = cluster
        self._queue = queue
        self._wakeups = wakeups
        self._outbox = outbox
        self._status = status
        #: Pods that were placed and whose binding has no answer yet, by uid.
        self.in_flight: Final[dict[str, QueuedPod]] = {}
        self._reservers = {
            name: tuple(plugin for plugin in profile.filters if isinstance(plugin, Reserve))
            for name, profile in profiles.items()
        }
        self._waiting: dict[str, _Waiting] = {}
        #: When the patience with a reservation ends.
        self._due: Final[Deadlines[_Waiting]] = Deadlines(self._waits)
        #: Uids of the pods that wait for an object, by its kind and key.
        self._concerned: dict[tuple[str, str], dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def placed(self, queued: QueuedPod, node: str) -> str:
        """Reserve for a pod that was assumed on a node, or request its binding at once.

        Returns:
            Why a plugin could not reserve; then nothing is reserved. Empty when the pod is on its
            way.
        """
        self.in_flight[queued.uid] = queued
        held: list[_Reserved] = []
        for plugin in self._reservers[queued.pod.spec.scheduler_name]:
            try:
                reservation = plugin.reserve(queued.pod, node, self._cluster)
            except Exception as error:  # noqa: BLE001 - a plugin of others may raise anything
                for reserved in reversed(held):
                    reserved.hold.release()
                del self.in_flight[queued.uid]
                return f'running Reserve plugin "{plugin.name}": {error}'
            if reservation is not None:
                held.append(_Reserved(plugin.name, reservation))
        if not held:
            self._bind(queued, node)
            return ""
        self._waiting[queued.uid] = _Waiting(queued, node, held)
        for concern in self._concerns(held, node):
            self._concerned.setdefault(concern, {})[queued.uid] = None
        self._outbox.emit_all(reserved.hold.effect for reserved in held)
        return ""

    def bound(self, effect: Bind, now: Seconds) -> None:
        """Report a pod that the API server has bound; the watch will confirm it."""
        queued = self.in_flight.pop(effect.pod.uid, None)
        if queued is None:
            return
        waited = now - (now if queued.first_active is None else queued.first_active)
        self._outbox.report_bound(
            Bound(
                pod=effect.pod,
                node=effect.node,
                scheduler_name=effect.scheduler_name,
                attempts=queued.attempts,
                waited_seconds=waited,
                flushed=queued.flushed,
            )
        )
        self._status.scheduled(queued.pod, effect.node)

    def done(self, effect: BindVolumes, now: Seconds) -> None:
        """Go on when the effect of a reservation is done."""
        waiting = self._waiting.get(effect.pod.uid)
        if waiting is None:
            return
        for reserved in waiting.held:
            if reserved.hold.effect == effect and reserved.deadline is None:
                reserved.deadline = now + reserved.hold.timeout_seconds
                self._due.put(waiting, reserved.deadline)
        self._try_to_bind(effect.pod.uid, now)

    def failed(self, effect: BindVolumes, failure: Failure, now: Seconds) -> None:
        """Take a pod off its node when the effect of a reservation was refused."""
        waiting = self._waiting.get(effect.pod.uid)
        for reserved in waiting.held if waiting is not None else ():
            if reserved.hold.effect == effect and waiting is not None:
                self._give_up(waiting, reserved.plugin, failure.message, now)
                return

    def pod(self, uid: str, now: Seconds) -> None:
        """React to an event of a pod."""
        waiting = self._waiting.get(uid) if self._waiting else None
        if waiting is None:
            return
        queued = self._queue.get(uid)
        if not self._cluster.is_assumed(uid) or queued is None or queued.pod.terminating:
            self._end(waiting, now)

    def node(self, name: str, now: Seconds) -> None:
        """React to an event of a node for the pods that wait on it."""
        self._react(((_NODE, name),), now)

    def storage(self, event: StorageObserved | StorageGone, now: Seconds) -> None:
        """React to an event of a storage object for the pods that wait for it."""
        if not self._waiting:
            return
        if isinstance(event, StorageGone):
            self._react([(event.kind, event.key)], now)
            return
        item = event.item
        concerns = [(type(item).__name__, key(item))]
        if isinstance(item, PersistentVolume) and item.spec.claim_ref is not None:
            concerns.append((PersistentVolumeClaim.__name__, item.spec.claim_ref.key))
        self._react(concerns, now)

    def flush(self, now: Seconds) -> None:
        """Give up pods whose reservations took too long."""
        for waiting in self._due.pop_until(now):
            self._try_to_bind(waiting.queued.uid, now)

    def next_wakeup(self) -> Seconds | None:
        """Return when `flush` next has something to do; `None` when never."""
        return self._due.first()

    def release(self, eviction: Evict, now: Seconds) -> bool:
        """Take a victim off its node if it is not bound yet: it does not have to be deleted.

        Returns:
            Whether it was taken off; otherwise it has to be evicted.

        Source: kube-scheduler v1.36.3 framework/preemption.NewExecutor.
        """
        waiting = self._waiting.get(eviction.victim.uid)
        if waiting is None:
            return False
        version = waiting.queued.pod.metadata.resource_version
        self._give_up(waiting, "", f"preempted by {PREEMPTION}", now)
        self._status.released(eviction, version)
        return True

    def _bind(self, queued: QueuedPod, node: str) -> None:
        pod = queued.pod
        profile = self._profiles[pod.spec.scheduler_name]
        extender = binder(profile.extenders, pod)
        self._outbox.emit(Bind(pod.ref, node, pod.spec.scheduler_name, extender))

    def _concerns(self, held: Iterable[_Reserved], node: str) -> set[tuple[str, str]]:
        return {(_NODE, node), *(concern for item in held for concern in item.hold.watched_objects)}

    def _react(self, concerns: Iterable[tuple[str, str]], now: Seconds) -> None:
        if self._waiting:
            uids = {uid: None for concern in concerns for uid in self._concerned.get(concern, ())}
            for uid in uids:
                self._try_to_bind(uid, now)

    def _waits(self, waiting: _Waiting, _moment: Seconds) -> bool:
        return self._waiting.get(waiting.queued.uid) is waiting

    def _try_to_bind(self, uid: str, now: Seconds) -> None:
        """Bind a pod if its reservations are settled, give it up if one failed or is late."""
        waiting = self._waiting.get(uid)
        if waiting is None or any(reserved.deadline is None for reserved in waiting.held):
            return
        ready = True
        for reserved in waiting.held:
            settled = reserved.hold.poll()
            if isinstance(settled, ReservationFailed):
                self._give_up(waiting, reserved.plugin, settled.reason, now)
                return
            if not settled and reserved.deadline is not None and now >= reserved.deadline:
                self._give_up(waiting, reserved.plugin, reserved.hold.timed_out.reason, now)
                return
            ready = ready and settled
        if ready:
            self._forget(waiting)
            self._bind(waiting.queued, waiting.node)

    def _give_up(self, waiting: _Waiting, plugin: str, reason: str, now: Seconds) -> None:
        """Take a pod off its node and try it again after a backoff."""
        if not self._end(waiting, now):
            return
        queued = waiting.queued
        text = f'running PreBind plugin "{plugin}": {reason}' if plugin else reason
        self._queue.retry(queued, now)
        self._status.failed(queued.pod, text)
        # The nomination went out with the first effect, whether its status has it already or not.
        self._status.set_condition(queued, SCHEDULER_ERROR, text, clear_nomination=True)

    def _end(self, waiting: _Waiting, now: Seconds) -> bool:
        """Release all reservations of a pod; return whether it still has to be scheduled."""
        uid = waiting.queued.uid
        self._forget(waiting)
        for reserved in waiting.held:
            reserved.hold.release()
        self.in_flight.pop(uid, None)
        if not self._cluster.is_assumed(uid):
            return False
        forgotten = self._cluster.forget(uid)
        self._wakeups.wake(event_diff.POD_DELETED, forgotten, None, now)
        queued = self._queue.get(uid)
        if queued is None:
            return False
        if queued.pod.terminating:
            self._queue.drop(uid, now)
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
        """Assert the invariants: a waiting pod is assumed, and indexed by what it waits for."""
        for uid, waiting in self._waiting.items():
            assert self._cluster.is_assumed(uid)
            assert self._queue.get(uid) is waiting.queued
            for concern in self._concerns(waiting.held, waiting.node):
                assert uid in self._concerned[concern]
        waiting_uids = {uid for uids in self._concerned.values() for uid in uids}
        assert waiting_uids == set(self._waiting)
