"""Copies the state of a machine, in short steps during which the machine must not run.

A copy has references to values that never change, and copies of all that does. So it takes a
microsecond for a waiting pod, and another thread can encode it while the machine continues.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from scheduler.core.eviction.plan import Placement, PreemptionPlan
from scheduler.core.machine import Machine
from scheduler.core.snapshot.walk import CLASSES, RECORDS, owned_fields
from scheduler.model.api.objects import Pod

__all__ = ["UNCHANGED", "ClusterCopy", "MachineCopy", "copying"]

_T = TypeVar("_T")

#: How many records are copied in one step: well below a millisecond.
_AT_ONCE: Final = 256
#: Positions in the change logs mean nothing to another machine. In a copy a placement has this one
#: if its node has not changed since the decision, else -1.
UNCHANGED: Final = 0

_TAKE: Final = {kind: attrgetter(*names) for kind, names in RECORDS.items()}
#: Types whose values have no part that changes.
_FROZEN: Final = frozenset(
    {bool, int, float, str, bytes, frozenset, type(None), *CLASSES.values()}
) - {*RECORDS, PreemptionPlan}


@dataclass(slots=True)
class ClusterCopy:
    """What the cluster is derived from."""

    #: Names of the nodes by row; empty for free rows, which are used from the end of `free`.
    names: list[str] = field(default_factory=list)
    free: tuple[int, ...] = ()
    #: Pods by slot, and the slots of each row in NodeInfo order.
    pods: list[Pod | None] = field(default_factory=list)
    on_row: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    #: Nominated pods with their nodes, oldest first.
    nominations: list[tuple[Pod, str]] = field(default_factory=list)
    #: All objects except pods.
    objects: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class MachineCopy:
    """The state of a machine at one moment."""

    cluster: ClusterCopy = field(default_factory=ClusterCopy)
    #: Copies of the fields of the state, by path.
    fields: dict[str, Any] = field(default_factory=dict)
    #: Each record with its fields, by identity.
    records: dict[int, tuple[Any, tuple[Any, ...]]] = field(default_factory=dict)
    #: What is missing, so that a machine may go on otherwise; nothing in most moments.
    lacks: tuple[str, ...] = ()


def copying(machine: Machine, into: MachineCopy) -> Iterator[None]:
    """Copy the state of a machine step by step; each step takes less than about a millisecond.

    The machine must not be called between two steps.

    Args:
        machine: The machine.
        into: An empty copy, which is complete when the iterator ends.
    """
    into.lacks = machine.not_copied()
    yield from _copying_cluster(machine, into.cluster)
    copier = _Copier(machine, into.records)
    for path, owner, name in owned_fields(machine.state):
        value = getattr(owner, name)
        if isinstance(value, dict | list) and len(value) > _AT_ONCE and _has_records(value):
            items = iter(value.values() if isinstance(value, dict) else value)
            while batch := tuple(islice(items, _AT_ONCE)):
                copier.copy(batch)
                yield
            into.fields[path] = value.copy()
        else:
            into.fields[path] = copier.copy(value)
        yield


def _has_records(value: dict[Any, Any] | list[Any]) -> bool:
    """Return whether the items of a container are records, or tuples with records."""
    some = next(iter(value.values() if isinstance(value, dict) else value))
    return type(some) in _TAKE or type(some) is tuple


def _copying_cluster(machine: Machine, into: ClusterCopy) -> Iterator[None]:
    cluster = machine.cluster
    into.names, into.free = [*cluster.columns.names], cluster.columns.free_rows
    yield
    into.pods = cluster.pods.by_slot()
    yield
    yield from _copying_items(cluster.pods.rows(), into.on_row)
    nominations = ((each.pod, each.node) for each in cluster.nominations)
    yield from _copying_items(nominations, into.nominations)
    yield from _copying_items(cluster.objects(), into.objects)


def _copying_items(items: Iterable[_T], into: list[_T]) -> Iterator[None]:
    """Append items step by step."""
    left = iter(items)
    while batch := tuple(islice(left, _AT_ONCE)):
        into += batch
        yield


class _Copier:
    """Copies values; the items of one container are all of one type."""

    def __init__(self, machine: Machine, records: dict[int, tuple[Any, tuple[Any, ...]]]) -> None:
        self._logs = machine.preemptions.facts.change_logs()
        self._rows = machine.cluster.columns.row
        self._records = records

    def copy(self, value: Any) -> Any:
        """Return a copy of a value; values that never change, and records, are the same ones.

        Raises:
            TypeError: The value is of a type that the state does not declare.
        """
        kind = type(value)
        if kind in _FROZEN:
            return value
        if kind in _TAKE:
            self._copy_record(value)
        elif kind is tuple:
            self._copy_records(value)
        elif kind in (list, deque, set):
            copied = value.copy()
            self._copy_records(copied)
            return copied
        elif kind in (dict, Counter):
            return self._copy_mapping(value)
        elif kind is PreemptionPlan:
            placements = tuple(map(self._with_changes, value.placements))
            return replace(value, placements=placements)
        else:
            raise TypeError(f"a snapshot cannot copy {kind.__name__}")
        return value

    def _copy_mapping(self, value: dict[Any, Any]) -> dict[Any, Any]:
        copied = value.copy()
        some = next(iter(copied.items()), None)
        if some is None:
            return copied
        if type(some[0]) not in _FROZEN:
            self._copy_records(copied)
        if type(some[1]) in _TAKE or type(some[1]) in _FROZEN:
            self._copy_records(copied.values())
            return copied
        for key, item in copied.items():
            copied[key] = self.copy(item)
        return copied

    def _copy_records(self, items: Iterable[Any]) -> None:
        """Copy the records among some items, which have no other parts that change."""
        known = self._records
        for item in items:
            if type(item) not in _FROZEN and id(item) not in known:
                self.copy(item)

    def _copy_record(self, record: Any) -> None:
        if id(record) not in self._records:
            taken = _TAKE[type(record)](record)
            # Known before its parts are copied, which may refer to it.
            self._records[id(record)] = (record, taken)
            if not _FROZEN.issuperset(map(type, taken)):
                self._records[id(record)] = (record, tuple(map(self.copy, taken)))

    def _with_changes(self, placement: Placement) -> Placement:
        """Return a placement with what has changed in place of positions in the change logs."""
        row, positions = self._rows(placement.node), placement.log_positions
        if row is None or not positions:
            return replace(placement, log_positions=())
        changed = (
            -1 if log.has_changed(row, position) else UNCHANGED
            for log, position in zip(self._logs, positions, strict=True)
        )
        return replace(placement, log_positions=tuple(changed))
