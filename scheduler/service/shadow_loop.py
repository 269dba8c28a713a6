"""The loop of shadow mode: it decides when another scheduler has acted, and hands out nothing.

Events wait for a second, in their order. Before the machine gets one, `Shadow` looks at it and may
decide about its pod, in the same slices in which an ordinary loop decides. The queue is never asked
for a pod.

A scheduler sends the bindings of a burst at once, so the watch shows them in another order than
that of its decisions. That is why events wait: when a binding has its turn, the waiting bindings of
pods that are before that pod in the queue get theirs first.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from scheduler.core.machine import Machine
from scheduler.model.effects import Effect
from scheduler.model.events import Event, PodGone, PodObserved
from scheduler.model.times import Seconds
from scheduler.observe.api.history import History
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


def _discard(_effect: Effect) -> None:
    """Take an effect; nobody carries it out."""


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
        #: Events with the time of their arrival, and the bindings among them by uid of the pod.
        self._waiting: deque[tuple[Seconds, Event]] = deque()
        self._bindings: dict[str, PodObserved] = {}
        #: Those bindings that had their turn already.
        self._early: dict[str, PodObserved] = {}

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
                self._waiting.append((now, event))
                if isinstance(event, PodObserved) and event.pod.spec.node_name:
                    self._bindings.setdefault(event.pod.uid, event)
            if wakes:  # else the loop knows already when to wake
                self._news.set()

    def _next_wakeup(self) -> Seconds | None:
        due = super()._next_wakeup()
        if not self._waiting:
            return due
        ripe = self._waiting[0][0] + WAITS + GATHERS
        return ripe if due is None else min(due, ripe)

    def _has_work(self) -> bool:
        if not self._waiting:
            return False
        return not self._deciding or self._waiting[0][0] + WAITS <= self._clock.now()

    def _slice(self) -> None:
        """Pass events to the machine until the slice is over; first look at each."""
        end = self._clock.perf() + SLICE_SECONDS
        while self._has_work() and self._clock.perf() < end:
            arrived, event = self._waiting.popleft()
            uid = _uid(event)
            if uid in self._early:
                # Its binding was applied already: this is that, or what was before it.
                if self._early[uid] is event:
                    del self._early[uid], self._bindings[uid]
                continue
            if self._bindings.get(uid) is event and isinstance(event, PodObserved):
                for earlier in self._decided_before(event):
                    self._early[earlier.pod.uid] = earlier
                    self._pass_on(earlier, arrived)
                del self._bindings[uid]
            self._pass_on(event, arrived)

    def _decided_before(self, binding: PodObserved) -> list[PodObserved]:
        """Return the waiting bindings of pods that are before a pod in the queue, in its order."""
        queue = self._machine.queue
        bound = queue.get(binding.pod.uid)
        if bound is None:
            return []
        found = []
        for uid, each in self._bindings.items():
            queued = queue.get(uid)
            if queued is None or uid in self._early or queued.reported_condition is not None:
                continue  # one that was rejected before had its turn later
            place = -queued.pod.priority, queued.sequence
            if place < (-bound.pod.priority, bound.sequence):
                found.append((place, each))
        return [each for _, each in sorted(found, key=lambda one: one[0])]

    def _pass_on(self, event: Event, arrived: Seconds) -> None:
        now = self._clock.now()
        if self._deciding:
            self._shadow.before(event, now, compare=now - arrived < LATE)
        self._observe((event,))

    def _tick(self, now: Seconds) -> None:
        super()._tick(now)
        self._shadow.tick(now)


def _uid(event: Event) -> str:
    """Return the uid of the pod that an event is about; empty for none."""
    if isinstance(event, PodObserved):
        return event.pod.uid
    return event.uid if isinstance(event, PodGone) else ""
