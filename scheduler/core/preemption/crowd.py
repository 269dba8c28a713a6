"""The victims of many candidates at once, and what they share with each other.

Axes: M victims of all candidates together, candidate by candidate; C candidates; P pairs of a
candidate and something that its victims share, such as an owner.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.model.objects import ObjectMeta, Pod
from scheduler.model.owners import owner
from scheduler.model.policies import BudgetScope
from scheduler.state.arrays import Bool, Int
from scheduler.state.cluster import Cluster
from scheduler.state.interning import Interner

__all__ = ["Crowd", "Families", "Pairs", "paired"]

#: So many names more than pods are kept before all are forgotten.
_SPARE: Final = 4096


class Families:
    """Codes for the owners and namespaces of pods, found out once for each state of a pod."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster: Final = cluster
        self._owners: Interner[str] = Interner()
        self._namespaces: Interner[str] = Interner()
        #: By slot: what the codes were found in, and the codes of owner and namespace.
        self._known: dict[int, tuple[ObjectMeta, int, int]] = {}

    def of(self, slots: Int) -> tuple[Int, Int]:
        """Return, (M,) each, the codes of the owners and namespaces of the pods in some slots.

        Codes are good until this is called again.
        """
        most = 2 * len(self.cluster.pods) + _SPARE
        if len(self._owners) > most or len(self._known) > most:
            self._owners, self._namespaces = Interner(), Interner()
            self._known.clear()
        found = np.array([self._codes(slot) for slot in slots.tolist()], dtype=np.int64)
        found = found.reshape(-1, 2)
        return found[:, 0], found[:, 1]

    def _codes(self, slot: int) -> tuple[int, int]:
        pod = self.cluster.pods.pod(slot)
        known = self._known.get(slot)
        if known is None or known[0] is not pod.metadata:
            namespace = self._namespaces.code(pod.metadata.namespace)
            known = (pod.metadata, self._owners.code(owner(pod)), namespace)
            self._known[slot] = known
        return known[1:]

    @property
    def owners(self) -> Sequence[str]:
        """The owner of each code."""
        return self._owners.values

    @property
    def namespaces(self) -> Sequence[str]:
        """The namespace of each code."""
        return self._namespaces.values


@dataclass(frozen=True, slots=True)
class Pairs:
    """What the victims of each candidate share: a namespace, an owner, or a node."""

    #: (P,) the candidate.
    columns: Int
    #: (P,) code of what is shared.
    codes: Int
    #: (M,) the pair of each victim.
    of_victims: Int
    #: The codes that there are, each once.
    distinct: Sequence[int]

    def count(self, counted: Bool) -> Int:
        """Return, (P,), how many victims that are counted belong to each pair; (M,) given."""
        return np.bincount(self.of_victims[counted], minlength=self.columns.shape[0])


class Crowd:
    """The victims of many candidates."""

    def __init__(self, slots: Int, chosen: Bool, nodes: Sequence[str], families: Families) -> None:
        """Look at the outcome of a dry run.

        Args:
            slots: (V, C) pods that could go, -1 pads.
            chosen: (V, C) True for the victims.
            nodes: (C,) names of the nodes.
            families: Knows the owners of the pods.
        """
        columns, ranks = np.nonzero(chosen.T)
        #: (M,) the candidate and the slot of each victim.
        self.columns: Final[Int] = columns
        self.slots: Final[Int] = slots[ranks, columns]
        self.nodes: Final = nodes
        self._cluster = families.cluster
        self._families = families
        self._codes: tuple[Int, Int] | None = None
        self._pairs: dict[BudgetScope, Pairs] = {}
        #: How many victims each candidate has.
        self.sizes: Final[Int] = np.bincount(columns, minlength=len(nodes))

    def __len__(self) -> int:
        return len(self.nodes)

    def pod(self, place: int) -> Pod:
        """Return a victim."""
        return self._cluster.pods.pod(int(self.slots[place]))

    def _of_families(self) -> tuple[Int, Int]:
        if self._codes is None:
            self._codes = self._families.of(self.slots)
        return self._codes

    def names(self, scope: BudgetScope) -> Sequence[str]:
        """Return what each code of the pairs of a scope stands for."""
        match scope:
            case BudgetScope.CLUSTER:
                return ("",)
            case BudgetScope.NODE:
                return self.nodes
            case BudgetScope.NAMESPACE:
                self._of_families()
                return self._families.namespaces
            case BudgetScope.OWNER:
                self._of_families()
                return self._families.owners

    def pairs(self, scope: BudgetScope) -> Pairs:
        """Return what the victims of each candidate share."""
        found = self._pairs.get(scope)
        if found is None:
            found = self._pairs[scope] = self._pair(scope)
        return found

    def _pair(self, scope: BudgetScope) -> Pairs:
        every = np.arange(len(self), dtype=np.int64)
        match scope:
            case BudgetScope.CLUSTER:
                return Pairs(every, np.zeros_like(every), self.columns, (0,))
            case BudgetScope.NODE:
                return Pairs(every, every, self.columns, range(len(self)))
            case BudgetScope.NAMESPACE:
                return paired(self.columns, self._of_families()[1])
            case BudgetScope.OWNER:
                return paired(self.columns, self._of_families()[0])


def paired(columns: Int, codes: Int) -> Pairs:
    """Return the pairs of candidates and codes; (M,) both."""
    width = int(codes.max(initial=0)) + 1
    pairs, of_victims = np.unique(columns * width + codes, return_inverse=True)
    shared = pairs % width
    present = np.zeros(width, dtype=np.bool_)
    present[shared] = True
    return Pairs(pairs // width, shared, of_victims, np.flatnonzero(present).tolist())
