"""The counters behind pod affinity: what the pods around each node count for, by topology key.

`Wanted` asks with the terms of the incoming pod about running pods, `Carried` with the terms of
running pods about the incoming one. Pods of many classes share one counter wherever they ask the
same.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeAlias

from scheduler.model.api.objects import Pod
from scheduler.model.api.selectors import Selector
from scheduler.plugins.inter_pod_affinity import term_sets
from scheduler.plugins.inter_pod_affinity.term_sets import Counted
from scheduler.state.cluster import Cluster
from scheduler.state.pods.affinity_terms import (
    MANY,
    AffinityTerm,
    AffinityTerms,
    TermList,
    TermScope,
    spelled,
)
from scheduler.state.pods.pod_index import LabelSet, PodIndex
from scheduler.state.views import counters
from scheduler.state.views.counters import Domains, PodWeights, TopologyCounter

__all__ = ["Carried", "PodJudge", "Wanted"]

#: A term of the incoming pod: its namespaces, its selector, and what a pod counts for.
Scoped: TypeAlias = tuple[TermScope, Selector | None, int]
#: `(carried terms, those of a list that are about the incoming pod) -> what they count for`.
PodJudge: TypeAlias = Callable[[AffinityTerms, Callable[[TermList], Sequence[AffinityTerm]]], int]


def _is_about(scoped: Scoped, namespace: str, labels: Mapping[str, str]) -> bool:
    """Return whether a term of the incoming pod is about pods with these labels."""
    scope, selector, _ = scoped
    if selector is None or (scope is not None and namespace not in scope):
        return False
    return selector.matches(labels)


class Wanted:
    """Counts the pods that terms of the incoming pod are about."""

    def __init__(
        self,
        terms: Sequence[tuple[AffinityTerm, int]],
        cluster: Cluster,
        counted: Counted = Counted.EACH,
    ) -> None:
        """Make the counters.

        Args:
            terms: Of the incoming pod, with what each pod counts for that they are about.
            cluster: Whose pods count.
            counted: What a pod counts for that several terms are about.
        """
        self._terms = tuple(terms)
        self._cluster = cluster
        self._counted = counted
        self._moving = any(each.namespace_selector is not None for each, _ in terms)
        self._by_key: dict[str, list[int]] = {}
        for place, (term, _) in enumerate(terms):
            self._by_key.setdefault(term.topology_key, []).append(place)
        self._seen = (-1, -1)
        #: The terms with their namespaces as they are; what stands for them where they are many.
        self._scoped: tuple[Hashable, ...] = ()
        self._weights: dict[str, PodWeights[LabelSet]] = {}
        self._counters: tuple[TopologyCounter, ...] = ()

    def counters(self) -> list[TopologyCounter]:
        """Return the counters that may count for something, up to date."""
        labels = self._cluster.columns.labels
        seen = (self._cluster.namespaces_version if self._moving else 0, labels.version)
        if seen != self._seen:
            self._seen = seen
            self._resolve()
        jointly = self._counted is Counted.JOINTLY
        found = [each for each in self._counters if jointly or each.weights.anything()]
        for counter in found:
            counter.refresh()
        return found

    def all_about(self, pod: Pod) -> bool:
        """Return whether all terms are about a pod."""
        metadata, namespaces = pod.metadata, self._cluster.namespaces
        around = namespaces.get(metadata.namespace, {})
        return all(
            each.selector is not None
            and (metadata.namespace in each.namespaces or _extends(each, around))
            and each.selector.matches(metadata.labels)
            for each, _ in self._terms
        )

    def _resolve(self) -> None:
        """Find out which namespaces the terms are about, and take the counters for them."""
        scoped = self._scopes()
        if scoped != self._scoped:
            self._scoped = scoped
            self._weights = {}
        self._counters = tuple(self._counter(key) for key in self._keys())

    def _keys(self) -> list[str]:
        """Return the topology keys that matter: without a node that has it, nothing is counted.

        Where all terms must hold, one key that no node has is enough to rule out every node.
        """
        labels = self._cluster.columns.labels
        found = [key for key in self._by_key if labels.somewhere(key)]
        if self._counted is Counted.JOINTLY and len(found) < len(self._by_key):
            found.append(next(key for key in self._by_key if not labels.somewhere(key)))
        return found

    def _scopes(self) -> tuple[Hashable, ...]:
        """Return what has changed when the terms are about other namespaces than before."""
        if len(self._terms) >= MANY:
            return self._seen[:1]
        namespaces = self._cluster.namespaces
        return tuple(term.scope(namespaces) for term, _ in self._terms)

    def _counter(self, topology_key: str) -> TopologyCounter:
        jointly = self._counted is Counted.JOINTLY
        group = "" if jointly else topology_key
        weights = self._weights.get(group)
        if weights is None:
            places = range(len(self._terms)) if jointly else self._by_key[topology_key]
            weights = self._weights[group] = self._weighed([self._terms[each] for each in places])
        return _by_domain(weights, topology_key, self._cluster)

    def _weighed(self, terms: Sequence[tuple[AffinityTerm, int]]) -> PodWeights[LabelSet]:
        """Return what the pods count for that some of the terms are about."""
        pod_index, namespaces = self._cluster.pods.census, self._cluster.namespaces
        if len(self._terms) >= MANY:
            return term_sets.weights(pod_index, terms, namespaces, self._counted, self._seen[0])
        scoped = tuple((term.scope(namespaces), term.selector, weight) for term, weight in terms)
        return (_of_all if self._counted is Counted.JOINTLY else _of_each)(pod_index, scoped)


def _extends(term: AffinityTerm, namespace_labels: Mapping[str, str]) -> bool:
    """Return whether a term of the incoming pod selects a namespace that it does not list."""
    selector = term.namespace_selector
    return selector is not None and (selector.matches({}) or selector.matches(namespace_labels))


class Carried:
    """Counts the running pods that carry terms about the incoming pod."""

    def __init__(
        self, pod: Pod, cluster: Cluster, question: Hashable, judge: PodJudge, *, anti: bool
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
        self._seen: tuple[int, ...] = ()
        self._weights_by_key: dict[str, PodWeights[AffinityTerms]] = {}
        self._counters: dict[str, TopologyCounter] = {}

    def counters(self) -> list[TopologyCounter]:
        """Return the counters that may count for something, up to date."""
        carried, known = self._cluster.pods.census.carried, self._cluster.columns.labels.version
        seen = (carried.serial, carried.epoch, self._cluster.namespaces_version, known)
        if seen != self._seen:
            self._seen = seen
            self._follow()
        found = [
            self._counter(key, weights)
            for key, weights in self._weights_by_key.items()
            if weights.anything()
        ]
        for counter in found:
            counter.refresh()
        return found

    def _counter(self, topology_key: str, weights: PodWeights[AffinityTerms]) -> TopologyCounter:
        found = self._counters.get(topology_key)
        if found is None:
            found = self._counters[topology_key] = _by_domain(weights, topology_key, self._cluster)
        return found

    def _follow(self) -> None:
        """Have a counter for each key of a node that some pod carries terms for."""
        carried = self._cluster.pods.census.carried
        labels = self._cluster.namespaces.get(self._namespace, {})
        if labels != self._namespace_labels:
            self._namespace_labels = labels
            self._weights_by_key, self._counters = {}, {}
        carried_keys = carried.anti_keys if self._anti else carried.other_keys
        keys = self._cluster.columns.labels.among(carried_keys)
        if keys != self._weights_by_key.keys():
            known = self._weights_by_key
            self._weights_by_key = {key: known.get(key) or self._weights(key) for key in keys}
            self._counters = {
                key: counter for key, counter in self._counters.items() if key in keys
            }

    def _weights(self, topology_key: str) -> PodWeights[AffinityTerms]:
        namespace, labels, around = self._namespace, self._labels, self._namespace_labels
        judge = self._judge

        def meant(terms: TermList) -> Sequence[AffinityTerm]:
            return terms.on(topology_key).about(namespace, labels, around)

        asked = (namespace, frozenset(labels.items()), frozenset(around.items()))
        return counters.of_carried(
            self._cluster.pods.census,
            (self._question, topology_key, asked),
            lambda terms: judge(terms, meant),
        )


def _of_all(pod_index: PodIndex, scoped: tuple[Scoped, ...]) -> PodWeights[LabelSet]:
    """Return 1 for pods that all terms are about."""
    return counters.of_labels(
        pod_index,
        ("all", _key(scoped)),
        lambda looks: int(all(_is_about(each, looks.namespace, looks.labels) for each in scoped)),
    )


def _of_each(pod_index: PodIndex, scoped: tuple[Scoped, ...]) -> PodWeights[LabelSet]:
    """Return, summed, what the terms count for that are about a pod."""
    return counters.of_labels(
        pod_index,
        ("each", _key(scoped)),
        lambda looks: sum(
            each[2] for each in scoped if _is_about(each, looks.namespace, looks.labels)
        ),
    )


def _key(scoped: tuple[Scoped, ...]) -> Hashable:
    return tuple((scope, spelled(selector), weight) for scope, selector, weight in scoped)


def _by_domain(
    weights: PodWeights[LabelSet] | PodWeights[AffinityTerms], topology_key: str, cluster: Cluster
) -> TopologyCounter:
    columns = cluster.columns
    return counters.by_domain(
        weights, topology_key, lambda: Domains(columns.labels.column(topology_key)), columns
    )
