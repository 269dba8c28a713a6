"""The score of VolumeBinding: nodes with more capacity for the volumes of a pod are better.

Where a node has existing volumes for claims of the pod, the sizes of these claims are compared with
those of the volumes. Otherwise the sizes of the claims to provision for are compared with the
capacity that CSI drivers report. Storage classes count alike.

Source: kube-scheduler v1.37.2 volumebinding.PreScore, Score, buildScorerFunction. v1.36.3 has it
behind a feature gate that is off.

Axes: n rows of a view.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np

from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.plugin import MAX_SCORE, PASS, SKIP, CompiledScore, PrepareStatus, Reads
from scheduler.model.api import quantity
from scheduler.model.api.objects import Pod
from scheduler.model.api.storage import PersistentVolumeClaim
from scheduler.plugins.volumes.matching import MatchedVolumes, MatchFailure, VolumeMatcher
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Scores
from scheduler.state.views.node_view import NodeView

__all__ = ["DEFAULT_SHAPE", "CapacityScore"]

#: Utilisation in percent and score from 0 to 10: the more capacity is left, the better.
DEFAULT_SHAPE: Final = ((0, 10), (100, 0))

#: Storage class, requested bytes, bytes of capacity.
Amount = tuple[str, int, int]


class CapacityScore(CompiledScore):
    """Scores nodes by storage. What `prepare` finds is valid for the whole attempt."""

    reads = Reads.CLUSTER

    def __init__(
        self,
        pod: Pod,
        cluster: Cluster,
        waiting: Callable[[Pod, Cluster], Sequence[PersistentVolumeClaim]],
        shape: Sequence[tuple[int, int]],
    ) -> None:
        """Make the score.

        Args:
            pod: The incoming pod.
            cluster: With the storage.
            waiting: Returns the claims of the pod that wait for their first consumer.
            shape: Points of utilisation in percent and score from 0 to 10, utilisation rising.
        """
        self._pod = pod
        self._cluster = cluster
        self._waiting = waiting
        self._shape = [(utilization, score * (MAX_SCORE // 10)) for utilization, score in shape]
        self._matcher: VolumeMatcher | None = None

    def prepare(self, _state: AttemptState, /) -> PrepareStatus:
        """Look up the claims of the pod; without one that waits, all nodes score 0."""
        waiting = self._waiting(self._pod, self._cluster)
        if not waiting:
            return SKIP
        self._matcher = VolumeMatcher(waiting, self._cluster.volumes)
        return PASS

    def scores(self, nodes: NodeView) -> Scores:
        scores = np.zeros(len(nodes), dtype=np.int64)
        if self._matcher is None:
            return scores
        for alike, labels in self._matcher.alike(nodes, nodes.columns.labels):
            volumes = self._matcher.on(labels)
            if not isinstance(volumes, MatchFailure):
                scores[alike] = self._score(_amounts(volumes))
        return scores

    def _score(self, amounts: Iterable[Amount]) -> int:
        """Return the mean score of the storage classes."""
        by_class: dict[str, tuple[int, int]] = {}
        for name, requested, capacity in amounts:
            before, _ = by_class.get(name, (0, 0))
            by_class[name] = (before + requested, capacity)
        if not by_class:
            return 0
        total = sum(_at(self._shape, _percent(*each)) for each in by_class.values())
        # Halves are rounded away from zero; scores are never negative.
        return math.floor(total / len(by_class) + 0.5)


def _amounts(volumes: MatchedVolumes) -> list[Amount]:
    """Return requested bytes and capacity; the last capacity of a class is that of the class."""
    if not volumes.bindings:
        return [
            (claim.class_name, _bytes(claim.request), capacity)
            for claim, capacity in zip(volumes.provisions, volumes.capacities, strict=True)
            if capacity is not None
        ]
    totals: dict[str, int] = {}
    amounts = []
    for volume, claim in volumes.bindings:
        name = volume.spec.storage_class_name
        totals[name] = totals.get(name, 0) + _bytes(volume.capacity)
        amounts.append((name, _bytes(claim.request), totals[name]))
    return amounts


def _bytes(amount: str | float | None) -> int:
    return 0 if amount is None else quantity.value(amount)


def _percent(requested: int, capacity: int) -> int:
    """Return how much of a capacity is requested, at most 100."""
    return 100 if capacity == 0 or requested > capacity else requested * 100 // capacity


def _at(points: Sequence[tuple[int, int]], percent: int) -> int:
    """Return the value of a broken line; integer division rounds towards zero."""
    for index, (x1, y1) in enumerate(points):
        if percent > x1:
            continue
        if index == 0:
            return y1
        x0, y0 = points[index - 1]
        rise = (y1 - y0) * (percent - x0)
        return y0 + int(math.copysign(abs(rise) // (x1 - x0), rise))
    return points[-1][1]
