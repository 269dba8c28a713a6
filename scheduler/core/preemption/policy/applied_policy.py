"""A policy as it applies to one preemptor, and the vetoes of its rules."""

from dataclasses import dataclass
from typing import Final

from scheduler.config import durations
from scheduler.core.preemption.policy.pod_selection import SelectedPods
from scheduler.model.api.objects import Pod
from scheduler.model.messages import count
from scheduler.model.policies import (
    Budget,
    BudgetScope,
    DisruptionBudgets,
    ForeignVictims,
    PolicyMode,
    PreemptionLimit,
    PreemptionPolicy,
    VictimsFrom,
)
from scheduler.model.policy_vetoes import Rule, RuleVeto
from scheduler.model.times import Seconds

__all__ = ["AppliedPolicy"]

#: The scope of a budget, in words.
_WITHIN: Final = {
    BudgetScope.CLUSTER: "",
    BudgetScope.NAMESPACE: " per namespace",
    BudgetScope.OWNER: " per owner",
    BudgetScope.NODE: " per node",
}


@dataclass(frozen=True, slots=True)
class AppliedPolicy:
    """One policy that binds a preemptor."""

    policy: PreemptionPolicy
    #: The victims that its rules count.
    victims: SelectedPods
    #: Whether disruption budgets must not be violated for this preemptor.
    strict: bool

    @classmethod
    def of(cls, policy: PreemptionPolicy, victims: SelectedPods, preemptor: Pod) -> "AppliedPolicy":
        """Return a policy as it applies to a preemptor that it selects."""
        mode = policy.disruption_budgets
        strict = mode is DisruptionBudgets.STRICT or (
            mode is DisruptionBudgets.STRICT_BELOW and preemptor.priority < policy.strict_below
        )
        return cls(policy, victims, strict)

    @property
    def enforced(self) -> bool:
        """Whether it refuses, instead of only counting what it would refuse."""
        return self.policy.mode is PolicyMode.ENFORCE or self.policy.stop is not None

    def _veto(self, rule: Rule, reason: str) -> RuleVeto:
        return RuleVeto(self.policy.name, rule, self.policy.mode, reason)

    def stopped(self) -> RuleVeto:
        """Return the veto on any preemption, by a policy that stops all of it."""
        why = f": {self.policy.stop}" if self.policy.stop else ""
        return RuleVeto(
            self.policy.name, Rule.STOP, PolicyMode.ENFORCE, f"all preemption is stopped{why}"
        )

    def too_many(self, most: int) -> RuleVeto:
        """Return the veto on a candidate with too many victims."""
        return self._veto(Rule.MAX_VICTIMS, f"{_most(most, 'victim')} per preemption")

    def overspent(self, budget: Budget) -> RuleVeto:
        """Return the veto on a candidate whose victims exceed a budget of the policy."""
        within = f"{_long(budget.window)}{_WITHIN[budget.scope]}"
        return self._veto(Rule.BUDGETS, f"{_most(budget.max_victims, 'victim')} within {within}")

    @property
    def spares(self) -> bool:
        """Whether a rule spares single pods."""
        policy = self.policy
        return (
            policy.victim_min_runtime > 0
            or policy.foreign_victims is not ForeignVictims.ALWAYS
            or policy.victims_from is not VictimsFrom.ANY
        )

    def preemptor_delay(self) -> RuleVeto:
        """Return the veto on a preemptor that has not waited long enough."""
        reason = f"preemptors must have waited for at least {_long(self.policy.preemptor_delay)}"
        return self._veto(Rule.DELAY, reason)

    def too_often(self, limit: PreemptionLimit) -> RuleVeto:
        """Return the veto on a preemptor whose owner's pods have preempted too often."""
        most = _most(limit.max_preemptions, "preemption")
        return self._veto(Rule.MAX_PREEMPTIONS, f"{most} within {_long(limit.window)} per owner")

    def young(self) -> RuleVeto:
        """Return the veto on evictions of pods that have not run long enough."""
        least = _long(self.policy.victim_min_runtime)
        return self._veto(Rule.MIN_RUNTIME, f"victims have run for less than {least}")

    def foreign(self) -> RuleVeto:
        """Return the veto on evictions of pods of other schedulers."""
        reason = "victims belong to other schedulers"
        if self.policy.foreign_victims is ForeignVictims.NON_LOOPING:
            reason += ", and a recent preemption between the same owners was wasted"
        return self._veto(Rule.FOREIGN, reason)

    def unrelated(self) -> RuleVeto:
        """Return the veto on evictions of pods that are not related to the preemptor."""
        whole = self.policy.victims_from is VictimsFrom.SAME_NAMESPACE
        reason = "victims are in other namespaces" if whole else "victims have other owners"
        return self._veto(Rule.VICTIMS_FROM, reason)

    def pdb_shortfall(self) -> RuleVeto:
        """Return the veto on a candidate whose eviction would violate disruption budgets."""
        return self._veto(Rule.DISRUPTION_BUDGETS, "disruption budgets do not allow it")


def _most(number: int, word: str) -> str:
    return f"at most {count(number, word)}"


def _long(seconds: Seconds) -> str:
    """Return a duration in its short form: `1h`, not `1h0m0s`."""
    text = durations.text(seconds)
    text = text.removesuffix("0s") if text.endswith("m0s") else text
    return text.removesuffix("0m") if text.endswith("h0m") else text
