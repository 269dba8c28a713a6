"""Compiled pod affinity terms: which pods a term selects, and its topology key.

A term is used in two directions. A term of an *incoming* pod selects pods of a fixed set of
namespaces, its `scope`. A term of an *existing* pod is matched against the incoming pod and the
labels of its namespace.

Source: kube-scheduler v1.36.3 framework/types.go PodInfo.Update; k8s.io/kube-scheduler v0.36.3
framework/types.go AffinityTerm, GetAffinityTerms.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from scheduler.model.api.objects import (
    Affinity,
    LabelSelector,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    WeightedPodAffinityTerm,
)
from scheduler.model.api.selectors import Selector, SelectorError
from scheduler.model.base import Record
from scheduler.model.releases import Reference
from scheduler.state.columns.caches import BoundedCache, WeakCache
from scheduler.state.pods.selector_index import SelectorIndex

__all__ = [
    "MANY",
    "NO_TERMS",
    "AffinityTerm",
    "AffinityTerms",
    "TermList",
    "TermScope",
    "compiled",
    "matches_all_terms",
    "matches_any_term",
    "spelled",
]

#: Names of namespaces; `None` for all namespaces.
TermScope: TypeAlias = frozenset[str] | None

#: From this number of terms on, an index pays off.
MANY: Final = 16

#: Bytes of specs whose terms are cached for other pods with equal specs.
_MAX_BYTES: Final = 4 * 1024 * 1024

_NO_LABELS: Final[Mapping[str, str]] = {}
_encode = msgspec.msgpack.Encoder().encode


class AffinityTerm(Record, frozen=True):
    """One term of a pod."""

    topology_key: str
    #: The label selector; `None` selects no pod.
    selector: Selector | None
    #: The listed namespaces, or the pod's own if the term does not mention namespaces.
    namespaces: frozenset[str]
    #: Selects further namespaces; `None` selects none.
    namespace_selector: Selector | None
    #: 0 for required terms.
    weight: int = 0

    def matches(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> bool:
        """Return whether the term selects pods with these labels in this namespace.

        Source: k8s.io/kube-scheduler v0.36.3 framework/types.go AffinityTerm.Matches.
        """
        if self.selector is None:
            return False
        if namespace not in self.namespaces:
            selector = self.namespace_selector
            if selector is None or not selector.matches(namespace_labels):
                return False
        return self.selector.matches(labels)

    def of_incoming(self, reference: Reference) -> "AffinityTerm":
        """Return the term as it counts for an incoming pod.

        v1.36 adds the names of selected namespaces, and then still matches the selector against
        empty labels: a selector that requires no label selects every namespace.

        Source: kube-scheduler v1.36.3 and v1.37.2
        interpodaffinity.mergeAffinityTermNamespacesIfNotEmpty.
        """
        selector = self.namespace_selector
        if selector is None or not reference.namespace_selectors_match_no_labels:
            return self
        if not selector.matches(_NO_LABELS):
            return self
        return replace(self, namespace_selector=Selector.of(LabelSelector()))

    def scope(self, namespaces: Mapping[str, Mapping[str, str]]) -> TermScope:
        """Return the namespaces whose pods the term of an incoming pod selects.

        Args:
            namespaces: The labels of all namespaces, by name.

        Source: kube-scheduler v1.36.3 interpodaffinity.mergeAffinityTermNamespacesIfNotEmpty.
        """
        selector = self.namespace_selector
        if selector is None:
            return self.namespaces
        if not selector.requirements:
            return None
        selected = {name for name, labels in namespaces.items() if selector.matches(labels)}
        return self.namespaces | selected


class TermList(tuple[AffinityTerm, ...]):
    """Terms of one kind; long lists have an index that finds the terms that select a pod."""

    def on(self, topology_key: str) -> "TermList":
        """Return the terms of one topology key."""
        if len(self) < MANY:
            return TermList(term for term in self if term.topology_key == topology_key)
        return self._by_key.get(topology_key, _NONE)

    def matching(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> list[AffinityTerm]:
        """Return the terms that select pods with these labels in this namespace."""
        if len(self) < MANY:
            return [term for term in self if term.matches(namespace, labels, namespace_labels)]
        by_labels, by_namespace_labels, by_namespace = self._indices
        by_pod = by_labels.matching(labels)
        in_scope = by_namespace_labels.matching(namespace_labels)
        in_scope.update(by_namespace.get(namespace, ()))
        return [self[index] for index in by_pod & in_scope]

    @cached_property
    def _by_key(self) -> dict[str, "TermList"]:
        by_key: dict[str, list[AffinityTerm]] = {}
        for term in self:
            by_key.setdefault(term.topology_key, []).append(term)
        return {key: TermList(terms) for key, terms in by_key.items()}

    @cached_property
    def _indices(self) -> tuple[SelectorIndex, SelectorIndex, dict[str, list[int]]]:
        """Index the terms by labels, by labels of the namespace, and by its name."""
        by_namespace: dict[str, list[int]] = {}
        for index, term in enumerate(self):
            for namespace in term.namespaces:
                by_namespace.setdefault(namespace, []).append(index)
        by_labels = SelectorIndex([term.selector for term in self])
        by_namespace_labels = SelectorIndex([term.namespace_selector for term in self])
        return by_labels, by_namespace_labels, by_namespace


_NONE: Final = TermList()


@dataclass(frozen=True, slots=True)
class AffinityTerms:
    """All pod affinity terms of one pod; a list with an invalid term is empty."""

    affinity: TermList = _NONE
    anti_affinity: TermList = _NONE
    preferred_affinity: TermList = _NONE
    preferred_anti_affinity: TermList = _NONE
    #: Which lists are invalid, and why; empty if none is.
    error: str = ""


NO_TERMS: Final = AffinityTerms()


#: The terms of affinities that are in use, by identity and namespace: hints need them repeatedly.
_in_use: Final[WeakCache[Affinity, AffinityTerms]] = WeakCache()
_recent: Final[BoundedCache[AffinityTerms]] = BoundedCache(_MAX_BYTES)


def compiled(pod: Pod) -> AffinityTerms:
    """Return the terms of a pod."""
    affinity = pod.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    namespace = pod.metadata.namespace
    return _in_use.of(affinity, namespace, lambda: _shared(namespace, affinity))


def _shared(namespace: str, affinity: Affinity) -> AffinityTerms:
    """Return the terms of an affinity; equal ones share them while they are cached."""
    spec = _encode((affinity.pod_affinity, affinity.pod_anti_affinity))
    key = namespace.encode(errors="surrogatepass") + b" " + spec
    terms = _recent.get(key)
    if terms is None:
        terms = _compiled(namespace, affinity)
        _recent.put(key, terms)
    return terms


def _compiled(namespace: str, affinity: Affinity) -> AffinityTerms:
    """Compile the terms of an affinity."""
    near = affinity.pod_affinity or PodAffinity()
    away = affinity.pod_anti_affinity or PodAffinity()
    errors: list[str] = []

    def parsed(name: str, given: Sequence[WeightedPodAffinityTerm]) -> TermList:
        try:
            return TermList(_term(item.pod_affinity_term, item.weight, namespace) for item in given)
        except SelectorError as error:
            errors.append(f"{name}: {error}")
            return _NONE

    lists = (
        parsed("requiredAffinityTerms", _unweighted(near.required)),
        parsed("requiredAntiAffinityTerms", _unweighted(away.required)),
        parsed("preferredAffinityTerms", near.preferred),
        parsed("preferredAntiAffinityTerms", away.preferred),
    )
    return AffinityTerms(*lists, f"[{', '.join(errors)}]" if len(errors) > 1 else "".join(errors))


def matches_all_terms(terms: TermList, pod: Pod) -> bool:
    """Return whether there are terms and all of them select a pod, without its namespace labels.

    Source: kube-scheduler v1.36.3 interpodaffinity.podMatchesAllAffinityTerms.
    """
    namespace, labels = pod.metadata.namespace, pod.metadata.labels
    if len(terms) < MANY:
        return bool(terms) and all(term.matches(namespace, labels, _NO_LABELS) for term in terms)
    return len(terms.matching(namespace, labels, _NO_LABELS)) == len(terms)


def matches_any_term(terms: TermList, pod: Pod) -> bool:
    """Return whether any term selects a pod, without its namespace labels.

    Source: kube-scheduler v1.37.2 interpodaffinity.podMatchesAnyAffinityTerms.
    """
    return bool(terms.matching(pod.metadata.namespace, pod.metadata.labels, _NO_LABELS))


def spelled(selector: Selector | None) -> bytes:
    """Return bytes that are equal for equal selectors only; empty for one that selects nothing."""
    return b"" if selector is None else _encode(selector.requirements)


def _unweighted(terms: Sequence[PodAffinityTerm]) -> list[WeightedPodAffinityTerm]:
    return [WeightedPodAffinityTerm(pod_affinity_term=term) for term in terms]


def _term(term: PodAffinityTerm, weight: int, namespace: str) -> AffinityTerm:
    alone = not term.namespaces and term.namespace_selector is None
    return AffinityTerm(
        topology_key=term.topology_key,
        selector=_selector(term.label_selector),
        namespaces=frozenset((namespace,) if alone else term.namespaces),
        namespace_selector=_selector(term.namespace_selector),
        weight=weight,
    )


def _selector(selector: LabelSelector | None) -> Selector | None:
    return None if selector is None else Selector.of(selector)
