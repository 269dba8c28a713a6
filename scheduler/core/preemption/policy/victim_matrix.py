"""The victims of many candidates at once as arrays, and what they share with each other.

Axes: M victims of all candidates together, candidate by candidate; C candidates; P pairs of a
candidate and something that its victims share, such as an owner.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.core.preemption.dry_run_result import slots_of
from scheduler.model.api.objects import Pod
from scheduler.model.api.owners import owner
from scheduler.model.policies import BudgetScope
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Bool, Int, grown
from scheduler.state.columns.interning import Interner
from scheduler.state.columns.row_cursor import RowCursor

__all__ = [
    "NOWHERE",
    "OwnerCodes",
    "Pairs",
    "PdbStanding",
    "VictimFacts",
    "VictimMatrix",
    "distinct",
    "paired",
]

#: The code of names that no victim has.
NOWHERE: Final = -1
#: The names are forgotten when there are twice as many as pods, and this many more.
_SPARE: Final = 4096
#: Numbers up to so many times their count are made distinct by a table of all possible ones.
_SPARSE: Final = 16


class PdbStanding(IntEnum):
    """How a pod counts for disruption budgets."""

    #: It has finished, has not begun, or is being deleted: evicting it uses no PDB up.
    FREE = 0
    READY = 1
    UNREADY = 2

    @classmethod
    def of(cls, pod: Pod) -> "PdbStanding":
        """Return how a pod counts, as long as it has not been evicted.

        Source: kubernetes v1.36.3 pkg/registry/core/pod/storage/eviction.go canIgnorePDB.
        """
        if pod.terminating or pod.terminal or pod.status.phase == "Pending":
            return cls.FREE
        ready = pod.condition("Ready")
        return cls.READY if ready is not None and ready.status == "True" else cls.UNREADY


class VictimFacts(NamedTuple):
    """Facts of some pods; (M,) each."""

    #: Codes of the owners and namespaces.
    owners: Int
    namespaces: Int
    #: A `PdbStanding`.
    standing: Int


class OwnerCodes:
    """Facts of pods as numbers, computed once for each state of a pod."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster: Final = cluster
        self._owners: Interner[str] = Interner()
        self._namespaces: Interner[str] = Interner()
        #: (3, S) the facts by slot, and (S,) whether they are known.
        self._table: NDArray[np.int64] = np.zeros((3, 0), dtype=np.int64)
        self._known: Bool = np.zeros(0, dtype=np.bool_)
        # A slot is on a row only after its pod was written, and that is in this log.
        self._seen = RowCursor(cluster.pods.changes)

    def of(self, slots: Int) -> VictimFacts:
        """Return the facts of the pods in some slots, (M,), which are on nodes.

        Codes are valid until this is called again.
        """
        self._forget_changes(int(slots.max(initial=0)) + 1)
        for slot in slots[~self._known[slots]].tolist():
            pod = self.cluster.pods.pod(slot)
            self._table[:, slot] = (
                self._owners.code(owner(pod)),
                self._namespaces.code(pod.metadata.namespace),
                PdbStanding.of(pod),
            )
            self._known[slot] = True
        return VictimFacts(*self._table[:, slots])

    def _forget_changes(self, size: int) -> None:
        """Mark as unknown the pods that changed, and all when too many names are kept."""
        pods = self.cluster.pods
        if self._known.shape[0] < size:
            self._known = grown(self._known, size)
            more = self._known.shape[0] - self._table.shape[1]
            self._table = np.pad(self._table, ((0, 0), (0, more)))
        rows = self._seen.take_changed(len(pods))
        crowded = max(len(self._owners), len(self._namespaces)) > 2 * len(pods) + _SPARE
        if crowded:
            self._owners, self._namespaces = Interner(), Interner()
        if rows is None or crowded:
            self._known[:] = False
            return
        changed = [slot for row in rows.tolist() for slot in pods.on_row(row)]
        known = np.array(changed, dtype=np.int64)
        self._known[known[known < self._known.shape[0]]] = False

    @property
    def owners(self) -> Sequence[str]:
        """The owner of each code."""
        return self._owners.values

    @property
    def namespaces(self) -> Sequence[str]:
        """The namespace of each code."""
        return self._namespaces.values

    def find(self, scope: BudgetScope, names: Iterable[str]) -> list[int]:
        """Return the codes of namespaces or owners; `NOWHERE` for unknown ones."""
        interner = self._owners if scope is BudgetScope.OWNER else self._namespaces
        return interner.find_all(names, NOWHERE)


@dataclass(frozen=True, slots=True)
class Pairs:
    """What the victims of each candidate share: a namespace, an owner, or a node."""

    #: (P,) the candidate.
    columns: Int
    #: (P,) code of what is shared.
    codes: Int
    #: (M,) the pair of each victim.
    of_victims: Int
    #: The codes in use, each once.
    distinct: Collection[int]

    def count(self, counted: Bool) -> Int:
        """Return, (P,), how many of the counted victims, given as (M,), belong to each pair."""
        return np.bincount(self.of_victims[counted], minlength=self.columns.shape[0])


