"""What preemption policies mean, worked out the slow way: one node, one pod, one rule at a time.

Written from the table in docs/preemption-policy.md and not from the scheduler's code. What happened
before is a plain list of evictions that the test keeps.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from scheduler.model import times
from scheduler.model.api.objects import Pod, PodDisruptionBudget
from scheduler.model.policies import (
    Budget,
    BudgetScope,
    DisruptionBudgets,
    ForeignVictims,
    PodSelection,
    PolicyMode,
    PreemptionPolicy,
    VictimsFrom,
)
from tests.support.builders import OURS

__all__ = ["History", "Preempted", "binding", "must_stay", "protects", "refuses"]


@dataclass(frozen=True)
class Preempted:
    """One preemption: its time, preemptor, node and victims, and its policies."""

    moment: float
    preemptor: Pod
    node: str
    victims: tuple[Pod, ...]
    policies: tuple[PreemptionPolicy, ...] = ()


@dataclass
class History:
    """All preemptions so far, and when each pod was first found unschedulable."""

    preempted: list[Preempted] = field(default_factory=list)
    since: dict[str, float] = field(default_factory=dict)


def owner(pod: Pod) -> tuple[str, str, str]:
    """Return the owner of a pod."""
    for each in pod.metadata.owner_references:
        if each.controller:
            return each.kind, pod.metadata.namespace, each.name
    return "Pod", pod.metadata.namespace, pod.metadata.name


def selects(selection: PodSelection, pod: Pod) -> bool:
    """Return whether a pod is selected; namespaces have no labels here."""
    least, most = selection.min_priority, selection.max_priority
    if least is not None and pod.priority < least:
        return False
    if most is not None and pod.priority > most:
        return False
    if selection.namespaces is not None and not selection.namespaces.matches({}):
        return False
    return selection.pods is None or selection.pods.matches(pod.metadata.labels)


def binding(policies: Iterable[PreemptionPolicy], preemptor: Pod) -> list[PreemptionPolicy]:
    """Return the policies that are enforced for a preemptor."""
    return [
        each for each in policies
        if each.mode is PolicyMode.ENFORCE and selects(each.preemptors, preemptor)
    ]  # fmt: skip


def counted(policy: PreemptionPolicy, victims: Iterable[Pod]) -> list[Pod]:
    """Return the victims that a policy is about."""
    return [each for each in victims if selects(policy.victims, each) and not each.terminating]


def related(policy: PreemptionPolicy, preemptor: Pod, pod: Pod) -> bool:
    """Return whether a pod stands in the relation to a preemptor that a policy asks for."""
    if policy.victims_from is VictimsFrom.ANY:
        return True
    if pod.metadata.namespace != preemptor.metadata.namespace:
        return False
    controllers = [
        {each.uid for each in one.metadata.owner_references if each.controller}
        for one in (pod, preemptor)
    ]
    return policy.victims_from is VictimsFrom.SAME_NAMESPACE or any(set.intersection(*controllers))


def must_stay(policy: PreemptionPolicy, preemptor: Pod, pod: Pod, now: float) -> bool:
    """Return whether a pod stays, whatever else happens; nothing is known of loops."""
    if not counted(policy, [pod]):
        return False
    if not related(policy, preemptor, pod):
        return True
    if policy.foreign_victims is ForeignVictims.NEVER and pod.spec.scheduler_name != OURS:
        return True
    started = times.parse(pod.status.start_time)
    ran = 0.0 if started is None else now - started
    # A clock that is ahead says that it has run for less than no time.
    return max(0.0, ran) < policy.victim_min_runtime


def scope_key(scope: BudgetScope, pod: Pod, node: str) -> object:
    """Return what shares a budget with a pod."""
    return {
        BudgetScope.CLUSTER: None,
        BudgetScope.NAMESPACE: pod.metadata.namespace,
        BudgetScope.OWNER: owner(pod),
        BudgetScope.NODE: node,
    }[scope]


def overspent(
    policy: PreemptionPolicy, history: History, node: str, victims: Sequence[Pod], now: float
) -> bool:
    """Return whether a budget does not allow the victims."""
    for budget in policy.budgets:
        spent = [
            scope_key(budget.scope, pod, each.node)
            for each in history.preempted
            for pod in counted(policy, each.victims)
            if now - each.moment < budget.window
            and policy.name in {known.name for known in each.policies if known.pdbs}
        ]
        keys = [scope_key(budget.scope, pod, node) for pod in counted(policy, victims)]
        for key in keys:
            if spent.count(key) + keys.count(key) > budget.max_victims:
                return True
    return False


def too_early(policy: PreemptionPolicy, history: History, preemptor: Pod, now: float) -> bool:
    """Return whether a preemptor must wait."""
    if now - history.since.get(preemptor.uid, now) < policy.preemptor_delay:
        return True
    limit = policy.max_preemptions_per_owner
    if limit is not None:
        begun = [
            each for each in history.preempted
            if now - each.moment < limit.window
            and owner(each.preemptor) == owner(preemptor)
            and any(not pod.terminating for pod in each.victims)
            and policy.name
            in {known.name for known in each.policies if known.max_preemptions_per_owner}
        ]  # fmt: skip
        if len(begun) >= limit.max_preemptions:
            return True
    # A budget of the cluster that is spent, for every pod.
    return policy.victims == PodSelection() and any(
        overspent(_only(policy, budget), history, "", [_ANYBODY], now)
        for budget in policy.budgets
        if budget.scope is BudgetScope.CLUSTER
    )


def strict(policy: PreemptionPolicy, preemptor: Pod) -> bool:
    """Return whether disruption budgets must hold."""
    if policy.disruption_budgets is DisruptionBudgets.STRICT_BELOW:
        return preemptor.priority < policy.strict_below
    return policy.disruption_budgets is DisruptionBudgets.STRICT


def protects(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """Return whether a disruption budget, by labels only, protects a pod."""
    selector, labels = budget.spec.selector, pod.metadata.labels
    same = budget.metadata.namespace == pod.metadata.namespace
    wanted = {} if selector is None else selector.match_labels
    return same and bool(wanted) and wanted.items() <= labels.items()


def overdrawn(
    policy: PreemptionPolicy, budgets: Iterable[PodDisruptionBudget], victims: Sequence[Pod]
) -> bool:
    """Return whether victims of a policy overdraw a disruption budget; all pods count as ready."""
    going = [each for each in victims if not each.terminating]
    for pod in counted(policy, victims):
        asked = [each for each in budgets if protects(each, pod)]
        if len(asked) > 1:
            return True
        for budget in asked:
            uses = sum(protects(budget, each) for each in going)
            if uses > max(0, budget.status.disruptions_allowed):
                return True
    return False


def refuses(
    policy: PreemptionPolicy,
    budgets: Sequence[PodDisruptionBudget],
    history: History,
    wanted: Preempted,
) -> bool:
    """Return whether a policy does not allow a preemption."""
    now, preemptor, victims = wanted.moment, wanted.preemptor, wanted.victims
    most = policy.max_victims_per_preemption
    return (
        too_early(policy, history, preemptor, now)
        or any(must_stay(policy, preemptor, pod, now) for pod in victims)
        or (most is not None and len(counted(policy, victims)) > most)
        or overspent(policy, history, wanted.node, victims, now)
        or (strict(policy, preemptor) and overdrawn(policy, budgets, victims))
    )


def _only(policy: PreemptionPolicy, budget: Budget) -> PreemptionPolicy:
    return replace(policy, budgets=(budget,))


_ANYBODY = Pod()
