"""Sentences about what would help a pending pod, derived from the verdicts and the numbers.

A node is rejected by the first rule that it does not satisfy; the rules after that one have not
been checked. So each sentence states a fact about that rule alone, and does not promise that the
pod fits afterwards.

Axes: nodes that one rule rejects.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from scheduler.core.attempt.scheduling_attempt import AttemptResult
from scheduler.model.api import resources, selectors
from scheduler.model.api.objects import Node, Pod, Taint
from scheduler.model.api.pod_size import is_too_large
from scheduler.model.api.resources import CPU
from scheduler.model.api.selectors import Tolerations
from scheduler.model.times import stamp
from scheduler.observe.api.lists import slices
from scheduler.state.cluster import Cluster
from scheduler.state.columns.resource_axis import NOT_OFFERED

__all__ = ["helps"]

_HARD: Final = frozenset({"NoSchedule", "NoExecute"})
#: How many taints and labels are named.
_NAMED: Final = 3
_BYTES: Final = ("memory", "ephemeral-storage")
#: How many labels of a node selector are looked for.
_CHECKED: Final = 8
#: Nodes whose free resources are computed in one slice.
_MEASURED: Final = 200
_UNITS: Final = ("Ki", "Mi", "Gi", "Ti", "Pi")


async def helps(pod: Pod, result: AttemptResult, cluster: Cluster) -> tuple[str, ...]:
    """Return what would help a pod, one sentence each; empty where nothing can be derived.

    Args:
        pod: The pod, which fits on no node.
        result: The result of an explained attempt.
        cluster: The cluster in which it was made.
    """
    if result.node is not None or not result.trace:
        return ()
    rejected: dict[str, list[Node]] = {}
    for trace in result.trace:
        verdict = result.verdicts.get(trace.name)
        node = cluster.columns.node(trace.name)
        if verdict is not None and node is not None:
            rejected.setdefault(verdict.plugin, []).append(node)
    short = rejected.get("NodeResourcesFit", ())
    reasons = {node.metadata.name: result.verdicts[node.metadata.name].reasons for node in short}
    found = await _by_resources(pod, short, reasons, cluster)
    found += _by_taints(pod, rejected.get("TaintToleration", ()))
    found += _by_labels(pod, cluster)
    cordoned = rejected.get("NodeUnschedulable", ())
    if cordoned:
        found.append(f"{_nodes(len(cordoned))} cordoned, as {cordoned[0].metadata.name}.")
    if result.until is not None:
        found.append(f"The first veto against preemption ends at {stamp(-(-result.until // 1))}.")
    return tuple(found)


async def _by_resources(
    pod: Pod, nodes: Sequence[Node], reasons: Mapping[str, Sequence[str]], cluster: Cluster
) -> list[str]:
    """Return, for each resource that is not enough, where least of it is missing.

    Args:
        pod: The pod.
        nodes: The nodes without enough resources.
        reasons: What each of them lacks, in the words of kube-scheduler.
        cluster: The cluster.
    """
    if not nodes or is_too_large(pod) or resources.too_many(pod):
        return []
    named = {reason for found in reasons.values() for reason in found}
    requests = {
        name: amount
        for name, amount in resources.pod_requests(pod, reference=cluster.reference).items()
        if f"Insufficient {name}" in named
    }
    short: dict[str, dict[str, int]] = {}
    for part in slices(nodes, max(1, _MEASURED // (1 + len(requests) // 4))):
        for node in part:
            missing = _shortfalls(pod, requests, node, cluster)
            if missing is not None and len(missing) == len(reasons[node.metadata.name]):
                short[node.metadata.name] = missing
        await asyncio.sleep(0)
    return [*_too_large(requests, nodes, cluster), *_least(short)]


def _too_large(
    requests: Mapping[str, int], nodes: Sequence[Node], cluster: Cluster
) -> Iterator[str]:
    """Yield the resources of which no node has as much as is requested."""
    for name, wanted in sorted(requests.items()):
        if cluster.axis.code(name) == NOT_OFFERED:
            yield f"No node offers {name}."
            continue
        largest = max(_allocatable(node, name, cluster) for node in nodes)
        if largest < wanted:
            yield (
                f"None of the {len(nodes)} nodes that lack resources is large enough: the pod "
                f"requests {_amount(name, wanted)} {name}, and the largest of them has "
                f"{_amount(name, largest)}."
            )


def _least(short: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield the node that lacks a single resource, and least of it, for each resource."""
    best: dict[str, tuple[int, str]] = {}
    count: Counter[str] = Counter()
    for node, missing in short.items():
        if len(missing) == 1:
            ((name, amount),) = missing.items()
            count[name] += 1
            best[name] = min(best.get(name, (amount, node)), (amount, node))
    for name, (amount, node) in sorted(best.items()):
        others = f", the least of {count[name]} nodes" if count[name] > 1 else ""
        yield f"Node {node} lacks only {_amount(name, amount)} {name}{others}."


def _shortfalls(
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
    return missing | ({"pods": pods} if pods > 0 else {})


def _allocatable(node: Node, resource: str, cluster: Cluster) -> int:
    row = cluster.columns.row(node.metadata.name)
    return 0 if row is None else cluster.columns.allocatable(cluster.axis.code(resource))[row]


def _by_taints(pod: Pod, nodes: Sequence[Node]) -> Iterator[str]:
    """Yield the taints that keep the pod off most nodes."""
    tolerated = Tolerations(pod.spec.tolerations)
    # Many nodes have equal taints.
    sets = Counter(
        tuple((taint.key, taint.value, taint.effect) for taint in node.spec.taints)
        for node in nodes
    )
    counts: Counter[str] = Counter()
    for taints, number in sets.items():
        missing = {
            f"{key}={value}:{effect}" if value else f"{key}:{effect}"
            for key, value, effect in taints
            if selectors.untolerated([Taint(key, value, effect)], tolerated, _HARD)
        }
        if len(missing) == 1:
            counts[missing.pop()] += number
    for taint, number in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_NAMED]:
        yield f"Tolerate the taint {taint}: it alone rejects {_count(number)} by taints."


def _by_labels(pod: Pod, cluster: Cluster) -> Iterator[str]:
    """Yield the labels that the pod's node selector requires and that no node has."""
    labels = cluster.columns.labels
    missing = []
    for key, value in sorted((pod.spec.node_selector or {}).items())[:_CHECKED]:
        nodes = (node for node in cluster.columns.nodes if node is not None)
        has = labels.exists(key) and any(node.metadata.labels.get(key) == value for node in nodes)
        if not has:
            missing.append(f"{key}={value}")
    for label in missing[:_NAMED]:
        yield f"No node has the label {label}, which the pod's nodeSelector requires."


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


def _count(number: int) -> str:
    return "1 node" if number == 1 else f"{number} nodes"


def _nodes(number: int) -> str:
    return "1 node is" if number == 1 else f"{number} nodes are"
