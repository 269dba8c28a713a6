"""Adapters that run the simple form of plugins, one node at a time, as compiled rules.

They cost one call for each remaining node in each attempt; nothing is cached.

Axes: n rows of a view.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from scheduler.framework.plugin import (
    MAX_SCORE,
    CompiledFilter,
    CompiledScore,
    NodeFilter,
    NodeScore,
    PluginError,
    Reads,
)
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.api.objects import Node, Pod
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Codes, Scores
from scheduler.state.pods.pod_table import PodTable
from scheduler.state.views.node_view import NodeView

__all__ = ["NodeFilterAdapter", "NodeScoreAdapter"]


class NodeFilterAdapter(CompiledFilter):
    """Runs a `NodeFilter` on the nodes that pass all other filters."""

    reads: Reads = Reads.CLUSTER
    monotone: bool = False

    def __init__(self, plugin: NodeFilter, pod: Pod, cluster: Cluster, verdicts: Verdicts) -> None:
        self._plugin = plugin
        self._pod = pod
        self._pods = cluster.pods
        self._codes = [
            verdicts.code(Verdict(plugin.name, (reason,), resolvable=True)) if index else 0
            for index, reason in enumerate(plugin.reasons)
        ]

    def codes(self, nodes: NodeView) -> Codes:
        """Return, (n,), the code of the reason that the plugin gives for each node."""
        codes = np.zeros(len(nodes), dtype=np.uint16)
        for position, node, pods in _nodes_with_pods(nodes, self._pods):
            index = self._plugin.filter_node(self._pod, node, pods)
            if not _is_integer(index) or not 0 <= index < len(self._codes):
                raise PluginError(
                    f"filter_node returned {index!r}, which is not an index of `reasons`"
                )
            codes[position] = self._codes[index]
        return codes


class NodeScoreAdapter(CompiledScore):
    """Runs a `NodeScore` on the feasible nodes."""

    reads: Reads = Reads.CLUSTER

    def __init__(self, plugin: NodeScore, pod: Pod, cluster: Cluster) -> None:
        self._plugin = plugin
        self._pod = pod
        self._pods = cluster.pods

    def scores(self, nodes: NodeView) -> Scores:
        """Return, (n,), the score of each node."""
        scores = np.zeros(len(nodes), dtype=np.int64)
        for position, node, pods in _nodes_with_pods(nodes, self._pods):
            score = self._plugin.score_node(self._pod, node, pods)
            if not _is_integer(score) or not 0 <= score <= MAX_SCORE:
                raise PluginError(
                    f"score_node returned {score!r}, which is not an integer from 0 to 100"
                )
            scores[position] = score
        return scores


def _nodes_with_pods(nodes: NodeView, table: PodTable) -> Iterator[tuple[int, Node, Sequence[Pod]]]:
    """Yield position, node and pods of each row of the view that has a node."""
    for position, row in enumerate(nodes.rows.tolist()):
        node = nodes.columns.nodes[row]
        if node is not None:
            yield position, node, [table.pod(slot) for slot in nodes.slots(position, table)]


def _is_integer(value: object) -> bool:
    """Return whether a value is an integer; booleans do not count."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
