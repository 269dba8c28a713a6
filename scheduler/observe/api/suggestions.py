"""Sentences about what would help a pending pod, derived from the verdicts and the numbers.

A node is rejected by the first rule that it does not satisfy; the rules after that one have not
been checked. So each sentence states a fact about that rule alone, and does not promise that the
pod fits afterwards.

Axes: nodes that one rule rejects.
"""

import asyncio
import heapq
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from scheduler.core.attempt.scheduling_attempt import AttemptResult
from scheduler.model.api import resources, selectors
from scheduler.model.api.objects import Node, Pod, Taint
from scheduler.model.api.pod_size import is_too_large
from scheduler.model.api.resources import CPU
from scheduler.model.api.selectors import Tolerations
from scheduler.model.messages import count
from scheduler.model.times import stamp
from scheduler.observe.api.lists import slices
from scheduler.observe.api.rejections import KEPT, RejectedNode, Rejections
from scheduler.state.cluster import Cluster
from scheduler.state.columns.resource_axis import NOT_OFFERED

__all__ = ["PODS", "shortfalls", "suggestions"]

TaintSet: TypeAlias = tuple[tuple[str, str, str], ...]

_HARD: Final = frozenset({"NoSchedule", "NoExecute"})
#: How many taints and labels are named.
_NAMED: Final = 3
_BYTES: Final = ("memory", "ephemeral-storage")
#: How many labels of a node selector are looked for.
_CHECKED: Final = 8
#: Nodes whose free resources are computed in one slice, for a single resource.
_MEASURED: Final = 200
#: Nodes whose labels or taints are looked at in one slice.
_LOOKED_AT: Final = 200
_RESOURCES: Final = "NodeResourcesFit"
#: The resource of which each pod takes one.
PODS: Final = "pods"
_UNITS: Final = ("Ki", "Mi", "Gi", "Ti", "Pi")


async def suggestions(
    pod: Pod, result: AttemptResult, groups: Rejections, nodes: Mapping[str, Node], cluster: Cluster
) -> tuple[str, ...]:
    """Return what would help a pod, one sentence each; empty where nothing can be derived.

    Args:
        pod: The pod, which fits on no node.
        result: The result of an explained attempt.
        groups: The nodes that reject the pod.
        nodes: All nodes at its moment, by name.
        cluster: The cluster in which it was made.
    """
    if result.node is not None or not result.results:
        return ()
    found = await _by_resources(pod, await groups.rejected_by(_RESOURCES, nodes), cluster)
    found += await _by_taints(pod, await groups.rejected_by("TaintToleration", nodes))
    found += await _by_labels(pod, nodes.values(), cluster)
    cordoned = await groups.rejected_by("NodeUnschedulable", nodes)
    if cordoned:
        found.append(f"{_nodes(len(cordoned))} cordoned, as {cordoned[0].name}.")
    if kept := sum(nodes[KEPT] for nodes in groups.evictions.values()):
        found.append(
            f"On {count(kept, 'node')}, pods that preempted for devices have not taken them yet:"
            " this pod gets them if they do not, and now with a higher priority than theirs."
        )
    if (until := result.post_filter.until) is not None:
        found.append(
            f"The first time limit that blocks preemption ends at {stamp(-(-until // 1))}."
        )
    return tuple(found)


