"""Documents about nodes: what they have, and the use of it by priority.

Axes: n rows of a slice, S slots of the pods on them, G groups of pods of one row and priority.
"""

import asyncio
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from typing import Final

import numpy as np

from scheduler.model.api.objects import Node, Taint
from scheduler.model.api.resources import CPU, MEMORY
from scheduler.model.rest.cluster import (
    LabelsDocument,
    LabelView,
    NodeDocument,
    NodeUsage,
    PriorityUse,
    ResourceUse,
)
from scheduler.model.rest.common import PodView
from scheduler.observe.api.lists import PAUSE_SECONDS, slices
from scheduler.observe.api.views import placed_view, seen_by
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Int

__all__ = ["MAX_LABELS", "NodeViews", "label_keys"]

#: How many labels of each node can be asked for.
MAX_LABELS: Final = 16
#: Nodes whose labels are counted at a time.
_LABELLED: Final = 200


def label_keys(text: str) -> tuple[str, ...]:
    """Return the label keys of a query parameter, separated by commas.

    Raises:
        ValueError: There are too many.
    """
    keys = tuple(dict.fromkeys(filter(None, text.split(","))))
    if len(keys) > MAX_LABELS:
        raise ValueError(f"labels must name at most {MAX_LABELS} keys")
    return keys


