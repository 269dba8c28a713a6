"""Pod disruption budgets, and which pods they protect.

Source: kube-scheduler v1.36.3 defaultpreemption.filterPodsWithPDBViolation.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from scheduler.model.objects import Pod, PodDisruptionBudget
from scheduler.model.selectors import Selector, SelectorError
from scheduler.state.interning import Interner

__all__ = ["UNPROTECTED", "Budgets"]

#: The code of a pod that no budget protects.
UNPROTECTED: Final = 0


class Budgets:
    """The budgets by namespace, and the sets of them that protect one pod, coded."""

    def __init__(self) -> None:
        self._budgets: dict[str, dict[str, PodDisruptionBudget]] = {}
        self._selectors: dict[str, Selector | None] = {}
        #: Grows with every change.
        self.version = 0
        #: Keys of all budgets that protect a pod, by code.
        self.sets: Final[Interner[tuple[str, ...]]] = Interner(())

    def __iter__(self) -> Iterator[PodDisruptionBudget]:
        return (budget for known in self._budgets.values() for budget in known.values())

    def write(self, budget: PodDisruptionBudget) -> bool:
        """Take over the state of a budget; tell whether it may protect other pods than before."""
        key = _key(budget)
        selector = _selector(budget)
        self.version += 1
        protects = key not in self._selectors or self._selectors[key] != selector
        self._selectors[key] = selector
        self._budgets.setdefault(budget.metadata.namespace, {})[key] = budget
        return protects

    def erase(self, key: str) -> bool:
        """Forget a budget; tell whether it was known."""
        namespace = key.partition("/")[0]
        known = self._budgets.get(namespace, {})
        if key not in known:
            return False
        self.version += 1
        del known[key], self._selectors[key]
        if not known:
            del self._budgets[namespace]
        return True

    def code(self, pod: Pod) -> int:
        """Return the code of the set of budgets that protect a pod."""
        known = self._budgets.get(pod.metadata.namespace)
        labels = pod.metadata.labels
        if not known or not labels:
            return UNPROTECTED
        found = []
        for key in known:
            selector = self._selectors[key]
            if selector is not None and selector.matches(labels):
                found.append(key)
        return self.sets.code(tuple(sorted(found)))

    def protecting(self, pod: Pod) -> tuple[str, ...]:
        """Return the budgets that the API server asks before it evicts a pod, in name order.

        Differs from `code`: here an empty selector selects every pod, one without labels too.

        Source: kubernetes v1.36.3 pkg/registry/core/pod/storage/eviction.go
        getPodDisruptionBudgets.
        """
        known = self._budgets.get(pod.metadata.namespace, {})
        labels = pod.metadata.labels
        return tuple(sorted(key for key, each in known.items() if self._asks(key, each, labels)))

    def _asks(self, key: str, budget: PodDisruptionBudget, labels: Mapping[str, str]) -> bool:
        selector = self._selectors[key]
        if selector is not None:
            return selector.matches(labels)
        wanted = budget.spec.selector
        return wanted is not None and not wanted.match_labels and not wanted.match_expressions

    def allowed(self, key: str) -> int:
        """Return how many more disruptions a budget allows."""
        return self.get(key).status.disruptions_allowed

    def charges(self, key: str, pod: Pod) -> bool:
        """Tell whether evicting a pod is charged; one that was evicted already is not."""
        return pod.metadata.name not in self.get(key).status.disrupted_pods

    def get(self, key: str) -> PodDisruptionBudget:
        """Return a budget by namespace and name."""
        return self._budgets[key.partition("/")[0]][key]


def _key(budget: PodDisruptionBudget) -> str:
    return f"{budget.metadata.namespace}/{budget.metadata.name}"


def _selector(budget: PodDisruptionBudget) -> Selector | None:
    """Return the selector; `None` when it is absent, empty or invalid and so protects nothing."""
    if budget.spec.selector is None:
        return None
    try:
        selector = Selector.of(budget.spec.selector)
    except SelectorError:
        return None
    return None if selector.empty else selector
