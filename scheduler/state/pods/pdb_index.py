"""Pod disruption budgets (PDBs), and which pods they protect.

`core/preemption/evaluate/pdb_violations` charges potential victims to them.

Source: kube-scheduler v1.36.3 defaultpreemption.filterPodsWithPDBViolation, the part that matches
pods with PDBs.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from typing import Final

import numpy as np

from scheduler.model.api.objects import Pod, PodDisruptionBudget
from scheduler.model.api.selectors import Selector, SelectorError
from scheduler.state.columns.arrays import Int
from scheduler.state.columns.interning import Interner
from scheduler.state.pods.selector_index import SelectorIndex

__all__ = ["UNPROTECTED", "PdbIndex"]

#: The code of a pod that no PDB protects.
UNPROTECTED: Final = 0

#: Below this number, sets of PDBs are kept even if no pod has them.
_FEW_SETS: Final = 256


class PdbIndex:
    """The PDBs by namespace, and the sets of them that protect one pod, coded."""

    def __init__(self) -> None:
        self._pdbs: dict[str, dict[str, PodDisruptionBudget]] = {}
        self._selectors: dict[str, Selector | None] = {}
        #: By namespace, the keys of its PDBs and the index of their selectors; made on demand.
        self._indices: dict[str, tuple[tuple[str, ...], SelectorIndex]] = {}
        #: Grows with every change.
        self.version = 0
        #: By code, the keys of all PDBs in the set.
        self.sets: Interner[tuple[str, ...]] = Interner(())
        #: The codes of the sets that a PDB is in.
        self._codes_with: dict[str, set[int]] = {}
        #: From this number on, sets that protect no pod are dropped.
        self._crowded = _FEW_SETS

    def __iter__(self) -> Iterator[PodDisruptionBudget]:
        return (pdb for known in self._pdbs.values() for pdb in known.values())

    def write(self, pdb: PodDisruptionBudget) -> bool:
        """Store the state of a PDB; return whether it may protect other pods than before."""
        key, namespace = pdb.metadata.key, pdb.metadata.namespace
        selector = _selector(pdb)
        self.version += 1
        protects = key not in self._selectors or self._selectors[key] != selector
        self._selectors[key] = selector
        self._pdbs.setdefault(namespace, {})[key] = pdb
        if protects:
            self._indices.pop(namespace, None)
        return protects

    def erase(self, key: str) -> bool:
        """Remove a PDB; return whether it was known."""
        namespace = _namespace(key)
        known = self._pdbs.get(namespace, {})
        if key not in known:
            return False
        self.version += 1
        del known[key], self._selectors[key]
        self._indices.pop(namespace, None)
        if not known:
            del self._pdbs[namespace]
        return True

    def code(self, pod: Pod) -> int:
        """Return the code of the set of PDBs that protect a pod."""
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        if not labels or namespace not in self._pdbs:
            return UNPROTECTED
        keys, index = self._index(namespace)
        matching = index.matching(labels)
        return self._code(sorted(keys[item] for item in matching)) if matching else UNPROTECTED

    def protects(self, key: str, labels: Mapping[str, str]) -> bool:
        """Return whether a PDB protects pods with these labels in its namespace."""
        selector = self._selectors.get(key)
        return bool(labels) and selector is not None and selector.matches(labels)

    def with_key(self, code: int, key: str) -> int:
        """Return the code of a set with one more PDB in it."""
        keys = self.sets.values[code]
        return code if key in keys else self._code(sorted((*keys, key)))

    def without_key(self, code: int, key: str) -> int:
        """Return the code of a set without one PDB."""
        keys = self.sets.values[code]
        return self._code([other for other in keys if other != key]) if key in keys else code

    def codes_with(self, key: str) -> Set[int]:
        """Return the codes of the sets that a PDB is in."""
        return self._codes_with.get(key, frozenset())

    @property
    def needs_compaction(self) -> bool:
        """Whether there may be many sets that protect no pod."""
        return len(self.sets) >= self._crowded

    def compact(self, used: Iterable[int]) -> Int:
        """Drop all sets but those with some codes; return the new codes, by the old ones."""
        before, self.sets = self.sets, Interner(())
        self._codes_with.clear()
        renamed = np.zeros(len(before), dtype=np.int64)
        for code in used:
            renamed[code] = self._code(before.values[code])
        self._crowded = max(_FEW_SETS, 2 * len(self.sets))
        return renamed

    def _code(self, keys: Sequence[str]) -> int:
        known = len(self.sets)
        code = self.sets.code(tuple(keys))
        if len(self.sets) > known:
            for key in keys:
                self._codes_with.setdefault(key, set()).add(code)
        return code

    def _index(self, namespace: str) -> tuple[tuple[str, ...], SelectorIndex]:
        entry = self._indices.get(namespace)
        if entry is None:
            keys = tuple(self._pdbs[namespace])
            index = SelectorIndex([self._selectors[key] for key in keys])
            entry = self._indices[namespace] = (keys, index)
        return entry

    def protecting(self, pod: Pod) -> tuple[str, ...]:
        """Return the PDBs that the API server checks before it evicts a pod, in name order.

        Differs from `code`: here an empty selector selects every pod, one without labels too.

        Source: kubernetes v1.36.3 pkg/registry/core/pod/storage/eviction.go
        getPodDisruptionBudgets.
        """
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        known = self._pdbs.get(namespace)
        if not known:
            return ()
        keys, index = self._index(namespace)
        matching = {keys[item] for item in index.matching(labels)}
        matching.update(key for key, pdb in known.items() if _selects_all(pdb))
        return tuple(sorted(matching))

    def protects_unlabelled(self, key: str) -> bool:
        """Return whether the API server checks a PDB before it evicts a pod without labels."""
        selector = self._selectors.get(key)
        return self.selects_all(key) or (selector is not None and selector.matches({}))

    def selects_all(self, key: str) -> bool:
        """Return whether a PDB selects every pod of its namespace, by the API server's rules."""
        return _selects_all(self.get(key))

    def allowed(self, key: str) -> int:
        """Return how many more disruptions a PDB allows."""
        return self.get(key).status.disruptions_allowed

    def disrupted(self, key: str) -> Collection[str]:
        """Return the names of pods that are charged already: evicting them costs nothing more."""
        return self.get(key).status.disrupted_pods.keys()

    def find(self, key: str) -> PodDisruptionBudget | None:
        """Return a PDB by namespace and name, if it is known."""
        return self._pdbs.get(_namespace(key), {}).get(key)

    def get(self, key: str) -> PodDisruptionBudget:
        """Return a PDB by namespace and name."""
        return self._pdbs[_namespace(key)][key]


def _namespace(key: str) -> str:
    return key.rpartition("/")[0]


def _selects_all(pdb: PodDisruptionBudget) -> bool:
    wanted = pdb.spec.selector
    return wanted is not None and not wanted.match_labels and not wanted.match_expressions


def _selector(pdb: PodDisruptionBudget) -> Selector | None:
    """Return the selector; `None` if it is absent, empty or invalid, and so protects no pod."""
    if pdb.spec.selector is None:
        return None
    try:
        selector = Selector.of(pdb.spec.selector)
    except SelectorError:
        return None
    return None if selector.empty else selector
