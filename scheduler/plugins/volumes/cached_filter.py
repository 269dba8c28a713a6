"""The base class of filters that read node labels and storage, but no pods.

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
    """Caches codes per row set; ignores pods that a view adds.

    Preemption evaluates the same rows again for each pod that it adds back, which changes nothing
    that these filters read.
    """

    #: Storage can change without a change of any row, so results cannot be cached by row.
    reads = Reads.CLUSTER

    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster
        self._rows: Rows | None = None
        self._seen: tuple[int, int] | None = None
        self._cached: Codes | None = None

    @abstractmethod
    def evaluate(self, nodes: NodeView) -> Codes:
        """Return, (n,), a verdict code for each node, 0 where the pod fits."""

    def codes(self, nodes: NodeView) -> Codes:
        """Return, (n,), the verdict codes; cached for the rows and the state of the last call."""
        cluster, rows = self._cluster, nodes.rows
        seen = (cluster.volumes.version, cluster.columns.node_changes.position)
        if self._cached is None or rows is not self._rows or seen != self._seen:
            self._cached = self.evaluate(nodes)
            self._rows, self._seen = rows, seen
        return self._cached
