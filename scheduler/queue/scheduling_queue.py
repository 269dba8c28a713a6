"""The scheduling queue: active, back-off, unschedulable and gated pods.

Order of the active pods: higher priority first, then the earlier time stamp of the last move into
the queue, then the order of arrival. A pod gets a new time stamp when its attempt fails, so a pod
that is activated again comes after equal pods that have waited longer.

A requeued pod goes to the active queue if its back-off is over, else to the back-off queue. If no
pod is active, the next pod in back-off is popped early, unless its last failure was an error.

Source: kube-scheduler v1.36.3 backend/queue.PriorityQueue. Differs: an attempt without extenders
is one call, so no event can happen between pop and verdict, and no in-flight events are kept. An
attempt with extenders decides about the cluster at the time of its verdict, so an event meanwhile
can only outdate the answers of the extenders. Hints are asked once per event and set of equivalent
pods, and the pods of a set are tried one after the other
(`scheduler.queue.representatives`).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from scheduler.model.api.objects import Pod
from scheduler.model.classified_pod import ClassifiedPod
from scheduler.model.releases import OLDEST, Reference
from scheduler.model.times import Seconds
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.queue.phases import QueueMove, QueuePhase
from scheduler.queue.pod_heap import PodHeap
from scheduler.queue.queued_pod import QueuedPod, reported_condition
from scheduler.queue.representatives import NoLongerEquivalent, Representatives
from scheduler.queue.waiting_sets import HintCheck, WaitingSet, WaitingSets, WakeUp

__all__ = ["EXTENDER", "Gate", "QueuedPod", "SchedulingQueue"]

#: The name that stands for all extenders among names of plugins.
#: Source: kube-scheduler v1.36.3 framework.ExtenderName.
EXTENDER: Final = "Extender"

#: Returns why a PreEnqueue plugin keeps a pod out of the queue, or `None`.
Gate = Callable[[Pod], str | None]

#: How long a pod may wait for an event before it is tried anyway, and how often that is checked.
_MAX_WAIT: Final = 300.0
_FLUSH_EVERY: Final = 30.0

_BY_EXTENDERS: Final = frozenset({EXTENDER})


def _none(_pods: Collection[QueuedPod]) -> list[QueuedPod]:
    return []


@dataclass(slots=True, eq=False)
class SchedulingQueue:
    """All pods of ours that are not bound yet. Owned by the machine."""

    _backoff: PodBackoff = field(compare=False)
    _gate: Gate = field(compare=False)
    no_longer_equivalent: NoLongerEquivalent = field(default=_none, compare=False)
    reference: Reference = field(default=OLDEST, compare=False)
    #: Pods that entered a queue, by queue and by event; a counter that never falls.
    incoming: Counter[tuple[str, str]] = field(default_factory=Counter, compare=False)
    #: Pods that were woken and rejected again by the same plugins, by the plugin whose hint
    #: woke them and by event.
    wasted_wakeups: Counter[tuple[str, str]] = field(default_factory=Counter, compare=False)
    _pods: dict[str, QueuedPod] = field(default_factory=dict)
    _active: PodHeap = field(default_factory=PodHeap)
    _backoff_pods: PodHeap = field(default_factory=PodHeap)
    _error_backoff_pods: PodHeap = field(default_factory=PodHeap)
    _unschedulable: WaitingSets = field(default_factory=WaitingSets)
    _preempting: WaitingSets = field(default_factory=WaitingSets)
    _representatives: Representatives = field(init=False)
    _suspended: dict[str, QueuedPod] = field(default_factory=dict)
    _gated: dict[str, QueuedPod] = field(default_factory=dict)
    #: Uids of pods whose last result is not in their status yet.
    unreported: set[str] = field(default_factory=set)
    _sequence: int = 0
    #: The number of the last suspension.
    _suspensions: int = 0
    _next_flush: Seconds | None = None

    def __post_init__(self) -> None:
        """Create what calls the queue."""
        self._representatives = Representatives(
            self._unschedulable,
            self._backoff,
            self.move_to_active_or_backoff,
            self.no_longer_equivalent,
        )

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(self._pods.values())

    def get(self, uid: str) -> QueuedPod | None:
        """Return a pod of the queue in any phase."""
        return self._pods.get(uid)

    def add(self, classified: ClassifiedPod, now: Seconds, event: str) -> QueuedPod:
        """Add a new pod."""
        self._sequence += 1
        reported = reported_condition(classified.pod)
        queued = QueuedPod(
            classified, now, self._sequence, classified.key, reported_condition=reported
        )
        self._pods[queued.uid] = queued
        self._enter(queued, now, event, delay=False)
        return queued

    def delete(self, uid: str, now: Seconds) -> QueuedPod | None:
        """Remove a pod that is on a node, deleted, or no longer ours."""
        queued = self._pods.pop(uid, None)
        if queued is not None:
            self._unschedulable.pop(queued)
            self._preempting.pop(queued)
            self._suspended.pop(uid, None)
            self._gated.pop(uid, None)
            self.unreported.discard(uid)
            queued.change_phase(QueueMove.DELETE, now)
            self._representatives.finish(queued, queued.equivalence_key, now)
        return queued

    def update(
        self, classified: ClassifiedPod, now: Seconds, hint_check: HintCheck, event: str
    ) -> None:
        """Replace the state of a pod, and wake the pod if the change can help it."""
        pod = classified.pod
        queued = self._pods[pod.uid]
        pools = (self._unschedulable, self._preempting)
        waiting_in = next((pool for pool in pools if pool.pop(queued)), None)
        reordered = queued.pod.priority != pod.priority
        before, changed = queued.equivalence_key, queued.key != classified.key
        # A follower still gets its attempt when it leaves its set.
        follower = changed and self._representatives.follows_representative(queued)
        queued.classified = classified
        if changed:
            queued.equivalence_key = classified.key
        if waiting_in is not None:
            waiting_in.add(queued)
        if before != queued.equivalence_key:
            self._representatives.finish(queued, before, now)
        if reordered and queued.phase is QueuePhase.ACTIVE:
            queued.version += 1
            self._active.push(queued)
        if queued.phase is QueuePhase.GATED:
            if self._gate(pod) is None:
                self._enter(queued, now, event, delay=False)
        elif (plugin := hint_check(pod, queued.rejectors)) or follower:
            self.move_to_active_or_backoff(queued, now, event, plugin)

    def pop(self, now: Seconds) -> QueuedPod | None:
        """Return the next pod, for an attempt; `None` if there is none."""
        queued = self._active.first()
        if queued is not None:
            self._active.pop()
        else:
            queued = self._backoff_pods.first()
            if queued is None:
                return None
            self._backoff_pods.pop()
            self.incoming["active", "PopFromBackoffQ"] += 1
            queued.record_active(now)
        queued.change_phase(QueueMove.POP, now)
        queued.attempts += 1
        queued.wakeup_pending = False
        return queued

    def suspend(self, queued: QueuedPod, now: Seconds) -> int:
        """Suspend the attempt of a pod until extenders have answered; return a new number."""
        queued.change_phase(QueueMove.SUSPEND, now)
        self._suspended[queued.uid] = queued
        self._suspensions += 1
        return self._suspensions

    def resume(self, queued: QueuedPod, now: Seconds) -> None:
        """Continue a suspended attempt."""
        del self._suspended[queued.uid]
        queued.change_phase(QueueMove.RESUME, now)

    def begin_again(self, queued: QueuedPod, now: Seconds) -> None:
        """Let a pod have its turn again whose suspended attempt cannot be continued."""
        self.resume(queued, now)
        self._enter(queued, now, "ForceActivate", delay=False)

    def add_unschedulable(
        self,
        queued: QueuedPod,
        rejectors: frozenset[str],
        now: Seconds,
        *,
        victims_terminating: bool = False,
        equivalence_key: bytes = b"",
    ) -> None:
        """Keep an unschedulable pod until an event can help it.

        Args:
            queued: The pod.
            rejectors: The plugins that rejected it.
            now: The time.
            victims_terminating: Whether victims that were evicted for it are still terminating.
            equivalence_key: Of the equivalence set whose pods are certain to be rejected in the
                same way: a class, or several; empty if no other pod is.
        """
        if queued.woken_by is not None and rejectors == queued.rejectors:
            self.wasted_wakeups[queued.woken_by] += 1
        before = self._failed(queued, rejectors, now, equivalence_key)
        if queued.wakeup_pending and EXTENDER in rejectors:
            self._enter(queued, now, "ScheduleAttemptFailure", delay=True)
            self._representatives.finish(queued, before, now)
            return
        queued.change_phase(QueueMove.MARK_UNSCHEDULABLE, now)
        self._add_waiting(queued, victims_terminating=victims_terminating)
        self.incoming["unschedulable", "ScheduleAttemptFailure"] += 1
        for_all = bool(equivalence_key) and before in (queued.key, equivalence_key)
        self._representatives.finish(queued, before, now, rejected=for_all)

    def begin_preemption(self, queued: QueuedPod, rejectors: frozenset[str], now: Seconds) -> None:
        """Keep a pod out of the queue while its preemption is carried out."""
        # Preemptions that fail in a row are errors in a row: the back-off grows.
        errors = queued.consecutive_errors
        before = self._failed(queued, rejectors, now)
        queued.consecutive_errors = errors
        queued.wakeup_pending = queued.wakeup_pending and EXTENDER in rejectors
        queued.change_phase(QueueMove.PREEMPT, now)
        queued.victims_terminating = True
        self._preempting.add(queued)
        self.incoming["gated", "ScheduleAttemptFailure"] += 1
        self._representatives.finish(queued, before, now)

    def end_preemption(
        self, queued: QueuedPod, now: Seconds, *, retry: bool, victims_terminating: bool = False
    ) -> None:
        """End the preemption of a pod.

        Args:
            queued: The preemptor.
            now: The time.
            retry: Whether to try it again without waiting for an event: at once for the first time
                in a row, then after a back-off.
            victims_terminating: Whether victims that were evicted for it are still terminating.
        """
        if self._preempting.pop(queued) is None:
            return
        if retry:
            queued.consecutive_errors += 1
            queued.backoff_expiry = self._backoff.expiry(now, queued.consecutive_errors)
            self._enter(queued, now, "ForceActivate", delay=queued.consecutive_errors > 1)
            return
        queued.consecutive_errors = 0
        if queued.wakeup_pending:
            self._enter(queued, now, "AssignedPodDelete", delay=True)
        else:
            queued.change_phase(QueueMove.MARK_UNSCHEDULABLE, now)
            self._add_waiting(queued, victims_terminating=victims_terminating)

    def fail_preemption(self, queued: QueuedPod, now: Seconds) -> None:
        """End a preemption that failed; the preemptor is tried again after a back-off."""
        if self._preempting.pop(queued) is not None:
            self.retry(queued, now)

    def retry(self, queued: QueuedPod, now: Seconds) -> None:
        """Put a pod whose attempt or binding failed with an error into back-off."""
        before = self._failed(queued, frozenset(), now)
        self._enter(queued, now, "ScheduleAttemptFailure", delay=True)
        self._representatives.finish(queued, before, now)

    def mark_assumed(self, queued: QueuedPod, now: Seconds) -> None:
        """Record that a pod is assumed on a node and being bound."""
        queued.change_phase(QueueMove.ASSUME, now)
        queued.unschedulable_since = None
        self._representatives.finish(queued, queued.equivalence_key, now)

    def move_all_to_active_or_backoff(self, wake_up: WakeUp, now: Seconds) -> int:
        """Wake the waiting pods that an event can help; return their number."""
        woken = 0
        for waiting_set, pods in self._unschedulable.concerned(wake_up):
            plugin = self._helped_by(wake_up, waiting_set, pods)
            if not plugin:
                continue
            woken += len(pods)
            if (
                len(pods) > 1
                and not waiting_set.victims_terminating
                and not wake_up.retry_each(pods)
            ):
                self._representatives.start(waiting_set, plugin, wake_up.event, now)
                continue
            for queued in list(pods.values()):
                self.move_to_active_or_backoff(queued, now, wake_up.event, plugin)
        for waiting_set, pods in self._preempting.concerned(wake_up):
            plugin = self._helped_by(wake_up, waiting_set, pods)
            for queued in list(pods.values()) if plugin else ():
                self.move_to_active_or_backoff(queued, now, wake_up.event, plugin)
        for queued in self._suspended.values():
            helped = queued.wakeup_pending or wake_up.helped_by(queued.pod, _BY_EXTENDERS)
            queued.wakeup_pending = bool(helped)
        return woken

    @staticmethod
    def _helped_by(wake_up: WakeUp, waiting_set: WaitingSet, pods: Mapping[str, QueuedPod]) -> str:
        """Return the plugin whose hint says that an event can help a set; empty if none."""
        plugin = wake_up.helped_by(next(iter(pods.values())).pod, waiting_set.rejectors)
        return "" if plugin and wake_up.rules_out(waiting_set, pods) else plugin

    def move_to_active_or_backoff(
        self, queued: QueuedPod, now: Seconds, event: str, plugin: str = ""
    ) -> None:
        """Wake a pod if it waits for an event; `plugin` is the one whose hint says it helps."""
        if queued.phase is QueuePhase.UNSCHEDULABLE:
            queued.woken_by = (plugin, event) if plugin else None
            self._unschedulable.pop(queued)
            self._enter(queued, now, event, delay=True)
        elif queued.phase in (QueuePhase.PREEMPTING, QueuePhase.WAITING_FOR_EXTENDERS):
            queued.wakeup_pending = True

    def ungate(self, uid: str, now: Seconds, event: str) -> None:
        """Let a gated pod into the queue if no PreEnqueue plugin keeps it out any more."""
        queued = self._pods.get(uid)
        if queued is not None and queued.phase is QueuePhase.GATED:
            self._enter(queued, now, event, delay=False)

    def flush(self, now: Seconds) -> None:
        """Move pods whose back-off is over, and pods that no event woke for too long."""
        for heap in (self._backoff_pods, self._error_backoff_pods):
            while (queued := heap.first()) is not None:
                if self._backoff.is_waiting(queued.backoff_expiry, now):
                    break
                heap.pop()
                self._activate(queued, now, "BackoffComplete")
        if self._next_flush is None:
            self._next_flush = now + _FLUSH_EVERY
        elif now >= self._next_flush:
            self._next_flush = now + _FLUSH_EVERY
            self._flush_stale(now)
            self._active.drop_void()

    def next_wakeup(self) -> Seconds | None:
        """Return when `flush` has work next; `None` if never."""
        moments = [
            queued.backoff_expiry + 1
            for heap in (self._backoff_pods, self._error_backoff_pods)
            if (queued := heap.first()) is not None
        ]
        if (self._unschedulable or self._flushes_gated()) and self._next_flush is not None:
            moments.append(self._next_flush)
        return min(moments, default=None)

    def has_waiting_pods(self) -> bool:
        """Return whether there is a pod that an event may help."""
        return bool(self._unschedulable or self._preempting or self._suspended)

    def follows_representative(self, queued: QueuedPod) -> bool:
        """Return whether an unschedulable pod is tried after the representative of its set."""
        return self._representatives.follows_representative(queued)

    def active(self) -> bool:
        """Return whether a pod is in the active queue."""
        return self._active.first() is not None

    def ready(self) -> bool:
        """Return whether `pop` would return a pod."""
        return self._active.first() is not None or self._backoff_pods.first() is not None

    def lengths(self) -> dict[str, int]:
        """Return the number of pods by queue; a pod in the phase `PREEMPTING` counts as gated."""
        counts = Counter(queued.phase for queued in self._pods.values())
        return {
            "active": counts[QueuePhase.ACTIVE],
            "backoff": counts[QueuePhase.BACKOFF],
            "unschedulable": counts[QueuePhase.UNSCHEDULABLE],
            "gated": counts[QueuePhase.GATED] + counts[QueuePhase.PREEMPTING],
        }

    def _flush_stale(self, now: Seconds) -> None:
        stale = [queued for queued in self._unschedulable if now - queued.timestamp > _MAX_WAIT]
        for queued in stale:
            queued.flushed = True
            self.move_to_active_or_backoff(queued, now, "UnschedulableTimeout")
        if self._flushes_gated():
            self._flush_gated(now)

    def _flushes_gated(self) -> bool:
        """Return whether gated pods are checked again from time to time, and there is one."""
        return self.reference.flushes_gated_pods and bool(self._gated)

    def _flush_gated(self, now: Seconds) -> None:
        """Check the gates of pods that have waited for too long since they were last checked.

        Source: kube-scheduler v1.37.2 backend/queue.flushUnschedulableEntitiesLeftover.
        """
        for queued in list(self._gated.values()):
            if now - max(queued.timestamp, queued.gate_checked) <= _MAX_WAIT:
                continue
            queued.gate_checked = now
            if self._gate(queued.pod) is None:
                self._enter(queued, now, "UnschedulableTimeout", delay=True)

    def _failed(
        self,
        queued: QueuedPod,
        rejectors: frozenset[str],
        now: Seconds,
        equivalence_key: bytes = b"",
    ) -> bytes:
        """Record how an attempt has ended; return the set that the pod was in during it."""
        before, queued.equivalence_key = queued.equivalence_key, equivalence_key or queued.key
        queued.rejectors = rejectors
        queued.victims_terminating = False
        queued.woken_by = None
        if rejectors:
            queued.unschedulable_count += 1
            queued.consecutive_errors = 0
            if queued.unschedulable_since is None:
                queued.unschedulable_since = now
        else:
            queued.consecutive_errors += 1
        queued.timestamp = now
        queued.flushed = False
        queued.backoff_expiry = self._backoff.expiry(
            now, queued.consecutive_errors or queued.unschedulable_count
        )
        return before

    def _enter(self, queued: QueuedPod, now: Seconds, event: str, *, delay: bool) -> None:
        """Put a pod into the active or back-off queue, unless a PreEnqueue plugin keeps it out."""
        self._gated.pop(queued.uid, None)
        if self._gate(queued.pod) is not None:
            queued.change_phase(QueueMove.GATE, now)
            self._gated[queued.uid] = queued
            self.incoming["gated", event] += 1
        elif delay and self._backoff.is_waiting(queued.backoff_expiry, now):
            queued.change_phase(QueueMove.BACK_OFF, now)
            self.incoming["backoff", event] += 1
            heap = self._error_backoff_pods if queued.consecutive_errors else self._backoff_pods
            heap.push(queued, queued.backoff_expiry)
        else:
            self._activate(queued, now, event)

    def _activate(self, queued: QueuedPod, now: Seconds, event: str) -> None:
        queued.change_phase(QueueMove.ACTIVATE, now)
        queued.record_active(now)
        self.incoming["active", event] += 1
        self._active.push(queued)

    def _add_waiting(self, queued: QueuedPod, *, victims_terminating: bool) -> None:
        queued.victims_terminating = victims_terminating
        self._unschedulable.add(queued)

    def check(self) -> None:
        """Assert the invariants: each pod is in exactly the collection that its phase names."""
        pools = (self._unschedulable, self._preempting)
        unschedulable, preempting = ({queued.uid for queued in pool} for pool in pools)
        heaps = (self._active, self._backoff_pods, self._error_backoff_pods)
        queued_uids = [queued.uid for heap in heaps for queued in heap]
        assert len(queued_uids) == len(set(queued_uids))
        for uid, queued in self._pods.items():
            assert (uid in unschedulable) == (queued.phase is QueuePhase.UNSCHEDULABLE)
            assert (uid in preempting) == (queued.phase is QueuePhase.PREEMPTING)
            waiting = queued.phase in (QueuePhase.ACTIVE, QueuePhase.BACKOFF)
            assert (uid in queued_uids) == waiting
            assert (uid in self._suspended) == (queued.phase is QueuePhase.WAITING_FOR_EXTENDERS)
            assert (uid in self._gated) == (queued.phase is QueuePhase.GATED)
        for key, uid in self._representatives:
            first = self._pods[uid]
            assert first.equivalence_key == key
            assert first.phase in (
                QueuePhase.ACTIVE,
                QueuePhase.BACKOFF,
                QueuePhase.SCHEDULING,
                QueuePhase.WAITING_FOR_EXTENDERS,
            )
