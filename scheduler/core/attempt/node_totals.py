"""The total scores of a few nodes: much cheaper than what an explained attempt finds about all.

Axes: F feasible nodes.
"""

from collections.abc import Callable, Collection, Mapping

import numpy as np

from scheduler.core.attempt.equivalence import EquivalenceClasses
from scheduler.core.attempt.post_filters import AttemptContext, FilterResult
from scheduler.framework.cycle_state import AttemptState
from scheduler.model.classified_pod import ClassifiedPod
from scheduler.model.decisions import Detail
from scheduler.model.times import Seconds
from scheduler.state.columns.node_columns import NodeColumns

__all__ = ["NodeTotals"]


class NodeTotals:
    """Scores nodes for a pod as an attempt does, without extenders.

    Args:
        classes: The classes of pods.
        feasible: Filters all nodes for an attempt.
        columns: The nodes.
    """

    def __init__(
        self,
        classes: EquivalenceClasses,
        feasible: Callable[[AttemptContext], FilterResult],
        columns: NodeColumns,
    ) -> None:
        self._classes = classes
        self._feasible = feasible
        self._columns = columns

    def of(
        self, classified: ClassifiedPod, names: Collection[str], now: Seconds
    ) -> Mapping[str, int]:
        """Return, by node, the totals of those of some nodes that are feasible.

        What all nodes have in common is left out.

        Raises:
            PluginError: A filter fails.
        """
        state = AttemptState(classified.pod, now)
        pod_class = self._classes.get(classified)
        context = AttemptContext(state, pod_class, Detail.NONE, lambda: None)
        rows = self._feasible(context).feasible
        if rows.shape[0] == 1:
            only = self._columns.names[int(rows[0])]
            return {only: 0} if only in names else {}
        found: dict[str, int] = {}
        totals = pod_class.scores.ranking(rows, state) if rows.shape[0] else rows
        for name in names:
            positions = np.flatnonzero(rows == self._columns.row(name))
            if positions.shape[0]:
                found[name] = int(totals[positions[0]])
        return found
