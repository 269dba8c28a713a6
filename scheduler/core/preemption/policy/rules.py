"""Evaluates the rules of preemption policies about preemptors and about single victims.

    per preemptor   stop, preemptorDelay, maxPreemptionsPerOwner, a budget that is spent for all
                    pods: the attempt does not preempt
    per victim      victimMinRuntime, foreignVictims, victimsFrom: the pod is spared, like one of
                    higher priority
    per candidate   maxVictimsPerPreemption, budgets, podDisruptionBudgets: the node is vetoed,
                    by `candidate_vetoes`

`PolicyRules` has the policies that bind one preemptor at one moment. Pods that terminate anyway
cost nothing, so the rules about victims do not count them.

Axes: V potential victims of a row, most important first; C candidate rows.
"""

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
from scheduler.model.policies import (
    Budget,
    BudgetScope,
    ForeignVictims,
    VictimsFrom,
)
from scheduler.model.policy_vetoes import RuleVeto
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
        """What vetoes depend on, beside pods, nodes and time."""
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
        self.audited: Final = tuple(applied for applied in policies if not applied.enforced)
        self.inputs: Final = inputs
        self._cluster = inputs.cluster
        self._since = since
        #: What `spared` depends on, beside pods, nodes and time; `None` where no policy spares any.
        self.spared_state: Final = self._spared_state()

    @property
    def state(self) -> tuple[float, ...]:
        """What the vetoes on candidates depend on, beside pods, nodes and time."""
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

    def preemptor_vetoes(self) -> tuple[RuleVeto, ...]:
        """Return why the pod must not preempt at all now; empty when it may."""
        return self.stopped() or tuple(self.check_preemptor(self.enforced))

    def stopped(self) -> tuple[RuleVeto, ...]:
        """Return the vetoes of policies that stop all preemption."""
        stopping = (applied for applied in self.enforced if applied.policy.stop is not None)
        return tuple(applied.stopped() for applied in stopping)

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
        for applied in self.enforced:
            for _, spared, ends in self.spared_by_rule(applied, slots):
                mask |= spared
                if ends is not None:
                    until = np.minimum(until, ends.min(axis=0, initial=np.inf))
        return mask, until

    def spared_by_rule(
        self, applied: AppliedPolicy, slots: Int
    ) -> Iterator[tuple[RuleVeto, Bool, Float | None]]:
        """Yield the rules of a policy that spare single pods.

        Args:
            applied: The policy.
            slots: Pods; -1 pads.

        Yields:
            The veto; which pods the rule spares; and until when, infinity for pods that it does
            not spare or that time does not change, `None` where time changes none. The arrays have
            the shape of `slots`.
        """
        if not applied.spares:
            return
        counted = applied.victims.not_terminating(slots)
        if least := applied.policy.victim_min_runtime:
            since = self._cluster.pods.running_since(slots)
            # Time stamps of a pod are by other clocks than `now`. What would shorten its protection
            # is not trusted: the later stamp counts, and by how much our clock is ahead. The start
            # of a pod that has not started is an event of its own.
            mature = since + (least + self._cluster.clock_ahead)
            young = counted & (mature > self.now)
            yield applied.young(), young, np.where(young, mature, np.inf)
        if applied.policy.victims_from is not VictimsFrom.ANY:
            yield applied.unrelated(), self._unrelated(applied, slots, counted), None
        if applied.policy.foreign_victims is not ForeignVictims.ALWAYS:
            pods = map(self._cluster.pods.pod, slots[counted].tolist())
            counted[counted] = [self._is_foreign(applied, pod) for pod in pods]
            yield applied.foreign(), counted, None

    # Per preemptor --------------------------------------------------------------------------------

    def check_preemptor(self, policies: Iterable[AppliedPolicy]) -> Iterator[RuleVeto]:
        """Yield the vetoes of policies on any preemption by the pod now."""
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
                        yield from self.overspent(applied, budget, "", 1)

    def overspent(
        self, applied: AppliedPolicy, budget: Budget, key: str, count: int
    ) -> Iterator[RuleVeto]:
        """Yield the veto on further victims that share a budget, if they exceed it.

        Args:
            applied: The policy.
            budget: One of its budgets.
            key: The namespace, owner or node of the victims; empty for the cluster.
            count: How many further victims there are.
        """
        for spent, until in self.excess(applied.policy.name, budget, key, count):
            detail = f"{key or 'the cluster'}: {spent} counted, {count} more planned"
            yield replace(applied.overspent(budget), detail=detail, until=until)

    def excess(
        self, policy: str, budget: Budget, key: str, count: int
    ) -> Iterator[tuple[int, Seconds | None]]:
        """Yield how much is spent, and when that suffices, if further victims exceed a budget."""
        spent = self.inputs.ledger.victims(policy, budget.scope, key, self.now - budget.window)
        if len(spent) + count > budget.max_victims:
            yield len(spent), free_at(spent, count, budget.max_victims, budget.window)

    # Per victim -----------------------------------------------------------------------------------

    def _unrelated(self, applied: AppliedPolicy, slots: Int, counted: Bool) -> Bool:
        """Return which of the counted pods are not related to the preemptor."""
        inside = counted & in_namespace(self._pod.metadata.namespace, self._cluster, slots)
        unrelated = counted & ~inside
        if applied.policy.victims_from is VictimsFrom.SAME_OWNER:
            pods = map(self._cluster.pods.pod, slots[inside].tolist())
            unrelated[inside] = [not share_controller(pod, self._pod) for pod in pods]
        return unrelated

    def _is_foreign(self, applied: AppliedPolicy, pod: Pod) -> bool:
        """Return whether a pod is spared because another scheduler would schedule it again."""
        mode = applied.policy.foreign_victims
        if mode is ForeignVictims.ALWAYS or self.inputs.is_ours(pod):
            return False
        fruitless = self.inputs.ledger.backoff
        return mode is ForeignVictims.NEVER or fruitless.loops(self._owner, owner(pod))


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
