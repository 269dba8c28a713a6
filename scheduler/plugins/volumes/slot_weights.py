"""Numbers for a few pods, added up on nodes as they are and as they would be.

Axes: n rows of a view, N rows.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from scheduler.state.columns.arrays import Int
from scheduler.state.pods.pod_table import NOWHERE, PodTable
from scheduler.state.views.node_view import NodeView

__all__ = ["SlotWeights"]


class SlotWeights:
    """What each of some pods counts for; all others count for nothing."""

    def __init__(self, weights: Mapping[int, int]) -> None:
        """Take the weights.

        Args:
            weights: By slot of the pod table, at least one.
        """
        self._slots: Final[Int] = np.array(sorted(weights), dtype=np.int64)
        self._weights: Final[Int] = np.array([weights[slot] for slot in sorted(weights)])

    def of(self, slots: Int) -> Int:
        """Return, (n,), the weights of the pods in some slots, 0 for slots below 0."""
        place = np.searchsorted(self._slots, slots).clip(max=self._slots.shape[0] - 1)
        return np.where(self._slots[place] == slots, self._weights[place], 0)

    def on(self, nodes: NodeView, pods: PodTable) -> Int:
        """Return, (n,), the sum over the pods of each node."""
        total = np.zeros(nodes.columns.size, dtype=np.int64)
        for slot, weight in zip(self._slots.tolist(), self._weights.tolist(), strict=True):
            row = pods.row(slot)
            if row != NOWHERE:
                total[row] += weight
        there, shift = total[nodes.rows], nodes.shift(self)
        return there if shift is None else there + shift
