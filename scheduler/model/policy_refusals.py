"""Why a preemption policy does not allow a preemption, as a value."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from scheduler.model import times
from scheduler.model.base import Record
from scheduler.model.policies import PolicyMode
from scheduler.model.times import Seconds

__all__ = ["EVICT_ONLY", "PolicyRefusal", "Rule", "earliest", "ending"]

#: Stands for the policy where the option refuses that has every pod evicted within its disruption
#: budgets. No policy has this name: names of objects are in lower case.
EVICT_ONLY: Final = "evictOnly"


class Rule(StrEnum):
    """The rules of a policy, by the names that they have in its spec."""

    DISRUPTION_BUDGETS = "podDisruptionBudgets"
    BUDGETS = "budgets"
    MAX_VICTIMS = "maxVictimsPerPreemption"
    MIN_RUNTIME = "victimMinRuntime"
    MAX_PREEMPTIONS = "maxPreemptionsPerOwner"
    DELAY = "preemptorDelay"
    FOREIGN = "foreignVictims"


class PolicyRefusal(Record, frozen=True):
    """One rule of one policy refuses a preemption, or would if the policy were enforced."""

    #: The name of the policy.
    policy: str
    rule: Rule
    mode: PolicyMode
    #: What the rule says; the same for all nodes and pods that it refuses.
    reason: str
    #: Which pods it is about.
    detail: str = ""
    #: When it ends at the earliest; `None` where time does not end it.
    until: Seconds | None = None
    #: Namespaces and names of the disruption budgets that are in the way.
    budgets: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """What the pod is told, without the time."""
        if self.policy == EVICT_ONLY:
            return f"{EVICT_ONLY} refuses: {self.reason}"
        return f'PreemptionPolicy "{self.policy}" refuses: {self.reason}'

    def __str__(self) -> str:
        """Return everything, for those who ask why."""
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.text}{detail}{ending(self.until)}"


def ending(until: Seconds | None) -> str:
    """Return when something ends, in brackets; empty where time does not end it.

    A second that has begun counts as a whole one: then it has ended for sure.
    """
    return "" if until is None else f" (until {times.stamp(-(-until // 1))})"


def earliest(moments: Iterable[Seconds | None]) -> Seconds | None:
    """Return the first of some moments; `None` where there is none."""
    return min((each for each in moments if each is not None), default=None)
