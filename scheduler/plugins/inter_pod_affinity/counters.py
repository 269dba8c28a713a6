"""The counters of InterPodAffinity: sums over the pods of each domain of a topology key.

`IncomingTerms` counts running pods that match terms of the incoming pod. `ExistingTerms` counts
running pods with terms that match the incoming pod. Classes of pods with equal terms share one
counter.
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

__all__ = ["ExistingTerms", "IncomingTerms", "TermWeight"]

#: A term of the incoming pod: its namespaces, its selector, and the weight of a matching pod.
Scoped: TypeAlias = tuple[TermScope, Selector | None, int]
#: `(terms of a running pod, function that selects those of a list that match the incoming pod)` to
#: the weight of the running pod.
TermWeight: TypeAlias = Callable[[AffinityTerms, Callable[[TermList], Sequence[AffinityTerm]]], int]


def _matches(scoped: Scoped, namespace: str, labels: Mapping[str, str]) -> bool:
    """Return whether a term of the incoming pod matches pods with these labels."""
    scope, selector, _ = scoped
    if selector is None or (scope is not None and namespace not in scope):
        return False
    return selector.matches(labels)


class IncomingTerms:
    """Counts the running pods that match terms of the incoming pod."""

    def __init__(
        self,
        terms: Sequence[tuple[AffinityTerm, int]],
        cluster: Cluster,
        counted: Counted = Counted.EACH,
    ) -> None:
        """Create the counters.

        Args:
            terms: Of the incoming pod, each with the weight of a matching pod.
            cluster: With the running pods.
            counted: The weight of a pod that matches several terms.
        """
        reference = cluster.reference
        self._terms = tuple((term.of_incoming(reference), weight) for term, weight in terms)
        self._cluster = cluster
        self._counted = counted
        self._moving = any(term.namespace_selector is not None for term, _ in terms)
        self._by_key: dict[str, list[int]] = {}
        for index, (term, _) in enumerate(terms):
            self._by_key.setdefault(term.topology_key, []).append(index)
        self._seen = (-1, -1)
        #: The terms with their resolved namespaces; for many terms, the version of the namespaces.
        self._scoped: tuple[Hashable, ...] = ()
        self._weights: dict[str, PodWeights[LabelSet]] = {}
        self._counters: tuple[TopologyCounter, ...] = ()

    def counters(self) -> list[TopologyCounter]:
        """Return the counters that may have nonzero sums, refreshed."""
        labels = self._cluster.columns.labels
        seen = (self._cluster.namespaces_version if self._moving else 0, labels.version)
        if seen != self._seen:
            self._seen = seen
            self._resolve()
        jointly = self._counted is Counted.JOINTLY
        active = [counter for counter in self._counters if jointly or counter.weights.anything()]
        for counter in active:
            counter.refresh()
        return active

    def all_match(self, pod: Pod) -> bool:
        """Return whether a pod matches all terms."""
        metadata = pod.metadata
        namespace_labels = self._cluster.namespaces.get(metadata.namespace)
        return all(
            term.selector is not None
            and (metadata.namespace in term.namespaces or _extends(term, namespace_labels))
            and term.selector.matches(metadata.labels)
            for term, _ in self._terms
        )

    def _resolve(self) -> None:
        """Resolve the namespaces of the terms, and get the counters for them."""
        scoped = self._scopes()
        if scoped != self._scoped:
            self._scoped = scoped
            self._weights = {}
        self._counters = tuple(self._counter(key) for key in self._keys())

    def _keys(self) -> list[str]:
        """Return the topology keys that are counted: keys that no node has are left out.

        When all terms must match, one key that no node has is kept: it rejects every node.
        """
        labels = self._cluster.columns.labels
        keys = [key for key in self._by_key if labels.exists(key)]
        if self._counted is Counted.JOINTLY and len(keys) < len(self._by_key):
            keys.append(next(key for key in self._by_key if not labels.exists(key)))
        return keys

    def _scopes(self) -> tuple[Hashable, ...]:
        """Return a value that changes when the terms select other namespaces than before."""
        if len(self._terms) >= MANY:
            return self._seen[:1]
        namespaces = self._cluster.namespaces
        return tuple(term.scope(namespaces) for term, _ in self._terms)

    def _counter(self, topology_key: str) -> TopologyCounter:
        jointly = self._counted is Counted.JOINTLY
        group = "" if jointly else topology_key
        weights = self._weights.get(group)
        if weights is None:
            indices = range(len(self._terms)) if jointly else self._by_key[topology_key]
            weights = self._weights[group] = self._weighed([self._terms[at] for at in indices])
        return _by_domain(weights, topology_key, self._cluster)

    def _weighed(self, terms: Sequence[tuple[AffinityTerm, int]]) -> PodWeights[LabelSet]:
        """Return the weights of the pods that match some of the terms."""
        pod_index, namespaces = self._cluster.pods.pod_index, self._cluster.namespaces
        if len(self._terms) >= MANY:
            return term_sets.weights(pod_index, terms, namespaces, self._counted, self._seen[0])
        scoped = tuple((term.scope(namespaces), term.selector, weight) for term, weight in terms)
        return (_of_all if self._counted is Counted.JOINTLY else _of_each)(pod_index, scoped)


def _extends(term: AffinityTerm, namespace_labels: Mapping[str, str] | None) -> bool:
    """Return whether a term of the incoming pod selects a namespace that it does not list.

    See `AffinityTerm.scope`: a namespace that is not known, whose labels are `None`, is selected
    only with all others.
    """
    selector = term.namespace_selector
    if selector is None:
        return False
    if not selector.requirements:
        return True
    return namespace_labels is not None and selector.matches(namespace_labels)


class ExistingTerms:
    """Counts the running pods that have terms which match the incoming pod."""

    def __init__(
        self, pod: Pod, cluster: Cluster, question: Hashable, weight: TermWeight, *, anti: bool
    ) -> None:
        """Create the counters.

        Args:
            pod: The incoming pod.
            cluster: With the running pods.
            question: Equal for equal `weight` functions.
            weight: The weight of a running pod by its terms.
            anti: Whether required anti-affinity counts, or all other terms.
        """
        self._namespace = pod.metadata.namespace
        self._labels = pod.metadata.labels
        self._cluster = cluster
        self._question = question
        self._weight = weight
        self._anti = anti
        self._namespace_labels: Mapping[str, str] = {}
        self._seen: tuple[int, ...] = ()
        self._weights_by_key: dict[str, PodWeights[AffinityTerms]] = {}
        self._counters: dict[str, TopologyCounter] = {}

    def counters(self) -> list[TopologyCounter]:
        """Return the counters that may have nonzero sums, refreshed."""
        carried, known = self._cluster.pods.pod_index.carried, self._cluster.columns.labels.version
        seen = (carried.serial, carried.epoch, self._cluster.namespaces_version, known)
        if seen != self._seen:
            self._seen = seen
            self._follow()
        active = [
            self._counter(key, weights)
            for key, weights in self._weights_by_key.items()
            if weights.anything()
        ]
        for counter in active:
            counter.refresh()
        return active

    def _counter(self, topology_key: str, weights: PodWeights[AffinityTerms]) -> TopologyCounter:
        counter = self._counters.get(topology_key)
        if counter is None:
            counter = self._counters[topology_key] = _by_domain(
                weights, topology_key, self._cluster
            )
        return counter

    def _follow(self) -> None:
        """Keep weights and counters for the topology keys that nodes have and terms name."""
        carried = self._cluster.pods.pod_index.carried
        labels = self._cluster.namespaces.get(self._namespace, {})
        if labels != self._namespace_labels:
            self._namespace_labels = labels
            self._weights_by_key, self._counters = {}, {}
        carried_keys = carried.anti_keys if self._anti else carried.other_keys
        keys = self._cluster.columns.labels.existing(carried_keys)
        if keys != self._weights_by_key.keys():
            known = self._weights_by_key
            self._weights_by_key = {key: known.get(key) or self._weights(key) for key in keys}
            self._counters = {
                key: counter for key, counter in self._counters.items() if key in keys
            }

    def _weights(self, topology_key: str) -> PodWeights[AffinityTerms]:
        namespace, labels = self._namespace, self._labels
        namespace_labels = self._namespace_labels
        weight = self._weight

        def matching(terms: TermList) -> Sequence[AffinityTerm]:
            return terms.on(topology_key).matching(namespace, labels, namespace_labels)

        matched = (namespace, frozenset(labels.items()), frozenset(namespace_labels.items()))
        return counters.of_carried(
            self._cluster.pods.pod_index,
            (self._question, topology_key, matched),
            lambda terms: weight(terms, matching),
        )


def _of_all(pod_index: PodIndex, scoped: tuple[Scoped, ...]) -> PodWeights[LabelSet]:
    """Return 1 for pods that match all terms."""
    return counters.of_labels(
        pod_index,
        ("all", _key(scoped)),
        lambda pods: int(all(_matches(term, pods.namespace, pods.labels) for term in scoped)),
    )


def _of_each(pod_index: PodIndex, scoped: tuple[Scoped, ...]) -> PodWeights[LabelSet]:
    """Return the sum of the weights of the terms that a pod matches."""
    return counters.of_labels(
        pod_index,
        ("each", _key(scoped)),
        lambda pods: sum(term[2] for term in scoped if _matches(term, pods.namespace, pods.labels)),
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
