"""Attempts that wait for extenders; all other pods are decided meanwhile.

An attempt that asks is put aside with its `Ask`, and goes on in a later step, when the answers are
there. Each `Ask` has a number, so an answer that comes after its pod is gone, or was taken up
again, is dropped. When the pod itself has changed in what decides about it, the attempt begins
again.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from scheduler.core.attempt.extenders import Conversation
from scheduler.core.attempt.scheduling_attempt import AttemptResult
from scheduler.core.requeue.context import Context
from scheduler.framework.plugin import PluginError
from scheduler.model.classified_pod import ClassifiedPod
from scheduler.model.decisions import Waiting
from scheduler.model.effects import Ask, Question
from scheduler.model.events import Answered, Failure
from scheduler.model.extender_answers import ExtenderAnswer
from scheduler.model.times import Seconds
from scheduler.queue.phases import QueuePhase
from scheduler.queue.scheduling_queue import QueuedPod

__all__ = ["AttemptRun", "Begin", "SuspendedAttempts"]

#: Begins an attempt for a pod.
Begin = Callable[[ClassifiedPod], Conversation[AttemptResult]]


class AttemptRun:
    """An attempt that may have to wait."""

    __slots__ = ("_answers", "_begin", "_failure", "_key", "_talk", "begun", "number", "queued")

    def __init__(self, queued: QueuedPod, now: Seconds, begin: Begin) -> None:
        self.queued: Final = queued
        #: When the pod was taken out of the queue.
        self.begun: Final = now
        #: Of the `Ask` that it waits for.
        self.number = 0
        self._begin = begin
        self._key = queued.key
        self._talk = begin(queued.classified)
        self._answers: tuple[ExtenderAnswer, ...] | None = None
        self._failure = ""

    def answer(self, answers: tuple[ExtenderAnswer, ...]) -> None:
        """Take answers to go on with."""
        self._answers = answers

    def fail(self, message: str) -> None:
        """Take note that nobody could be asked."""
        self._failure = message

    def go_on(self) -> tuple[Question, ...]:
        """Begin, or go on with what came in; return what to ask next.

        Raises:
            StopIteration: It has ended; its value is the outcome.
            PluginError: It cannot be decided.
        """
        failure, self._failure = self._failure, ""
        if failure:
            self._talk.close()
            raise PluginError(failure)
        if self._key != self.queued.key:
            self._talk.close()
            self._key = self.queued.key
            self._talk, self._answers = self._begin(self.queued.classified), None
        if self._answers is None:
            return next(self._talk)
        return self._talk.send(self._answers)


class SuspendedAttempts:
    """All attempts that wait."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._waiting: dict[str, AttemptRun] = {}
        #: Those that can go on, by uid.
        self._ready: deque[AttemptRun] = deque()
        self._number = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def ready(self) -> bool:
        """Tell whether an attempt can go on."""
        self._drop_stale()
        return bool(self._ready)

    def ask(self, under_way: AttemptRun, questions: tuple[Question, ...], now: Seconds) -> Waiting:
        """Put an attempt aside until its questions are answered."""
        self._number += 1
        under_way.number = self._number
        queued = under_way.queued
        self._waiting[queued.uid] = under_way
        self._context.queue.suspend(queued, now)
        version = queued.pod.metadata.resource_version
        self._context.outbox.append(Ask(queued.pod.ref, self._number, version, questions))
        return Waiting(tuple(question.extender for question in questions))

    def answered(self, event: Answered) -> None:
        """Take note of answers; those that nobody waits for any more are dropped."""
        under_way = self._asked(event.pod.uid, event.number)
        if under_way is not None:
            under_way.answer(event.answers)
            self._ready.append(under_way)

    def failed(self, effect: Ask, failure: Failure) -> None:
        """Take note that nobody could be asked: the attempt fails."""
        under_way = self._asked(effect.pod.uid, effect.number)
        if under_way is not None:
            under_way.fail(f"asking extenders: {failure.message}")
            self._ready.append(under_way)

    def resumed(self, now: Seconds) -> AttemptRun | None:
        """Return the attempt that has been able to go on for longest; `None` when none is."""
        if not self.ready():
            return None
        under_way = self._ready.popleft()
        self._context.queue.resume(under_way.queued, now)
        return under_way

    def _asked(self, uid: str, number: int) -> AttemptRun | None:
        """Return the attempt that waits for this answer, which ends its wait."""
        under_way = self._waiting.get(uid)
        if under_way is None or under_way.number != number:
            return None
        del self._waiting[uid]
        return under_way

    def _drop_stale(self) -> None:
        """Drop attempts whose pod is gone, or is not ours to decide any more."""
        while self._ready and self._ready[0].queued.phase is not QueuePhase.ASKING:
            self._ready.popleft()

    def check(self) -> None:
        """Assert the invariants: whoever is being asked about waits for an answer, or has one."""
        for queued in self._context.queue:
            if queued.phase is QueuePhase.ASKING:
                waiting = self._waiting.get(queued.uid)
                asked = waiting is not None and waiting.queued is queued
                ready = any(under_way.queued is queued for under_way in self._ready)
                assert asked != ready, queued.pod.key
