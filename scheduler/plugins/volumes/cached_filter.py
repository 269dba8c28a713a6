"""The base of rules that look at a node's labels and at storage, and never at its pods.

Axes: n rows of a view.
"""

from abc import abstractmethod
from typing import Final

from scheduler.framework.plugin import CompiledFilter, Reads
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Codes, Rows
from scheduler.state.views.node_view import NodeView

__all__ = ["PodIndependentFilter"]


class PodIndependentFilter(CompiledFilter):
    """Judges the same rows once, however often pods are imagined to come and go there.

    Preemption asks again for each pod that it gives back; nothing that is asked about has changed
    by then.
    """

    #: Storage changes without any row changing, so nothing can be kept beyond that.
    reads = Reads.CLUSTER

    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster
        self._rows: Rows | None = None
        self._seen: tuple[int, int] | None = None
        self._judged: Codes | None = None

    @abstractmethod
    def judge(self, nodes: NodeView) -> Codes:
        """Return, (n,), a verdict code for each node, 0 where the pod fits."""

    def codes(self, nodes: NodeView) -> Codes:
        """Return, (n,), the verdicts, computed if they are not those that were asked for last."""
        cluster, rows = self._cluster, nodes.rows
        seen = (cluster.volumes.version, cluster.columns.node_changes.position)
        if self._judged is None or rows is not self._rows or seen != self._seen:
            self._judged = self.judge(nodes)
            self._rows, self._seen = rows, seen
        return self._judged
