"""Views of node rows: the present state, and hypothetical states.

Every plugin is written against `NodeView`. The live cluster, a few rows to refresh and the
hypothetical copies of preemption are three kinds of it, so a plugin need not distinguish them.

Axes: n rows of the view.
"""

from typing import Final, NamedTuple, Protocol

import numpy as np

from scheduler.state.columns.arrays import MAX_NUMBER, Bool, Int, Rows
from scheduler.state.columns.labels import LabelColumn
from scheduler.state.columns.node_columns import NodeColumns
from scheduler.state.columns.pod_footprints import HostPort, PodFootprints, WantedPorts
from scheduler.state.pods.pod_table import PodTable

__all__ = ["HypotheticalView", "NodeView", "PerPod"]

#: How much may be added to a number up to `MAX_NUMBER` within int64.
_HEADROOM: Final = 2**62 - MAX_NUMBER


class GonePods(NamedTuple):
    """Pods that are gone, and whose claims count as deallocated although they are not yet."""

    #: By uid.
    pods: frozenset[str]
    #: Keys of the claims that they used.
    claims: frozenset[str]


NOBODY: Final = GonePods(frozenset(), frozenset())


class PerPod(Protocol):
    """A number for each pod."""

    def of(self, slots: Int) -> Int:
        """Return, (n,), the numbers of the pods in some slots, 0 for slots below 0."""
        ...


class NodeView:
    """Some or all rows of the cluster in their present state. Not to be written to."""

    __slots__ = ("_columns", "_rows")

    def __init__(self, columns: NodeColumns, rows: Rows | None = None) -> None:
        self._columns = columns
        self._rows = rows

    def __len__(self) -> int:
        return self._columns.size if self._rows is None else self._rows.shape[0]

    @property
    def columns(self) -> NodeColumns:
        """The columns that the rows index."""
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
        """Return, (n,), the allocatable amounts of a resource."""
        column, size = self._columns.allocatable(resource), self._columns.size
        return column.all(size) if self._rows is None else column.take(self._rows, size)

    def requested(self, resource: int) -> Int:
        """Return, (n,), the requests of the pods for a resource."""
        column, size = self._columns.requested(resource), self._columns.size
        return column.all(size) if self._rows is None else column.take(self._rows, size)

    def non_zero(self, index: int) -> Int:
        """Return, (n,), the non-zero requests, for scores: 0 milli-cpu, 1 bytes of memory."""
        column, size = self._columns.non_zero(index), self._columns.size
        return column.all(size) if self._rows is None else column.take(self._rows, size)

    def pods(self) -> Int:
        """Return, (n,), the number of pods."""
        return self._of(self._columns.pods())

    def allowed_pods(self) -> Int:
        """Return, (n,), the number of allowed pods."""
        return self._of(self._columns.allowed_pods())

    def unschedulable(self) -> Bool:
        """Return, (n,), which nodes are cordoned."""
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
        """Return, (n,), by how much a sum over the pods of each node differs from the present one.

        Returns:
            `None` if nothing can differ, because this is the present state.
        """
        return None

    def port_conflicts(self, wanted: WantedPorts) -> Bool:
        """Return, (n,), on which nodes at least one of the ports conflicts."""
        return np.isin(self.rows, list(self._columns.ports.conflicting_rows(wanted)))

    def _of(self, column: Int) -> Int:
        return column if self._rows is None else column[self._rows]


