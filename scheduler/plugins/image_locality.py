"""ImageLocality: prefers nodes that already have the pod's images.

Source: kube-scheduler v1.36.3 plugins/imagelocality; v1.37.2 counts image volumes, too.
"""

from collections.abc import Hashable, Sequence
from typing import ClassVar, Final

import numpy as np

from scheduler.framework.cluster_events import ClusterEventWithHint
from scheduler.framework.plugin import MAX_SCORE, CompiledScore
from scheduler.model.api.objects import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Scores
from scheduler.state.columns.node_columns import NodeColumns
from scheduler.state.views.node_view import NodeView

__all__ = ["ImageLocality"]

_MIB: Final = 1024 * 1024
#: Image bytes up to which a node scores 0; and, for each counted image, the bytes that score 100.
_MIN_BYTES: Final = 23 * _MIB
_MAX_BYTES_PER_IMAGE: Final = 1000 * _MIB


class ImageLocality:
    """Scores by the bytes that need no pull; images that more nodes have count more."""

    name: ClassVar[str] = "ImageLocality"

    def compile_score(self, pod: Pod, cluster: Cluster) -> CompiledScore | None:
        containers = [*pod.spec.init_containers, *pod.spec.containers]
        volumes = [
            volume.image.reference for volume in pod.spec.volumes if volume.image is not None
        ]
        names = [_normalised(name) for name in (*(each.image for each in containers), *volumes)]
        counted = names if cluster.reference.scales_by_image_volumes else containers
        return _Images(names, len(counted), cluster.columns)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return ()


class _Images(CompiledScore):
    """Sums the sizes of the images on a node, each scaled by the share of nodes that have it."""

    def __init__(self, names: list[str], counted: int, columns: NodeColumns) -> None:
        self._names = names
        self._max_bytes = _MAX_BYTES_PER_IMAGE * counted
        self._columns = columns

    def cache_key(self) -> Hashable:
        images = self._columns.images
        known = any(images.get(name) for name in self._names)
        return (self._columns.node_count, images.version) if known else None

    def scores(self, nodes: NodeView) -> Scores:
        known = [state for name in self._names if (state := self._columns.images.get(name))]
        if not known:
            return np.zeros(len(nodes), dtype=np.int64)
        on_row = np.zeros(self._columns.size, dtype=np.int64)
        for state in known:
            spread = len(state.rows) / self._columns.node_count
            on_row[list(state.rows)] += int(state.size * spread)
        bounded = np.clip(on_row.take(nodes.rows), _MIN_BYTES, self._max_bytes)
        scores: Scores = MAX_SCORE * (bounded - _MIN_BYTES) // (self._max_bytes - _MIN_BYTES)
        return scores


def _normalised(name: str) -> str:
    """Return an image name with its tag."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"
