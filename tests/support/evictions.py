"""A preemptor with two victims on one node, and what has come of its preemption."""

from scheduler.model.effects import Evict
from tests.support.builders import PodBuilder, node, pod
from tests.support.cluster import Cluster

__all__ = ["HIGH", "asked", "two_victims", "victim", "wasted"]

HIGH = pod("high").cpu("4").priority(100)


def victim(name: str, priority: int = 0, cpu: str = "2", on: str = "n1") -> PodBuilder:
    return pod(name).on(on).cpu(cpu).priority(priority)


def two_victims() -> Cluster:
    return Cluster(node("n1").cpu("4"), victim("a", 2), victim("b", 1))


def asked(cluster: Cluster) -> list[str]:
    """Return the pods whose eviction was requested, in order."""
    return [each.victim.name for each in cluster.asked(Evict) if isinstance(each, Evict)]


def wasted(cluster: Cluster) -> dict[str, int]:
    """Return the number of wasted victims, by reason."""
    return dict(cluster.machine.preemptions.state.waste.wasted_evictions)
