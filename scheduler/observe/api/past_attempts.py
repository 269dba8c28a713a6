"""The last attempts of pods, within a memory limit.

Pods that have left the queue are kept for an hour, so that the reasons why they were pending can
still be read. They are dropped before any pending pod. Equal messages are stored once: most pods of
a queue wait for the same reason.

What is kept is counted in bytes. The constants are what CPython takes for the objects and their
places in dictionaries, rounded up (`tests/observe/api/test_past_attempts.py`).
"""

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, islice
from typing import Final

from scheduler.model.decisions import Attempt, DecisionSummary, Placed, summary
from scheduler.model.effects import PodRef
from scheduler.model.times import Seconds

__all__ = [
    "MAX_ATTEMPTS",
    "MAX_BYTES",
    "MAX_LEFT",
    "MAX_LEFT_AGE",
    "MAX_MESSAGE",
    "MAX_PODS",
    "PastAttempt",
    "PastAttempts",
    "PastPod",
]

#: How much all attempts may take, and those of how many pods are kept.
MAX_BYTES: Final = 4 << 20
MAX_PODS: Final = 10_000
#: Of these, pods that have left the queue, and for how long they are kept.
MAX_LEFT: Final = 2_000
MAX_LEFT_AGE: Final[Seconds] = 3600.0
#: How many attempts of one pod are kept.
MAX_ATTEMPTS: Final = 16
#: How many characters of a message are kept.
MAX_MESSAGE: Final = 2_000

#: Bytes of a pod without the characters of its names, of an attempt, and of a message's place.
_POD_BYTES: Final = 480
_ATTEMPT_BYTES: Final = 136
_TEXT_BYTES: Final = 128


class PastAttempt:
    """Some equal attempts of one pod, one after the other."""

    __slots__ = ("at", "decision", "message", "node", "repeated")

    def __init__(self, at: Seconds, found: DecisionSummary, repeated: int = 0) -> None:
        #: The time of the first one.
        self.at = at
        self.decision, self.node, self.message = found
        #: How many more there were.
        self.repeated = repeated

    def is_like(self, found: DecisionSummary) -> bool:
        """Return whether another attempt had the same result."""
        return found == (self.decision, self.node, self.message)


class PastPod:
    """A pod with its last attempts."""

    __slots__ = ("attempts", "began", "left_at", "number", "priority", "ref", "scheduler_name")

    def __init__(self, ref: PodRef, scheduler_name: str, began: Seconds) -> None:
        self.ref: Final = ref
        self.scheduler_name: Final = scheduler_name
        #: The time of the first attempt that is known.
        self.began = began
        self.priority = 0
        #: How many attempts it has had.
        self.number = 0
        #: When it left the queue.
        self.left_at: Seconds = 0.0
        #: Oldest first.
        self.attempts: tuple[PastAttempt, ...] = ()

    @property
    def size(self) -> int:
        """What it takes without its messages, in bytes."""
        ref = self.ref
        names = len(ref.namespace) + len(ref.name) + len(ref.uid)
        return _POD_BYTES + names + _ATTEMPT_BYTES * len(self.attempts)


class _Text:
    """A message, and how many attempts have it."""

    __slots__ = ("text", "uses")

    def __init__(self, text: str) -> None:
        self.text: Final = text
        self.uses = 0


