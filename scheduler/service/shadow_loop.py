"""The loop of shadow mode: it decides when another scheduler has acted, and hands out nothing.

Events wait for a second, in their order. Before the machine gets one, `Shadow` looks at it and may
decide about its pod, in the same slices in which an ordinary loop decides. The queue is never asked
for a pod.

A scheduler sends the bindings of a burst at once, so the watch shows them in another order than
that of its decisions. That is why events wait: when a binding has its turn, the waiting bindings of
pods that are before that pod in the queue get theirs first.

Soon after its binding, a pod gets its address, its containers and its readiness. While its binding
waits, the newest of these states takes the place of the one before: the machine gets one state.
"""

import heapq
from collections import deque
from collections.abc import Iterable
from typing import Final

from scheduler.core.machine import Machine
from scheduler.model.api.objects import Pod
from scheduler.model.effects import Effect
from scheduler.model.events import Event, PodGone, PodObserved
from scheduler.model.times import Seconds
from scheduler.observe.api.history import History
from scheduler.observe.shadow.acts import is_turned_down
from scheduler.observe.shadow.shadow import Shadow
from scheduler.service.clock import Clock
from scheduler.service.loop import SLICE_SECONDS, Loop
from scheduler.service.telemetry import Telemetry

__all__ = ["ShadowLoop"]

#: How long an event waits.
WAITS: Final[Seconds] = 1.0
#: How much longer, so that the loop wakes for many of them and not for each.
GATHERS: Final[Seconds] = 0.1
#: Acts that are older are only counted, so that the state catches up.
LATE: Final[Seconds] = 10.0
#: How many places of pods that no longer wait may be kept beside those that do.
_VOID: Final = 1000


def _discard(_effect: Effect) -> None:
    """Take an effect; nobody carries it out."""


class _Waiting:
    """An event that waits for its turn."""

    __slots__ = ("arrived", "event", "newest", "uid")

    def __init__(self, arrived: Seconds, event: Event, uid: str) -> None:
        self.arrived = arrived
        self.event = event
        #: What the machine gets: the event, or a later one that says the same and more.
        self.newest = event
        #: Of the pod that the event is about; empty for none.
        self.uid = uid