class HypotheticalView(NodeView):
    """Copies of rows with some pods removed and others added; each row by itself.

    Changes are logged, and applied to a value only when a plugin reads it, so the cost depends on
    the values that the plugins read. Plugins with values of their own read `log`.
    """

    __slots__ = (
        "_allocatable",
        "_amounts",
        "_count",
        "_folded",
        "_footprint_log",
        "_footprints",
        "_port_sets",
        "_requested",
        "_shifts",
        "_table",
        "gone",
        "log",
    )

    def __init__(
        self,
        columns: NodeColumns,
        pods: PodTable,
        footprints: PodFootprints,
        rows: Rows,
        gone: GonePods = NOBODY,
    ) -> None:
        super().__init__(columns, rows)
        self._table = pods
        self._footprints = footprints
        self.gone: Final = gone
        #: The changes in order: (n,) slots, -1 for rows without a change, and +1 or -1.
        self.log: list[tuple[Int, int]] = []
        self._footprint_log: list[Int] = []
        self._allocatable: dict[int, Int] = {}
        self._requested: dict[int, tuple[Int, int]] = {}
        #: By resource, the requests of all footprints and the largest one. No footprint is added
        #: during the life of a view, so they are computed once.
        self._amounts: dict[int, tuple[Int, int]] = {}
        self._shifts: dict[PerPod, tuple[Int, int]] = {}
        self._port_sets: dict[int, set[HostPort]] = {}
        self._count: tuple[Int, int] | None = None
        self._folded = 0

    def change(self, slots: Int, sign: int) -> None:
        """Add (+1) or remove (-1) one pod on each row.

        Args:
            slots: (n,) slots of the pod table, -1 for rows that do not change.
            sign: +1 or -1.
        """
        self.log.append((slots, sign))
        self._footprint_log.append(self._table.footprint_codes(slots))

    def allocatable(self, resource: int) -> Int:
        """Return, (n,), the allocatable amounts of a resource."""
        allocatable = self._allocatable.get(resource)
        if allocatable is None:
            allocatable = self._allocatable[resource] = super().allocatable(resource)
        return allocatable

    def requested(self, resource: int) -> Int:
        """Return, (n,), the requests of the pods for a resource; valid until the next change."""
        requested, seen = self._requested.get(resource) or (self._exact_requested(resource), 0)
        if seen < len(self.log):
            amounts, largest = self._amounts.get(resource) or self._find_amounts(resource)
            if requested.dtype != np.object_ and self._may_overflow(largest):
                requested = requested.astype(object)
            for (_, sign), footprints in zip(
                self.log[seen:], self._footprint_log[seen:], strict=True
            ):
                if sign > 0:
                    requested += amounts[footprints]
                else:
                    requested -= amounts[footprints]
        self._requested[resource] = (requested, len(self.log))
        return requested

    def _exact_requested(self, resource: int) -> Int:
        """Return, (n,), the present requests; Python integers if sums are beyond int64."""
        columns = self._columns
        return columns.requested(resource).exact(self.rows, columns.size)

    def _find_amounts(self, resource: int) -> tuple[Int, int]:
        """Return, (S + 1,), the request of each footprint for a resource, and the largest one."""
        amounts = self._footprints.amounts(resource)
        result = self._amounts[resource] = amounts, int(amounts.max())
        return result

    def _may_overflow(self, largest: int) -> bool:
        """Return whether the changes may overflow int64, if each has the largest amount.

        Before the changes no number is beyond `MAX_NUMBER`.
        """
        return len(self.log) * largest > _HEADROOM

    def pods(self) -> Int:
        """Return, (n,), the number of pods; valid until the next change."""
        count, seen = self._count or (super().pods(), 0)
        for slots, sign in self.log[seen:]:
            if sign > 0:
                count += slots >= 0
            else:
                count -= slots >= 0
        self._count = (count, len(self.log))
        return count

    def slots(self, position: int, pods: PodTable) -> list[int]:
        """Return the slots of the pods on one node."""
        on_node = super().slots(position, pods)
        for slots, sign in self.log:
            slot = int(slots[position])
            if slot >= 0:
                (on_node.append if sign > 0 else on_node.remove)(slot)
        return on_node

    def shift(self, numbers: PerPod) -> Int | None:
        """Return, (n,), by how much a sum over the pods of each node differs from the present one.

        Valid until the next change.
        """
        total, seen = self._shifts.get(numbers) or (np.zeros(len(self), dtype=np.int64), 0)
        for slots, sign in self.log[seen:]:
            total += sign * numbers.of(slots)
        self._shifts[numbers] = (total, len(self.log))
        return total

    def port_conflicts(self, wanted: WantedPorts) -> Bool:
        """Return, (n,), on which nodes at least one of the ports conflicts."""
        self._fold_ports()
        conflicts = super().port_conflicts(wanted)
        for position, used in self._port_sets.items():
            conflicts[position] = wanted.conflict(used)
        return conflicts

    def _fold_ports(self) -> None:
        have_ports = self._footprints.have_ports()
        for index in range(self._folded, len(self.log)):
            slots, sign = self.log[index]
            for position in np.flatnonzero(have_ports[self._footprint_log[index]]).tolist():
                used = self._port_sets.get(position)
                if used is None:
                    row = int(self.rows[position])
                    used = self._port_sets[position] = self._columns.ports.on(row)
                ports = self._table.footprint(int(slots[position])).ports
                (used.update if sign > 0 else used.difference_update)(ports)
        self._folded = len(self.log)
