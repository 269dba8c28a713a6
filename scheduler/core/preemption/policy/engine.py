"""The preemption policies in force, for one machine: which pods they bind, what they refused."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from scheduler.core.preemption.policy.applied_policy import AppliedPolicy
from scheduler.core.preemption.policy.candidate_vetoes import policy_vetoes
from scheduler.core.preemption.policy.charge import Charge
from scheduler.core.preemption.policy.in_flight import InFlightEvictions
from scheduler.core.preemption.policy.pod_selection import SelectedPods, selects
from scheduler.core.preemption.policy.rules import PolicyRules, RuleInputs
from scheduler.core.preemption.policy.vetoes import CandidateVetoes
from scheduler.core.preemption.policy.victim_matrix import OwnerCodes, VictimMatrix
from scheduler.model.api.objects import Pod, PodDisruptionBudget
from scheduler.model.effects import Evict
from scheduler.model.policies import (
    EVERY_POD,
    BudgetScope,
    LastVictim,
    PolicyFigures,
    PolicyMode,
    PreemptionPolicy,
)
from scheduler.model.policy_vetoes import EVICT_ONLY, Rule, RuleVeto
from scheduler.model.times import Seconds
from scheduler.state.cluster import Cluster
from scheduler.state.preemption.ledger import Ledger

__all__ = ["PolicyEngine", "PolicyEngineState"]

#: At most this many policies appear in metrics by name; all others share one label value.
MAX_NAMES: Final = 100
OTHER: Final = "<other>"
#: With more victims than this that are to be evicted, those that are gone are dropped.
MAX_PLANNED_VICTIMS: Final = 4096

#: Rules about candidates that do not apply where the ledger counts the preemption already.
_NOT_IF_COUNTED: Final = frozenset({Rule.BUDGETS})


@dataclass(slots=True, eq=False)
class PolicyEngineState:
    """What was refused and evicted under policies."""

    in_flight: InFlightEvictions
    #: Names of policies in metrics.
    _names: set[str] = field(default_factory=set)
    #: Refusals by rule, those of mode Audit, and the last victim, by policy; for its status.
    _refusals: dict[str, Counter[str]] = field(default_factory=dict)
    _audited: dict[str, Counter[str]] = field(default_factory=dict)
    _last: dict[str, LastVictim] = field(default_factory=dict)
    #: Policies that bind the eviction of pods which are to be evicted, by uid.
    _planned_victims: dict[str, list[PreemptionPolicy]] = field(default_factory=dict)


class PolicyEngine(PolicyEngineState):
    """Selects the policies that bind a preemption, and evaluates them."""

    def __init__(
        self,
        cluster: Cluster,
        ledger: Ledger,
        is_ours: Callable[[Pod], bool],
        *,
        evict_only: bool = False,
    ) -> None:
        """Create the engine.

        Args:
            cluster: The cluster as it is.
            ledger: Has the counted victims, failed preemptions and wasted evictions.
            is_ours: Returns whether a pod names one of our profiles.
            evict_only: Whether every victim is evicted through `pods/eviction`, so that the API
                server refuses each one that a disruption budget protects. Then every preemptor is
                bound as by a policy with `podDisruptionBudgets: Strict`.
        """
        super().__init__(InFlightEvictions(cluster))
        #: Attempts in which a rule refused something, by policy, rule and mode; only counted up.
        self.refusal_counts: Final[Counter[tuple[str, str, str]]] = Counter()
        #: Victims that were evicted under a policy, by policy and mode; only counted up.
        self.victim_counts: Final[Counter[tuple[str, str]]] = Counter()
        self._cluster = cluster
        self._ledger = ledger
        self._owner_codes = OwnerCodes(cluster)
        #: Binds every preemptor, if `evict_only`.
        self._evict_only = (
            AppliedPolicy(
                PreemptionPolicy(EVICT_ONLY), SelectedPods(EVERY_POD, cluster), strict=True
            )
            if evict_only
            else None
        )
        self._inputs = RuleInputs(cluster, ledger, self.in_flight, is_ours)
        #: The victims that each policy selects, compiled for these versions.
        self._compiled: dict[str, SelectedPods] = {}
        self._compiled_for = (0, 0)

    def vetoes(self, pod: Pod, now: Seconds, since: Seconds) -> CandidateVetoes | None:
        """Return what can veto preemptions for a pod; `None` where nothing can.

        Args:
            pod: The preemptor.
            now: The time.
            since: When it was first found unschedulable.
        """
        self.in_flight.remove_ended(now)
        rules = self.rules(pod, now, since)
        return CandidateVetoes.of(pod, rules, self._owner_codes, self._ledger, now)

    def rules(self, pod: Pod, now: Seconds, since: Seconds) -> PolicyRules | None:
        """Return the policies that bind preemptions for a pod now; `None` when none does."""
        binding = self._applied_policies(pod)
        return PolicyRules(pod, binding, self._inputs, now, since) if binding else None

    def charge(self, preemptor: Pod, node: str, victims: Sequence[Pod], now: Seconds) -> Charge:
        """Return what a preemption counts for that begins now; it is in flight from now on."""
        del node
        if not len(self._cluster.policies) and self._evict_only is None:
            return Charge()
        self.in_flight.add(preemptor, victims, now)
        self._drop_gone_victims()
        binding = self._applied_policies(preemptor)
        counted: dict[str, frozenset[str]] = {}
        strict: set[str] = set()
        for victim in victims:
            selecting = [applied for applied in binding if applied.victims.selects(victim)]
            self._planned_victims[victim.uid] = [
                applied.policy for applied in selecting if applied is not self._evict_only
            ]
            names = frozenset(
                applied.policy.name for applied in selecting if applied.policy.budgets
            )
            if names:
                counted[victim.uid] = names
            if any(applied.strict and applied.enforced for applied in selecting):
                strict.add(victim.uid)
        policies = [applied.policy for applied in binding if applied is not self._evict_only]
        limiting = [each for each in policies if each.max_preemptions_per_owner is not None]
        return Charge(
            counted,
            frozenset(policy.name for policy in limiting),
            {policy.name: policy.generation for policy in policies},
            frozenset(strict),
        )

    def selections(self, preemptor: Pod, victims: Iterable[Pod]) -> dict[str, frozenset[str]]:
        """Return the policies that bind a preemptor, and those that select each victim, by uid."""
        binding = self._applied_policies(preemptor) if len(self._cluster.policies) else ()
        if not binding:
            return {}
        selecting = {
            victim.uid: frozenset(
                applied.policy.name for applied in binding if applied.victims.selects(victim)
            )
            for victim in victims
        }
        return selecting | {preemptor.uid: frozenset(applied.policy.name for applied in binding)}

    def may_resume(
        self, preemptor: Pod, node: str, victims: Sequence[Pod], now: Seconds, *, counted: bool
    ) -> bool:
        """Return whether a preemption that was planned before may go on.

        The preemptor has waited for its delay. Where the ledger counts the victims for this
        preemption already, the rules that limit counts have allowed it before.
        """
        rules = self.rules(preemptor, now, now)
        if rules is None:
            return True
        if rules.stopped():
            return False
        ignored = _NOT_IF_COUNTED if counted else frozenset[Rule]()
        matrix = VictimMatrix.of_victims([victims], [node], self._owner_codes)
        found = policy_vetoes(rules, rules.enforced, matrix, are_spared=False)
        return all(
            isinstance(veto, RuleVeto) and veto.rule in ignored
            for rule in found
            for veto in rule.at(0)
        )

    def count_vetoes(self, vetoes: Sequence[RuleVeto]) -> None:
        """Count the vetoes of an attempt."""
        for veto in vetoes:
            policy, rule = veto.policy, veto.rule.value
            self.refusal_counts[self._label(policy), rule, veto.mode.value] += 1
            counted = self._refusals if veto.mode is PolicyMode.ENFORCE else self._audited
            counted.setdefault(policy, Counter())[rule] += 1

    def victim_evicted(self, effect: Evict, now: Seconds) -> None:
        """Count an evicted victim."""
        victim = effect.victim
        for policy in self._planned_victims.pop(victim.uid, ()):
            self.victim_counts[self._label(policy.name), policy.mode.value] += 1
            self._last[policy.name] = LastVictim(
                victim.namespace, victim.name, effect.node, effect.preemptor.key, now
            )

    def figures(self, now: Seconds) -> dict[str, PolicyFigures]:
        """Return the figures of each policy in force, by name."""
        policies = self._cluster.policies
        for by_name in (self._refusals, self._audited, self._last):
            for name in [name for name in by_name if policies.get(name) is None]:
                del by_name[name]
        return {policy.name: self._figures(policy, now) for policy in policies}

    def _figures(self, policy: PreemptionPolicy, now: Seconds) -> PolicyFigures:
        name, cluster = policy.name, BudgetScope.CLUSTER
        window = max((budget.window for budget in policy.budgets), default=0.0)
        return PolicyFigures(
            len(self._ledger.victims(name, cluster, "", now - window)) if policy.budgets else 0,
            dict(self._refusals.get(name, {})),
            self._last.get(name),
            dict(self._audited.get(name, {})),
        )

    def _label(self, name: str) -> str:
        """Return the name of a policy in metrics: its own, or `OTHER` beyond `MAX_NAMES`."""
        if len(self._names) < MAX_NAMES:
            self._names.add(name)
        return name if name in self._names else OTHER

    def _drop_gone_victims(self) -> None:
        """Drop victims that are gone without having been evicted, when there are many."""
        if len(self._planned_victims) > MAX_PLANNED_VICTIMS:
            for uid in [
                uid for uid in self._planned_victims if self._cluster.find_pod(uid) is None
            ]:
                del self._planned_victims[uid]

    def pdb_updated(self, pdb: PodDisruptionBudget) -> None:
        """Process a new state of a disruption budget; the cluster has it already."""
        self.in_flight.pdb_updated(pdb)

    def pdb_gone(self, key: str) -> None:
        """Process that a disruption budget was deleted, by namespace and name."""
        self.in_flight.pdb_gone(key)

    def plan_ended(self, preemptor: str) -> None:
        """Process that a plan has ended, by uid of its preemptor.

        Victims that were not evicted are no longer in flight. `relieved_pdbs` then returns the
        budgets that allow more.
        """
        self.in_flight.plan_ended(preemptor)

    def victims_spared(self, victims: Iterable[str]) -> None:
        """Process that victims are not evicted after all, by uid."""
        self.in_flight.spare(victims)

    @property
    def may_relieve_pdbs(self) -> bool:
        """Whether `relieved_pdbs` could return anything."""
        disruptions = self.in_flight
        return bool(disruptions.evictions or disruptions.relieved)

    def relieved_pdbs(self, now: Seconds) -> frozenset[str]:
        """Return the disruption budgets that allow more than at the last call, by key.

        The pods that they block are to be tried again: `BlockedByPolicy.wake_for_pdbs`.
        """
        self.in_flight.remove_ended(now)
        return self.in_flight.take_relieved()

    def _applied_policies(self, pod: Pod) -> tuple[AppliedPolicy, ...]:
        """Return the policies that bind a preemptor, in name order; a stop is the only one."""
        cluster = self._cluster
        if (stop := cluster.policies.stop) is not None:
            return (AppliedPolicy(stop, SelectedPods(EVERY_POD, cluster), strict=False),)
        everywhere = () if self._evict_only is None else (self._evict_only,)
        if not len(cluster.policies):
            return everywhere
        versions = (cluster.policies.version, cluster.namespaces_version)
        if versions != self._compiled_for:
            self._compiled = {
                policy.name: SelectedPods(policy.victims, cluster) for policy in cluster.policies
            }
            self._compiled_for = versions
        binding = (
            AppliedPolicy.of(policy, self._compiled[policy.name], pod)
            for policy in cluster.policies
            if selects(policy.preemptors, pod, cluster.namespaces)
        )
        return (*everywhere, *binding)