class PastAttempts:
    """The attempts of pods that were rejected at least once. Owned by the scheduler's loop."""

    def __init__(self) -> None:
        #: By uid: pods that wait, the one that was tried longest ago first, and pods that have left
        #: the queue, the first one first.
        self._waiting: OrderedDict[str, PastPod] = OrderedDict()
        self._left: OrderedDict[str, PastPod] = OrderedDict()
        self._texts: dict[str, _Text] = {}
        #: What all of it takes, in bytes.
        self.size = 0
        #: How often something has changed; equal attempts one after the other change nothing.
        self.changes = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._left)

    def __contains__(self, uid: str) -> bool:
        return uid in self._waiting

    def of(self, uid: str) -> tuple[PastAttempt, ...]:
        """Return the attempts of a pod that are known, oldest first."""
        past = self._waiting.get(uid) or self._left.get(uid)
        return () if past is None else past.attempts

    def left(self, namespace: str, name: str) -> PastPod | None:
        """Return the last pod of a name that has left the queue, if it is known."""
        for past in reversed(self._left.values()):
            if past.ref.name == name and past.ref.namespace == namespace:
                return past
        return None

    def newest(self, limit: int) -> list[PastPod]:
        """Return some pods: those that wait, the one that was tried last first, then the others."""
        waiting, left = reversed(self._waiting.values()), reversed(self._left.values())
        return list(islice(chain(waiting, left), limit))

    def add(self, attempt: Attempt, now: Seconds) -> None:
        """Remember an attempt that has ended, unless its pod was placed by the first one."""
        decision, uid = attempt.decision, attempt.pod.uid
        past = self._waiting.get(uid)
        if past is not None:
            self._waiting.move_to_end(uid)
        elif isinstance(decision, Placed):
            return
        else:
            past = self._begin(attempt, now)
        past.priority, past.number = attempt.priority, attempt.number
        found = _shortened(summary(decision))
        if past.attempts and past.attempts[-1].is_like(found):
            past.attempts[-1].repeated += 1
            return
        found = found._replace(message=self._shared(found.message))
        self._append(past, PastAttempt(now, found))
        self.changes += 1
        while self.size > MAX_BYTES or len(self) > MAX_PODS:
            self._forget_one()

    def _begin(self, attempt: Attempt, now: Seconds) -> PastPod:
        """Return a pod that waits from now on, or again."""
        uid = attempt.pod.uid
        past = self._left.pop(uid, None)
        if past is None:
            past = PastPod(attempt.pod, attempt.scheduler_name, now)
            self.size += past.size
        self._waiting[uid] = past
        return past

    def _append(self, past: PastPod, attempt: PastAttempt) -> None:
        if len(past.attempts) == MAX_ATTEMPTS:
            self._release(past.attempts[0].message)
            past.attempts = (*past.attempts[1:], attempt)
        else:
            past.attempts = (*past.attempts, attempt)
            self.size += _ATTEMPT_BYTES

    def leave(self, uid: str, now: Seconds) -> None:
        """Record that a pod has left the queue."""
        past = self._waiting.pop(uid, None)
        if past is not None:
            past.left_at = now
            self._left[uid] = past
            self.changes += 1
            if len(self._left) > MAX_LEFT:
                self._forget_one()

    def restore(self, pods: Iterable[PastPod]) -> None:
        """Add pods that an earlier leader has tried; `left_at` is 0 for those that wait.

        What this process has found out about them meanwhile comes after that. To be followed by
        `order`.
        """
        for read in pods:
            uid = read.ref.uid
            known = self._waiting.get(uid) or self._left.get(uid)
            later = () if known is None else known.attempts
            if known is not None:
                read.priority, read.left_at = known.priority, known.left_at
                read.number = max(read.number, known.number)
                self._forget(known)
            (self._left if read.left_at else self._waiting)[uid] = read
            attempts, read.attempts = (*read.attempts, *later), ()
            self.size += read.size
            for each in attempts[-MAX_ATTEMPTS:]:
                each.message = self._shared(each.message)
                self._append(read, each)

    def order(self) -> None:
        """Put restored pods between the others."""
        self._waiting = _ordered(self._waiting, lambda past: past.attempts[-1].at)
        self._left = _ordered(self._left, lambda past: past.left_at)
        while self.size > MAX_BYTES or len(self) > MAX_PODS:
            self._forget_one()

    def drop_namespace(self, namespace: str) -> None:
        """Forget the pods of a namespace that is gone: its name may become that of another one."""
        for past in [*self._left.values(), *self._waiting.values()]:
            if past.ref.namespace == namespace:
                self._forget(past)
                self.changes += 1

    def drop_old(self, now: Seconds) -> None:
        """Forget the pods that left the queue too long ago."""
        while (past := next(iter(self._left.values()), None)) is not None:
            if past.left_at + MAX_LEFT_AGE >= now:
                break
            self._forget(past)

    def _forget_one(self) -> None:
        pods = self._left or self._waiting
        self._forget(next(iter(pods.values())))

    def _forget(self, past: PastPod) -> None:
        uid = past.ref.uid
        if self._left.pop(uid, None) is None:
            del self._waiting[uid]
        self.size -= past.size
        for attempt in past.attempts:
            self._release(attempt.message)

    def _shared(self, message: str) -> str:
        """Return the one copy of a message, and count its use."""
        known = self._texts.get(message)
        if known is None:
            known = self._texts[message] = _Text(message)
            self.size += _TEXT_BYTES + sys.getsizeof(message)
        known.uses += 1
        return known.text

    def _release(self, message: str) -> None:
        known = self._texts[message]
        known.uses -= 1
        if not known.uses:
            del self._texts[message]
            self.size -= _TEXT_BYTES + sys.getsizeof(message)


def _ordered(
    pods: Mapping[str, PastPod], key: Callable[[PastPod], Seconds]
) -> OrderedDict[str, PastPod]:
    return OrderedDict(sorted(pods.items(), key=lambda item: key(item[1])))


def _shortened(found: DecisionSummary) -> DecisionSummary:
    """Return a decision with as much of its message as is kept."""
    if len(found.message) <= MAX_MESSAGE:
        return found
    return found._replace(message=f"{found.message[:MAX_MESSAGE]}...")
