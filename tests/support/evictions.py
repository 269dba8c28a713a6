"""A preemptor with two victims on one node, and what has come of its preemption."""

from scheduler.core.eviction.plan import Placement
from scheduler.core.preemption.policy.charge import Charge
from scheduler.model.effects import Evict
from tests.support.builders import PodBuilder, node, pod
from tests.support.cluster import Cluster

__all__ = ["FREE", "HIGH", "asked", "begin", "two_victims", "victim", "wasted"]

FREE = Charge()
HIGH = pod("high").cpu("4").priority(100)


def victim(name: str, priority: int = 0, cpu: str = "2", on: str = "n1") -> PodBuilder:
    return pod(name).on(on).cpu(cpu).priority(priority)


def two_victims() -> Cluster:
    return Cluster(node("n1").cpu("4"), victim("a", 2), victim("b", 1))


def begin(cluster: Cluster, *placed: str, charge: Charge = FREE) -> None:
    """Begin one plan for the active pods, each with its node and its victims."""
    machine, now = cluster.machine, cluster.now
    placements = []
    for word in placed:
        where, names = word.partition("@")[2].split("=")
        queued = machine.queue.pop(now)
        assert queued is not None
        assert word.startswith(queued.pod.metadata.name)
        machine.queue.begin_preemption(queued, frozenset({"NodeResourcesFit"}), now)
        found = (machine.cluster.find_pod(cluster.ref(name).uid) for name in names.split(","))
        victims = tuple(filter(None, found))
        placements.append(Placement.of(queued.pod, where, victims, machine.cluster))
    machine.preemptions.carry_out(tuple(placements), charge, "no node fits", now)
    cluster.wait(0)


def asked(cluster: Cluster) -> list[str]:
    """Return the pods whose eviction was requested, in order."""
    return [each.victim.name for each in cluster.asked(Evict) if isinstance(each, Evict)]


def wasted(cluster: Cluster) -> dict[str, int]:
    """Return the number of wasted victims, by reason."""
    return dict(cluster.machine.preemptions.state.waste.wasted_evictions)
