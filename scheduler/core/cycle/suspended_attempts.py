"""Attempts that wait for extenders; all other pods are scheduled meanwhile.

An attempt that calls extenders is suspended with its `Ask`, and continues in a later step, when the
responses have arrived. Each `Ask` has a number, so a response is dropped if its pod was deleted or
has a newer attempt. When the pod itself has changed in a way that matters, the attempt starts over.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from scheduler.core.attempt.extenders import Conversation
from scheduler.core.attempt.scheduling_attempt import AttemptResult
from scheduler.core.outbox import Outbox
from scheduler.framework.plugin import PluginError
from scheduler.model.classified_pod import ClassifiedPod
from scheduler.model.decisions import Waiting
from scheduler.model.effects import Ask, Question
from scheduler.model.events import Answered, Failure
from scheduler.model.extender_answers import ExtenderAnswer
from scheduler.model.times import Seconds
from scheduler.queue.phases import QueuePhase
from scheduler.queue.scheduling_queue import QueuedPod, SchedulingQueue

__all__ = ["AttemptRun", "StartAttempt", "SuspendedAttempts"]

#: Starts an attempt for a pod.
StartAttempt = Callable[[ClassifiedPod], Conversation[AttemptResult]]


class AttemptRun:
    """An attempt that may have to wait."""

    __slots__ = (
        "_answers",
        "_conversation",
        "_failure",
        "_key",
        "_start",
        "number",
        "queued",
        "started_at",
    )

    def __init__(self, queued: QueuedPod, now: Seconds, begin: StartAttempt) -> None:
        self.queued: Final = queued
        #: When the pod was taken out of the queue.
        self.started_at: Final = now
        #: Of the `Ask` that it waits for.
        self.number = 0
        self._start = begin
        self._key = queued.key
        self._conversation = begin(queued.classified)
        self._answers: tuple[ExtenderAnswer, ...] | None = None
        self._failure = ""

    def answer(self, answers: tuple[ExtenderAnswer, ...]) -> None:
        """Set the answers to go on with."""
        self._answers = answers

    def fail(self, message: str) -> None:
        """Record that the extenders could not be asked."""
        self._failure = message

    def advance(self) -> tuple[Question, ...]:
        """Start, or go on with the answers; return what to ask next.

        Raises:
            StopIteration: The attempt has ended; the value is its result.
            PluginError: The attempt cannot be completed.
        """
        failure, self._failure = self._failure, ""
        if failure:
            self._conversation.close()
            raise PluginError(failure)
        if self._key != self.queued.key:
            self._conversation.close()
            self._key = self.queued.key
            self._conversation, self._answers = self._start(self.queued.classified), None
        if self._answers is None:
            return next(self._conversation)
        return self._conversation.send(self._answers)


class SuspendedAttempts:
    """All attempts that wait for extenders."""

    def __init__(self, queue: SchedulingQueue, outbox: Outbox) -> None:
        self._queue = queue
        self._outbox = outbox
        self._attempts: dict[str, AttemptRun] = {}
        #: Those that can go on, in the order of their answers.
        self._ready: deque[AttemptRun] = deque()

    def __len__(self) -> int:
        return len(self._attempts)

    def ready(self) -> bool:
        """Return whether an attempt can go on."""
        self._drop_stale()
        return bool(self._ready)

    def suspend(
        self, attempt: AttemptRun, questions: tuple[Question, ...], now: Seconds
    ) -> Waiting:
        """Suspend an attempt until its questions are answered."""
        queued = attempt.queued
        attempt.number = self._queue.suspend(queued, now)
        self._attempts[queued.uid] = attempt
        version = queued.pod.metadata.resource_version
        self._outbox.emit(Ask(queued.pod.ref, attempt.number, version, questions))
        return Waiting(tuple(question.extender for question in questions))

    def answered(self, event: Answered, _now: Seconds) -> None:
        """Hand answers to their attempt; drop them if none waits for them any more."""
        attempt = self._suspended_run(event.pod.uid, event.number)
        if attempt is not None:
            attempt.answer(event.answers)
            self._ready.append(attempt)

    def failed(self, effect: Ask, failure: Failure, _now: Seconds) -> None:
        """Let an attempt fail whose extenders could not be asked."""
        attempt = self._suspended_run(effect.pod.uid, effect.number)
        if attempt is not None:
            attempt.fail(f"asking extenders: {failure.message}")
            self._ready.append(attempt)

    def pop_resumable(self, now: Seconds) -> AttemptRun | None:
        """Return the attempt whose answers came first; `None` when none can go on."""
        if not self.ready():
            return None
        attempt = self._ready.popleft()
        self._queue.resume(attempt.queued, now)
        return attempt

    def _suspended_run(self, uid: str, number: int) -> AttemptRun | None:
        """Remove and return the attempt that waits for this answer."""
        attempt = self._attempts.get(uid)
        if attempt is None or attempt.number != number:
            return None
        del self._attempts[uid]
        return attempt

    def _drop_stale(self) -> None:
        """Drop attempts whose pod is gone, or no longer ours to schedule."""
        while self._ready and self._ready[0].queued.phase is not QueuePhase.WAITING_FOR_EXTENDERS:
            self._ready.popleft()

    def check(self) -> None:
        """Assert the invariants: each suspended attempt waits for an answer or has one."""
        for queued in self._queue:
            if queued.phase is QueuePhase.WAITING_FOR_EXTENDERS:
                attempt = self._attempts.get(queued.uid)
                asked = attempt is not None and attempt.queued is queued
                ready = any(attempt.queued is queued for attempt in self._ready)
                assert asked != ready, queued.pod.key
