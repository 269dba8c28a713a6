"""Pod disruption budgets (PDBs), and which pods they protect.

`core/preemption/evaluate/pdb_violations` charges potential victims to them.

A PDB protects the same pods here as in the API server: an empty selector selects every pod of the
namespace, one without labels too, and an absent selector none.

Source: kubernetes v1.36.3 pkg/registry/core/pod/storage/eviction.go getPodDisruptionBudgets.
Differs from kube-scheduler v1.36.3 and v1.37.2 defaultpreemption.filterPodsWithPDBViolation: it
skips empty selectors and pods without labels; kubernetes/kubernetes#141785 has mended that since.
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
        protecting = self.protecting(pod)
        return self._code(protecting) if protecting else UNPROTECTED

    def protecting(self, pod: Pod) -> tuple[str, ...]:
        """Return the PDBs that protect a pod, in name order."""
        namespace = pod.metadata.namespace
        if namespace not in self._pdbs:
            return ()
        keys, index = self._index(namespace)
        return tuple(sorted(keys[item] for item in index.matching(pod.metadata.labels)))

    def protects(self, key: str, labels: Mapping[str, str]) -> bool:
        """Return whether a PDB protects pods with these labels in its namespace."""
        selector = self._selectors.get(key)
        return selector is not None and selector.matches(labels)

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


def _selector(pdb: PodDisruptionBudget) -> Selector | None:
    """Return the selector; `None` if it is absent or invalid, and so protects no pod."""
    if pdb.spec.selector is None:
        return None
    try:
        return Selector.of(pdb.spec.selector)
    except SelectorError:
        return None
