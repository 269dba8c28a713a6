"""Weights of a few pods, summed by node, also in hypothetical views.

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
    """The weights of some pods, by slot; all other pods have the weight 0."""

    def __init__(self, weights: Mapping[int, int]) -> None:
        """Take the weights.

        Args:
            weights: By slot of the pod table, at least one.
        """
        self._slots: Final[Int] = np.array(sorted(weights), dtype=np.int64)
        self._weights: Final[Int] = np.array([weights[slot] for slot in sorted(weights)])

    def of(self, slots: Int) -> Int:
        """Return, (n,), the weights of the pods in some slots, 0 for slots below 0."""
        index = np.searchsorted(self._slots, slots).clip(max=self._slots.shape[0] - 1)
        return np.where(self._slots[index] == slots, self._weights[index], 0)

    def on(self, nodes: NodeView, pods: PodTable) -> Int:
        """Return, (n,), the sum of the weights of the pods on each node."""
        total = np.zeros(nodes.columns.size, dtype=np.int64)
        for slot, weight in zip(self._slots.tolist(), self._weights.tolist(), strict=True):
            row = pods.row(slot)
            if row != NOWHERE:
                total[row] += weight
        sums, shift = total[nodes.rows], nodes.shift(self)
        return sums if shift is None else sums + shift
