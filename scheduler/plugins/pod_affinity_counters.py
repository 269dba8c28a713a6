"""The counters behind pod affinity: what the pods around each node count for, by topology key.

`Wanted` asks with the terms of the incoming pod about running pods, `Carried` with the terms of
running pods about the incoming one. Pods of many classes share one counter wherever they ask the
same.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeAlias

from scheduler.model.objects import Pod
from scheduler.model.selectors import Selector
from scheduler.state import tallies
from scheduler.state.census import Census, LabelSet
from scheduler.state.cluster import Cluster
from scheduler.state.tallies import Domains, DomainTally, Weights
from scheduler.state.terms import Scope, Term, Terms, spelled

__all__ = ["Carried", "Judge", "Scoped", "Wanted", "is_about"]

#: A term of the incoming pod: its namespaces, its selector, and what a pod counts for.
Scoped: TypeAlias = tuple[Scope, Selector | None, int]
#: `(carried term, whether it is about the incoming pod) -> what it counts for`.
Judge: TypeAlias = Callable[[Terms, Callable[[Term], bool]], int]


def is_about(scoped: Scoped, namespace: str, labels: Mapping[str, str]) -> bool:
    """Tell whether a term of the incoming pod is about pods with these labels."""
    scope, selector, _ = scoped
    if selector is None or (scope is not None and namespace not in scope):
        return False
    return selector.matches(labels)


class Wanted:
    """Counts the pods that terms of the incoming pod are about."""

    def __init__(
        self, terms: Sequence[tuple[Term, int]], cluster: Cluster, *, jointly: bool = False
    ) -> None:
        """Make the counters.

        Args:
            terms: Of the incoming pod, with what each pod counts for that they are about.
            cluster: Whose pods count.
            jointly: Whether only pods count that all terms are about, and then for 1.
        """
        self._terms = tuple(terms)
        self._cluster = cluster
        self._jointly = jointly
        self._moving = any(each.namespace_selector is not None for each, _ in terms)
        self._seen = -1
        #: The terms with their namespaces as they are.
        self.scoped: tuple[Scoped, ...] = ()
        self._tallies: tuple[DomainTally, ...] = ()

    def tallies(self) -> list[DomainTally]:
        """Return the counters that may count for something, up to date."""
        if self._seen < 0 or (self._moving and self._seen != self._cluster.namespaces_version):
            self._resolve()
        found = [each for each in self._tallies if self._jointly or each.weights.anything()]
        for tally in found:
            tally.refresh()
        return found

    def _resolve(self) -> None:
        """Find out which namespaces the terms are about, and take the counters for them."""
        self._seen = self._cluster.namespaces_version
        namespaces = self._cluster.namespaces
        scoped = tuple(
            (term.scope(namespaces), term.selector, weight) for term, weight in self._terms
        )
        if scoped == self.scoped:
            return
        self.scoped = scoped
        keys = dict.fromkeys(term.topology_key for term, _ in self._terms)
        self._tallies = tuple(_by_domain(self._weights(key), key, self._cluster) for key in keys)

    def _weights(self, topology_key: str) -> Weights[LabelSet]:
        census = self._cluster.pods.census
        if self._jointly:
            return _of_all(census, self.scoped)
        keys = [term.topology_key for term, _ in self._terms]
        pairs = zip(keys, self.scoped, strict=True)
        return _of_each(census, tuple(each for key, each in pairs if key == topology_key))


class Carried:
    """Counts the running pods that carry terms about the incoming pod."""

    def __init__(
        self, pod: Pod, cluster: Cluster, question: Hashable, judge: Judge, *, anti: bool
    ) -> None:
        """Make the counters.

        Args:
            pod: The incoming pod.
            cluster: Whose pods count.
            question: Equal for equal judges.
            judge: What a pod with some terms counts for.
            anti: Whether it looks at required anti-affinity, or at all the other terms.
        """
        self._namespace = pod.metadata.namespace
        self._labels = pod.metadata.labels
        self._cluster = cluster
        self._question = question
        self._judge = judge
        self._anti = anti
        self._namespace_labels: Mapping[str, str] = {}
        self._seen: tuple[int, int, int] = (-1, -1, -1)
        self._weights_by_key: dict[str, Weights[Terms]] = {}
        self._tallies: dict[str, DomainTally] = {}

    def tallies(self) -> list[DomainTally]:
        """Return the counters that may count for something, up to date."""
        carried = self._cluster.pods.census.carried
        seen = (carried.serial, carried.epoch, self._cluster.namespaces_version)
        if seen != self._seen:
            self._seen = seen
            self._follow()
        found = [
            self._tally(key, weights)
            for key, weights in self._weights_by_key.items()
            if weights.anything()
        ]
        for tally in found:
            tally.refresh()
        return found

    def _tally(self, topology_key: str, weights: Weights[Terms]) -> DomainTally:
        found = self._tallies.get(topology_key)
        if found is None:
            found = self._tallies[topology_key] = _by_domain(weights, topology_key, self._cluster)
        return found

    def _follow(self) -> None:
        """Have a counter for each topology key that some pod carries terms for."""
        carried = self._cluster.pods.census.carried
        labels = self._cluster.namespaces.get(self._namespace, {})
        if labels != self._namespace_labels:
            self._namespace_labels = labels
            self._weights_by_key, self._tallies = {}, {}
        keys = carried.anti_keys if self._anti else carried.other_keys
        if keys.keys() != self._weights_by_key.keys():
            known = self._weights_by_key
            self._weights_by_key = {key: known.get(key) or self._weights(key) for key in keys}
            self._tallies = {key: tally for key, tally in self._tallies.items() if key in keys}

    def _weights(self, topology_key: str) -> Weights[Terms]:
        namespace, labels, around = self._namespace, self._labels, self._namespace_labels
        judge = self._judge

        def is_meant(term: Term) -> bool:
            return term.topology_key == topology_key and term.matches(namespace, labels, around)

        asked = (namespace, frozenset(labels.items()), frozenset(around.items()))
        return tallies.of_carried(
            self._cluster.pods.census,
            (self._question, topology_key, asked),
            lambda terms: judge(terms, is_meant),
        )


def _of_all(census: Census, scoped: tuple[Scoped, ...]) -> Weights[LabelSet]:
    """Return 1 for pods that all terms are about."""
    return tallies.of_labels(
        census,
        ("all", _key(scoped)),
        lambda looks: int(all(is_about(each, looks.namespace, looks.labels) for each in scoped)),
    )


def _of_each(census: Census, scoped: tuple[Scoped, ...]) -> Weights[LabelSet]:
    """Return, summed, what the terms count for that are about a pod."""
    return tallies.of_labels(
        census,
        ("each", _key(scoped)),
        lambda looks: sum(
            each[2] for each in scoped if is_about(each, looks.namespace, looks.labels)
        ),
    )


def _key(scoped: tuple[Scoped, ...]) -> Hashable:
    return tuple((scope, spelled(selector), weight) for scope, selector, weight in scoped)


def _by_domain(
    weights: Weights[LabelSet] | Weights[Terms], topology_key: str, cluster: Cluster
) -> DomainTally:
    columns = cluster.columns
    return tallies.by_domain(
        weights, topology_key, lambda: Domains(columns.labels.column(topology_key)), columns
    )
