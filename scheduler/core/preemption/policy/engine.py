"""The policies in force, for one machine: which of them bind whom, and what they have refused."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from scheduler.core.preemption.policy.applied_policy import AppliedPolicy
from scheduler.core.preemption.policy.charge import Charge
from scheduler.core.preemption.policy.in_flight import InFlightEvictions
from scheduler.core.preemption.policy.pod_selection import SelectedPods, selects
from scheduler.core.preemption.policy.rules import PolicyRules, RuleInputs
from scheduler.core.preemption.policy.vetoes import CandidateVetoes
from scheduler.core.preemption.policy.victim_matrix import OwnerCodes
from scheduler.model.api.objects import Pod, PodDisruptionBudget
from scheduler.model.effects import Evict
from scheduler.model.policies import (
    EVERY_POD,
    BudgetScope,
    LastVictim,
    PolicyFigures,
    PreemptionPolicy,
)
from scheduler.model.policy_refusals import EVICT_ONLY, PolicyRefusal, Rule
from scheduler.model.times import Seconds
from scheduler.state.cluster import Cluster
from scheduler.state.preemption.ledger import Ledger

__all__ = ["PolicyEngine"]

#: So many policies have names of their own in metrics; all others share one.
MOST_NAMES: Final = 100
OTHER: Final = "<other>"
#: More victims than these are looked through for those that are gone.
MOST_AWAITED: Final = 4096

#: Rules that have nothing to say of a preemption that is taken up again, and those about what it
#: was counted for.
_WAITED: Final = frozenset({Rule.DELAY})
_SETTLED: Final = frozenset({Rule.BUDGETS, Rule.MAX_PREEMPTIONS, Rule.DELAY})


class PolicyEngine:
    """Finds out which policies bind a preemption, and evaluates them."""

    def __init__(
        self,
        cluster: Cluster,
        ledger: Ledger,
        is_ours: Callable[[Pod], bool],
        *,
        evict_only: bool = False,
    ) -> None:
        """Make it.

        Args:
            cluster: As it is.
            ledger: What is remembered.
            is_ours: Tells whether a pod names one of our profiles.
            evict_only: Whether every victim is evicted through `pods/eviction`, so that the API
                server refuses each one that a disruption budget protects. Then every preemptor is
                bound as by a policy with `podDisruptionBudgets: Strict`.
        """
        self.disruptions: Final = InFlightEvictions(cluster)
        #: Attempts in which a rule refused something, by policy, rule and mode; only counted up.
        self.refused: Final[Counter[tuple[str, str, str]]] = Counter()
        #: Victims that were evicted under a policy, by policy and mode; only counted up.
        self.victims: Final[Counter[tuple[str, str]]] = Counter()
        self._names: set[str] = set()
        #: What was done under each policy, as its status tells.
        self._refusals: dict[str, Counter[str]] = {}
        self._last: dict[str, LastVictim] = {}
        #: Policies that bind the eviction of pods which are to be evicted, by uid.
        self._awaited: dict[str, list[PreemptionPolicy]] = {}
        self._cluster = cluster
        self._ledger = ledger
        self._families = OwnerCodes(cluster)
        self._everywhere = (
            AppliedPolicy(
                PreemptionPolicy(EVICT_ONLY), SelectedPods(EVERY_POD, cluster), strict=True
            )
            if evict_only
            else None
        )
        self._facts = RuleInputs(cluster, ledger, self.disruptions, is_ours)
        self._compiled: dict[str, SelectedPods] = {}
        self._seen = (0, 0)

    def objections(self, pod: Pod, now: Seconds, since: Seconds) -> CandidateVetoes | None:
        """Return who may object to preemptions for a pod; `None` where nobody can.

        Args:
            pod: The preemptor.
            now: The time.
            since: When it was first found unschedulable.
        """
        self.disruptions.settle(now)
        bounds = self.bounds(pod, now, since)
        return CandidateVetoes.of(pod, bounds, self._families, self._ledger, now)

    def bounds(self, pod: Pod, now: Seconds, since: Seconds) -> PolicyRules | None:
        """Return what binds the preemptions of a pod now; `None` when nothing does."""
        bindings = self._bindings(pod)
        return PolicyRules(pod, bindings, self._facts, now, since) if bindings else None

    def charge(self, preemptor: Pod, node: str, victims: Sequence[Pod], now: Seconds) -> Charge:
        """Return what a preemption counts for that begins now; it is in flight from now on."""
        del node
        if not len(self._cluster.policies) and self._everywhere is None:
            return Charge()
        self.disruptions.promise(preemptor, victims, now)
        self._drop_unawaited()
        bindings = self._bindings(preemptor)
        counted: dict[str, frozenset[str]] = {}
        strict: set[str] = set()
        for victim in victims:
            theirs = [each for each in bindings if each.victims.selects(victim)]
            self._awaited[victim.uid] = [
                each.policy for each in theirs if each is not self._everywhere
            ]
            names = frozenset(each.policy.name for each in theirs if each.policy.budgets)
            if names:
                counted[victim.uid] = names
            if any(each.strict and each.enforced for each in theirs):
                strict.add(victim.uid)
        policies = [each.policy for each in bindings if each is not self._everywhere]
        return Charge(
            counted,
            frozenset(each.name for each in policies if each.max_preemptions_per_owner is not None),
            {each.name: each.generation for each in policies},
            frozenset(strict),
        )

    def refuses(
        self, preemptor: Pod, node: str, victims: Sequence[Pod], now: Seconds, *, counted: bool
    ) -> str:
        """Return why a preemption that was planned before must not go on; empty when it may.

        The preemptor has waited. Where the ledger counts the victims for this preemption already,
        the rules about what they count for have allowed it.
        """
        bounds = self.bounds(preemptor, now, now)
        if bounds is None:
            return ""
        settled = _SETTLED if counted else _WAITED
        found = bounds.objections(node, victims)
        return "; ".join(str(each) for each in found if each.rule not in settled)

    def count(self, refusals: Sequence[PolicyRefusal]) -> None:
        """Take note of what was refused in an attempt."""
        for each in refusals:
            self.refused[self._label(each.policy), each.rule.value, each.mode.value] += 1
            self._refusals.setdefault(each.policy, Counter())[each.rule.value] += 1

    def evicted(self, effect: Evict, now: Seconds) -> None:
        """Take note that a victim was evicted."""
        victim = effect.victim
        for policy in self._awaited.pop(victim.uid, ()):
            self.victims[self._label(policy.name), policy.mode.value] += 1
            self._last[policy.name] = LastVictim(
                victim.namespace, victim.name, effect.node, effect.preemptor.key, now
            )

    def figures(self, now: Seconds) -> dict[str, PolicyFigures]:
        """Return what was done under each policy in force, by name."""
        policies = self._cluster.policies
        for known in (self._refusals, self._last):
            for name in [each for each in known if policies.get(each) is None]:
                del known[name]
        return {each.name: self._figures(each, now) for each in policies}

    def _figures(self, policy: PreemptionPolicy, now: Seconds) -> PolicyFigures:
        name, cluster = policy.name, BudgetScope.CLUSTER
        window = max((each.window for each in policy.budgets), default=0.0)
        return PolicyFigures(
            len(self._ledger.victims(name, cluster, "", now - window)) if policy.budgets else 0,
            dict(self._refusals.get(name, {})),
            self._last.get(name),
        )

    def _label(self, name: str) -> str:
        """Return the name of a policy in metrics: there are only so many."""
        if len(self._names) < MOST_NAMES:
            self._names.add(name)
        return name if name in self._names else OTHER

    def _drop_unawaited(self) -> None:
        """Forget about victims that went without being evicted, when there are many."""
        if len(self._awaited) > MOST_AWAITED:
            for uid in [each for each in self._awaited if self._cluster.placed(each) is None]:
                del self._awaited[uid]

    def accounted(self, budget: PodDisruptionBudget) -> None:
        """Note a new state of a disruption budget; the cluster knows it already."""
        self.disruptions.accounted(budget)

    def budget_gone(self, key: str) -> None:
        """Note that a disruption budget is gone, by namespace and name."""
        self.disruptions.budget_gone(key)

    def ended(self, preemptor: str) -> None:
        """Note that a plan has ended, by uid of its preemptor: victims that stay are not in flight.

        `freed` tells what that means for others.
        """
        self.disruptions.end(preemptor)

    def spared(self, victims: Iterable[str]) -> None:
        """Note that victims are not asked to leave after all, by uid."""
        self.disruptions.spare(victims)

    @property
    def may_free(self) -> bool:
        """Whether `freed` has anything to look at."""
        disruptions = self.disruptions
        return bool(disruptions.promises or disruptions.unasked)

    def freed(self, now: Seconds) -> frozenset[str]:
        """Return the disruption budgets that allow more since this was last asked, by key.

        What they hold is to be woken: `Held.wake_budgets`.
        """
        self.disruptions.settle(now)
        return self.disruptions.freed()

    def _bindings(self, pod: Pod) -> tuple[AppliedPolicy, ...]:
        """Return the policies that bind a preemptor, in name order."""
        cluster = self._cluster
        everywhere = () if self._everywhere is None else (self._everywhere,)
        if not len(cluster.policies):
            return everywhere
        seen = (cluster.policies.version, cluster.namespaces_version)
        if seen != self._seen:
            self._compiled = {
                each.name: SelectedPods(each.victims, cluster) for each in cluster.policies
            }
            self._seen = seen
        bindings = (
            AppliedPolicy.of(each, self._compiled[each.name], pod)
            for each in cluster.policies
            if selects(each.preemptors, pod, cluster.namespaces)
        )
        return (*everywhere, *bindings)
