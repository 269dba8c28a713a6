"""NodeResourcesBalancedAllocation: prefers nodes whose resources are used more evenly with the pod.

Source: kube-scheduler v1.36.3 plugins/noderesources.BalancedAllocation.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from scheduler.framework.cluster_events import ClusterEventWithHint
from scheduler.framework.plugin import MAX_SCORE, CompiledScore, Reads
from scheduler.model.api import resources
from scheduler.model.api.objects import Pod
from scheduler.model.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from scheduler.plugins.node_resources.device_totals import DeviceTotals
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Float, Int, Scores
from scheduler.state.columns.resource_axis import Coded
from scheduler.state.views.node_view import NodeView

__all__ = ["NodeResourcesBalancedAllocation"]


class NodeResourcesBalancedAllocation:
    """Scores how much more evenly a node's resources are used with the pod than without."""

    name: ClassVar[str] = "NodeResourcesBalancedAllocation"

    def __init__(self, balanced: Sequence[str] = (CPU, MEMORY)) -> None:
        """Make the rule.

        Args:
            balanced: Names of the resources that are compared.
        """
        self._balanced = tuple(balanced)

    def compile_score(self, pod: Pod, cluster: Cluster) -> CompiledScore | None:
        if resources.too_many(pod):
            return None  # NodeResourcesFit rejects it
        by_name = resources.pod_requests(pod, status_aware=True, reference=cluster.reference)
        requests = [(name, by_name.get(name, 0)) for name in self._balanced]
        if not any(amount for _, amount in requests):
            return None
        scored = [
            (name, amount)
            for name, amount in requests
            if amount or name in (CPU, MEMORY, EPHEMERAL_STORAGE)
        ]
        if any(resources.may_be_devices(name) for name, _ in scored):
            return _DeviceAwareBalance(scored, cluster)
        return _Balance(scored, cluster)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return ()


class _Balance(CompiledScore):
    """Compares the spread of the fractions in use with and without the pod."""

    reads = Reads.PODS

    def __init__(self, requests: list[tuple[str, int]], cluster: Cluster) -> None:
        self._requests = Coded(cluster.axis, requests)
        self._columns = cluster.columns

    def score_row(self, row: int) -> int | None:
        requests = self._requests.now()
        if len(requests) != 2:
            return None
        before, after = [], []
        for resource, amount in requests:
            capacity = self._columns.allocatable(resource)[row]
            if not capacity:
                return None
            used = self._columns.requested(resource)[row]
            before.append(min(used / capacity, 1.0))
            after.append(min((used + amount) / capacity, 1.0))
        gain = _balance_of_two(*after) - _balance_of_two(*before) + MAX_SCORE // 2
        return MAX_SCORE // 2 + gain // 2

    def scores(self, nodes: NodeView) -> Scores:
        before, after = [], []
        for used, capacity, amount in self._amounts(nodes):
            before.append(_fraction(used, capacity))
            after.append(_fraction(used + amount, capacity))
        gain = _balance(after) - _balance(before) + MAX_SCORE // 2
        # Both balances lie in [50, 100], so the sum is never negative and // truncates.
        scores: Scores = MAX_SCORE // 2 + gain // 2
        return scores

    def _amounts(self, nodes: NodeView) -> Iterator[tuple[Int, Int, int]]:
        """Yield, for each resource, (n,) used amounts, (n,) capacities, and the request."""
        for resource, amount in self._requests.now():
            yield nodes.requested(resource), nodes.allocatable(resource), amount


class _DeviceAwareBalance(_Balance):
    """The same, where devices count on nodes without device plugins."""

    reads = Reads.CLUSTER

    def __init__(self, requests: list[tuple[str, int]], cluster: Cluster) -> None:
        super().__init__(requests, cluster)
        self._names = [name for name, _ in requests]
        self._totals = DeviceTotals(cluster)

    def _amounts(self, nodes: NodeView) -> Iterator[tuple[Int, Int, int]]:
        for name, (used, capacity, amount) in zip(
            self._names, super()._amounts(nodes), strict=True
        ):
            yield *self._totals.beside(name, nodes, used, capacity), amount


def _balance_of_two(first: float, second: float) -> int:
    return int((1 - abs((first - second) / 2)) * MAX_SCORE)


def _fraction(used: Scores, capacity: Scores) -> Float:
    """Return, (n,), used over capacity, at most 1; NaN where there is no capacity."""
    have = capacity > 0
    fraction = np.full(used.shape[0], np.nan)
    np.divide(used, capacity, out=fraction, where=have)
    capped: Float = np.minimum(fraction, 1.0)
    return capped


def _balance(fractions: list[Float]) -> Scores:
    """Return, (n,), 100 for equal fractions, and less the more they differ."""
    if len(fractions) == 2:
        spread = np.abs((fractions[0] - fractions[1]) / 2)
        # Without one of the capacities only one fraction is left, which has no spread.
        spread[np.isnan(spread)] = 0.0
    else:
        spread = _deviation(fractions)
    balance: Scores = ((1 - spread) * MAX_SCORE).astype(np.int64)
    return balance


def _deviation(fractions: list[Float]) -> Float:
    """Return, (n,), the population standard deviation of the fractions that are not NaN."""
    table = np.array(fractions)
    known = ~np.isnan(table)
    count = known.sum(axis=0)
    filled = np.where(known, table, 0.0)
    total = np.zeros(table.shape[1])
    for fraction in filled:
        total += fraction
    mean = total / np.maximum(count, 1)
    squares = np.zeros(table.shape[1])
    for fraction, is_known in zip(filled, known, strict=True):
        squares += np.where(is_known, (fraction - mean) * (fraction - mean), 0.0)
    deviation: Float = np.sqrt(squares / np.maximum(count, 1))
    # For two fractions upstream uses half their difference, which rounds differently.
    highest = np.where(known, table, -np.inf).max(axis=0, initial=-np.inf)
    lowest = np.where(known, table, np.inf).min(axis=0, initial=np.inf)
    deviation = np.where(count == 2, (highest - lowest) / 2, deviation)
    deviation[count < 2] = 0.0
    return deviation
