"""Vetoes of policies on preemptions, as values."""

from enum import StrEnum
from typing import Final

from scheduler.model import times
from scheduler.model.base import Record
from scheduler.model.policies import PolicyMode
from scheduler.model.times import Seconds

__all__ = ["EVICT_ONLY", "Rule", "RuleVeto", "ending"]

#: The name of the policy in vetoes by the flag `--evict-only`, which evicts pods only within
#: their disruption budgets. No policy can have this name: names of objects are in lower case.
EVICT_ONLY: Final = "evictOnly"


class Rule(StrEnum):
    """The rules of a policy, by their field names in its spec."""

    DISRUPTION_BUDGETS = "podDisruptionBudgets"
    BUDGETS = "budgets"
    MAX_VICTIMS = "maxVictimsPerPreemption"
    MIN_RUNTIME = "victimMinRuntime"
    MAX_PREEMPTIONS = "maxPreemptionsPerOwner"
    DELAY = "preemptorDelay"
    FOREIGN = "foreignVictims"
    VICTIMS_FROM = "victimsFrom"
    STOP = "stop"


class RuleVeto(Record, frozen=True):
    """The veto of one rule of a policy on a preemption; the policy may be in audit mode."""

    #: The name of the policy.
    policy: str
    rule: Rule
    mode: PolicyMode
    #: The reason; the same for all nodes and pods under the veto.
    reason: str
    #: The pods, the owner or the numbers that it is about.
    detail: str = ""
    #: The earliest time at which it ends; `None` if it does not depend on time.
    until: Seconds | None = None
    #: Namespaces and names of the disruption budgets that would be violated.
    pdbs: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """The text for conditions and Events of the pod, without the time."""
        if self.policy == EVICT_ONLY:
            return f"{EVICT_ONLY} refuses: {self.reason}"
        return f'PreemptionPolicy "{self.policy}" refuses: {self.reason}'

    def __str__(self) -> str:
        """Return the text with details and the time, for explanations."""
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.text}{detail}{ending(self.until)}"


def ending(until: Seconds | None) -> str:
    """Return the time at which something ends, in brackets; empty if it does not depend on time.

    The time is rounded up to whole seconds, so that it has certainly ended by then.
    """
    return "" if until is None else f" (until {times.stamp(-(-until // 1))})"
