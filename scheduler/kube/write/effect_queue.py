"""Which effect goes next: lanes by importance, and first in, first out for every pod.

The writer puts effects in and takes jobs out; nothing here waits or talks to anyone.

| lane | effects |
|---|---|
| bind | Bind, BindVolumes |
| preempt | Evict, Nominate, ClearNomination, SaveLedger |
| condition | SetCondition |
| announce | RecordEvent |
| extend | Ask, and Bind where an extender binds |

Each lane owns a share of the places, so none can starve another; what is left over goes by
importance. What goes to extenders has as many places of its own: they may be slow, and are not
the API server. For one pod effects go out strictly in the order in which they came in, so a late
`PodScheduled=False` never lands after a bind. Announcements are outside this order: an Event is
about what happened, not part of it, and bears the time of that.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from scheduler.kube.write.event_recorder import Series
from scheduler.model.effects import (
    Ask,
    Bind,
    BindVolumes,
    ClearNomination,
    Effect,
    Evict,
    Nominate,
    PodRef,
    RecordEvent,
    SaveLedger,
    SetCondition,
)
from scheduler.model.extender_answers import ExtenderAnswer
from scheduler.model.times import Seconds

__all__ = ["EffectQueue", "Job", "Lane"]


class Lane(IntEnum):
    """Lanes, the most important first."""

    BIND = 0
    PREEMPT = 1
    CONDITION = 2
    ANNOUNCE = 3
    EXTEND = 4


_BY_IMPORTANCE: Final = tuple(Lane)


LANES: Final[dict[type[Effect], Lane]] = {
    Bind: Lane.BIND,
    # A pod waits for its volumes before it is bound: they are as urgent as bindings.
    BindVolumes: Lane.BIND,
    Evict: Lane.PREEMPT,
    Nominate: Lane.PREEMPT,
    ClearNomination: Lane.PREEMPT,
    SaveLedger: Lane.PREEMPT,
    SetCondition: Lane.CONDITION,
    RecordEvent: Lane.ANNOUNCE,
    Ask: Lane.EXTEND,
}

#: Stands for what is written down about all pods, so that it is written in order.
LEDGER: Final = PodRef("", "", "ledger")

#: What a binding makes pointless: the API server clears the nomination and sets the condition.
MOOT_BY_BINDING: Final = (SetCondition, Nominate, ClearNomination)


@dataclass(slots=True, eq=False)
class Job:
    """An effect on its way.

    `effect` may be replaced by a newer one while the job waits.
    """

    effect: Effect
    lane: Lane
    #: When it came in.
    since: Seconds
    #: Whether a condition that was replaced by this one would have cleared the nomination.
    clear_nomination: bool = False
    #: Whether it stands in its lane.
    queued: bool = False
    #: Whether it was taken out to be sent.
    sent: bool = False
    #: Whether it became pointless: not to be sent, or not to be sent again.
    moot: bool = False
    #: Whether nothing had to be done, because it was so already.
    unchanged: bool = False
    #: What extenders said; of an `Ask` that is done.
    answers: tuple[ExtenderAnswer, ...] = ()
    #: Whether an `RecordEvent` was counted, and the series in which there is something to write.
    counted: bool = False
    series: Series | None = None


class EffectQueue:
    """Effects that wait, and how many are on their way.

    Invariant: of the jobs of a pod only the first is sent or stands in a lane.
    """

    def __init__(self, places: int, clock: Callable[[], Seconds]) -> None:
        self._places = places
        self._clock = clock
        shared = shares(places)
        if places < len(shared):
            raise ValueError(f"at least {len(shared)} requests must be possible at a time")
        # By lane; lists, because to look a member of an enumeration up in a dict takes longer
        # than all the rest.
        self._shares = [shared.get(lane) for lane in Lane]
        self._lanes: list[deque[Job]] = [deque() for _ in Lane]
        self._waiting = [0 for _ in Lane]
        self._sent = [0 for _ in Lane]
        self._pods: dict[str, deque[Job]] = {}
        #: Places that are in use, or kept free for a lane that uses less than its share.
        self._claimed = sum(shared.values())

    @property
    def sent(self) -> int:
        """How many jobs are on their way."""
        return sum(self._sent)

    def waiting(self, lane: Lane) -> int:
        """Return how many effects of a lane wait."""
        return self._waiting[lane]

    def add(self, effect: Effect) -> list[Effect]:
        """Take in an effect; return those that it makes pointless."""
        lane = _lane(effect)
        if isinstance(effect, RecordEvent):
            self._offer(self._new(effect, lane))
            return []
        jobs = self._pods.setdefault(_pod(effect).uid, deque())
        if isinstance(effect, SetCondition) and (replaced := self._replace(jobs, effect)):
            return [replaced]
        moot = self._drop_moot(jobs) if isinstance(effect, Bind) else []
        jobs.append(self._new(effect, lane))
        self._offer(jobs[0])
        return moot

    def take(self) -> Job | None:
        """Return the job to send next, if there is one and there is a place for it."""
        for lane in _BY_IMPORTANCE:
            if self._lanes[lane] and self._has_place(lane) and (job := self._first(lane)):
                job.sent = True
                self._waiting[lane] -= 1
                self._claimed += self._beyond_share(lane)
                self._sent[lane] += 1
                return job
        return None

    def done(self, job: Job) -> None:
        """Note that a job has ended; the next one of its pod may go."""
        self._sent[job.lane] -= 1
        self._claimed -= self._beyond_share(job.lane)
        if isinstance(job.effect, RecordEvent):
            return
        uid = _pod(job.effect).uid
        jobs = self._pods[uid]
        jobs.popleft()
        if jobs:
            self._offer(jobs[0])
        else:
            del self._pods[uid]

    def clear(self) -> list[Effect]:
        """Take out everything that was not sent."""
        unsent = [job.effect for job in self._lanes[Lane.ANNOUNCE]]
        for uid, jobs in list(self._pods.items()):
            unsent += [job.effect for job in jobs if not job.sent]
            sent = deque(job for job in jobs if job.sent)
            if sent:
                self._pods[uid] = sent
            else:
                del self._pods[uid]
        for lane in Lane:
            self._lanes[lane].clear()
            self._waiting[lane] = 0
        return unsent

    def _new(self, effect: Effect, lane: Lane) -> Job:
        self._waiting[lane] += 1
        cleared = isinstance(effect, SetCondition) and effect.clear_nomination
        return Job(effect, lane, self._clock(), clear_nomination=cleared)

    def _offer(self, job: Job) -> None:
        """Put the first job of a pod into its lane, once."""
        if not job.queued:
            job.queued = True
            self._lanes[job.lane].append(job)

    def _replace(self, jobs: deque[Job], effect: SetCondition) -> Effect | None:
        """Let a newer condition take the place of an unsent one, if nothing came between."""
        last = jobs[-1] if jobs else None
        if last is None or last.sent or not isinstance(last.effect, SetCondition):
            return None
        replaced, last.effect = last.effect, effect
        last.clear_nomination |= effect.clear_nomination
        return replaced

    def _drop_moot(self, jobs: deque[Job]) -> list[Effect]:
        """Mark what a binding makes pointless, and take out what was not sent of it."""
        dropped: list[Effect] = []
        for job in [each for each in jobs if isinstance(each.effect, MOOT_BY_BINDING)]:
            job.moot = True
            if not job.sent:
                self._waiting[job.lane] -= 1
                jobs.remove(job)
                dropped.append(job.effect)
        return dropped

    def _first(self, lane: Lane) -> Job | None:
        """Take the first job out of a lane that still has a point."""
        queue = self._lanes[lane]
        while queue:
            job = queue.popleft()
            if not job.moot:
                return job
        return None

    def _has_place(self, lane: Lane) -> bool:
        if lane is Lane.EXTEND:
            return self._sent[lane] < self._places
        return not self._beyond_share(lane) or self._claimed < self._places

    def _beyond_share(self, lane: Lane) -> bool:
        """Tell whether one more job of a lane needs a place that was not kept for it."""
        share = self._shares[lane]
        return share is not None and self._sent[lane] >= share


def shares(places: int) -> dict[Lane, int]:
    """Return how many places each lane can always have."""
    announce = condition = max(1, places // 16)
    preempt = max(1, places // 8)
    rest = places - announce - condition - preempt
    return {
        Lane.BIND: max(1, min(places // 2, rest)),
        Lane.PREEMPT: preempt,
        Lane.CONDITION: condition,
        Lane.ANNOUNCE: announce,
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
