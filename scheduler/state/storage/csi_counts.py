"""The number of attached volumes and the limit of each CSI driver on each node.

A volume counts once on a node, for any number of pods there, and also if only an attachment is
left. The CSI volume of a claim can change while pods use the claim, for example when it is bound;
the counts are updated then.

Counts are kept by the name of the node, because claims and attachments may be known before the
node, and read by row.

Axes: N rows.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.model.api.storage import CSINode
from scheduler.state.columns.arrays import Int, grown
from scheduler.state.columns.node_columns import NodeColumns
from scheduler.state.storage.csi_translation import CsiVolume

__all__ = ["NO_LIMIT", "AttachedVolumes", "ByNode", "CsiNodes", "VolumeCounts"]

#: Means *no limit*; any sum of counts stays below.
NO_LIMIT: Final = 2**62


class ByNode:
    """One number for each node, kept by name and read by row."""

    __slots__ = ("_absent", "_changed", "_columns", "_membership", "_numbers", "_rows")

    def __init__(self, columns: NodeColumns, absent: int = 0) -> None:
        self._columns = columns
        self._absent = absent
        self._numbers: dict[str, int] = {}
        self._rows: Int = np.full(16, absent, dtype=np.int64)
        self._changed: set[str] = set()
        self._membership = -1

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, node: str) -> int:
        return self._numbers.get(node, self._absent)

    def __setitem__(self, node: str, number: int) -> None:
        if number == self._absent:
            self._numbers.pop(node, None)
        else:
            self._numbers[node] = number
        self._changed.add(node)

    def rows(self) -> Int:
        """Return, (N,), the numbers; undefined for rows without a node."""
        columns = self._columns
        self._rows = grown(self._rows, columns.size, self._absent)
        if self._membership != columns.membership:
            # Rows may belong to other nodes now.
            self._membership = columns.membership
            self._rows[:] = self._absent
            self._changed = set(self._numbers)
        for node in self._changed:
            row = columns.row(node)
            if row is not None:
                self._rows[row] = self._numbers.get(node, self._absent)
        self._changed.clear()
        return self._rows[: columns.size]


class CsiNodes:
    """The CSINode objects: limits of drivers, and in-tree plugins that are migrated to drivers."""

    def __init__(self, columns: NodeColumns) -> None:
        self._columns = columns
        self._nodes: dict[str, CSINode] = {}
        self._limits: dict[str, ByNode] = {}
        self._migrated: dict[str, ByNode] = {}

    def __iter__(self) -> Iterator[CSINode]:
        return iter(self._nodes.values())

    def get(self, node: str) -> CSINode | None:
        """Return the CSINode of a node."""
        return self._nodes.get(node)

    def write(self, item: CSINode) -> CSINode | None:
        """Store the CSINode of a node; return its previous state."""
        name = item.metadata.name
        before = self.erase(name)
        self._nodes[name] = item
        for driver, limit in item.limits.items():
            if driver not in self._limits:
                self._limits[driver] = ByNode(self._columns, NO_LIMIT)
            self._limits[driver][name] = limit
        for plugin in filter(None, item.migrated_plugins.split(",")):
            self._migrated.setdefault(plugin, ByNode(self._columns))[name] = 1
        return before

    def erase(self, name: str) -> CSINode | None:
        """Remove the CSINode of a node; return its last state."""
        before = self._nodes.pop(name, None)
        if before is not None:
            for driver in before.limits:
                self._limits[driver][name] = NO_LIMIT
            for plugin in filter(None, before.migrated_plugins.split(",")):
                self._migrated[plugin][name] = 0
        return before

    def limits(self, driver: str) -> Int | None:
        """Return, (N,), the limits of a driver, or `NO_LIMIT`; `None` if no node has one."""
        limits = self._limits.get(driver)
        return None if limits is None else limits.rows()

    def migrated(self, plugin: str) -> Int | None:
        """Return, (N,), 1 for nodes on which a plugin is migrated; `None` if there is none."""
        migrated = self._migrated.get(plugin)
        return None if migrated is None else migrated.rows()

    def is_migrated(self, plugin: str, node: str) -> bool:
        """Return whether a plugin is migrated to a CSI driver on a node."""
        migrated = self._migrated.get(plugin)
        return migrated is not None and bool(migrated[node])


@dataclass(slots=True)
class AttachedVolumes:
    """How often one volume is used on one node."""

    #: By how many claims and inline volumes of pods.
    pods: int = 0
    #: By how many VolumeAttachments.
    attachments: int = 0


class VolumeCounts:
    """The attached volumes of all nodes."""

    def __init__(self, columns: NodeColumns, resolve: Callable[[str], CsiVolume | None]) -> None:
        """Create empty counts.

        Args:
            columns: Of the nodes.
            resolve: Returns the CSI volume of a claim, if it is known.
        """
        self._columns = columns
        self._resolve = resolve
        self._on_node: dict[str, dict[CsiVolume, AttachedVolumes]] = {}
        self._holders: dict[CsiVolume, set[str]] = {}
        self._counts: dict[str, ByNode] = {}
        #: Of claims that pods on nodes use: the CSI volume, and by node how many pods use it.
        self._resolved: dict[str, CsiVolume | None] = {}
        self._users: dict[str, dict[str, int]] = {}

    def add_pod(self, node: str, claims: Iterable[str], inline: Iterable[CsiVolume]) -> None:
        """Count the volumes of a pod that was added to a node."""
        for claim in claims:
            if claim not in self._resolved:
                self._resolved[claim] = self._resolve(claim)
            users = self._users.setdefault(claim, {})
            users[node] = users.get(node, 0) + 1
            self._count(node, self._resolved[claim], pods=1)
        for volume in inline:
            self._count(node, volume, pods=1)

    def remove_pod(self, node: str, claims: Iterable[str], inline: Iterable[CsiVolume]) -> None:
        """Count out the volumes of a pod that was removed from a node."""
        for claim in claims:
            self._count(node, self._resolved[claim], pods=-1)
            users = self._users[claim]
            users[node] -= 1
            if not users[node]:
                del users[node]
            if not users:
                del self._users[claim], self._resolved[claim]
        for volume in inline:
            self._count(node, volume, pods=-1)

    def attach(self, node: str, volume: CsiVolume) -> None:
        """Count an attachment."""
        self._count(node, volume, attachments=1)

    def detach(self, node: str, volume: CsiVolume) -> None:
        """Count out an attachment."""
        self._count(node, volume, attachments=-1)

    def resolve_again(self, claims: Iterable[str] | None = None) -> None:
        """Update the CSI volumes of some claims; of all claims by default."""
        for claim in self._resolved if claims is None else claims:
            users = self._users.get(claim)
            if users is None:
                continue
            before, now = self._resolved[claim], self._resolve(claim)
            if before != now:
                self._resolved[claim] = now
                for node, count in users.items():
                    self._count(node, before, pods=-count)
                    self._count(node, now, pods=count)

    def attached(self, driver: str) -> Int | None:
        """Return, (N,), the number of attached volumes of a driver; `None` if there is none."""
        counts = self._counts.get(driver)
        return None if counts is None else counts.rows()

    def holders(self, volume: CsiVolume) -> list[int]:
        """Return the rows on which pods use a volume."""
        rows = (self._columns.row(node) for node in self._holders.get(volume, ()))
        return [row for row in rows if row is not None]

    def is_attached(self, volume: CsiVolume) -> bool:
        """Return whether pods use a volume on a node."""
        return volume in self._holders

    def on_node(self, node: str) -> Mapping[CsiVolume, AttachedVolumes]:
        """Return the volumes that are attached to a node; not to be written to."""
        return self._on_node.get(node, {})

    def _count(
        self, node: str, volume: CsiVolume | None, *, pods: int = 0, attachments: int = 0
    ) -> None:
        if volume is None:
            return
        on_node = self._on_node.setdefault(node, {})
        use = on_node.get(volume)
        if use is None:
            use = on_node[volume] = AttachedVolumes()
            self._add(volume.driver, node, 1)
        use.pods += pods
        use.attachments += attachments
        if use.pods:
            nodes = self._holders.get(volume)
            if nodes is None:
                self._holders[volume] = {node}
            else:
                nodes.add(node)
        else:
            self._remove_holder(volume, node)
        if not use.pods and not use.attachments:
            del on_node[volume]
            self._add(volume.driver, node, -1)
            if not on_node:
                del self._on_node[node]

    def _remove_holder(self, volume: CsiVolume, node: str) -> None:
        nodes = self._holders.get(volume)
        if nodes is not None:
            nodes.discard(node)
            if not nodes:
                del self._holders[volume]

    def _add(self, driver: str, node: str, number: int) -> None:
        if driver not in self._counts:
            self._counts[driver] = ByNode(self._columns)
        self._counts[driver][node] += number
        if not self._counts[driver]:
            del self._counts[driver]

    def check(self, used: Mapping[str, Counter[str]]) -> None:
        """Assert the invariants: the counts are the sums over claims and attachments.

        Args:
            used: How many pods use each claim on each node.
        """
        assert self._users == used
        assert {claim: self._resolve(claim) for claim in used} == self._resolved
        counts: dict[str, Counter[str]] = {}
        for node, volumes in self._on_node.items():
            for volume, use in volumes.items():
                assert use.pods >= 0
                assert use.attachments >= 0
                assert use.pods + use.attachments > 0
                assert (node in self._holders.get(volume, ())) == (use.pods > 0)
                counts.setdefault(volume.driver, Counter())[node] += 1
        for driver, by_node in self._counts.items():
            rows = by_node.rows()
            for row, item in enumerate(self._columns.nodes):
                if item is not None:
                    name = item.metadata.name
                    assert rows[row] == by_node[name] == counts.get(driver, Counter())[name]
