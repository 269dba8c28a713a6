"""What preemption policies say of preemptions; the only place that knows what the rules mean.

    per preemptor   preemptorDelay, maxPreemptionsPerOwner, a budget that is spent for all pods:
                    the attempt does not preempt
    per victim      victimMinRuntime, foreignVictims: the pod stays, like one of higher priority
    per candidate   maxVictimsPerPreemption, budgets, podDisruptionBudgets: the node is refused

`PolicyRules` is what binds one preemptor at one moment. Its `objections` is exact and says all
that there is to say of given victims; `spared` says the per-victim part of it for all
candidate rows at once, and both agree. Pods that are leaving anyway cost nobody anything, so no
rule about victims is about them.

Axes: V pods on a row, most important first; C candidate rows.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from msgspec.structs import replace

from scheduler.core.preemption.policy.applied_policy import AppliedPolicy
from scheduler.core.preemption.policy.in_flight import InFlightEvictions
from scheduler.model.api.objects import Pod
from scheduler.model.api.owners import owner
from scheduler.model.api.runtime import runs_since
from scheduler.model.policies import (
    Budget,
    BudgetScope,
    ForeignVictims,
)
from scheduler.model.policy_refusals import PolicyRefusal, earliest
from scheduler.model.times import Seconds
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Bool, Float, Int
from scheduler.state.preemption.ledger import Ledger

__all__ = ["PolicyRules", "RuleInputs", "room_at"]


@dataclass(frozen=True, slots=True)
class RuleInputs:
    """What rules look at."""

    cluster: Cluster
    ledger: Ledger
    disruptions: InFlightEvictions
    #: Tells whether a pod is one of ours.
    is_ours: Callable[[Pod], bool]

    @property
    def state(self) -> tuple[float, ...]:
        """What rules find depends on this, beside pods, nodes and time."""
        cluster = self.cluster
        return (
            cluster.policies.version,
            cluster.namespaces_version,
            cluster.budgets.version,
            cluster.clock_ahead,
            self.ledger.version,
            self.disruptions.version,
        )


class PolicyRules:
    """What the policies that bind one preemptor say at one moment."""

    def __init__(
        self,
        pod: Pod,
        bindings: tuple[AppliedPolicy, ...],
        facts: RuleInputs,
        now: Seconds,
        since: Seconds,
    ) -> None:
        """Make it.

        Args:
            pod: The preemptor.
            bindings: The policies.
            facts: What they look at.
            now: The moment.
            since: When the pod was first found unschedulable.
        """
        self.now: Final = now
        self._pod = pod
        self._owner = owner(pod)
        #: The policies that refuse, and do not only count what they would refuse.
        self.enforced: Final = tuple(each for each in bindings if each.enforced)
        self._audited = tuple(each for each in bindings if not each.enforced)
        self.facts: Final = facts
        self._cluster = facts.cluster
        self._since = since
        #: What was found in the ledger.
        self._known: dict[tuple[str, Budget, str], list[Seconds]] = {}
        #: What budgets say against so many victims more that share one.
        self._said: dict[tuple[str, Budget, str, int], tuple[PolicyRefusal, ...]] = {}
        #: What `spared` depends on, beside pods, nodes and time; `None` where no policy spares any.
        self.sparing: Final = self._sparing()

    @property
    def state(self) -> tuple[float, ...]:
        """What the objections to victims depend on, beside pods, nodes and time."""
        return self.facts.state

    def _sparing(self) -> tuple[object, ...] | None:
        rules = [each.policy for each in self.enforced if each.spares]
        if not rules:
            return None
        cluster = self._cluster
        versions = cluster.policies.version, cluster.namespaces_version, cluster.clock_ahead
        if all(each.foreign_victims is not ForeignVictims.NON_LOOPING for each in rules):
            return versions
        return (*versions, self.facts.ledger.version, self._owner)

    def refusals(self) -> tuple[PolicyRefusal, ...]:
        """Return why the pod must not preempt at all now; nothing when it may."""
        return tuple(self._of_preemptor(self.enforced))

    def objections(self, node: str, victims: Sequence[Pod]) -> tuple[PolicyRefusal, ...]:
        """Return why some pods must not be evicted from a node together; nothing if they may."""
        return tuple(self._of_victims(self.enforced, node, victims))

    def audited(self, node: str, victims: Sequence[Pod]) -> tuple[PolicyRefusal, ...]:
        """Return what policies that only audit would refuse about a preemption."""
        found = (self._of_preemptor(self._audited), self._of_victims(self._audited, node, victims))
        return tuple(refusal for each in found for refusal in each)

    def spared(self, slots: Int) -> tuple[Bool, Float] | None:
        """Tell which pods must stay whatever else happens.

        Args:
            slots: (V, C) pods that could go, -1 pads.

        Returns:
            (V, C) True for those that must stay, and (C,) when that is different at the earliest;
            `None` when no policy spares any pod.
        """
        if self.sparing is None:
            return None
        mask = np.zeros(slots.shape, dtype=np.bool_)
        until = np.full(slots.shape[1], np.inf)
        for _, spared, ends in self.spared_by_rule(slots):
            mask |= spared
            until = np.minimum(until, ends)
        return mask, until

    def spared_by_rule(self, slots: Int) -> Iterator[tuple[PolicyRefusal, Bool, Float]]:
        """Yield each rule with (V, C) the pods that it spares, and (C,) when it spares others."""
        for each in self.enforced:
            if not each.spares:
                continue
            staying = each.victims.staying(slots)
            never = np.full(slots.shape[1], np.inf)
            if least := each.policy.victim_min_runtime:
                since = self._cluster.pods.running_since(slots)
                # The start of a pod that has not started is an event of its own.
                mature = since + (least + self._cluster.clock_ahead)
                young = staying & (mature > self.now)
                ends = np.where(young, mature, np.inf).min(axis=0, initial=np.inf)
                yield each.young(), young, ends
            if each.policy.foreign_victims is not ForeignVictims.ALWAYS:
                pods = map(self._cluster.pods.pod, slots[staying].tolist())
                staying[staying] = [self._is_foreign(each, pod) for pod in pods]
                yield each.foreign(), staying, never

    def objections_to_each(self, pods: Sequence[Pod]) -> tuple[PolicyRefusal, ...]:
        """Return why pods of a node must stay whatever else happens."""
        return tuple(refusal for each in self.enforced for refusal in self._of_each(each, pods))

    # Per preemptor --------------------------------------------------------------------------------

    def _of_preemptor(self, bindings: Iterable[AppliedPolicy]) -> Iterator[PolicyRefusal]:
        for each in bindings:
            policy, now = each.policy, self.now
            mature = self._since + policy.preemptor_delay
            if policy.preemptor_delay and mature > now:
                yield replace(each.waiting(), until=mature)
            limit = policy.max_preemptions_per_owner
            if limit is not None:
                begun = self.facts.ledger.preemptions(policy.name, self._owner, now - limit.window)
                if len(begun) >= limit.max_preemptions:
                    until = room_at(begun, 1, limit.max_preemptions, limit.window)
                    yield replace(each.too_often(limit), detail=self._owner, until=until)
            if each.victims.every:
                for budget in policy.budgets:
                    if budget.scope is BudgetScope.CLUSTER:
                        yield from self._overspent(each, budget, "", 1)

    # Per victim -----------------------------------------------------------------------------------

    def _of_each(self, binding: AppliedPolicy, victims: Sequence[Pod]) -> Iterator[PolicyRefusal]:
        policy = binding.policy
        if not binding.spares:
            return
        counted = self._counted(binding, victims)
        least = policy.victim_min_runtime
        ends = [(pod, self._mature(pod, least)) for pod in counted] if least else []
        young = [(pod, end) for pod, end in ends if end > self.now]
        if young:
            until = earliest(None if math.isinf(end) else end for _, end in young)
            yield replace(binding.young(), detail=_named(pod for pod, _ in young), until=until)
        foreign = [pod for pod in counted if self._is_foreign(binding, pod)]
        if foreign:
            yield replace(binding.foreign(), detail=_named(foreign))

    def _mature(self, pod: Pod, least: Seconds) -> Seconds:
        """Return when a pod has run for long enough; infinity if it has not started yet.

        Its stamps are by other clocks than `now`, and only what makes it stay longer is believed:
        the later stamp, and that our clock is ahead of the API server's.
        """
        since = runs_since(pod)
        return math.inf if since is None else since + (least + self._cluster.clock_ahead)

    def _is_foreign(self, binding: AppliedPolicy, pod: Pod) -> bool:
        """Tell whether a pod must stay because another scheduler would put it back."""
        wanted = binding.policy.foreign_victims
        if wanted is ForeignVictims.ALWAYS or self.facts.is_ours(pod):
            return False
        fruitless = self.facts.ledger.fruitless
        return wanted is ForeignVictims.NEVER or fruitless.loops(self._owner, owner(pod))

    # Per candidate --------------------------------------------------------------------------------

    def _of_victims(
        self, bindings: Iterable[AppliedPolicy], node: str, victims: Sequence[Pod]
    ) -> Iterator[PolicyRefusal]:
        leaves = self._cluster.leaves
        staying = [pod for pod in victims if not leaves(pod)]
        shared: dict[BudgetScope, Counter[str]] = {}
        for each in bindings:
            counted = self._selected(each, staying)
            if not counted:
                continue
            yield from self._of_each(each, counted)
            most = each.policy.max_victims_per_preemption
            if most is not None and len(counted) > most:
                yield replace(each.too_many(most), detail=f"{len(counted)} victims")
            # Policies that count all victims share the counts.
            counts = shared if len(counted) == len(staying) else {}
            for budget in each.policy.budgets:
                if budget.scope not in counts:
                    keys = (_key(budget.scope, pod, node) for pod in counted)
                    counts[budget.scope] = Counter(keys)
                for key, count in counts[budget.scope].items():
                    yield from self._said_of_budget(each, budget, key, count)
            if each.strict:
                yield from self._overdrawn(each, counted, victims)

    def _said_of_budget(
        self, binding: AppliedPolicy, budget: Budget, key: str, count: int
    ) -> tuple[PolicyRefusal, ...]:
        """Return what is said against so many victims more; found out once for all candidates."""
        place = (binding.policy.name, budget, key, count)
        said = self._said.get(place)
        if said is None:
            said = self._said[place] = tuple(self._overspent(binding, budget, key, count))
        return said

    def _overspent(
        self, binding: AppliedPolicy, budget: Budget, key: str, count: int
    ) -> Iterator[PolicyRefusal]:
        spent = self.spent(binding, budget, key)
        if len(spent) + count > budget.max_victims:
            detail = f"{key or 'the cluster'} has had {len(spent)}, and {count} would come"
            until = room_at(spent, count, budget.max_victims, budget.window)
            yield replace(binding.overspent(budget), detail=detail, until=until)

    def spent(self, binding: AppliedPolicy, budget: Budget, key: str) -> list[Seconds]:
        """Return when victims that share a budget were counted, within its window."""
        place = (binding.policy.name, budget, key)
        spent = self._known.get(place)
        if spent is None:
            since = self.now - budget.window
            name = binding.policy.name
            spent = self.facts.ledger.victims(name, budget.scope, key, since)
            self._known[place] = spent
        return spent

    def _overdrawn(
        self, binding: AppliedPolicy, counted: Sequence[Pod], victims: Sequence[Pod]
    ) -> Iterator[PolicyRefusal]:
        """Yield why disruption budgets of the counted victims do not allow all victims."""
        uids = {pod.uid for pod in counted}
        self.facts.disruptions.settle(self.now)
        for each in self.facts.disruptions.overdrafts(victims):
            if uids & each.pods:
                said = binding.overdrawn()
                yield replace(said, detail=each.detail, until=each.until, budgets=each.budgets)

    def _counted(self, binding: AppliedPolicy, victims: Iterable[Pod]) -> list[Pod]:
        """Return the victims that a policy is about: those that would stay otherwise."""
        leaves = self._cluster.leaves
        return self._selected(binding, [pod for pod in victims if not leaves(pod)])

    def _selected(self, binding: AppliedPolicy, staying: list[Pod]) -> list[Pod]:
        if binding.victims.every:
            return staying
        return [pod for pod in staying if binding.victims.selects(pod)]


def _named(pods: Iterable[Pod]) -> str:
    return ", ".join(pod.key for pod in pods)


def _key(scope: BudgetScope, victim: Pod, node: str) -> str:
    """Return what shares a budget with a victim."""
    match scope:
        case BudgetScope.CLUSTER:
            return ""
        case BudgetScope.NAMESPACE:
            return victim.metadata.namespace
        case BudgetScope.OWNER:
            return owner(victim)
        case BudgetScope.NODE:
            return node


def room_at(moments: Sequence[Seconds], more: int, most: int, window: Seconds) -> Seconds | None:
    """Return when a window has room for some more; `None` when it never will.

    Args:
        moments: When each thing happened that counts now, oldest first.
        more: How many are to be added.
        most: How many there may be within the window.
        window: Its length.
    """
    place = len(moments) + more - most - 1
    return moments[place] + window if place < len(moments) else None