class ShadowLoop(Loop):
    """Drives one machine that only watches."""

    def __init__(
        self,
        machine: Machine,
        shadow: Shadow,
        clock: Clock,
        telemetry: Telemetry,
        history: History,
    ) -> None:
        super().__init__(machine, _discard, clock, telemetry, history=history)
        self._shadow = shadow
        self._waiting: deque[_Waiting] = deque()
        # The following are about waiting events, by uid of the pod.
        #: The first one that shows the pod on a node.
        self._bindings: dict[str, _Waiting] = {}
        #: Those bindings that had their turn already.
        self._early: dict[str, _Waiting] = {}
        #: The last one, where it shows a pod that runs on a node and was not passed on yet.
        self._last: dict[str, _Waiting] = {}
        #: The last one that says that the pod fits nowhere, or evicts pods.
        self._turned_down: dict[str, _Waiting] = {}
        #: The places in the queue of pods with waiting bindings, as a heap; some no longer count.
        self._places: list[tuple[int, int, str]] = []

    def start_deciding(self) -> None:
        """Begin to compare."""
        if self._shadow.began is None:
            self._shadow.began = self._clock.now()
        super().start_deciding()

    def observe(self, events: Iterable[Event]) -> None:
        """Take events of informers; without comparisons they need not wait."""
        if not self._deciding and not self._waiting:
            super().observe(events)
        elif not self.failed:
            now, wakes = self._clock.now(), not self._waiting
            for event in events:
                self._wait(event, now)
            if wakes:  # else the loop knows already when to wake
                self._news.set()

    def _wait(self, event: Event, now: Seconds) -> None:
        uid = _uid(event)
        last = self._last.get(uid) if uid else None
        if last is not None and _follows(last.newest, event):
            last.newest = event
            return
        waiting = _Waiting(now, event, uid)
        self._waiting.append(waiting)
        if not uid:
            return
        if isinstance(event, PodObserved) and event.pod.spec.node_name:
            self._last[uid] = waiting
            if uid not in self._bindings:
                self._bindings[uid] = waiting
                self._note_place(uid)
            return
        self._last.pop(uid, None)
        if isinstance(event, PodObserved) and is_turned_down(event.pod):
            self._turned_down[uid] = waiting

    def _next_wakeup(self) -> Seconds | None:
        due = super()._next_wakeup()
        if not self._waiting:
            return due
        ripe = self._waiting[0].arrived + WAITS + GATHERS
        return ripe if due is None else min(due, ripe)

    def _has_work(self) -> bool:
        if not self._waiting:
            return False
        return not self._deciding or self._waiting[0].arrived + WAITS <= self._clock.now()

    def _slice(self) -> None:
        """Pass events to the machine until the slice is over; first look at each."""
        end = self._clock.perf() + SLICE_SECONDS
        while self._has_work() and self._clock.perf() < end:
            first = self._waiting[0]
            uid = first.uid
            if self._bindings.get(uid) is first and uid not in self._early:
                earlier = self._decided_before(uid)
                if earlier is not None:
                    self._early[earlier.uid] = earlier
                    self._pass_on(earlier)
                    continue
            self._waiting.popleft()
            if self._turned_down.get(uid) is first:
                del self._turned_down[uid]
            if self._bindings.get(uid) is first:
                del self._bindings[uid]
            if uid not in self._early:
                self._pass_on(first)
            elif self._early[uid] is first:
                # Until here, all events of the pod were from before its binding, or are that.
                del self._early[uid]

    def _decided_before(self, uid: str) -> _Waiting | None:
        """Return the first waiting binding of a pod that is before a pod in the queue."""
        queue, columns = self._machine.queue, self._machine.cluster.columns
        bound = queue.get(uid)
        if bound is None:
            return None
        place = -bound.pod.priority, bound.sequence
        while self._places and self._places[0] < (*place, ""):
            first = heapq.heappop(self._places)[2]
            waiting, queued = self._bindings.get(first), queue.get(first)
            if waiting is None or queued is None or first in self._early:
                continue
            # One that was turned down before had its turn later.
            if first in self._turned_down or is_turned_down(queued.pod):
                continue
            event = waiting.event
            if isinstance(event, PodObserved) and columns.node(event.pod.spec.node_name):
                return waiting
        return None

    def _note_place(self, uid: str) -> None:
        """Note the place in the queue of a pod whose binding waits."""
        queued = self._machine.queue.get(uid)
        if queued is None:
            return  # it is noted when the pod enters the queue
        heapq.heappush(self._places, (-queued.pod.priority, queued.sequence, uid))
        if len(self._places) > 2 * len(self._bindings) + _VOID:
            self._places = [each for each in self._places if each[2] in self._bindings]
            heapq.heapify(self._places)

    def _pass_on(self, waiting: _Waiting) -> None:
        now, uid = self._clock.now(), waiting.uid
        if self._last.get(uid) is waiting:
            del self._last[uid]
        if self._deciding:
            self._shadow.before(waiting.event, now, compare=now - waiting.arrived < LATE)
        is_new = uid in self._bindings and self._machine.queue.get(uid) is None
        self._observe((waiting.newest,))
        if is_new:
            self._note_place(uid)

    def _tick(self, now: Seconds) -> None:
        super()._tick(now)
        self._shadow.tick(now)


def _uid(event: Event) -> str:
    """Return the uid of the pod that an event is about; empty for none."""
    if isinstance(event, PodObserved):
        return event.pod.uid
    return event.uid if isinstance(event, PodGone) else ""


def _follows(before: Event, after: Event) -> bool:
    """Return whether a state of a pod on a node only says how far its kubelet is by now."""
    if not isinstance(before, PodObserved) or not isinstance(after, PodObserved):
        return False
    return (
        _is_at_work(before.pod)
        and _is_at_work(after.pod)
        and (
            before.pod.spec == after.pod.spec
            and before.pod.metadata.labels == after.pod.metadata.labels
        )
    )


def _is_at_work(pod: Pod) -> bool:
    return not (pod.terminal or pod.terminating or pod.preempted)
