"""The queue of effects: lanes by importance, and first in, first out for every pod.

The writer puts effects in and takes them out; nothing here waits or does I/O.

| lane | effects |
|---|---|
| bind | Bind, BindVolumes, BindClaims, ReleaseClaims, DeallocateClaim, DeleteClaim |
| preempt | Evict, Nominate, ClearNomination, SaveLedger |
| condition | SetCondition |
| event | RecordEvent |
| extend | Ask, and Bind where an extender binds |

In the lane of bindings, what binds a pod or frees something goes before the volumes and claims that
other pods need before they are bound. So the pods of a burst are bound one by one, and not all at
its end. Every fourth turn is that of volumes and claims: pods without them never keep them waiting.

Each lane owns a share of the places, so none can starve another; the rest is used by importance.
Requests to extenders have as many places of their own: extenders may be slow, and are not the API
server. The effects of one pod are sent strictly in the order in which they came in, so a late
`PodScheduled=False` never arrives after a bind. Events are outside this order: an Event describes
something that has happened, and carries the time of that.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from scheduler.kube.write.event_recorder import Series
from scheduler.model.api.devices import ResourceClaim
from scheduler.model.effects import (
    Ask,
    Bind,
    BindClaims,
    BindVolumes,
    ClaimRef,
    ClearNomination,
    DeallocateClaim,
    DeleteClaim,
    Effect,
    Evict,
    Nominate,
    PodRef,
    RecordEvent,
    ReleaseClaims,
    SaveLedger,
    SetCondition,
)
from scheduler.model.extender_answers import ExtenderAnswer
from scheduler.model.times import Seconds

__all__ = ["EffectQueue", "Lane", "QueuedEffect"]


class Lane(IntEnum):
    """Lanes, the most important first."""

    BIND = 0
    PREEMPT = 1
    CONDITION = 2
    EVENT = 3
    EXTEND = 4

    @property
    def label(self) -> str:
        """The value of the label `lane` of metrics."""
        return "announce" if self is Lane.EVENT else self.name.lower()


_BY_IMPORTANCE: Final = tuple(Lane)


LANES: Final[dict[type[Effect], Lane]] = {
    Bind: Lane.BIND,
    # A pod waits for these before it is bound.
    BindVolumes: Lane.BIND,
    BindClaims: Lane.BIND,
    # Other pods wait for what these free.
    ReleaseClaims: Lane.BIND,
    DeallocateClaim: Lane.BIND,
    DeleteClaim: Lane.BIND,
    Evict: Lane.PREEMPT,
    Nominate: Lane.PREEMPT,
    ClearNomination: Lane.PREEMPT,
    SaveLedger: Lane.PREEMPT,
    SetCondition: Lane.CONDITION,
    RecordEvent: Lane.EVENT,
    Ask: Lane.EXTEND,
}

#: The effects of the lane of bindings that prepare a pod for its binding.
_PREPARING: Final = (BindVolumes, BindClaims)

#: So many other effects of that lane are sent in a row while some of these wait. They take up to
#: three requests each, so a stream of bindings and these share the places evenly.
_IN_A_ROW: Final = 3

#: Stands for the pod of `SaveLedger` effects, so that they are sent in order.
LEDGER: Final = PodRef("", "", "ledger")

#: Effects that a binding makes unnecessary: the API server clears the nomination and sets the
#: condition.
OBSOLETE_AFTER_BINDING: Final = (SetCondition, Nominate, ClearNomination)


@dataclass(slots=True, eq=False)
class QueuedEffect:
    """An effect that waits or is being sent.

    `effect` may be replaced by a newer one while it waits.
    """

    effect: Effect
    lane: Lane
    #: When it came in.
    since: Seconds
    #: Whether a condition that was replaced by this one would have cleared the nomination.
    clear_nomination: bool = False
    #: Whether it is in its lane.
    queued: bool = False
    #: Whether it was taken out and is being sent.
    sent: bool = False
    #: Whether it became unnecessary: it is not sent, or not sent again.
    obsolete: bool = False
    #: Whether the cluster was in the wanted state already.
    unchanged: bool = False
    #: The answers of extenders; for an `Ask` that is done.
    answers: tuple[ExtenderAnswer, ...] = ()
    #: The states of resource claims that the API server answered with, and whether each is new.
    claims: list[tuple[ResourceClaim, bool]] = field(default_factory=list)
    #: How many claims of a `BindClaims` are written, and the state of the next one where that has
    #: got its finalizer; see `scheduler.kube.write.resource_claims`.
    claims_written: int = 0
    claim_protected: ClaimRef | None = None
    #: Whether a `RecordEvent` was counted, and its series where a request is due.
    counted: bool = False
    series: Series | None = None


class EffectQueue:
    """Effects that wait, and how many are being sent.

    Invariant: only the first effect of a pod is sent or in a lane.
    """

    def __init__(self, places: int, clock: Callable[[], Seconds]) -> None:
        self._places = places
        self._clock = clock
        shared = shares(places)
        if places < len(shared):
            raise ValueError(f"at least {len(shared)} requests must be possible at a time")
        # By lane; lists, because looking up an enum member in a dict takes longer than the rest.
        self._shares = [shared.get(lane) for lane in Lane]
        self._lanes: list[deque[QueuedEffect]] = [deque() for _ in Lane]
        #: The part of the lane of bindings that prepares pods, and how many effects of the other
        #: part were taken since the last of these.
        self._preparing: deque[QueuedEffect] = deque()
        self._in_a_row = 0
        self._lengths = [0 for _ in Lane]
        self._sent = [0 for _ in Lane]
        self._pods: dict[str, deque[QueuedEffect]] = {}
        #: Places in use, or reserved for a lane that uses less than its share.
        self._claimed = sum(shared.values())

    @property
    def sent(self) -> int:
        """How many effects are being sent."""
        return sum(self._sent)

    @property
    def evicting(self) -> int:
        """How many evictions are being sent."""
        first = (entries[0] for entries in self._pods.values())
        return sum(entry.sent and isinstance(entry.effect, Evict) for entry in first)

    def length(self, lane: Lane) -> int:
        """Return how many effects of a lane wait."""
        return self._lengths[lane]

    def add(self, effect: Effect) -> list[Effect]:
        """Add an effect; return those that it makes unnecessary."""
        lane = _lane(effect)
        if isinstance(effect, RecordEvent):
            self._enqueue(self._new(effect, lane))
            return []
        entries = self._pods.setdefault(_pod(effect).uid, deque())
        if isinstance(effect, SetCondition) and (replaced := self._replace(entries, effect)):
            return [replaced]
        moot = self._drop_obsolete(entries) if isinstance(effect, Bind) else []
        entries.append(self._new(effect, lane))
        self._enqueue(entries[0])
        return moot

    def take(self) -> QueuedEffect | None:
        """Return the effect to send next, if there is one and a place for it."""
        for lane in _BY_IMPORTANCE:
            if self._lengths[lane] and self._has_capacity(lane) and (entry := self._pop(lane)):
                entry.sent = True
                self._lengths[lane] -= 1
                self._claimed += self._beyond_share(lane)
                self._sent[lane] += 1
                return entry
        return None

    def done(self, entry: QueuedEffect) -> None:
        """Record that an effect has ended; the next one of its pod may be sent."""
        self._sent[entry.lane] -= 1
        self._claimed -= self._beyond_share(entry.lane)
        if isinstance(entry.effect, RecordEvent):
            return
        uid = _pod(entry.effect).uid
        entries = self._pods[uid]
        entries.popleft()
        if entries:
            self._enqueue(entries[0])
        else:
            del self._pods[uid]

    def clear(self) -> list[Effect]:
        """Remove and return everything that was not sent."""
        unsent = [entry.effect for entry in self._lanes[Lane.EVENT]]
        for uid, entries in list(self._pods.items()):
            unsent += [entry.effect for entry in entries if not entry.sent]
            sent = deque(entry for entry in entries if entry.sent)
            if sent:
                self._pods[uid] = sent
            else:
                del self._pods[uid]
        for lane in Lane:
            self._lanes[lane].clear()
            self._lengths[lane] = 0
        self._preparing.clear()
        return unsent

    def _new(self, effect: Effect, lane: Lane) -> QueuedEffect:
        self._lengths[lane] += 1
        cleared = isinstance(effect, SetCondition) and effect.clear_nomination
        return QueuedEffect(effect, lane, self._clock(), clear_nomination=cleared)

    def _enqueue(self, entry: QueuedEffect) -> None:
        """Put the first effect of a pod into its lane, once."""
        if not entry.queued:
            entry.queued = True
            prepares = isinstance(entry.effect, _PREPARING)
            (self._preparing if prepares else self._lanes[entry.lane]).append(entry)

    def _replace(self, entries: deque[QueuedEffect], effect: SetCondition) -> Effect | None:
        """Replace an unsent condition by a newer one, if no other effect came between."""
        last = entries[-1] if entries else None
        if last is None or last.sent or not isinstance(last.effect, SetCondition):
            return None
        replaced, last.effect = last.effect, effect
        last.clear_nomination |= effect.clear_nomination
        return replaced

    def _drop_obsolete(self, entries: deque[QueuedEffect]) -> list[Effect]:
        """Mark effects that a binding makes unnecessary, and remove those that were not sent."""
        dropped: list[Effect] = []
        for entry in [
            entry for entry in entries if isinstance(entry.effect, OBSOLETE_AFTER_BINDING)
        ]:
            entry.obsolete = True
            if not entry.sent:
                self._lengths[entry.lane] -= 1
                entries.remove(entry)
                dropped.append(entry.effect)
        return dropped

    def _pop(self, lane: Lane) -> QueuedEffect | None:
        """Take the first effect out of a lane that is still needed."""
        queue = self._lanes[lane]
        if lane is Lane.BIND and self._preparing:
            if not queue or self._in_a_row >= _IN_A_ROW:
                self._in_a_row = 0
                return self._preparing.popleft()
            self._in_a_row += 1
        while queue:
            entry = queue.popleft()
            if not entry.obsolete:
                return entry
        return None

    def _has_capacity(self, lane: Lane) -> bool:
        if lane is Lane.EXTEND:
            return self._sent[lane] < self._places
        return not self._beyond_share(lane) or self._claimed < self._places

    def _beyond_share(self, lane: Lane) -> bool:
        """Return whether one more effect of a lane needs a place beyond its share."""
        share = self._shares[lane]
        return share is not None and self._sent[lane] >= share


def shares(places: int) -> dict[Lane, int]:
    """Return how many places each lane can always have."""
    event = condition = max(1, places // 16)
    preempt = max(1, places // 8)
    rest = places - event - condition - preempt
    return {
        Lane.BIND: max(1, min(places // 2, rest)),
        Lane.PREEMPT: preempt,
        Lane.CONDITION: condition,
        Lane.EVENT: event,
    }


def _lane(effect: Effect) -> Lane:
    if isinstance(effect, Bind) and effect.extender is not None:
        return Lane.EXTEND
    return LANES[type(effect)]


def _pod(effect: Effect) -> PodRef:
    """Return the pod that an effect changes."""
    match effect:
        case Evict():
            return effect.victim
        case RecordEvent():
            return effect.regarding
        case SaveLedger():
            return LEDGER
        case _:
            return effect.pod
