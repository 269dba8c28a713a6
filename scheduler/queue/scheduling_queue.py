"""The scheduling queue: active, back-off, unschedulable and gated pods.

Order of the active pods: higher priority first, then the earlier time stamp of the last move into
the queue, then the order of arrival. A pod that failed gets a new time stamp, so pods that are
re-activated stand behind equal ones that waited longer.

A woken pod goes to the active queue when its back-off is over, else to the back-off queue; when
nothing is active, the next pod in back-off is taken early, unless its last failure was an error.

Source: kube-scheduler v1.36.3 backend/queue.PriorityQueue. Differs: unless extenders are asked, one
attempt is one call, so no event can happen between the pop and the verdict and none has to be kept
in flight; where they are, the verdict is about the cluster at its own time, and only what extenders
said can be outdated by an event meanwhile. Pods that wait are grouped, and each group is judged
once per event; of each class one pod is tried after the other (`scheduler.queue.representatives`).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from scheduler.model.api.objects import Pod
from scheduler.model.classified_pod import ClassifiedPod
from scheduler.model.times import Seconds
from scheduler.queue.backoff import PodBackoff
from scheduler.queue.phases import QueueMove, QueuePhase
from scheduler.queue.pod_heap import PodHeap
from scheduler.queue.queued_pod import QueuedPod
from scheduler.queue.representatives import Representatives, Strangers
from scheduler.queue.waiting_groups import Judge, WaitingGroup, WaitingGroups, WakeUp

__all__ = ["EXTENDER", "Gate", "QueuedPod", "SchedulingQueue"]

#: What stands for all extenders where plugins are named.
#: Source: kube-scheduler v1.36.3 framework.ExtenderName.
EXTENDER: Final = "Extender"

#: Tells whether a pod must be kept out of the queue: the name of the plugin, or `None`.
Gate = Callable[[Pod], str | None]

#: How long a pod may wait for an event before it is tried anyway, and how often that is looked at.
_LONGEST_WAIT: Final = 300.0
_FLUSH_EVERY: Final = 30.0

_BY_EXTENDERS: Final = frozenset({EXTENDER})


def _nobody(_pods: Collection[QueuedPod]) -> list[QueuedPod]:
    return []


class SchedulingQueue:
    """All pods of ours that are not on a node. Owned by the machine."""

    def __init__(self, backoff: PodBackoff, gate: Gate, strangers: Strangers = _nobody) -> None:
        self._backoff: Final = backoff
        self._gate = gate
        self._pods: dict[str, QueuedPod] = {}
        self._active: Final = PodHeap()
        self._waiting: Final = PodHeap()
        self._erring: Final = PodHeap()
        self._parked: Final = WaitingGroups()
        self._held: Final = WaitingGroups()
        self._asking: dict[str, QueuedPod] = {}
        #: Pods, by uid, whose status does not say yet what their last attempt has found.
        self.untold: Final[set[str]] = set()
        self._trials: Final = Representatives(self._parked, backoff, self.wake_one, strangers)
        self._sequence = 0
        self._next_flush: Seconds | None = None
        #: Pods that entered a queue, by queue and by what moved them; only ever counted up.
        self.incoming: Final[Counter[tuple[str, str]]] = Counter()
        #: Pods that were woken for nothing, by the plugin that saw hope and by event.
        self.wasted: Final[Counter[tuple[str, str]]] = Counter()

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(self._pods.values())

    def get(self, uid: str) -> QueuedPod | None:
        """Return a pod of the queue, whatever its phase."""
        return self._pods.get(uid)

    def add(self, classified: ClassifiedPod, now: Seconds, event: str) -> QueuedPod:
        """Take in a new pod."""
        self._sequence += 1
        queued = QueuedPod(classified, now, self._sequence)
        self._pods[queued.uid] = queued
        self._enter(queued, now, event, delay=False)
        return queued

    def drop(self, uid: str, now: Seconds) -> QueuedPod | None:
        """Let go of a pod: it is on a node, deleted, or no longer ours."""
        queued = self._pods.pop(uid, None)
        if queued is not None:
            self._parked.pop(queued)
            self._held.pop(queued)
            self._asking.pop(uid, None)
            self.untold.discard(uid)
            queued.move(QueueMove.DROP, now)
            self._trials.tried(queued, queued.kin, now)
        return queued

    def update(self, classified: ClassifiedPod, now: Seconds, judge: Judge, event: str) -> None:
        """Take over a new state of a pod, and wake it if its own change can help it."""
        pod = classified.pod
        queued = self._pods[pod.uid]
        place = next((each for each in (self._parked, self._held) if each.pop(queued)), None)
        reordered = queued.pod.priority != pod.priority
        before, changed = queued.kin, queued.key != classified.key
        # An event that may help it is not forgotten when it leaves those who wait with it.
        called = changed and self._trials.lined_up(queued)
        queued.classified = classified
        if changed:
            queued.kin = classified.key
        if place is not None:
            place.add(queued)
        if before != queued.kin:
            self._trials.tried(queued, before, now)
        if reordered and queued.phase is QueuePhase.ACTIVE:
            queued.version += 1
            self._active.push(queued)
        if queued.phase is QueuePhase.GATED:
            if self._gate(pod) is None:
                self._enter(queued, now, event, delay=False)
        elif (plugin := judge(pod, queued.rejectors)) or called:
            self.wake_one(queued, now, event, plugin)

    def pop(self, now: Seconds) -> QueuedPod | None:
        """Take the next pod for an attempt; `None` when there is none."""
        queued = self._active.first()
        if queued is not None:
            self._active.pop()
        else:
            queued = self._waiting.first()
            if queued is None:
                return None
            self._waiting.pop()
            self.incoming["active", "PopFromBackoffQ"] += 1
            queued.note_active(now)
        queued.move(QueueMove.POP, now)
        queued.attempts += 1
        queued.woken = False
        return queued

    def ask(self, queued: QueuedPod, now: Seconds) -> None:
        """Keep a pod aside while extenders are asked about it."""
        queued.move(QueueMove.ASK, now)
        self._asking[queued.uid] = queued

    def resume(self, queued: QueuedPod, now: Seconds) -> None:
        """Go on with the attempt of a pod that extenders were asked about."""
        del self._asking[queued.uid]
        queued.move(QueueMove.RESUME, now)

    def reject(
        self,
        queued: QueuedPod,
        rejectors: frozenset[str],
        now: Seconds,
        *,
        promised: bool = False,
        kin: bytes = b"",
    ) -> None:
        """Park a pod that was found unschedulable until something can help it.

        Args:
            queued: The pod.
            rejectors: Plugins that have rejected it.
            now: The time.
            promised: Whether room is being made for it.
            kin: Whoever is of it would be rejected like that: of its class, or of more than one;
                empty where nobody else.
        """
        if queued.woken_by is not None and rejectors == queued.rejectors:
            self.wasted[queued.woken_by] += 1
        before = self._failed(queued, rejectors, now, kin)
        if queued.woken and EXTENDER in rejectors:
            self._enter(queued, now, "ScheduleAttemptFailure", delay=True)
            self._trials.tried(queued, before, now)
            return
        queued.move(QueueMove.PARK, now)
        self._park(queued, promised=promised)
        self.incoming["unschedulable", "ScheduleAttemptFailure"] += 1
        speaks = bool(kin) and before in (queued.key, kin)
        self._trials.tried(queued, before, now, rejected=speaks)

    def hold(self, queued: QueuedPod, rejectors: frozenset[str], now: Seconds) -> None:
        """Keep a preemptor aside while its preemption is carried out."""
        # Plans that fail one after the other are errors in a row: the back-off grows.
        errors = queued.errors
        before = self._failed(queued, rejectors, now)
        queued.errors = errors
        queued.woken = queued.woken and EXTENDER in rejectors
        queued.move(QueueMove.HOLD, now)
        queued.promised = True
        self._held.add(queued)
        self.incoming["gated", "ScheduleAttemptFailure"] += 1
        self._trials.tried(queued, before, now)

    def release(
        self, queued: QueuedPod, now: Seconds, *, retry: bool, promised: bool = False
    ) -> None:
        """End the hold on a preemptor.

        Args:
            queued: The preemptor.
            now: The time.
            retry: Whether to try it again without waiting for an event: at once, and after a
                back-off where that happens again and again.
            promised: Whether room is being made for it still.
        """
        if self._held.pop(queued) is None:
            return
        if retry:
            queued.errors += 1
            queued.expiry = self._backoff.expiry(now, queued.errors)
            self._enter(queued, now, "ForceActivate", delay=queued.errors > 1)
            return
        queued.errors = 0
        if queued.woken:
            self._enter(queued, now, "AssignedPodDelete", delay=True)
        else:
            queued.move(QueueMove.PARK, now)
            self._park(queued, promised=promised)

    def fail_held(self, queued: QueuedPod, now: Seconds) -> None:
        """End the hold on a preemptor whose preemption failed; it tries again after a back-off."""
        if self._held.pop(queued) is not None:
            self.retry(queued, now)

    def retry(self, queued: QueuedPod, now: Seconds) -> None:
        """Put a pod whose attempt or binding ended in an error into back-off."""
        before = self._failed(queued, frozenset(), now)
        self._enter(queued, now, "ScheduleAttemptFailure", delay=True)
        self._trials.tried(queued, before, now)

    def assumed(self, queued: QueuedPod, now: Seconds) -> None:
        """Note that a pod is being bound."""
        queued.move(QueueMove.ASSUME, now)
        queued.unschedulable_since = None
        self._trials.tried(queued, queued.kin, now)

    def wake(self, wake_up: WakeUp, now: Seconds) -> int:
        """Wake every waiting pod that an event can help; return how many."""
        woken = 0
        for group, pods in self._parked.hearing(wake_up):
            plugin = self._helped_by(wake_up, group, pods)
            if not plugin:
                continue
            woken += len(pods)
            if len(pods) > 1 and not group.promised and not wake_up.apart(pods):
                self._trials.call(group, plugin, wake_up.event, now)
                continue
            for queued in list(pods.values()):
                self.wake_one(queued, now, wake_up.event, plugin)
        for group, pods in self._held.hearing(wake_up):
            plugin = self._helped_by(wake_up, group, pods)
            for queued in list(pods.values()) if plugin else ():
                self.wake_one(queued, now, wake_up.event, plugin)
        for queued in self._asking.values():
            queued.woken = queued.woken or bool(wake_up.helped_by(queued.pod, _BY_EXTENDERS))
        return woken

    @staticmethod
    def _helped_by(wake_up: WakeUp, group: WaitingGroup, pods: Mapping[str, QueuedPod]) -> str:
        """Return the plugin that says an event can help a group; empty where none does."""
        plugin = wake_up.helped_by(next(iter(pods.values())).pod, group.rejectors)
        return "" if plugin and wake_up.spares(group, pods) else plugin

    def wake_one(self, queued: QueuedPod, now: Seconds, event: str, plugin: str = "") -> None:
        """Wake one pod, if it is waiting for something; `plugin` is the one that saw hope."""
        if queued.phase is QueuePhase.UNSCHEDULABLE:
            queued.woken_by = (plugin, event) if plugin else None
            self._parked.pop(queued)
            self._enter(queued, now, event, delay=True)
        elif queued.phase in (QueuePhase.PREEMPTING, QueuePhase.ASKING):
            queued.woken = True

    def flush(self, now: Seconds) -> None:
        """Move what has waited long enough: ended back-offs, and pods that nothing woke."""
        for heap in (self._waiting, self._erring):
            while (queued := heap.first()) is not None:
                if self._backoff.waiting(queued.expiry, now):
                    break
                heap.pop()
                self._activate(queued, now, "BackoffComplete")
        if self._next_flush is None:
            self._next_flush = now + _FLUSH_EVERY
        elif now >= self._next_flush:
            self._next_flush = now + _FLUSH_EVERY
            self._flush_leftovers(now)

    def next_wakeup(self) -> Seconds | None:
        """Return when `flush` next has something to do; `None` when never."""
        moments = [
            queued.expiry + 1
            for heap in (self._waiting, self._erring)
            if (queued := heap.first()) is not None
        ]
        if self._parked and self._next_flush is not None:
            moments.append(self._next_flush)
        return min(moments, default=None)

    def anyone_waits(self) -> bool:
        """Tell whether there is a pod that an event may help."""
        return bool(self._parked or self._held or self._asking)

    def lined_up(self, queued: QueuedPod) -> bool:
        """Tell whether a parked pod has its turn unless one of its class is rejected for all."""
        return self._trials.lined_up(queued)

    def active(self) -> bool:
        """Tell whether a pod is in the active queue."""
        return self._active.first() is not None

    def ready(self) -> bool:
        """Tell whether `pop` would return a pod."""
        return self._active.first() is not None or self._waiting.first() is not None

    def lengths(self) -> dict[str, int]:
        """Return how many pods wait, by queue; a preemptor on hold counts as gated."""
        counts = Counter(queued.phase for queued in self._pods.values())
        return {
            "active": counts[QueuePhase.ACTIVE],
            "backoff": counts[QueuePhase.BACKOFF],
            "unschedulable": counts[QueuePhase.UNSCHEDULABLE],
            "gated": counts[QueuePhase.GATED] + counts[QueuePhase.PREEMPTING],
        }

    def _flush_leftovers(self, now: Seconds) -> None:
        stale = [queued for queued in self._parked if now - queued.timestamp > _LONGEST_WAIT]
        for queued in stale:
            queued.flushed = True
            self.wake_one(queued, now, "UnschedulableTimeout")

    def _failed(
        self, queued: QueuedPod, rejectors: frozenset[str], now: Seconds, kin: bytes = b""
    ) -> bytes:
        """Note how an attempt has ended; return of which kin the pod was in it."""
        before, queued.kin = queued.kin, kin or queued.key
        queued.rejectors = rejectors
        queued.promised = False
        queued.woken_by = None
        if rejectors:
            queued.failures += 1
            queued.errors = 0
            if queued.unschedulable_since is None:
                queued.unschedulable_since = now
        else:
            queued.errors += 1
        queued.timestamp = now
        queued.flushed = False
        queued.expiry = self._backoff.expiry(now, queued.errors or queued.failures)
        return before

    def _enter(self, queued: QueuedPod, now: Seconds, event: str, *, delay: bool) -> None:
        """Let a pod into the active or back-off queue, unless a plugin keeps it out."""
        if self._gate(queued.pod) is not None:
            queued.move(QueueMove.GATE, now)
            self.incoming["gated", event] += 1
        elif delay and self._backoff.waiting(queued.expiry, now):
            queued.move(QueueMove.DELAY, now)
            self.incoming["backoff", event] += 1
            heap = self._erring if queued.errors else self._waiting
            heap.push(queued, queued.expiry)
        else:
            self._activate(queued, now, event)

    def _activate(self, queued: QueuedPod, now: Seconds, event: str) -> None:
        queued.move(QueueMove.ADMIT, now)
        queued.note_active(now)
        self.incoming["active", event] += 1
        self._active.push(queued)

    def _park(self, queued: QueuedPod, *, promised: bool) -> None:
        queued.promised = promised
        self._parked.add(queued)

    def check(self) -> None:
        """Assert the invariants: each pod waits in exactly the place that its phase names."""
        parked, held = ({each.uid for each in place} for place in (self._parked, self._held))
        heaps = (self._active, self._waiting, self._erring)
        queued_uids = [queued.uid for heap in heaps for queued in heap]
        assert len(queued_uids) == len(set(queued_uids))
        for uid, queued in self._pods.items():
            assert (uid in parked) == (queued.phase is QueuePhase.UNSCHEDULABLE)
            assert (uid in held) == (queued.phase is QueuePhase.PREEMPTING)
            waiting = queued.phase in (QueuePhase.ACTIVE, QueuePhase.BACKOFF)
            assert (uid in queued_uids) == waiting
            assert (uid in self._asking) == (queued.phase is QueuePhase.ASKING)
        for key, uid in self._trials:
            first = self._pods[uid]
            assert first.kin == key
            assert first.phase in (
                QueuePhase.ACTIVE,
                QueuePhase.BACKOFF,
                QueuePhase.DECIDING,
                QueuePhase.ASKING,
            )
