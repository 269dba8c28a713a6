"""Views over node rows: as they are, and as they would be.

Every rule is written against `NodeView`. The live cluster, a handful of rows to refresh and the
what-if copies of preemption are three kinds of it, so a rule cannot tell them apart and need not.

Axes: n rows of the view.
"""

from typing import Final, Protocol

import numpy as np

from scheduler.state.columns.arrays import MOST, Bool, Int, Rows
from scheduler.state.columns.labels import LabelColumn
from scheduler.state.columns.node_columns import NodeColumns
from scheduler.state.columns.pod_shapes import HostPort, Shapes, WantedPorts
from scheduler.state.pods.pod_table import PodTable

__all__ = ["NodeView", "PerPod", "WhatIfView"]

#: What may be added to a number that is not beyond `MOST`.
_ROOM: Final = 2**62 - MOST


class PerPod(Protocol):
    """A number for each pod."""

    def of(self, slots: Int) -> Int:
        """Return, (n,), the numbers of the pods in some slots, 0 for slots below 0."""
        ...


class NodeView:
    """Some rows of the cluster, or all of them, as they are now. Not to be written to."""

    __slots__ = ("_columns", "_rows")

    def __init__(self, columns: NodeColumns, rows: Rows | None = None) -> None:
        self._columns = columns
        self._rows = rows

    def __len__(self) -> int:
        return self._columns.size if self._rows is None else self._rows.shape[0]

    @property
    def columns(self) -> NodeColumns:
        """What the rows index."""
        return self._columns

    @property
    def rows(self) -> Rows:
        """(n,) the rows of the view."""
        return np.arange(self._columns.size) if self._rows is None else self._rows

    def take(self, positions: Int) -> "NodeView":
        """Return the view of some of the rows."""
        return NodeView(self._columns, self.rows[positions])

    def name(self, position: int) -> str:
        """Return the name of one node."""
        return self._columns.names[position if self._rows is None else int(self._rows[position])]

    def allocatable(self, resource: int) -> Int:
        """Return, (n,), what the nodes have of a resource."""
        column, size = self._columns.allocatable(resource), self._columns.size
        return column.all(size) if self._rows is None else column.take(self._rows, size)

    def requested(self, resource: int) -> Int:
        """Return, (n,), what their pods request of a resource."""
        column, size = self._columns.requested(resource), self._columns.size
        return column.all(size) if self._rows is None else column.take(self._rows, size)

    def non_zero(self, index: int) -> Int:
        """Return, (n,), what their pods count for in scores: 0 milli-cpu, 1 bytes of memory."""
        column, size = self._columns.non_zero(index), self._columns.size
        return column.all(size) if self._rows is None else column.take(self._rows, size)

    def pods(self) -> Int:
        """Return, (n,), how many pods they have."""
        return self._of(self._columns.pods())

    def allowed_pods(self) -> Int:
        """Return, (n,), how many pods they allow."""
        return self._of(self._columns.allowed_pods())

    def unschedulable(self) -> Bool:
        """Return, (n,), which are cordoned."""
        cordoned = self._columns.unschedulable()
        return cordoned if self._rows is None else cordoned[self._rows]

    def taints(self) -> Int:
        """Return, (n,), codes into `columns.taint_sets`."""
        return self._of(self._columns.taints())

    def label_codes(self, column: LabelColumn) -> Int:
        """Return, (n,), codes into the values of a label column."""
        return self._of(column.codes(self._columns.size))

    def slots(self, position: int, pods: PodTable) -> list[int]:
        """Return the slots of the pods on one node."""
        return list(pods.on_row(int(self.rows[position])))

    def shift(self, numbers: PerPod) -> Int | None:  # noqa: ARG002 - nothing differs here
        """Return, (n,), by how much a sum over the pods of each node differs from what is.

        Returns:
            `None` where nothing can differ: these are the nodes as they are.
        """
        return None

    def port_conflicts(self, wanted: WantedPorts) -> Bool:
        """Return, (n,), on which nodes at least one of the ports cannot be had."""
        return np.isin(self.rows, list(self._columns.ports.conflicting_rows(wanted)))

    def _of(self, column: Int) -> Int:
        return column if self._rows is None else column[self._rows]