async def _by_resources(pod: Pod, nodes: Sequence[RejectedNode], cluster: Cluster) -> list[str]:
    """Return, for each resource that is not enough, where least of it is missing.

    Args:
        pod: The pod.
        nodes: The nodes without enough resources.
        cluster: The cluster.
    """
    if not nodes or is_too_large(pod) or resources.too_many(pod):
        return []
    named: set[str] = set()
    for part in slices(nodes, _LOOKED_AT):
        named.update(*(each.reasons for each in part))
        await asyncio.sleep(0)
    wanted = resources.pod_requests(pod, reference=cluster.reference)
    requests = {name: amount for name, amount in wanted.items() if f"Insufficient {name}" in named}
    best = _Best(requests)
    for part in slices(nodes, max(1, _MEASURED // (1 + len(requests)))):
        for each in part:
            missing = shortfalls(pod, requests, each.node, cluster)
            if missing is not None and len(missing) == len(each.reasons):
                best.add_missing(each.name, missing)
            best.add_allocatable(each.name, cluster)
        await asyncio.sleep(0)
    return [*best.too_large(cluster), *best.least(), *best.one_more(wanted, cluster)]


class _Best:
    """The nodes that have most of what a pod requests, collected node by node."""

    def __init__(self, requests: Mapping[str, int]) -> None:
        self._requests = requests
        self._largest = dict.fromkeys(requests, 0)
        #: For each resource, the least that a node lacks of it alone, and the node.
        self._least: dict[str, tuple[int, str]] = {}
        self._count: Counter[str] = Counter()
        #: Nodes that are still there.
        self._nodes = 0
        #: How often what is not enough fits on an empty node, negative, and the node.
        self._roomiest: tuple[int, str] = (0, "")

    def add_missing(self, node: str, missing: Mapping[str, int]) -> None:
        """Add a node with all that it lacks."""
        if len(missing) == 1:
            ((name, amount),) = missing.items()
            self._count[name] += 1
            self._least[name] = min(self._least.get(name, (amount, node)), (amount, node))

    def add_allocatable(self, node: str, cluster: Cluster) -> None:
        """Add what a node has when it is empty."""
        row, columns, largest = cluster.columns.row(node), cluster.columns, self._largest
        self._nodes += row is not None
        if row is None:
            return
        for name in self._requests:
            code = cluster.axis.code(name)
            if code != NOT_OFFERED:
                largest[name] = max(largest[name], columns.allocatable(code)[row])
        self._roomiest = min(self._roomiest, (-_room(self._requests, row, cluster), node))

    def too_large(self, cluster: Cluster) -> Iterator[str]:
        """Yield the resources of which no node has as much as is requested."""
        for name, wanted in sorted(self._requests.items()):
            largest = self._largest[name]
            if cluster.axis.code(name) == NOT_OFFERED:
                yield f"No node offers {name}."
            elif largest < wanted and self._nodes:
                yield (
                    f"None of the {self._nodes} nodes that lack resources is large enough: the pod "
                    f"requests {_amount(name, wanted)} {name}, and the largest of them has "
                    f"{_amount(name, largest)}."
                )

    def least(self) -> Iterator[str]:
        """Yield the node that lacks a single resource, and least of it, for each resource."""
        for name, (amount, node) in sorted(self._least.items()):
            nodes = self._count[name]
            others = f", the least of {nodes} nodes" if nodes > 1 else ""
            yield f"Node {node} lacks only {_amount(name, amount)} {name}{others}."

    def one_more(self, wanted: Mapping[str, int], cluster: Cluster) -> Iterator[str]:
        """Yield for how many such pods one more node would have room."""
        _, node = self._roomiest
        row = cluster.columns.row(node)
        if row is not None and (room := _room(wanted, row, cluster)):
            pods = count(room, "such pod")
            yield f"One more node like {node} would have room for {pods} while it is empty."


def _room(wanted: Mapping[str, int], row: int, cluster: Cluster) -> int:
    """Return how many pods with these requests fit on a node when it is empty."""
    axis, columns = cluster.axis, cluster.columns
    codes = {axis.code(name): amount for name, amount in wanted.items() if amount}
    fits = (
        0 if code == NOT_OFFERED else int(columns.allocatable(code)[row]) // amount
        for code, amount in codes.items()
    )
    return min((int(columns.allowed_pods()[row]), *fits))


def shortfalls(
    pod: Pod, requests: Mapping[str, int], node: Node, cluster: Cluster
) -> dict[str, int] | None:
    """Return how much of each resource a node lacks; nominated pods that count are counted.

    Returns:
        `None` for a node that is too small even when it is empty.
    """
    columns, axis, name = cluster.columns, cluster.axis, node.metadata.name
    row = columns.row(name)
    if row is None:
        return None
    nominated = [
        dict(cluster.pods.footprint(nomination.slot).requests)
        for nomination in cluster.nominations.on_node(name)
        if nomination.pod.priority >= pod.priority and nomination.pod.uid != pod.uid
    ]
    missing = {}
    for resource, wanted in requests.items():
        code = axis.code(resource)
        offered = 0 if code == NOT_OFFERED else columns.allocatable(code)[row]
        if offered < wanted:
            return None
        used = 0 if code == NOT_OFFERED else columns.requested(code)[row]
        free = offered - used - sum(other.get(code, 0) for other in nominated)
        if free < wanted:
            missing[resource] = wanted - free
    pods = int(columns.pods()[row]) + len(nominated) + 1 - int(columns.allowed_pods()[row])
    return missing | ({PODS: pods} if pods > 0 else {})


async def _by_taints(pod: Pod, nodes: Sequence[RejectedNode]) -> list[str]:
    """Return the taints that keep the pod off most nodes."""
    tolerated = Tolerations(pod.spec.tolerations)
    # Many nodes have equal taints.
    sets: Counter[TaintSet] = Counter()
    for part in slices(nodes, _LOOKED_AT):
        sets.update(
            tuple((taint.key, taint.value, taint.effect) for taint in each.node.spec.taints)
            for each in part
        )
        await asyncio.sleep(0)
    counts: Counter[str] = Counter()
    for some in slices(sets.items(), _LOOKED_AT):
        for taints, number in some:
            missing = _untolerated(taints, tolerated)
            if len(missing) == 1:
                counts[missing.pop()] += number
        await asyncio.sleep(0)
    most = heapq.nsmallest(_NAMED, counts.items(), key=lambda item: (-item[1], item[0]))
    return [
        f"Add a toleration for the taint {taint}: it is the only untolerated taint on"
        f" {count(number, 'node')}."
        for taint, number in most
    ]


def _untolerated(taints: TaintSet, tolerated: Tolerations) -> set[str]:
    return {
        f"{key}={value}:{effect}" if value else f"{key}:{effect}"
        for key, value, effect in taints
        if selectors.untolerated([Taint(key, value, effect)], tolerated, _HARD)
    }


async def _by_labels(pod: Pod, nodes: Collection[Node], cluster: Cluster) -> list[str]:
    """Return the labels that the pod's node selector requires and that no node has."""
    missing = []
    for key, value in sorted((pod.spec.node_selector or {}).items())[:_CHECKED]:
        has = False
        if cluster.columns.labels.exists(key):
            for part in slices(nodes, _LOOKED_AT):
                has = has or any(node.metadata.labels.get(key) == value for node in part)
                await asyncio.sleep(0)
        if not has:
            missing.append(f"{key}={value}")
    return [
        f"No node has the label {label}, which the pod's nodeSelector requires."
        for label in missing[:_NAMED]
    ]


def _amount(resource: str, amount: int) -> str:
    """Return an amount as in a manifest."""
    if resource == CPU:
        return f"{amount // 1000}" if amount % 1000 == 0 else f"{amount}m"
    unit, number = "", amount
    for larger in _UNITS if resource in _BYTES else ():
        if number % 1024 or number == 0:
            break
        unit, number = larger, number // 1024
    return f"{number}{unit}"


def _nodes(number: int) -> str:
    return "1 node is" if number == 1 else f"{number} nodes are"
