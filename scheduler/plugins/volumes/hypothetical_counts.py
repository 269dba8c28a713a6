"""Counts of attached volumes in hypothetical views.

Pods share volumes, so counts per pod cannot be added up. The volumes of pods that a view adds or
removes are counted by volume, on the few nodes where such a pod uses one.

Axes: n rows of a hypothetical view.
"""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Int
from scheduler.state.storage.csi_counts import AttachedVolumes
from scheduler.state.storage.csi_translation import CsiVolume
from scheduler.state.views.node_view import HypotheticalView

__all__ = ["HypotheticalCounts"]


@dataclass(slots=True)
class _Folded:
    """The changes of one hypothetical view that were read so far."""

    #: Keeps the view alive, so that no other view gets the same id.
    nodes: HypotheticalView
    seen: int = 0
    #: By position: how many more, or fewer, uses each volume has.
    changes: dict[int, Counter[CsiVolume]] = field(default_factory=dict)


class HypotheticalCounts:
    """Corrects the counts for one incoming pod with new volumes."""

    def __init__(self, cluster: Cluster, new: frozenset[CsiVolume]) -> None:
        self._volumes = cluster.volumes
        self._new = new
        self._folded: dict[int, _Folded] = {}

    def adjust(
        self, nodes: HypotheticalView, driver: str, positions: Int, have: Int, new: Int
    ) -> None:
        """Correct, in place, the counts of a driver by the pods that the view adds and removes.

        Args:
            nodes: The hypothetical view.
            driver: Only volumes of this CSI driver count.
            positions: The positions to correct.
            have: (n,) how many volumes are attached.
            new: (n,) how many volumes the pod would bring.
        """
        changes = self._fold(nodes).changes
        if not changes:
            return
        for position in positions.tolist():
            delta = changes.get(position)
            if delta is None:
                continue
            here = self._volumes.counts.on_node(nodes.name(position))
            for volume, change in delta.items():
                if volume.driver == driver:
                    held = here.get(volume) or AttachedVolumes()
                    pods, would_be = held.pods > 0, held.pods + change > 0
                    left = held.attachments > 0
                    have[position] += (would_be or left) - (pods or left)
                    if volume in self._new:
                        new[position] -= would_be - pods

    def _fold(self, nodes: HypotheticalView) -> _Folded:
        """Read the changes of a hypothetical view that were not read before."""
        folded = self._folded.get(id(nodes))
        if folded is None:
            folded = self._folded[id(nodes)] = _Folded(nodes)
        for slots, sign in nodes.log[folded.seen :]:
            for position in np.flatnonzero(self._volumes.use.attaches(slots)).tolist():
                mounts = self._volumes.use.get(int(slots[position]))
                if mounts is not None:
                    delta = folded.changes.setdefault(position, Counter())
                    for key in mounts.claims:
                        volume = self._volumes.csi_volume(key)
                        if volume is not None:
                            delta[volume] += sign
                    for volume in mounts.inline:
                        delta[volume] += sign
        folded.seen = len(nodes.log)
        return folded
