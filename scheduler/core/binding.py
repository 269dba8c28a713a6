"""From the choice of a node to the binding: the reservations that a pod waits for.

Most pods have no reservation, and their binding is requested at once. For the others the effects of
their reservations go out first; when all are done and all reservations are complete, the binding
follows. When a reservation fails, or is not complete in time, the pod is taken off its node and
tried again later.

What is undone then has no outcome yet when the pod is placed again. So nothing is requested for a
pod while its claims are being released: its new reservations would be taken back.

Source: kube-scheduler v1.36.3 schedule_one.go bindingCycle, handleBindingCycleError. Differs:
allocations in flight and assumed volumes that come to nothing wake the pods that lacked them.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from scheduler.core.outbox import Bound, Outbox
from scheduler.core.pod_status import SCHEDULER_ERROR, StatusReporter
from scheduler.core.requeue.wakeups import Wakeups
from scheduler.framework import event_diff
from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.extender_protocol import binder
from scheduler.framework.plugin import PluginError, Reservation, ReservationFailed, Reserve
from scheduler.framework.profile import PREEMPTION, Profile
from scheduler.model.api.device_claims import Allocation
from scheduler.model.api.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.model.base import Record
from scheduler.model.effects import (
    Bind,
    BindClaims,
    BindVolumes,
    ClaimRef,
    Effect,
    Evict,
    RecordEvent,
    ReleaseClaims,
)
from scheduler.model.events import (
    ClaimAnswered,
    DevicesGone,
    DevicesObserved,
    Failure,
    FailureKind,
    NodeGone,
    NodeObserved,
    PodGone,
    PodObserved,
    StorageGone,
    StorageObserved,
)
from scheduler.model.times import Seconds, earliest
from scheduler.queue.deadlines import Deadlines
from scheduler.queue.scheduling_queue import QueuedPod, SchedulingQueue
from scheduler.state.cluster import Cluster

__all__ = ["BindingCycle", "DeviceWait", "PodReservation"]

_NODE: Final = "Node"
#: Until claims of which it is in doubt whether they have devices are released again.
_AGAIN_SECONDS: Final = 10.0
#: How many waits for devices are kept for a caller that does not ask for them.
_MOST_WAITS: Final = 1000


class DeviceWait(Record, frozen=True):
    """How the wait until the devices of a pod were ready has ended."""

    scheduler_name: str
    #: The driver of each device, and whether the device had to be made ready.
    devices: tuple[tuple[str, bool], ...]
    #: `success`, `failure`, `timeout` or `error`.
    status: str
    seconds: Seconds


@dataclass(slots=True, eq=False)
class PodReservation:
    """One reservation of a pod and its progress."""

    plugin: str
    reservation: Reservation
    #: The claims that it allocates, by uid, with what was in flight for them before.
    in_flight: tuple[tuple[str, Allocation | None], ...]
    #: When the effect was done plus the patience; `None` before that.
    deadline: Seconds | None = None


@dataclass(slots=True)
class _PreBindingPod:
    """A pod that was placed and cannot be bound yet."""

    queued: QueuedPod
    node: str
    reservations: list[PodReservation] = field(default_factory=list)
    #: Whether the effects of its reservations went out.
    requested: bool = False

    def reservations_of(self, effect: BindVolumes | BindClaims) -> Iterator[PodReservation]:
        """Yield the reservations that an effect is of."""
        return (each for each in self.reservations if each.reservation.effect == effect)


def _allocations(effect: Effect) -> Iterator[tuple[ClaimRef, Allocation]]:
    """Yield the claims that an effect allocates."""
    for write in effect.claims if isinstance(effect, BindClaims) else ():
        if write.allocation is not None:
            yield write.claim, write.allocation


@dataclass(slots=True, eq=False)
class BindingCycle:
    """All pods between the choice of their node and the request to bind them."""

    _profiles: Mapping[str, Profile] = field(compare=False)
    _cluster: Cluster = field(compare=False)
    _queue: SchedulingQueue = field(compare=False)
    _wakeups: Wakeups = field(compare=False)
    _outbox: Outbox = field(compare=False)
    _status: StatusReporter = field(compare=False)
    #: Pods that were placed and whose binding has no answer yet, by uid.
    in_flight: dict[str, QueuedPod] = field(default_factory=dict)
    #: The releases of claims that have no answer yet, by uid of the pod.
    _releasing: dict[str, ReleaseClaims] = field(default_factory=dict)
    #: When claims are released again.
    _again: Deadlines[ReleaseClaims] = field(default_factory=Deadlines)
    _reservers: dict[str, tuple[Reserve, ...]] = field(init=False, compare=False)
    _pre_binding: dict[str, _PreBindingPod] = field(default_factory=dict, compare=False)
    #: Reservations of pods whose binding has no answer yet, by uid.
    _reserved: dict[str, list[PodReservation]] = field(default_factory=dict, compare=False)
    #: When the patience with a reservation ends.
    _due: Deadlines[_PreBindingPod] = field(init=False, compare=False)
    #: Uids of the pods that wait for an object, by its kind and key.
    _by_object: dict[tuple[str, str], dict[str, None]] = field(default_factory=dict, compare=False)
    _device_waits: deque[DeviceWait] = field(
        default_factory=partial(deque, maxlen=_MOST_WAITS), compare=False
    )

    def __post_init__(self) -> None:
        """Find the plugins that reserve."""
        self._due = Deadlines(self._is_pre_binding)
        self._reservers = {
            name: tuple(plugin for plugin in profile.filters if isinstance(plugin, Reserve))
            for name, profile in self._profiles.items()
        }

    def __len__(self) -> int:
        return len(self._pre_binding)

    def reserve(self, state: AttemptState, node: str) -> list[PodReservation]:
        """Reserve, in memory alone, for a pod that was assumed on a node.

        Raises:
            PluginError: A plugin could not reserve; then nothing is reserved.
        """
        reservations: list[PodReservation] = []
        claims = self._cluster.devices.claims
        for plugin in self._reservers[state.pod.spec.scheduler_name]:
            try:
                reservation = plugin.reserve(state, node, self._cluster)
            except Exception as error:
                self.release(reservations)
                raise PluginError(f'running Reserve plugin "{plugin.name}": {error}') from error
            if reservation is not None:
                in_flight = tuple(
                    (claim.uid, claims.begin(claim.uid, allocation))
                    for claim, allocation in _allocations(reservation.effect)
                )
                reservations.append(PodReservation(plugin.name, reservation, in_flight))
        return reservations

    def release(self, reservations: Sequence[PodReservation]) -> None:
        """Undo `reserve` exactly, if nothing was reserved since and nothing was requested."""
        for reserved in reversed(reservations):
            for uid, before in reversed(reserved.in_flight):
                self._cluster.devices.claims.take_back(uid, before)
            reserved.reservation.release()

    def bind(self, queued: QueuedPod, node: str, reservations: list[PodReservation]) -> None:
        """Request what was reserved for a pod, then its binding; that at once without any."""
        self.in_flight[queued.uid] = queued
        if not reservations and queued.uid not in self._releasing:
            self._outbox.emit(self._binding_of(queued, node))
            return
        entry = self._pre_binding[queued.uid] = _PreBindingPod(queued, node, reservations)
        self._watch(entry)
        if queued.uid not in self._releasing:
            self._request(entry)

    def _request(self, entry: _PreBindingPod) -> None:
        entry.requested = True
        self._outbox.emit_all(reserved.reservation.effect for reserved in entry.reservations)

    def _watch(self, entry: _PreBindingPod) -> None:
        for concern in self._watched_objects(entry.reservations, entry.node):
            self._by_object.setdefault(concern, {})[entry.queued.uid] = None

    def bound(self, effect: Bind, now: Seconds) -> None:
        """Report a pod that the API server has bound; the watch will confirm it."""
        self._reserved.pop(effect.pod.uid, None)
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
        self._status.report_scheduled(queued.pod, effect.node)

    def undo_reservations(self, uid: str) -> None:
        """Undo what was reserved for a pod that the API server has not bound."""
        self.in_flight.pop(uid, None)
        for reserved in self._reserved.pop(uid, ()):
            self._undo(uid, reserved.reservation)

    def _undo(self, uid: str, reservation: Reservation) -> None:
        for effect in reservation.undo():
            if isinstance(effect, ReleaseClaims):
                if uid in self._releasing:
                    continue
                self._releasing[uid] = effect
            self._outbox.emit(effect)

    def done(self, effect: BindVolumes | BindClaims, now: Seconds) -> None:
        """Go on when the effect of a reservation is done."""
        claims = self._cluster.devices.claims
        for claim, _ in _allocations(effect):
            if claim.name:
                claims.await_state(claim.uid)  # the claim shows it, now or soon
            else:
                claims.end(claim.uid, written=True)  # it exists by now, and has a uid of its own
        self._wakeups.wake_by_freed_devices(now)
        entry = self._pre_binding.get(effect.pod.uid)
        if entry is None:
            return
        for reserved in entry.reservations_of(effect):
            if reserved.deadline is None:
                reserved.reservation.written()
                reserved.deadline = now + reserved.reservation.timeout_seconds
                self._due.put(entry, reserved.deadline)
                self._watch(entry)
        self._try_to_bind(effect.pod.uid, now)
        if self._pre_binding.get(effect.pod.uid) is entry:
            self._record_waiting(entry, effect)

    def _record_waiting(self, entry: _PreBindingPod, effect: BindVolumes | BindClaims) -> None:
        """Write an Event about what a pod waits for."""
        pod = entry.queued.pod
        for reserved in entry.reservations_of(effect):
            event = reserved.reservation.waiting_event
            if event is not None and not reserved.reservation.poll():
                reason, note = event
                version = pod.metadata.resource_version
                scheduler = pod.spec.scheduler_name
                self._outbox.emit(
                    RecordEvent(pod.ref, "Normal", reason, "Scheduling", note, scheduler, version)
                )

    def released(self, effect: ReleaseClaims, now: Seconds) -> None:
        """Go on with a pod whose claims are not being released any more."""
        uid = effect.pod.uid
        self._releasing.pop(uid, None)
        entry = self._pre_binding.get(uid)
        if entry is not None and not entry.requested:
            self._request(entry)
            self._try_to_bind(uid, now)

    def not_released(self, effect: ReleaseClaims, _failure: Failure, now: Seconds) -> None:
        """Release claims again later, unless it is certain that they have no devices."""
        claims = self._cluster.devices.claims
        if any(claims.is_in_flight(claim.uid) for claim in effect.claims):
            # Only an answer shows whether these claims have devices.
            self._again.put(effect, now + _AGAIN_SECONDS)
        else:
            self.released(effect, now)

    def failed(self, effect: BindVolumes | BindClaims, failure: Failure, now: Seconds) -> None:
        """Take a pod off its node when the effect of a reservation was refused."""
        claims = self._cluster.devices.claims
        end = claims.await_state if failure.kind is FailureKind.UNAVAILABLE else claims.end
        for claim, _ in _allocations(effect):
            end(claim.uid)
        self._wakeups.wake_by_freed_devices(now)
        entry = self._pre_binding.get(effect.pod.uid)
        reserved = None if entry is None else next(entry.reservations_of(effect), None)
        if entry is not None and reserved is not None:
            self._give_up(entry, reserved.plugin, failure.message, now)

    def on_pod(self, event: PodObserved | PodGone, now: Seconds) -> None:
        """React to an event of a pod."""
        if not self._pre_binding:
            return
        uid = event.pod.uid if isinstance(event, PodObserved) else event.uid
        entry = self._pre_binding.get(uid)
        if entry is None:
            return
        queued = self._queue.get(uid)
        if not self._cluster.is_assumed(uid) or queued is None or queued.pod.terminating:
            self._end(entry, now)

    def on_node(self, event: NodeObserved | NodeGone, now: Seconds) -> None:
        """React to an event of a node for the pods that wait on it."""
        if self._pre_binding:
            name = event.node.metadata.name if isinstance(event, NodeObserved) else event.name
            self._retry_pre_binding(((_NODE, name),), now)

    def on_storage(self, event: StorageObserved | StorageGone, now: Seconds) -> None:
        """React to an event of a storage object for the pods that wait for it."""
        if not self._pre_binding:
            return
        if isinstance(event, StorageGone):
            self._retry_pre_binding([(event.kind, event.key)], now)
            return
        item = event.item
        concerns = [(type(item).__name__, item.metadata.key)]
        if isinstance(item, PersistentVolume) and item.spec.claim_ref is not None:
            concerns.append((PersistentVolumeClaim.__name__, item.spec.claim_ref.key))
        self._retry_pre_binding(concerns, now)

    def on_devices(
        self, event: DevicesObserved | DevicesGone | ClaimAnswered, now: Seconds
    ) -> None:
        """React to an event of a resource claim for the pods that wait for it."""
        if not self._pre_binding:
            return
        match event:
            case DevicesGone(kind, name):
                concern = (kind, name)
            case DevicesObserved(item):
                concern = (type(item).__name__, item.metadata.key)
            case _:
                concern = (type(event.claim).__name__, event.claim.key)
        self._retry_pre_binding((concern,), now)

    def flush(self, now: Seconds) -> None:
        """Give up pods whose reservations took too long."""
        for entry in self._due.pop_until(now):
            self._try_to_bind(entry.queued.uid, now)
        self._outbox.emit_all(self._again.pop_until(now))

    def next_wakeup(self) -> Seconds | None:
        """Return when `flush` next has something to do; `None` when never."""
        return earliest((self._due.first(), self._again.first()))

    def is_pre_binding(self, uid: str) -> bool:
        """Return whether a pod was placed, and is not bound since it waits for reservations."""
        return uid in self._pre_binding

    def preempt_unbound(self, eviction: Evict, now: Seconds) -> None:
        """Take a victim off its node that is not bound yet: it does not have to be deleted.

        Source: kube-scheduler v1.36.3 framework/preemption.NewExecutor.
        """
        entry = self._pre_binding[eviction.victim.uid]
        version = entry.queued.pod.metadata.resource_version
        self._give_up(entry, "", f"preempted by {PREEMPTION}", now)
        self._status.report_preempted_unbound(eviction, version)

    def outstanding(self) -> Iterator[Bind | ReleaseClaims]:
        """Yield the bindings and releases that have no outcome yet, and those yet to be sent."""
        for uid, queued in self.in_flight.items():
            yield self._binding_of(queued, self._cluster.node_of(uid) or "")
        later = {effect.pod.uid for _, _, effect in self._again.entries}
        yield from (effect for uid, effect in self._releasing.items() if uid not in later)

    def _binding_of(self, queued: QueuedPod, node: str) -> Bind:
        pod, name = queued.pod, queued.pod.spec.scheduler_name
        return Bind(pod.ref, node, name, binder(self._profiles[name].extenders, pod))

    def _watched_objects(
        self, reservations: Iterable[PodReservation], node: str
    ) -> set[tuple[str, str]]:
        return {
            (_NODE, node),
            *(concern for item in reservations for concern in item.reservation.watched_objects),
        }

    def _retry_pre_binding(self, concerns: Iterable[tuple[str, str]], now: Seconds) -> None:
        if self._pre_binding:
            uids = {uid: None for concern in concerns for uid in self._by_object.get(concern, ())}
            for uid in uids:
                self._try_to_bind(uid, now)

    def _is_pre_binding(self, entry: _PreBindingPod, _moment: Seconds) -> bool:
        return self._pre_binding.get(entry.queued.uid) is entry

    def _try_to_bind(self, uid: str, now: Seconds) -> None:
        """Bind a pod if its reservations are complete, give it up if one failed or is late."""
        entry = self._pre_binding.get(uid)
        if entry is None or not entry.requested:
            return
        if any(reserved.deadline is None for reserved in entry.reservations):
            return
        ready = True
        for reserved in entry.reservations:
            complete = reserved.reservation.poll()
            if not complete and reserved.deadline is not None and now >= reserved.deadline:
                complete = reserved.reservation.timed_out
            if isinstance(complete, ReservationFailed):
                self._count_wait(entry, reserved, complete.status, now)
                self._give_up(entry, reserved.plugin, complete.reason, now)
                return
            ready = ready and complete
        if ready:
            for reserved in entry.reservations:
                self._count_wait(entry, reserved, "success", now)
            self._forget(entry)
            self._reserved[uid] = entry.reservations
            self._outbox.emit(self._binding_of(entry.queued, entry.node))

    def _count_wait(
        self, entry: _PreBindingPod, reserved: PodReservation, status: str, now: Seconds
    ) -> None:
        """Keep how the wait for devices has ended, where some had to be made ready."""
        devices = reserved.reservation.devices()
        if devices and reserved.deadline is not None:
            seconds = now - (reserved.deadline - reserved.reservation.timeout_seconds)
            name = entry.queued.pod.spec.scheduler_name
            self._device_waits.append(DeviceWait(name, devices, status, seconds))

    def take_device_waits(self) -> tuple[DeviceWait, ...]:
        """Return and remove the waits for devices that have ended."""
        taken = tuple(self._device_waits)
        self._device_waits.clear()
        return taken

    def _give_up(self, entry: _PreBindingPod, plugin: str, reason: str, now: Seconds) -> None:
        """Take a pod off its node and try it again after a backoff."""
        if not self._end(entry, now):
            return
        queued = entry.queued
        text = f'running PreBind plugin "{plugin}": {reason}' if plugin else reason
        self._queue.retry(queued, now)
        self._status.report_failed(queued.pod, text)
        # The nomination went out with the first effect, whether its status has it already or not.
        self._status.set_condition(queued, SCHEDULER_ERROR, text, clear_nomination=True)

    def _end(self, entry: _PreBindingPod, now: Seconds) -> bool:
        """Release all reservations of a pod; return whether it still has to be scheduled.

        An allocation whose write was requested stays in flight until the outcome.
        """
        uid = entry.queued.uid
        self._forget(entry)
        if not entry.requested:
            self._cancel(entry, now)
        for reserved in entry.reservations:
            for event, before, after in reserved.reservation.release():
                self._wakeups.wake(event, before, after, now)
            # A pod that others have bound meanwhile uses what was reserved for it.
            if self._cluster.is_assumed(uid) or self._cluster.find_pod(uid) is None:
                self._undo(uid, reserved.reservation)
        self.in_flight.pop(uid, None)
        if not self._cluster.is_assumed(uid):
            return False
        forgotten = self._cluster.forget(uid)
        self._wakeups.wake(event_diff.POD_DELETED, forgotten, None, now)
        queued = self._queue.get(uid)
        if queued is None:
            return False
        if queued.pod.terminating:
            self._queue.delete(uid, now)
            return False
        return True

    def _cancel(self, entry: _PreBindingPod, now: Seconds) -> None:
        """End the allocations in flight that nobody was asked to write."""
        for reserved in entry.reservations:
            for uid, _ in reserved.in_flight:
                self._cluster.devices.claims.end(uid)
        self._wakeups.wake_by_freed_devices(now)

    def _forget(self, entry: _PreBindingPod) -> None:
        uid = entry.queued.uid
        del self._pre_binding[uid]
        for concern in self._watched_objects(entry.reservations, entry.node):
            uids = self._by_object[concern]
            del uids[uid]
            if not uids:
                del self._by_object[concern]

    def check(self) -> None:
        """Assert the invariants: a waiting pod is assumed, and indexed by what it waits for."""
        for uid, entry in self._pre_binding.items():
            assert self._cluster.is_assumed(uid)
            assert self._queue.get(uid) is entry.queued
            for concern in self._watched_objects(entry.reservations, entry.node):
                assert uid in self._by_object[concern]
        indexed_uids = {uid for uids in self._by_object.values() for uid in uids}
        assert indexed_uids == set(self._pre_binding)
