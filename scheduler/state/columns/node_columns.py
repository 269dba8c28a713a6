"""Facts about nodes in columns, one row for each node.

A row belongs to the name of a node. It exists as long as the node or a pod on it is known. A row
without a node (an imaginary node) takes no pods. Every change is recorded in one of two logs:
`node_changes` for the node's own facts, `pod_changes` for what its pods use.

Axes: N rows, R resources.
"""

import hashlib
from collections.abc import Iterable
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.model.api import resources
from scheduler.model.api.objects import Node, Taint
from scheduler.model.api.resources import PODS
from scheduler.state.columns.arrays import Bool, Int, IntColumn, Rows, grown
from scheduler.state.columns.change_log import ChangeLog
from scheduler.state.columns.host_ports import PortUse
from scheduler.state.columns.images import Images
from scheduler.state.columns.labels import LabelColumns
from scheduler.state.columns.pod_footprints import PodFootprint
from scheduler.state.columns.refcounted_interner import RefcountedInterner
from scheduler.state.columns.resource_axis import ResourceAxis

__all__ = ["NodeColumns"]

TaintSet = tuple[tuple[str, str, str], ...]

_NOTHING: Final = IntColumn()

#: Small, because every class of pods also evaluates the idle codes.
_FEW_IDLE: Final = 64

_encode = msgspec.msgpack.Encoder().encode