class VictimMatrix:
    """The victims of many candidates."""

    def __init__(
        self, slots: Int, chosen: Bool, nodes: Sequence[str], owner_codes: OwnerCodes
    ) -> None:
        """Take the victims from the result of a dry run.

        Args:
            slots: (V, C) potential victims, -1 pads.
            chosen: (V, C) True for the victims.
            nodes: (C,) names of the nodes.
            owner_codes: Has the owners of the pods.
        """
        columns, ranks = np.nonzero(chosen.T)
        #: (M,) the candidate and the slot of each victim.
        self.columns: Final[Int] = columns
        self.slots: Final[Int] = slots[ranks, columns]
        self.nodes: Final = nodes
        self._cluster = owner_codes.cluster
        self._owner_codes = owner_codes
        self._facts: VictimFacts | None = None
        self._pairs: dict[BudgetScope, Pairs] = {}
        #: How many victims each candidate has.
        self.sizes: Final[Int] = np.bincount(columns, minlength=len(nodes))

    @classmethod
    def of_victims(
        cls, victims: Sequence[Sequence[Pod]], nodes: Sequence[str], owner_codes: OwnerCodes
    ) -> "VictimMatrix":
        """Return the matrix of given victims, which are on the nodes."""
        slots = slots_of(victims, owner_codes.cluster)
        return cls(slots, slots >= 0, nodes, owner_codes)

    def __len__(self) -> int:
        return len(self.nodes)

    def of(self, column: int, wanted: Bool) -> Int:
        """Return the positions of some victims, given as (M,), that a candidate has."""
        first, last = np.searchsorted(self.columns, (column, column + 1)).tolist()
        positions: Int = first + np.flatnonzero(wanted[first:last])
        return positions

    def pods(self, positions: Int) -> list[Pod]:
        """Return the victims at some positions."""
        return [self._cluster.pods.pod(slot) for slot in self.slots[positions].tolist()]

    @property
    def facts(self) -> VictimFacts:
        """The facts of the victims; (M,) each."""
        return self._find_facts()

    def _find_facts(self) -> VictimFacts:
        if self._facts is None:
            self._facts = self._owner_codes.of(self.slots)
        return self._facts

    def is_any_of(self, uids: Iterable[str]) -> Bool:
        """Return, (M,), which victims have one of some uids."""
        slots = [slot for uid in uids if (slot := self._cluster.pods.slot(uid)) is not None]
        return self._are_in(self.slots, slots)

    def are_in(self, positions: Int, slots: Sequence[int]) -> Bool:
        """Return which victims, given by position, are in one of some slots."""
        return self._are_in(self.slots[positions], slots)

    def _are_in(self, slots: Int, wanted: Sequence[int]) -> Bool:
        if not wanted:
            return np.zeros(slots.shape[0], dtype=np.bool_)
        table = np.zeros(max(int(slots.max(initial=0)), *wanted) + 1, dtype=np.bool_)
        table[[*wanted]] = True
        found: Bool = table[slots]
        return found

    def evicted(self) -> Bool:
        """Return, (M,), which victims have been evicted already."""
        return self.is_any_of(self._cluster.evicting_uids())

    def candidate(self, node: str) -> int | None:
        """Return the candidate on a node, if there is one."""
        return self._columns_by_node.get(node)

    @cached_property
    def _columns_by_node(self) -> dict[str, int]:
        return {name: column for column, name in enumerate(self.nodes)}

    def codes(self, scope: BudgetScope, names: Sequence[str]) -> Int:
        """Return the codes of names in a scope; `NOWHERE` where no victim has the name."""
        match scope:
            case BudgetScope.CLUSTER:
                return np.zeros(len(names), dtype=np.int64)
            case BudgetScope.NODE:
                find = self._columns_by_node.get
                return np.array([find(name, NOWHERE) for name in names], dtype=np.int64)
            case _:
                self._find_facts()
                return np.array(self._owner_codes.find(scope, names), dtype=np.int64)

    def names(self, scope: BudgetScope) -> Sequence[str]:
        """Return the name of each code of the pairs of a scope."""
        match scope:
            case BudgetScope.CLUSTER:
                return ("",)
            case BudgetScope.NODE:
                return self.nodes
            case BudgetScope.NAMESPACE:
                self._find_facts()
                return self._owner_codes.namespaces
            case BudgetScope.OWNER:
                self._find_facts()
                return self._owner_codes.owners

    def pairs(self, scope: BudgetScope) -> Pairs:
        """Return what the victims of each candidate share."""
        pairs = self._pairs.get(scope)
        if pairs is None:
            pairs = self._pairs[scope] = self._pair(scope)
        return pairs

    def _pair(self, scope: BudgetScope) -> Pairs:
        every = np.arange(len(self), dtype=np.int64)
        match scope:
            case BudgetScope.CLUSTER:
                return Pairs(every, np.zeros_like(every), self.columns, (0,))
            case BudgetScope.NODE:
                return Pairs(every, every, self.columns, range(len(self)))
            case BudgetScope.NAMESPACE:
                return paired(self.columns, self.facts.namespaces)
            case BudgetScope.OWNER:
                return paired(self.columns, self.facts.owners)


def paired(columns: Int, codes: Int) -> Pairs:
    """Return the pairs of candidates and codes; (M,) both."""
    width = int(codes.max(initial=0)) + 1
    pairs, of_victims = distinct(columns * width + codes)
    shared = pairs % width
    present = np.zeros(width, dtype=np.bool_)
    present[shared] = True
    return Pairs(pairs // width, shared, of_victims, np.flatnonzero(present).tolist())


def distinct(numbers: Int) -> tuple[Int, Int]:
    """Return the distinct numbers in order, and for each number its position among them.

    Numbers are not negative. The result is that of `np.unique` with `return_inverse`, without
    sorting where the numbers are small.
    """
    bound = int(numbers.max(initial=0)) + 1
    if bound > _SPARSE * numbers.shape[0] + _SPARE:
        unique, positions = np.unique(numbers, return_inverse=True)
        return unique, positions
    present = np.zeros(bound, dtype=np.bool_)
    present[numbers] = True
    unique = np.flatnonzero(present)
    position = np.zeros(bound, dtype=np.int64)
    position[unique] = np.arange(unique.shape[0])
    return unique, position[numbers]
