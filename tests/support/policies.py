"""Policies for tests, and what was said about a preemption."""

from typing import Any

from scheduler.model.api.objects import LabelSelector
from scheduler.model.api.selectors import Selector
from scheduler.model.decisions import Decision, Preempting, Unschedulable
from scheduler.model.policies import Budget, BudgetScope, PodSelection, PreemptionPolicy
from tests.support.builders import PodBuilder, node, pod
from tests.support.cluster import Cluster

__all__ = ["HOUR", "at_most", "guest", "labelled", "policy", "refused", "shown", "victims", "wants"]

HOUR = 3600.0
#: What stands before what preemption says.
SAID = "no new claims to deallocate, preemption: "


def policy(name: str = "p", **rules: Any) -> PreemptionPolicy:
    """Return a policy with some rules."""
    return PreemptionPolicy(name, **rules)


def at_most(
    victims: int, scope: BudgetScope = BudgetScope.CLUSTER, window: float = HOUR
) -> tuple[Budget, ...]:
    """Return a budget, alone."""
    return (Budget(victims, window, scope),)


def labelled(**labels: str) -> Selector:
    """Return a selector for labels."""
    return Selector.of(LabelSelector(match_labels=labels))


def app(name: str) -> PodSelection:
    """Return the pods of an application."""
    return PodSelection(pods=labelled(app=name))


def guest(name: str, where: str = "n1", cpu: str = "2", priority: int = 0) -> PodBuilder:
    """Return a pod on a node, started long ago."""
    return pod(name).on(where).cpu(cpu).priority(priority)


def wants(name: str = "high", cpu: str = "4", priority: int = 100) -> PodBuilder:
    """Return a pod that needs a whole node."""
    return pod(name).cpu(cpu).priority(priority)


def nodes(*names: str, cpu: str = "4") -> list[Any]:
    """Return some nodes."""
    return [node(name).cpu(cpu) for name in names]


def victims(decision: Decision) -> list[str]:
    """Return whom a decision costs, by name."""
    assert isinstance(decision, Preempting), decision
    return [ref.name for ref in decision.victims]


def refused(decision: Decision) -> str:
    """Return what preemption said about a pod that it did not help."""
    assert isinstance(decision, Unschedulable), decision
    return decision.message.partition(SAID)[2]


def shown(cluster: Cluster, name: str = "high") -> dict[str, tuple[str, ...]]:
    """Return what is said against evicting pods from each node, for those who ask why."""
    queued = cluster.machine.queue.get(cluster.ref(name).uid)
    outcome, _ = cluster.machine.explain(queued, cluster.now)
    return {each.name: each.objections for each in outcome.trace if each.objections}
