"""How many devices of a class each node has, and how many of them are taken, for scores.

Generations and the completeness of pools do not count here. Where a selector fails, the node
counts as having no devices of the class.

Source: kube-scheduler v1.36.3 noderesources.calculateDRAResourceTotals.

Axes: N rows, n rows of a view.
"""

from typing import Final

import numpy as np

from scheduler.model.api import resources
from scheduler.model.api.devices import DeviceClass
from scheduler.model.api.objects import Node
from scheduler.plugins.dynamic_resources.structured.selectors import CelCache
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Int, grown
from scheduler.state.columns.row_cursor import RowCursor
from scheduler.state.devices.pools import GatherPoolsError
from scheduler.state.devices.slices import DeviceWithId
from scheduler.state.views.node_view import NodeView

__all__ = ["DeviceTotals"]


class _OfClass:
    """The numbers of devices of one class, by row; (N,) each."""

    def __init__(self, device_class: DeviceClass, cluster: Cluster) -> None:
        self.device_class = device_class
        self.total: Int = np.zeros(0, dtype=np.int64)
        self.taken: Int = np.zeros(0, dtype=np.int64)
        self.version = -1
        self.seen = (
            RowCursor(cluster.devices.changes),
            RowCursor(cluster.columns.node_changes),
        )


class DeviceTotals:
    """Numbers of devices by class and row, kept up to date."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster
        self._cel_cache: Final = CelCache(cluster.devices.reference, bounded=False)
        self._classes: dict[str, _OfClass] = {}

    def of(self, resource: str, nodes: NodeView) -> tuple[Int, Int] | None:
        """Return, (n,) each, the number of devices for an extended resource, and of those taken.

        Returns:
            `None` if no class provides the resource.
        """
        device_class = self._cluster.device_classes.of_resource(resource)
        if device_class is None:
            self._classes.pop(resource, None)
            return None
        known = self._classes.get(resource)
        if known is None or known.device_class is not device_class:
            known = self._classes[resource] = _OfClass(device_class, self._cluster)
        self._refresh(known)
        rows = nodes.rows
        return known.total[rows], known.taken[rows]

    def beside(self, resource: str, nodes: NodeView, used: Int, capacity: Int) -> tuple[Int, Int]:
        """Return, (n,) each, what is used of a resource and what there is, devices included.

        Args:
            resource: Its name.
            nodes: The nodes.
            used: (n,) what is used of it by the pods.
            capacity: (n,) what device plugins offer; devices count where that is nothing.
        """
        counted = self.of(resource, nodes) if resources.may_be_devices(resource) else None
        if counted is None:
            return used, capacity
        total, taken = counted
        by_devices = (capacity == 0) & (total > 0)
        return np.where(by_devices, taken, used), np.where(by_devices, total, capacity)

    def _refresh(self, known: _OfClass) -> None:
        self._cel_cache.begin_attempt()
        columns, version = self._cluster.columns, self._cluster.devices.version
        size = columns.size
        news = [cursor.take_changed(size) for cursor in known.seen]
        known.total, known.taken = grown(known.total, size), grown(known.taken, size)
        of_devices, of_nodes = news
        if version == known.version and of_devices is not None and of_nodes is not None:
            rows = np.unique(np.concatenate((of_devices, of_nodes))).tolist()
        else:
            rows = list(range(size))
        known.version = version
        for row in rows:
            node = columns.nodes[row]
            if node is not None:
                known.total[row], known.taken[row] = self._count(known.device_class, node)

    def _count(self, device_class: DeviceClass, node: Node) -> tuple[int, int]:
        devices, total, taken = self._cluster.devices, 0, 0
        try:
            for entry in devices.devices_of(node):
                selected = self._selects(device_class, entry)
                if isinstance(selected, str):
                    return 0, 0
                if selected:
                    total += 1
                    taken += devices.allocated_state.is_allocated_or_shared(entry.id)
        except GatherPoolsError:
            return 0, 0
        return total, taken

    def _selects(self, device_class: DeviceClass, entry: DeviceWithId) -> bool | str:
        for selector in device_class.spec.selectors:
            if selector.cel is not None:
                result = self._cel_cache.get(selector.cel.expression).device_matches(entry.kind)
                if result is not True:
                    return result
        return True
