"""Pod disruption budgets, and which pods they protect.

Source: kube-scheduler v1.36.3 defaultpreemption.filterPodsWithPDBViolation.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from typing import Final

import numpy as np

from scheduler.model.api.objects import Pod, PodDisruptionBudget
from scheduler.model.api.selectors import Selector, SelectorError
from scheduler.state.columns.arrays import Int
from scheduler.state.columns.interning import Interner
from scheduler.state.pods.selector_index import SelectorIndex

__all__ = ["UNPROTECTED", "BudgetIndex"]

#: The code of a pod that no budget protects.
UNPROTECTED: Final = 0

#: Fewer sets of budgets than this are kept although no pod has them.
_FEW_SETS: Final = 256


class BudgetIndex:
    """The budgets by namespace, and the sets of them that protect one pod, coded."""

    def __init__(self) -> None:
        self._budgets: dict[str, dict[str, PodDisruptionBudget]] = {}
        self._selectors: dict[str, Selector | None] = {}
        #: The selectors of a namespace with their keys, found by labels; made when asked for.
        self._indices: dict[str, tuple[tuple[str, ...], SelectorIndex]] = {}
        #: Grows with every change.
        self.version = 0
        #: Keys of all budgets that protect a pod, by code.
        self.sets: Interner[tuple[str, ...]] = Interner(())
        #: The codes of the sets that a budget is in.
        self._codes_with: dict[str, set[int]] = {}
        #: With so many sets, those that protect no pod are forgotten.
        self._crowded = _FEW_SETS

    def __iter__(self) -> Iterator[PodDisruptionBudget]:
        return (budget for known in self._budgets.values() for budget in known.values())

    def write(self, budget: PodDisruptionBudget) -> bool:
        """Take over the state of a budget; tell whether it may protect other pods than before."""
        key, namespace = _key(budget), budget.metadata.namespace
        selector = _selector(budget)
        self.version += 1
        protects = key not in self._selectors or self._selectors[key] != selector
        self._selectors[key] = selector
        self._budgets.setdefault(namespace, {})[key] = budget
        if protects:
            self._indices.pop(namespace, None)
        return protects

    def erase(self, key: str) -> bool:
        """Forget a budget; tell whether it was known."""
        namespace = key.partition("/")[0]
        known = self._budgets.get(namespace, {})
        if key not in known:
            return False
        self.version += 1
        del known[key], self._selectors[key]
        self._indices.pop(namespace, None)
        if not known:
            del self._budgets[namespace]
        return True

    def code(self, pod: Pod) -> int:
        """Return the code of the set of budgets that protect a pod."""
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        if not labels or namespace not in self._budgets:
            return UNPROTECTED
        keys, index = self._index(namespace)
        found = index.matching(labels)
        return self._code(sorted(keys[place] for place in found)) if found else UNPROTECTED

    def protects(self, key: str, labels: Mapping[str, str]) -> bool:
        """Tell whether a budget protects pods with these labels in its namespace."""
        selector = self._selectors.get(key)
        return bool(labels) and selector is not None and selector.matches(labels)

    def with_key(self, code: int, key: str) -> int:
        """Return the code of a set with one more budget in it."""
        keys = self.sets.values[code]
        return code if key in keys else self._code(sorted((*keys, key)))

    def without_key(self, code: int, key: str) -> int:
        """Return the code of a set without one budget."""
        keys = self.sets.values[code]
        return self._code([each for each in keys if each != key]) if key in keys else code

    def codes_with(self, key: str) -> Set[int]:
        """Return the codes of the sets that a budget is in."""
        return self._codes_with.get(key, frozenset())

    @property
    def crowded(self) -> bool:
        """Whether there may be many sets that protect no pod."""
        return len(self.sets) >= self._crowded

    def compact(self, used: Iterable[int]) -> Int:
        """Forget all sets but those with some codes; return the new codes by the old ones."""
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
        found = self._indices.get(namespace)
        if found is None:
            keys = tuple(self._budgets[namespace])
            index = SelectorIndex([self._selectors[key] for key in keys])
            found = self._indices[namespace] = (keys, index)
        return found

    def protecting(self, pod: Pod) -> tuple[str, ...]:
        """Return the budgets that the API server asks before it evicts a pod, in name order.

        Differs from `code`: here an empty selector selects every pod, one without labels too.

        Source: kubernetes v1.36.3 pkg/registry/core/pod/storage/eviction.go
        getPodDisruptionBudgets.
        """
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        known = self._budgets.get(namespace)
        if not known:
            return ()
        keys, index = self._index(namespace)
        found = {keys[place] for place in index.matching(labels)}
        found.update(key for key, each in known.items() if _selects_all(each))
        return tuple(sorted(found))

    def selects_all(self, key: str) -> bool:
        """Tell whether a budget selects every pod of its namespace, as the API server sees it."""
        return _selects_all(self.get(key))

    def allowed(self, key: str) -> int:
        """Return how many more disruptions a budget allows."""
        return self.get(key).status.disruptions_allowed

    def disrupted(self, key: str) -> Collection[str]:
        """Return the names of pods that are charged already: evicting them is not."""
        return self.get(key).status.disrupted_pods.keys()

    def find(self, key: str) -> PodDisruptionBudget | None:
        """Return a budget by namespace and name, if it is known."""
        return self._budgets.get(key.partition("/")[0], {}).get(key)

    def get(self, key: str) -> PodDisruptionBudget:
        """Return a budget by namespace and name."""
        return self._budgets[key.partition("/")[0]][key]


def _key(budget: PodDisruptionBudget) -> str:
    return f"{budget.metadata.namespace}/{budget.metadata.name}"


def _selects_all(budget: PodDisruptionBudget) -> bool:
    wanted = budget.spec.selector
    return wanted is not None and not wanted.match_labels and not wanted.match_expressions


def _selector(budget: PodDisruptionBudget) -> Selector | None:
    """Return the selector; `None` when it is absent, empty or invalid and so protects nothing."""
    if budget.spec.selector is None:
        return None
    try:
        selector = Selector.of(budget.spec.selector)
    except SelectorError:
        return None
    return None if selector.empty else selector
