"""Policies for tests, and what was said about a preemption."""

from collections.abc import Callable
from typing import Any, TypeVar

from scheduler.model.api.objects import LabelSelector
from scheduler.model.api.selectors import Selector
from scheduler.model.decisions import Decision, Preempting, Unschedulable
from scheduler.model.policies import Budget, BudgetScope, PodSelection, PreemptionPolicy
from tests.support.builders import PodBuilder, at, node, pod
from tests.support.cluster import Cluster

__all__ = [
    "HOUR",
    "at_most",
    "crowd",
    "labelled",
    "none",
    "policy",
    "refused",
    "row",
    "running",
    "shown",
    "told",
    "until",
    "victims",
    "wants",
]

Test = TypeVar("Test", bound=Callable[[], None])

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


def running(name: str, where: str = "n1", cpu: str = "2", priority: int = 0) -> PodBuilder:
    """Return a pod on a node, started long ago."""
    return pod(name).on(where).cpu(cpu).priority(priority)


def wants(name: str = "high", cpu: str = "4", priority: int = 100) -> PodBuilder:
    """Return a pod that needs a whole node."""
    return pod(name).cpu(cpu).priority(priority)


def nodes(*names: str, cpu: str = "4") -> list[Any]:
    """Return some nodes."""
    return [node(name).cpu(cpu) for name in names]


def victims(decision: Decision) -> list[str]:
    """Return the names of the victims of a decision."""
    assert isinstance(decision, Preempting), decision
    return [ref.name for ref in decision.victims]


def refused(decision: Decision) -> str:
    """Return what preemption said about a pod that it did not help."""
    assert isinstance(decision, Unschedulable), decision
    return decision.message.partition(SAID)[2]


def shown(cluster: Cluster, name: str = "high") -> dict[str, tuple[str, ...]]:
    """Return the vetoes to evicting pods from each node, as the debug page shows them."""
    queued = cluster.machine.queue.get(cluster.ref(name).uid)
    outcome, _ = cluster.machine.explain(queued, cluster.now)
    return {each.name: tuple(map(str, each.vetoes)) for each in outcome.results if each.vetoes}


# The table in docs/preemption-policy.md


def row(name: str) -> Callable[[Test], Test]:
    """Mark a test as that of a row of the table; `test_policy_rows.py` compares the names."""
    assert name
    return lambda test: test


def crowd(count: int, **facts: Any) -> list[Any]:
    """Return nodes, each filled by one pod, and these pods."""
    names = [f"n{number + 1}" for number in range(count)]
    return [*nodes(*names), *(running(f"low-{name}", name, "4", **facts) for name in names)]


def told(rule: str, name: str = "p") -> str:
    """Return what is said when a policy refuses."""
    return f'PreemptionPolicy "{name}" refuses: {rule}'


def none(nodes: int, *reasons: str) -> str:
    """Return what is said when no node remains."""
    return f"0/{nodes} nodes are available: {', '.join(reasons)}."


def until(seconds: float) -> str:
    """Return how a message says when something ends; the clusters begin 1000 s after the epoch."""
    return f" (until {at(1000 + seconds)})"
