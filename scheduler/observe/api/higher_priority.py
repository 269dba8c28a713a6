"""Who holds the space that a pending pod lacks, and which priority would make some of it free.

Only what a sum of requests can tell is computed here; whether a preemption with that priority would
be planned is for an attempt to say.

Axes: nodes without enough resources, and the pods on each.
"""

import asyncio
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from typing import Final, NamedTuple

from scheduler.core.attempt.node_results import NodeResult, NodeResults
from scheduler.core.attempt.scheduling_attempt import AttemptResult
from scheduler.core.preemption.dry_run_result import EvictionOutcome
from scheduler.model.api import resources
from scheduler.model.api.objects import Pod
from scheduler.model.api.pod_size import is_too_large
from scheduler.model.messages import amount, count, joined
from scheduler.observe.api.lists import slices
from scheduler.observe.api.suggestions import PODS, shortfalls
from scheduler.state.cluster import Cluster

__all__ = ["SpaceHeld", "held_on", "space_held"]

#: The highest priority that a user can give to a pod.
#: Source: kubernetes v1.36.3 pkg/apis/scheduling.HighestUserDefinablePriority.
_HIGHEST: Final = 1_000_000_000
#: How many victims are named.
_NAMED: Final = 3
#: Nodes that are looked at in one slice.
_SLICE: Final = 20
_RESOURCES: Final = "NodeResourcesFit"


class SpaceHeld(NamedTuple):
    """What a pod lacks on one node, and who holds it."""

    node: str
    #: Evicting the pods up to this priority would be enough.
    priority: int
    #: The lowest priority on the node that the pod cannot evict.
    lowest: int
    #: The resource that is missing, how much of it these pods hold, and how much there is.
    resource: str
    held: int
    allocatable: int

    def text(self, victims: Sequence[Pod], node: str, visible: Container[str]) -> str:
        """Return the sentence.

        Args:
            victims: The pods that a preemption with a higher priority would evict.
            node: Where it would evict them.
            visible: The namespaces whose pods the reader may see.
        """
        seen = [pod.metadata for pod in victims if pod.metadata.namespace in visible][:_NAMED]
        more = len(victims) - len(seen)
        evicted = [f"{each.namespace}/{each.name}" for each in seen]
        evicted += [f"{more} more" if seen else count(more, "pod")] if more else []
        of = amount(self.resource, self.allocatable)
        all_of = (
            f"All {of}"
            if self.held == self.allocatable
            else (f"{amount(self.resource, self.held)} of {of}")
        )
        return (
            f"{all_of} {self.resource} of {self.node} are held by pods of priority {self.lowest} or"
            f" higher: a priority above {self.priority} would preempt, and evict"
            f" {joined(evicted)} on {node}."
        )


async def space_held(pod: Pod, result: AttemptResult, cluster: Cluster) -> SpaceHeld | None:
    """Return the node where the lowest priority would be enough; `None` where none would.

    Args:
        pod: A pod that fits on no node, and that no preemption helps.
        result: The result of an explained attempt.
        cluster: The cluster.
    """
    if pod.spec.preemption_policy == "Never" or is_too_large(pod) or resources.too_many(pod):
        return None
    requests = resources.pod_requests(pod, reference=cluster.reference)
    best: SpaceHeld | None = None
    for part in slices(result.results, _SLICE):
        for each in part:
            held = _held_on(each, pod, requests, cluster)
            if held is not None and (best is None or held.priority < best.priority):
                best = held
        await asyncio.sleep(0)
    return best


def held_on(
    node: str, held: SpaceHeld, pod: Pod, result: AttemptResult, cluster: Cluster
) -> SpaceHeld:
    """Return who holds the space of the node that a preemption with that priority would choose.

    Args:
        node: The node.
        held: What was found on a node that needs no higher priority.
        pod: The pod.
        result: The result of the attempt with its own priority.
        cluster: The cluster.
    """
    found = result.results.of(node) if isinstance(result.results, NodeResults) else None
    requests = resources.pod_requests(pod, reference=cluster.reference)
    own = None if found is None else _held_on(found, pod, requests, cluster)
    return held if own is None else own._replace(priority=held.priority)


def _held_on(
    each: NodeResult, pod: Pod, requests: Mapping[str, int], cluster: Cluster
) -> SpaceHeld | None:
    node = cluster.columns.node(each.name)
    if node is None or each.verdict is None or each.verdict.plugin != _RESOURCES:
        return None
    if each.outcome not in (EvictionOutcome.NO_VICTIMS, EvictionOutcome.NOT_ENOUGH):
        return None
    missing = shortfalls(pod, requests, node, cluster)
    row = cluster.columns.row(each.name)
    if not missing or row is None:
        return None
    on_node = sorted(
        ((cluster.pods.pod(slot).priority, slot) for slot in cluster.pods.on_row(row)),
    )
    stay = [(priority, slot) for priority, slot in on_node if priority >= pod.priority]
    enough = _enough(on_node, missing, cluster)
    if not stay or enough is None or not pod.priority <= enough < _HIGHEST:
        return None
    resource = next(iter(missing))
    held = sum(_used(slot, cluster).get(resource, 0) for _, slot in stay)
    return SpaceHeld(
        each.name, enough, stay[0][0], resource, held, _offered(resource, row, cluster)
    )


def _enough(
    on_node: Sequence[tuple[int, int]], missing: Mapping[str, int], cluster: Cluster
) -> int | None:
    """Return up to which priority pods have to go, so that nothing is missing.

    Args:
        on_node: Priority and slot of the pods of a node, the lowest priority first.
        missing: How much of each resource is missing there.
        cluster: The cluster.
    """
    freed: Counter[str] = Counter()
    for priority, slot in on_node:
        freed.update(_used(slot, cluster))
        if all(freed[resource] >= wanted for resource, wanted in missing.items()):
            return priority
    return None


def _used(slot: int, cluster: Cluster) -> dict[str, int]:
    names = cluster.axis.values
    used = {names[code]: amount for code, amount in cluster.pods.footprint(slot).requests}
    return {**used, PODS: 1}


def _offered(resource: str, row: int, cluster: Cluster) -> int:
    columns, code = cluster.columns, cluster.axis.code(resource)
    return int((columns.allowed_pods() if resource == PODS else columns.allocatable(code))[row])
