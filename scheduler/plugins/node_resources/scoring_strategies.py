"""The scoring strategies of NodeResourcesFit: a score from used amount and capacity.

Arithmetic is as upstream: int64, with truncating division.

Source: kube-scheduler v1.36.3 plugins/noderesources/{least_allocated, most_allocated,
requested_to_capacity_ratio}.go, plugins/helper.BuildBrokenLinearFunction.

Axes: n nodes.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from scheduler.framework.plugin import MAX_SCORE
from scheduler.state.columns.arrays import Int, Scores

__all__ = ["LEAST_ALLOCATED", "MAX_ALLOCATED", "Strategy", "requested_to_capacity_ratio"]


class Strategy(NamedTuple):
    """Computes a score from used amount and capacity, for all nodes or for one."""

    #: `[(used, capacity, weight)] -> scores`, one entry a resource, both (n,).
    all: Callable[[Sequence[tuple[Int, Int, int]]], Scores]
    #: The same for one node, in plain integers; `None` when there is only `all`.
    one: Callable[[Sequence[tuple[int, int, int]]], int] | None = None


def _least_allocated(parts: Sequence[tuple[Int, Int, int]]) -> Scores:
    """Score free resources: the emptier the node with the pod, the better."""
    return _weighted(parts, lambda used, capacity: capacity - used, over=0)


def _most_allocated(parts: Sequence[tuple[Int, Int, int]]) -> Scores:
    """Score used resources: the fuller the node with the pod, the better."""
    return _weighted(parts, lambda used, _capacity: used, over=MAX_SCORE)


def _least_allocated_one(parts: Sequence[tuple[int, int, int]]) -> int:
    """Score the free resources of one node."""
    total = weights = 0
    for used, capacity, weight in parts:
        if capacity > 0:
            weights += weight
            if used <= capacity:
                total += weight * ((capacity - used) * MAX_SCORE // capacity)
    return total // weights if weights else 0


def _weighted(
    parts: Sequence[tuple[Int, Int, int]], amount: Callable[[Int, Int], Int], over: int
) -> Scores:
    """Average `amount * 100 / capacity` over resources; `over` where more is used than exists."""
    total: Scores = np.zeros_like(parts[0][0])
    weights = np.zeros_like(total)
    for used, capacity, weight in parts:
        have = capacity > 0
        divisor = np.maximum(capacity, 1)
        score = amount(used, capacity) * MAX_SCORE // divisor
        score = np.where(used > capacity, over, score)
        total += np.where(have, weight * score, 0)
        weights += weight * have
    return total // np.maximum(weights, 1)


LEAST_ALLOCATED: Final = Strategy(_least_allocated, _least_allocated_one)
MAX_ALLOCATED: Final = Strategy(_most_allocated)


def requested_to_capacity_ratio(shape: Sequence[tuple[int, int]]) -> Strategy:
    """Return the strategy that maps utilisation to a score by line segments.

    Args:
        shape: Points (utilisation in percent, score from 0 to 10), utilisation rising.
    """
    points = [(utilisation, score * MAX_SCORE // 10) for utilisation, score in shape]

    def strategy(parts: Sequence[tuple[Int, Int, int]]) -> Scores:
        total: Scores = np.zeros_like(parts[0][0])
        weights = np.zeros_like(total)
        for used, capacity, weight in parts:
            percent = np.where(
                used > capacity, MAX_SCORE, used * MAX_SCORE // np.maximum(capacity, 1)
            )
            score = np.where(capacity > 0, _broken_line(points, percent), 0)
            counts = score > 0
            total += weight * score * counts
            weights += weight * counts
        mean = total / np.maximum(weights, 1)
        # Go rounds halves away from zero, numpy to even; scores are never negative.
        return np.floor(mean + 0.5).astype(np.int64)

    return Strategy(strategy)


def _broken_line(points: Sequence[tuple[int, int]], at: Int) -> Scores:
    result = np.full_like(at, points[-1][1])
    # From the last segment to the first, so that the first segment that covers a value wins.
    for (x0, y0), (x1, y1) in zip(reversed(points[:-1]), reversed(points[1:]), strict=True):
        rise = (y1 - y0) * (at - x0)
        between = y0 + np.sign(rise) * (np.abs(rise) // (x1 - x0))
        result = np.where(at <= x1, between, result)
    return np.where(at <= points[0][0], points[0][1], result)