class NodeColumns:
    """Node facts by row."""

    def __init__(self, axis: ResourceAxis) -> None:
        self.axis: Final = axis
        #: Number of rows in use or free again; all columns are at least this long.
        self.size = 0
        #: The node of each row; `None` for imaginary nodes and free rows.
        self.nodes: Final[list[Node | None]] = []
        #: The name of each row; empty for free rows.
        self.names: Final[list[str]] = []
        self.labels: Final = LabelColumns()
        self.images: Final = Images()
        self.ports: Final = PortUse()
        #: The distinct sets of taints; code 0 is the empty set.
        self.taint_sets: Final[RefcountedInterner[TaintSet]] = RefcountedInterner((), _FEW_IDLE)
        self.node_changes: Final = ChangeLog()
        self.pod_changes: Final = ChangeLog()
        #: Grows whenever a node is added or deleted.
        self.membership = 0
        #: Number of nodes that exist.
        self.node_count = 0
        self._rows: dict[str, int] = {}
        self._free: list[int] = []
        self._allocatable: list[IntColumn] = []
        #: By row, the allocatable amounts by name of the resource.
        self._allocatable_by_name: dict[int, dict[str, int]] = {}
        self._requested: list[IntColumn] = []
        self._non_zero = (IntColumn(), IntColumn())
        self._pods: Int = np.zeros(16, dtype=np.int64)
        self._allowed_pods: Int = np.zeros(16, dtype=np.int64)
        self._exists: Bool = np.zeros(16, dtype=np.bool_)
        self._unschedulable: Bool = np.zeros(16, dtype=np.bool_)
        self._taints: Int = np.zeros(16, dtype=np.int64)
        self._hashes: NDArray[np.uint32] = np.zeros(16, dtype=np.uint32)

    def row(self, name: str) -> int | None:
        """Return the row of a name."""
        return self._rows.get(name)

    def node(self, name: str) -> Node | None:
        """Return a node by name, if it exists."""
        row = self._rows.get(name)
        return None if row is None else self.nodes[row]

    def exists(self) -> Bool:
        """Return, (N,), which rows have a node."""
        return self._exists[: self.size]

    def unschedulable(self) -> Bool:
        """Return, (N,), which nodes are cordoned."""
        return self._unschedulable[: self.size]

    def taints(self) -> Int:
        """Return, (N,), codes into `taint_sets`."""
        return self._taints[: self.size]

    def hashes(self) -> NDArray[np.uint32]:
        """Return, (N,), a hash of each name."""
        return self._hashes[: self.size]

    def pods(self) -> Int:
        """Return, (N,), how many pods each row has."""
        return self._pods[: self.size]

    def allowed_pods(self) -> Int:
        """Return, (N,), how many pods each node allows."""
        return self._allowed_pods[: self.size]

    def allocatable(self, resource: int) -> IntColumn:
        """Return the allocatable amounts of a resource."""
        return self._allocatable[resource] if resource < len(self._allocatable) else _NOTHING

    def requested(self, resource: int) -> IntColumn:
        """Return the requested amounts of a resource."""
        return self._requested[resource] if resource < len(self._requested) else _NOTHING

    def non_zero(self, index: int) -> IntColumn:
        """Return the non-zero requests, for scores: 0 for milli-cpu, 1 for bytes of memory."""
        return self._non_zero[index]

    @property
    def free_rows(self) -> tuple[int, ...]:
        """The rows without a name; the last one is used next."""
        return tuple(self._free)

    def ensure(self, name: str) -> int:
        """Return the row of a name, a new one for an unknown name."""
        row = self._rows.get(name)
        if row is None:
            row = self._free.pop() if self._free else self._append()
            self._rows[name] = row
            self.names[row] = name
            digest = hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=4)
            self._hashes[row] = int.from_bytes(digest.digest(), "little")
        return row

    def write(self, node: Node) -> int:
        """Store the state of a node; return its row.

        Raises:
            QuantityError: An allocatable amount is not a quantity; nothing is changed then.
        """
        allocatable = resources.amounts(node.status.allocatable)
        row = self.ensure(node.metadata.name)
        if self.nodes[row] is None:
            self.membership += 1
            self.node_count += 1
        self.nodes[row] = node
        self._exists[row] = True
        self._unschedulable[row] = node.spec.unschedulable
        self._write_taints(row, _taint_set(node.spec.taints))
        self._allowed_pods[row] = allocatable.pop(PODS, 0)
        self._write_allocatable(row, allocatable)
        self.labels.write(row, node.metadata.labels)
        self.images.write(row, node)
        self.node_changes.record(row)
        return row

    def erase(self, name: str) -> int | None:
        """Remove a node; its row stays as long as it has pods. Returns the row."""
        row = self._rows.get(name)
        if row is None or self.nodes[row] is None:
            return None
        self.nodes[row] = None
        self.membership += 1
        self.node_count -= 1
        self._exists[row] = False
        self._allowed_pods[row] = 0
        self._write_taints(row, ())
        self._write_allocatable(row, {})
        self.labels.write(row, {})
        self.images.write(row, None)
        self.node_changes.record(row)
        self._release(row)
        return row

    def add_usage(self, row: int, footprint: PodFootprint) -> None:
        """Add the usage of a pod to a row."""
        self._count(row, footprint, 1)
        if footprint.ports:
            self.ports.add(row, footprint.ports)

    def remove_usage(self, row: int, footprint: PodFootprint) -> None:
        """Subtract the usage of a pod from a row."""
        self._count(row, footprint, -1)
        if footprint.ports:
            self.ports.remove(row, footprint.ports)
        self._release(row)

    def _count(self, row: int, footprint: PodFootprint, sign: int) -> None:
        self._pods[row] += sign
        for resource, amount in footprint.requests:
            self._column(self._requested, resource).add(row, sign * amount)
        for column, amount in zip(self._non_zero, footprint.non_zero, strict=True):
            column.add(row, sign * amount)
        self.pod_changes.record(row)

    def _write_taints(self, row: int, taints: TaintSet) -> None:
        before = int(self._taints[row])
        self._taints[row] = (
            self.taint_sets.acquire(_encode(taints), lambda: taints) if taints else 0
        )
        self.taint_sets.release(before)

    def _write_allocatable(self, row: int, allocatable: dict[str, int]) -> None:
        before = self._allocatable_by_name.get(row, {})
        if allocatable == before:
            return
        axis = self.axis
        for name, amount in allocatable.items():
            resource = axis.code(name) if name in before else axis.offer(name)
            self._column(self._allocatable, resource)[row] = amount
        for name in before.keys() - allocatable.keys():
            self._column(self._allocatable, axis.code(name))[row] = 0
            axis.withdraw(name)
        if allocatable:
            self._allocatable_by_name[row] = allocatable
        else:
            del self._allocatable_by_name[row]

    def clear(self, resource: int) -> None:
        """Clear the columns of a resource that has lost its code."""
        for columns in (self._allocatable, self._requested):
            if resource < len(columns):
                columns[resource] = IntColumn()

    def count_requested(self, resource: int, rows: Iterable[tuple[int, int]]) -> None:
        """Add the requests of pods for a resource that has just got its code, by row."""
        column = self._column(self._requested, resource)
        for row, amount in rows:
            column.add(row, amount)

    @staticmethod
    def _column(columns: list[IntColumn], resource: int) -> IntColumn:
        while resource >= len(columns):
            columns.append(IntColumn())
        return columns[resource]

    def _append(self) -> int:
        row = self.size
        self.size += 1
        self.nodes.append(None)
        self.names.append("")
        self._pods = grown(self._pods, self.size)
        self._allowed_pods = grown(self._allowed_pods, self.size)
        self._exists = grown(self._exists, self.size)
        self._unschedulable = grown(self._unschedulable, self.size)
        self._taints = grown(self._taints, self.size)
        self._hashes = grown(self._hashes, self.size)
        return row

    def _release(self, row: int) -> None:
        """Free a row if it has neither a node nor pods."""
        if self.nodes[row] is None and self._pods[row] == 0 and self.names[row]:
            del self._rows[self.names[row]]
            self.names[row] = ""
            self._free.append(row)

    def rows_of(self, names: frozenset[str]) -> Rows:
        """Return the rows of the existing nodes among some names, in row order."""
        rows = [row for name in names if (row := self._rows.get(name)) is not None]
        return np.array(sorted(row for row in rows if self._exists[row]), dtype=np.int64)


def _taint_set(taints: list[Taint]) -> TaintSet:
    return tuple((taint.key, taint.value, taint.effect) for taint in taints)
