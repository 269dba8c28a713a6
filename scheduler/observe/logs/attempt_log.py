"""Logs one line for each attempt, and lines for the outcomes of its effects.

Decisions come from the machine and outcomes from the writer; `logs` writes the lines. A pod that
was placed is logged when the API server has bound it, other pods when the attempt ends, so no
attempt has two lines. At high verbosity each wait for extenders is logged, too. What preemption
policies in audit mode would have refused has lines of its own.
"""

from typing import Final, assert_never

from structlog.typing import FilteringBoundLogger

from scheduler.model.decisions import (
    Attempt,
    Failed,
    Gated,
    Placed,
    Preempting,
    Unschedulable,
    Waiting,
)
from scheduler.model.effects import Bind, Evict, RecordEvent, SaveLedger
from scheduler.model.events import EffectDone, EffectFailed, Failure, FailureKind
from scheduler.model.policies import PolicyMode
from scheduler.model.times import Seconds
from scheduler.observe.logs import escape
from scheduler.observe.logs.logs import ATTEMPTS, DETAILS

__all__ = ["AttemptLog"]

#: Characters of a message that are logged; the pod's condition has all of it.
MESSAGE_LIMIT: Final = 1_024
#: Victims that are logged by name; their number is always logged.
VICTIMS_LIMIT: Final = 20


class AttemptLog:
    """Logs decisions and their outcomes."""

    def __init__(self, logger: FilteringBoundLogger, verbosity: int) -> None:
        self._log = logger
        self._attempts = verbosity >= ATTEMPTS
        self._details = verbosity >= DETAILS

    def attempt(self, attempt: Attempt) -> None:
        """Log an attempt, unless it placed the pod: then its binding is logged."""
        decision = attempt.decision
        match decision:
            case Placed() | Gated():
                pass
            case Waiting():
                if self._details:
                    self._log.debug("extenders_asked", pod=attempt.pod.key, attempts=attempt.number)
            case Unschedulable():
                if self._attempts:
                    self._log.info(
                        "pod_unschedulable",
                        pod=attempt.pod.key,
                        attempts=attempt.number,
                        nodes=attempt.nodes,
                        message=escape.shortened(decision.message, MESSAGE_LIMIT),
                    )
            case Preempting():
                self._preempting(attempt, decision)
                self._audited(attempt)
            case Failed():
                self._log.error(
                    "attempt_failed",
                    pod=attempt.pod.key,
                    attempts=attempt.number,
                    message=escape.shortened(decision.message, MESSAGE_LIMIT),
                )
            case _:
                assert_never(decision)

    def _audited(self, attempt: Attempt) -> None:
        """Log what policies in audit mode would have refused."""
        for veto in attempt.vetoes:
            if veto.mode is PolicyMode.AUDIT:
                self._log.info(
                    "preemption_audited",
                    pod=attempt.pod.key,
                    policy=veto.policy,
                    rule=veto.rule.value,
                    message=escape.shortened(str(veto), MESSAGE_LIMIT),
                )

    def bound(self, attempt: Attempt, node: str, seconds: Seconds) -> None:
        """Log a pod that was bound, `seconds` after it was popped from the queue."""
        if self._attempts:
            self._log.info(
                "pod_bound",
                pod=attempt.pod.key,
                node=node,
                attempts=attempt.number,
                nodes=attempt.nodes,
                feasible=attempt.feasible,
                seconds=round(seconds, 6),
            )

    def bind_failed(self, attempt: Attempt, node: str, failure: Failure) -> None:
        """Log an attempt that failed because the pod could not be bound."""
        log = self._log.debug if failure.kind is FailureKind.GONE else self._log.warning
        log(
            "bind_failed",
            pod=attempt.pod.key,
            node=node,
            attempts=attempt.number,
            cause=failure.kind.value,
            message=escape.shortened(failure.message, MESSAGE_LIMIT),
        )

    def outcome(self, outcome: EffectDone | EffectFailed) -> None:
        """Log the outcome of an effect; those of bindings are logged by `bound`, `bind_failed`."""
        effect = outcome.effect
        if isinstance(effect, Bind):
            return
        if isinstance(outcome, EffectFailed):
            self._effect_failed(outcome)
        elif isinstance(effect, Evict):
            self._log.info(
                "victim_evicted",
                pod=effect.victim.key,
                node=effect.node,
                preemptor=effect.preemptor.key,
            )
        elif self._details:
            self._log.debug("effect_done", effect=type(effect).__name__, pod=_pod(outcome))

    def _preempting(self, attempt: Attempt, decision: Preempting) -> None:
        victims = decision.victims
        self._log.info(
            "preemption_planned",
            pod=attempt.pod.key,
            node=decision.node,
            attempts=attempt.number,
            priority=attempt.priority,
            victims=[victim.key for victim in victims[:VICTIMS_LIMIT]],
            victim_count=len(victims),
            violations=decision.violations,
            message=escape.shortened(decision.message, MESSAGE_LIMIT),
        )

    def _effect_failed(self, outcome: EffectFailed) -> None:
        effect, failure = outcome.effect, outcome.failure
        expected = isinstance(effect, RecordEvent) or failure.kind is FailureKind.GONE
        log = self._log.debug if expected else self._log.warning
        preemptor = {"preemptor": effect.preemptor.key} if isinstance(effect, Evict) else {}
        log(
            "effect_failed",
            effect=type(effect).__name__,
            pod=_pod(outcome),
            **preemptor,
            cause=failure.kind.value,
            message=escape.shortened(failure.message, MESSAGE_LIMIT),
        )


def _pod(outcome: EffectDone | EffectFailed) -> str:
    """Return the key of the pod of an effect; empty for an effect that concerns no single pod."""
    effect = outcome.effect
    match effect:
        case Evict():
            return effect.victim.key
        case RecordEvent():
            return effect.regarding.key
        case SaveLedger():
            return ""
        case _:
            return effect.pod.key
