"""Evaluates the rules of preemption policies; this module alone defines what they mean.

    per preemptor   stop, preemptorDelay, maxPreemptionsPerOwner, a budget that is spent for all
                    pods: the attempt does not preempt
    per victim      victimMinRuntime, foreignVictims, victimsFrom: the pod is spared, like one of
                    higher priority
    per candidate   maxVictimsPerPreemption, budgets, podDisruptionBudgets: the node is refused

`PolicyRules` has the policies that bind one preemptor at one moment. `candidate_refusals` is exact
and returns all refusals for given victims. `spared` is the per-victim part of it for all candidate
rows at once, and both agree. Pods that terminate anyway cost nothing, so the rules about victims do
not count them.

Axes: V potential victims of a row, most important first; C candidate rows.
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
from scheduler.core.preemption.policy.pod_selection import in_namespace
from scheduler.model.api.objects import Pod
from scheduler.model.api.owners import controller, owner, share_controller
from scheduler.model.api.start_time import runs_since
from scheduler.model.policies import (
    Budget,
    BudgetScope,
    ForeignVictims,
    VictimsFrom,
)
from scheduler.model.policy_refusals import PolicyRefusal, earliest
from scheduler.model.times import Seconds
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Bool, Float, Int
from scheduler.state.preemption.ledger import Ledger

__all__ = ["PolicyRules", "RuleInputs", "free_at"]


@dataclass(frozen=True, slots=True)
class RuleInputs:
    """What rules read."""

    cluster: Cluster
    ledger: Ledger
    in_flight: InFlightEvictions
    #: Returns whether a pod names one of our profiles.
    is_ours: Callable[[Pod], bool]

    @property
    def state(self) -> tuple[float, ...]:
        """What refusals depend on, beside pods, nodes and time."""
        cluster = self.cluster
        return (
            cluster.policies.version,
            cluster.namespaces_version,
            cluster.pdbs.version,
            cluster.clock_ahead,
            self.ledger.version,
            self.in_flight.version,
        )


class PolicyRules:
    """The policies that bind one preemptor at one moment."""

    def __init__(
        self,
        pod: Pod,
        policies: tuple[AppliedPolicy, ...],
        inputs: RuleInputs,
        now: Seconds,
        since: Seconds,
    ) -> None:
        """Create the rules.

        Args:
            pod: The preemptor.
            policies: The policies.
            inputs: What the rules read.
            now: The moment.
            since: When the pod was first found unschedulable.
        """
        self.now: Final = now
        self._pod = pod
        self._owner = owner(pod)
        #: The policies that refuse, instead of only counting what they would refuse.
        self.enforced: Final = tuple(applied for applied in policies if applied.enforced)
        self._audited = tuple(applied for applied in policies if not applied.enforced)
        self.inputs: Final = inputs
        self._cluster = inputs.cluster
        self._since = since
        #: When victims were counted, as looked up in the ledger, by policy, budget and key.
        self._spent: dict[tuple[str, Budget, str], list[Seconds]] = {}
        #: The refusals by budgets, by policy, budget, key and number of further victims.
        self._overspent: dict[tuple[str, Budget, str, int], tuple[PolicyRefusal, ...]] = {}
        #: What `spared` depends on, beside pods, nodes and time; `None` where no policy spares any.
        self.spared_state: Final = self._spared_state()

    @property
    def state(self) -> tuple[float, ...]:
        """What the refusals of candidates depend on, beside pods, nodes and time."""
        return self.inputs.state

    def _spared_state(self) -> tuple[object, ...] | None:
        sparing = [applied.policy for applied in self.enforced if applied.spares]
        if not sparing:
            return None
        cluster = self._cluster
        state: tuple[object, ...] = (
            cluster.policies.version, cluster.namespaces_version, cluster.clock_ahead
        )  # fmt: skip
        if any(policy.foreign_victims is ForeignVictims.NON_LOOPING for policy in sparing):
            state += (self.inputs.ledger.version, self._owner)
        if any(policy.victims_from is VictimsFrom.SAME_OWNER for policy in sparing):
            # Pods of a class have controllers of one name, but not of one uid.
            state += (controller(self._pod),)
        return state

    def preemptor_refusals(self) -> tuple[PolicyRefusal, ...]:
        """Return why the pod must not preempt at all now; empty when it may."""
        return self._stopped() or tuple(self._check_preemptor(self.enforced))

    def candidate_refusals(self, node: str, victims: Sequence[Pod]) -> tuple[PolicyRefusal, ...]:
        """Return why some pods must not be evicted from a node together; empty if they may."""
        return self._stopped() or tuple(self._check_candidate(self.enforced, node, victims))

    def _stopped(self) -> tuple[PolicyRefusal, ...]:
        stopping = (applied for applied in self.enforced if applied.policy.stop is not None)
        return tuple(applied.stopped() for applied in stopping)

    def victim_refusals(self, pods: Sequence[Pod]) -> tuple[PolicyRefusal, ...]:
        """Return why policies spare some pods of a node; empty if they spare none."""
        return tuple(
            refusal for applied in self.enforced for refusal in self._check_victims(applied, pods)
        )

    def audit_refusals(self, node: str, victims: Sequence[Pod]) -> tuple[PolicyRefusal, ...]:
        """Return the refusals of a preemption by policies that only audit."""
        of_preemptor = self._check_preemptor(self._audited)
        return (*of_preemptor, *self._check_candidate(self._audited, node, victims))

    def spared(self, slots: Int) -> tuple[Bool, Float] | None:
        """Return which pods policies spare in any case.

        Args:
            slots: (V, C) potential victims, -1 pads.

        Returns:
            (V, C) True for the spared pods, and (C,) the earliest time at which policies spare
            others; `None` when no policy spares any pod.
        """
        if self.spared_state is None:
            return None
        mask = np.zeros(slots.shape, dtype=np.bool_)
        until = np.full(slots.shape[1], np.inf)
        for _, spared, ends in self.spared_by_rule(slots):
            mask |= spared
            until = np.minimum(until, ends)
        return mask, until

    def spared_by_rule(self, slots: Int) -> Iterator[tuple[PolicyRefusal, Bool, Float]]:
        """Yield each rule with (V, C) the pods that it spares, and (C,) when it spares others."""
        for applied in self.enforced:
            if not applied.spares:
                continue
            not_terminating = applied.victims.not_terminating(slots)
            never = np.full(slots.shape[1], np.inf)
            if least := applied.policy.victim_min_runtime:
                since = self._cluster.pods.running_since(slots)
                # The start of a pod that has not started is an event of its own.
                mature = since + (least + self._cluster.clock_ahead)
                young = not_terminating & (mature > self.now)
                ends = np.where(young, mature, np.inf).min(axis=0, initial=np.inf)
                yield applied.young(), young, ends
            if applied.policy.victims_from is not VictimsFrom.ANY:
                yield applied.unrelated(), self._unrelated(applied, slots, not_terminating), never
            if applied.policy.foreign_victims is not ForeignVictims.ALWAYS:
                pods = map(self._cluster.pods.pod, slots[not_terminating].tolist())
                not_terminating[not_terminating] = [self._is_foreign(applied, pod) for pod in pods]
                yield applied.foreign(), not_terminating, never

    # Per preemptor --------------------------------------------------------------------------------

    def _check_preemptor(self, policies: Iterable[AppliedPolicy]) -> Iterator[PolicyRefusal]:
        for applied in policies:
            policy, now = applied.policy, self.now
            mature = self._since + policy.preemptor_delay
            if policy.preemptor_delay and mature > now:
                yield replace(applied.preemptor_delay(), until=mature)
            limit = policy.max_preemptions_per_owner
            if limit is not None:
                begun = self.inputs.ledger.preemptions(policy.name, self._owner, now - limit.window)
                if len(begun) >= limit.max_preemptions:
                    until = free_at(begun, 1, limit.max_preemptions, limit.window)
                    yield replace(applied.too_often(limit), detail=self._owner, until=until)
            if applied.victims.every:
                for budget in policy.budgets:
                    if budget.scope is BudgetScope.CLUSTER:
                        yield from self._check_budget(applied, budget, "", 1)

    # Per victim -----------------------------------------------------------------------------------

    def _check_victims(
        self, applied: AppliedPolicy, victims: Sequence[Pod]
    ) -> Iterator[PolicyRefusal]:
        policy = applied.policy
        if not applied.spares:
            return
        is_being_deleted = self._cluster.is_being_deleted
        counted = self._selected(applied, [pod for pod in victims if not is_being_deleted(pod)])
        least = policy.victim_min_runtime
        ends = [(pod, self._mature(pod, least)) for pod in counted] if least else []
        young = [(pod, end) for pod, end in ends if end > self.now]
        if young:
            until = earliest(None if math.isinf(end) else end for _, end in young)
            yield replace(applied.young(), detail=_names(pod for pod, _ in young), until=until)
        unrelated = [pod for pod in counted if self._is_unrelated(applied, pod)]
        if unrelated:
            yield replace(applied.unrelated(), detail=_names(unrelated))
        foreign = [pod for pod in counted if self._is_foreign(applied, pod)]
        if foreign:
            yield replace(applied.foreign(), detail=_names(foreign))

    def _mature(self, pod: Pod, least: Seconds) -> Seconds:
        """Return when a pod has run for long enough; infinity if it has not started yet.

        Its time stamps are by other clocks than `now`. What would shorten the protection is not
        trusted: the later stamp counts, and by how much our clock is ahead of the API server's.
        """
        since = runs_since(pod)
        return math.inf if since is None else since + (least + self._cluster.clock_ahead)

    def _is_unrelated(self, applied: AppliedPolicy, pod: Pod) -> bool:
        """Return whether a pod is spared because it is not related to the preemptor."""
        match applied.policy.victims_from:
            case VictimsFrom.ANY:
                return False
            case VictimsFrom.SAME_NAMESPACE:
                return pod.metadata.namespace != self._pod.metadata.namespace
            case VictimsFrom.SAME_OWNER:
                return not share_controller(pod, self._pod)

    def _unrelated(self, applied: AppliedPolicy, slots: Int, counted: Bool) -> Bool:
        """Return, (V, C), which of the counted pods `_is_unrelated` spares."""
        inside = counted & in_namespace(self._pod.metadata.namespace, self._cluster, slots)
        unrelated = counted & ~inside
        if applied.policy.victims_from is VictimsFrom.SAME_OWNER:
            pods = map(self._cluster.pods.pod, slots[inside].tolist())
            unrelated[inside] = [self._is_unrelated(applied, pod) for pod in pods]
        return unrelated

    def _is_foreign(self, applied: AppliedPolicy, pod: Pod) -> bool:
        """Return whether a pod is spared because another scheduler would schedule it again."""
        mode = applied.policy.foreign_victims
        if mode is ForeignVictims.ALWAYS or self.inputs.is_ours(pod):
            return False
        fruitless = self.inputs.ledger.backoff
        return mode is ForeignVictims.NEVER or fruitless.loops(self._owner, owner(pod))

    # Per candidate --------------------------------------------------------------------------------

    def _check_candidate(
        self, policies: Iterable[AppliedPolicy], node: str, victims: Sequence[Pod]
    ) -> Iterator[PolicyRefusal]:
        is_being_deleted = self._cluster.is_being_deleted
        not_terminating = [pod for pod in victims if not is_being_deleted(pod)]
        shared: dict[BudgetScope, Counter[str]] = {}
        for applied in policies:
            counted = self._selected(applied, not_terminating)
            if not counted:
                continue
            yield from self._check_victims(applied, counted)
            most = applied.policy.max_victims_per_preemption
            if most is not None and len(counted) > most:
                yield replace(applied.too_many(most), detail=f"{len(counted)} victims")
            # Policies that count all victims share the counts.
            counts = shared if len(counted) == len(not_terminating) else {}
            for budget in applied.policy.budgets:
                if budget.scope not in counts:
                    keys = (_key(budget.scope, pod, node) for pod in counted)
                    counts[budget.scope] = Counter(keys)
                for key, count in counts[budget.scope].items():
                    yield from self._check_budget_once(applied, budget, key, count)
            if applied.strict:
                yield from self._check_disruption_budgets(applied, counted, victims)

    def _check_budget_once(
        self, applied: AppliedPolicy, budget: Budget, key: str, count: int
    ) -> tuple[PolicyRefusal, ...]:
        """Return the refusals of so many further victims; computed once for all candidates."""
        known_as = (applied.policy.name, budget, key, count)
        refusals = self._overspent.get(known_as)
        if refusals is None:
            refusals = tuple(self._check_budget(applied, budget, key, count))
            self._overspent[known_as] = refusals
        return refusals

    def _check_budget(
        self, applied: AppliedPolicy, budget: Budget, key: str, count: int
    ) -> Iterator[PolicyRefusal]:
        spent = self.spent(applied, budget, key)
        if len(spent) + count > budget.max_victims:
            detail = f"{key or 'the cluster'}: {len(spent)} counted, {count} more planned"
            until = free_at(spent, count, budget.max_victims, budget.window)
            yield replace(applied.overspent(budget), detail=detail, until=until)

    def spent(self, applied: AppliedPolicy, budget: Budget, key: str) -> list[Seconds]:
        """Return when victims that share a budget were counted, within its window."""
        name = applied.policy.name
        spent = self._spent.get((name, budget, key))
        if spent is None:
            since = self.now - budget.window
            spent = self.inputs.ledger.victims(name, budget.scope, key, since)
            self._spent[name, budget, key] = spent
        return spent

    def _check_disruption_budgets(
        self, applied: AppliedPolicy, counted: Sequence[Pod], victims: Sequence[Pod]
    ) -> Iterator[PolicyRefusal]:
        """Yield why disruption budgets of the counted victims do not allow all victims."""
        uids = {pod.uid for pod in counted}
        self.inputs.in_flight.remove_ended(self.now)
        for shortfall in self.inputs.in_flight.shortfalls(victims):
            if uids & shortfall.pods:
                yield replace(
                    applied.pdb_shortfall(),
                    detail=shortfall.detail,
                    until=shortfall.until,
                    pdbs=shortfall.pdbs,
                )

    def _selected(self, applied: AppliedPolicy, pods: list[Pod]) -> list[Pod]:
        """Return the victims that the rules of a policy count, given those that stay otherwise."""
        if applied.victims.every:
            return pods
        return [pod for pod in pods if applied.victims.selects(pod)]


def _names(pods: Iterable[Pod]) -> str:
    return ", ".join(pod.key for pod in pods)


def _key(scope: BudgetScope, victim: Pod, node: str) -> str:
    """Return the key under which victims share a budget of a scope."""
    match scope:
        case BudgetScope.CLUSTER:
            return ""
        case BudgetScope.NAMESPACE:
            return victim.metadata.namespace
        case BudgetScope.OWNER:
            return owner(victim)
        case BudgetScope.NODE:
            return node


def free_at(moments: Sequence[Seconds], more: int, most: int, window: Seconds) -> Seconds | None:
    """Return when a window has capacity for some more; `None` when it never will.

    Args:
        moments: When each of those happened that count now, oldest first.
        more: How many are to be added.
        most: How many there may be within the window.
        window: Its length.
    """
    index = len(moments) + more - most - 1
    return moments[index] + window if index < len(moments) else None