class NodeViews:
    """Makes views of nodes.

    Args:
        cluster: The cluster that they show.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def names(self) -> list[str]:
        """Return the names of all nodes, sorted."""
        return sorted(node.metadata.name for node in self._cluster.columns.nodes if node)

    def of(self, names: Sequence[str], labels: Sequence[str] = ()) -> list[NodeUsage]:
        """Return the views of some nodes; those that are gone are left out.

        Some 20 µs for a node with 30 pods.
        """
        columns = self._cluster.columns
        found: list[tuple[int, Node]] = []
        for name in names:
            row, node = columns.row(name), columns.node(name)
            if row is not None and node is not None:
                found.append((row, node))
        use = self._priorities([row for row, _ in found])
        views = []
        for row, node in found:
            known = node.metadata.labels
            views.append(
                NodeUsage(
                    name=node.metadata.name,
                    unschedulable=node.spec.unschedulable,
                    labels={key: known[key] for key in labels if key in known},
                    resources=self._resources(row),
                    priorities=(*use.get(row, ()), *self._nominated(node.metadata.name)),
                )
            )
        return views

    def _resources(self, row: int) -> dict[str, ResourceUse]:
        columns = self._cluster.columns
        resources = {
            "pods": ResourceUse(int(columns.allowed_pods()[row]), int(columns.pods()[row]))
        }
        for code, name in enumerate(self._cluster.axis.values):
            allocatable, requested = columns.allocatable(code)[row], columns.requested(code)[row]
            if name and (allocatable or requested):
                resources[name] = ResourceUse(allocatable, requested)
        return resources

    def _priorities(self, rows: Sequence[int]) -> dict[int, list[PriorityUse]]:
        """Return the use of each row by priority, highest first."""
        cluster = self._cluster
        pods = cluster.pods
        on_rows = [pods.on_row(row) for row in rows]
        flat = [slot for slots in on_rows for slot in slots]
        if not flat:
            return {}
        slots: Int = np.array(flat, dtype=np.int64)
        of_row = np.repeat(np.array(rows), [len(each) for each in on_rows])
        priority = pods.priorities(slots)
        order = np.lexsort((-priority, of_row))
        of_row, priority, slots = of_row[order], priority[order], slots[order]
        starts = np.flatnonzero(
            np.r_[True, (of_row[1:] != of_row[:-1]) | (priority[1:] != priority[:-1])]
        )
        cpu, memory = (self._sums(slots, starts, name) for name in (CPU, MEMORY))
        gone = np.fromiter(
            (cluster.is_being_deleted(pods.pod(slot)) for slot in slots.tolist()),
            dtype=np.int64,
            count=slots.shape[0],
        )
        columns = (
            of_row[starts], priority[starts], np.diff(starts, append=slots.shape[0]), cpu, memory,
            np.add.reduceat(gone, starts),
        )  # fmt: skip
        use: dict[int, list[PriorityUse]] = {}
        for row, *numbers in zip(*(column.tolist() for column in columns), strict=True):
            use.setdefault(row, []).append(PriorityUse(*numbers))
        return use

    def _sums(self, slots: Int, starts: Int, resource: str) -> Int:
        """Return, (G,), how much of a resource each group of slots requests."""
        cluster = self._cluster
        amounts = cluster.footprints.amounts(cluster.axis.code(resource))
        sums: Int = np.add.reduceat(amounts[cluster.pods.footprint_codes(slots)], starts)
        return sums

    def _nominated(self, name: str) -> Iterable[PriorityUse]:
        """Yield the use by pods that are nominated to a node, highest priority first."""
        cluster = self._cluster
        nominations = cluster.nominations.on_node(name)
        if not nominations:
            return
        pods: Counter[int] = Counter()
        amounts: dict[tuple[int, str], int] = {}
        for nomination in nominations:
            priority = nomination.pod.priority
            pods[priority] += 1
            for code, amount in cluster.pods.footprint(nomination.slot).requests:
                key = (priority, cluster.axis.values[code])
                amounts[key] = amounts.get(key, 0) + amount
        for priority in sorted(pods, reverse=True):
            cpu, memory = (amounts.get((priority, name), 0) for name in (CPU, MEMORY))
            yield PriorityUse(priority, pods[priority], cpu, memory, nominated=True)

    def namespaces_on(self, name: str) -> frozenset[str]:
        """Return the namespaces of the pods on a node and nominated to it.

        Raises:
            LookupError: There is no such node.
        """
        pods, nominated = self._pods(name)
        return frozenset(view.namespace for view in (*pods, *nominated))

    def single(self, name: str, visible: Container[str]) -> NodeDocument:
        """Return a node with its pods, most important first.

        Args:
            name: The name of the node.
            visible: The namespaces whose pods may be named.

        Raises:
            LookupError: There is no such node.
        """
        pods, nominated = self._pods(name)
        node = self._node(name)
        everything = (*pods, *nominated)
        return NodeDocument(
            node=self.of([name])[0],
            labels=node.metadata.labels,
            taints=tuple(map(_taint, node.spec.taints)),
            pods=tuple(seen_by(view, visible) for view in pods),
            nominated=tuple(seen_by(view, visible) for view in nominated),
            hidden=sum(view.namespace not in visible for view in everything),
        )

    def _pods(self, name: str) -> tuple[list[PodView], list[PodView]]:
        """Return the pods on a node and those nominated to it, by falling priority."""
        self._node(name)
        cluster = self._cluster
        row = cluster.columns.row(name)
        slots = () if row is None else cluster.pods.on_row(row)
        waiting = [nomination.slot for nomination in cluster.nominations.on_node(name)]
        found = []
        for group in (slots, waiting):
            views = [
                placed_view(cluster.pods.pod(slot), cluster.pods.footprint(slot), cluster)
                for slot in group
            ]
            found.append(sorted(views, key=lambda view: -view.priority))
        return found[0], found[1]

    def _node(self, name: str) -> Node:
        node = self._cluster.columns.node(name)
        if node is None:
            raise LookupError(f'node "{name}" is not known to this scheduler')
        return node

    async def labels(self) -> LabelsDocument:
        """Return the label keys of all nodes, the most frequent ones first."""
        values: dict[str, Counter[str]] = {}
        nodes = [node for node in self._cluster.columns.nodes if node is not None]
        for part in slices(nodes, _LABELLED):
            for node in part:
                for key, value in node.metadata.labels.items():
                    values.setdefault(key, Counter())[value] += 1
            await asyncio.sleep(PAUSE_SECONDS)
        counts: list[tuple[int, str, int]] = []
        for some in slices(values.items(), _LABELLED):
            counts += [(-sum(of.values()), key, len(of)) for key, of in some]
            await asyncio.sleep(0)
        counts.sort()
        items: list[LabelView] = []
        for found in slices(counts, _LABELLED):
            await asyncio.sleep(0)
            items += [LabelView(key, -nodes, number) for nodes, key, number in found]
        return LabelsDocument(tuple(items))


def _taint(taint: Taint) -> str:
    key, value = taint.key, taint.value
    return f"{key}={value}:{taint.effect}" if value else f"{key}:{taint.effect}"