class WhatIfView(NodeView):
    """Rows as they would be with some pods gone and others there; each row for itself.

    Changes are logged and folded into a fact only when a rule asks for it, so a hypothesis costs
    what the rules in play look at. `log` is there for rules with facts of their own.
    """

    __slots__ = (
        "_allocatable",
        "_amounts",
        "_count",
        "_folded",
        "_port_sets",
        "_requested",
        "_shape_log",
        "_shapes",
        "_shifts",
        "_table",
        "log",
    )

    def __init__(self, columns: NodeColumns, pods: PodTable, shapes: Shapes, rows: Rows) -> None:
        super().__init__(columns, rows)
        self._table = pods
        self._shapes = shapes
        #: What changed, in order: (n,) slots, -1 for rows without a change, and +1 or -1.
        self.log: list[tuple[Int, int]] = []
        self._shape_log: list[Int] = []
        self._allocatable: dict[int, Int] = {}
        self._requested: dict[int, tuple[Int, int]] = {}
        #: What the shapes request of each resource, and the largest amount. Nothing comes while
        #: rows are copies, so that is found out once.
        self._amounts: dict[int, tuple[Int, int]] = {}
        self._shifts: dict[PerPod, tuple[Int, int]] = {}
        self._port_sets: dict[int, set[HostPort]] = {}
        self._count: tuple[Int, int] | None = None
        self._folded = 0

    def change(self, slots: Int, sign: int) -> None:
        """Add (+1) or remove (-1) one pod a row.

        Args:
            slots: (n,) slots of the pod table, -1 for rows that do not change.
            sign: +1 or -1.
        """
        self.log.append((slots, sign))
        self._shape_log.append(self._table.shape_codes(slots))

    def allocatable(self, resource: int) -> Int:
        """Return, (n,), what the nodes have of a resource."""
        found = self._allocatable.get(resource)
        if found is None:
            found = self._allocatable[resource] = super().allocatable(resource)
        return found

    def requested(self, resource: int) -> Int:
        """Return, (n,), what pods would request of a resource; valid until the next change."""
        requested, seen = self._requested.get(resource) or (self._exact_requested(resource), 0)
        if seen < len(self.log):
            amounts, largest = self._amounts.get(resource) or self._find_amounts(resource)
            if requested.dtype != np.object_ and self._may_overflow(largest):
                requested = requested.astype(object)
            for (_, sign), shapes in zip(self.log[seen:], self._shape_log[seen:], strict=True):
                if sign > 0:
                    requested += amounts[shapes]
                else:
                    requested -= amounts[shapes]
        self._requested[resource] = (requested, len(self.log))
        return requested

    def _exact_requested(self, resource: int) -> Int:
        """Return, (n,), what is requested now; Python integers where sums are beyond int64."""
        columns = self._columns
        return columns.requested(resource).exact(self.rows, columns.size)

    def _find_amounts(self, resource: int) -> tuple[Int, int]:
        """Return, (S + 1,), how much of a resource each shape requests, and the most."""
        amounts = self._shapes.amounts(resource)
        found = self._amounts[resource] = amounts, int(amounts.max())
        return found

    def _may_overflow(self, largest: int) -> bool:
        """Tell whether so many changes of the largest amount may lead beyond int64.

        Before the changes no number is beyond `MOST`.
        """
        return len(self.log) * largest > _ROOM

    def pods(self) -> Int:
        """Return, (n,), how many pods they would have; valid until the next change."""
        count, seen = self._count or (super().pods(), 0)
        for slots, sign in self.log[seen:]:
            if sign > 0:
                count += slots >= 0
            else:
                count -= slots >= 0
        self._count = (count, len(self.log))
        return count

    def slots(self, position: int, pods: PodTable) -> list[int]:
        """Return the slots of the pods that would be on one node."""
        found = super().slots(position, pods)
        for slots, sign in self.log:
            slot = int(slots[position])
            if slot >= 0:
                (found.append if sign > 0 else found.remove)(slot)
        return found

    def shift(self, numbers: PerPod) -> Int | None:
        """Return, (n,), by how much a sum over the pods of each node would differ.

        Valid until the next change.
        """
        total, seen = self._shifts.get(numbers) or (np.zeros(len(self), dtype=np.int64), 0)
        for slots, sign in self.log[seen:]:
            total += sign * numbers.of(slots)
        self._shifts[numbers] = (total, len(self.log))
        return total

    def port_conflicts(self, wanted: WantedPorts) -> Bool:
        """Return, (n,), on which nodes at least one of the ports could not be had."""
        self._fold_ports()
        conflicts = super().port_conflicts(wanted)
        for position, used in self._port_sets.items():
            conflicts[position] = wanted.conflict(used)
        return conflicts

    def _fold_ports(self) -> None:
        have_ports = self._shapes.have_ports()
        for place in range(self._folded, len(self.log)):
            slots, sign = self.log[place]
            for position in np.flatnonzero(have_ports[self._shape_log[place]]).tolist():
                used = self._port_sets.get(position)
                if used is None:
                    row = int(self.rows[position])
                    used = self._port_sets[position] = self._columns.ports.on(row)
                ports = self._table.shape(int(slots[position])).ports
                (used.update if sign > 0 else used.difference_update)(ports)
        self._folded = len(self.log)
