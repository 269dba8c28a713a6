"""Pod affinity terms, compiled: which pods a term is about, and by which topology.

A term is read from two sides. As a term of an *incoming* pod it is about the pods of a fixed set
of namespaces, its `scope`. As a term that an *existing* pod carries it asks for the labels of the
incoming pod's namespace.

Source: kube-scheduler v1.36.3 framework/types.go PodInfo.Update; k8s.io/kube-scheduler v0.36.3
framework/types.go AffinityTerm, GetAffinityTerms.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import msgspec

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
from scheduler.state.columns.caches import BoundedCache, WeakCache
from scheduler.state.pods.selector_index import SelectorIndex

__all__ = [
    "MANY",
    "NO_TERMS",
    "AffinityTerm",
    "AffinityTerms",
    "TermList",
    "TermScope",
    "about",
    "compiled",
    "spelled",
]

#: Names of namespaces; `None` stands for all of them.
TermScope: TypeAlias = frozenset[str] | None

#: From so many terms on an index pays.
MANY: Final = 16

#: Bytes of specs whose terms are remembered for other pods with the same ones.
_MOST_BYTES: Final = 4 * 1024 * 1024

_NO_LABELS: Final[Mapping[str, str]] = {}
_encode = msgspec.msgpack.Encoder().encode


class AffinityTerm(Record, frozen=True):
    """One term of a pod."""

    topology_key: str
    #: Which labels are meant; `None` selects no pod.
    selector: Selector | None
    #: The listed namespaces, or the pod's own when the term says nothing about namespaces.
    namespaces: frozenset[str]
    #: Namespaces that are meant besides; `None` selects none.
    namespace_selector: Selector | None
    #: 0 for required terms.
    weight: int = 0

    def matches(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> bool:
        """Tell whether the term is about pods with these labels in this namespace.

        Source: k8s.io/kube-scheduler v0.36.3 framework/types.go AffinityTerm.Matches.
        """
        if self.selector is None:
            return False
        if namespace not in self.namespaces:
            selector = self.namespace_selector
            if selector is None or not selector.matches(namespace_labels):
                return False
        return self.selector.matches(labels)

    def scope(self, namespaces: Mapping[str, Mapping[str, str]]) -> TermScope:
        """Return the namespaces that the term of an incoming pod is about.

        Upstream adds the names of selected namespaces, and then still asks the selector, with no
        labels: one that no label has to be there for selects every namespace.

        Args:
            namespaces: The labels of all namespaces, by name.

        Source: kube-scheduler v1.36.3 interpodaffinity.mergeAffinityTermNamespacesIfNotEmpty.
        """
        selector = self.namespace_selector
        if selector is None:
            return self.namespaces
        if selector.matches(_NO_LABELS):
            return None
        found = {name for name, labels in namespaces.items() if selector.matches(labels)}
        return self.namespaces | found


class TermList(tuple[AffinityTerm, ...]):
    """Terms of one kind; where they are many, its labels find those that are about a pod."""

    def on(self, topology_key: str) -> "TermList":
        """Return the terms of one topology key."""
        if len(self) < MANY:
            return TermList(each for each in self if each.topology_key == topology_key)
        return self._by_key.get(topology_key, _NONE)

    def about(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> list[AffinityTerm]:
        """Return the terms that are about pods with these labels in this namespace."""
        if len(self) < MANY:
            return [each for each in self if each.matches(namespace, labels, namespace_labels)]
        by_labels, by_namespace, listing = self._indices
        selected = by_labels.matching(labels)
        there = by_namespace.matching(namespace_labels)
        there.update(listing.get(namespace, ()))
        return [self[place] for place in selected & there]

    @cached_property
    def _by_key(self) -> dict[str, "TermList"]:
        found: dict[str, list[AffinityTerm]] = {}
        for each in self:
            found.setdefault(each.topology_key, []).append(each)
        return {key: TermList(terms) for key, terms in found.items()}

    @cached_property
    def _indices(self) -> tuple[SelectorIndex, SelectorIndex, dict[str, list[int]]]:
        """Find terms by labels, by labels of the namespace, and by its name."""
        listing: dict[str, list[int]] = {}
        for place, term in enumerate(self):
            for namespace in term.namespaces:
                listing.setdefault(namespace, []).append(place)
        by_labels = SelectorIndex([each.selector for each in self])
        return by_labels, SelectorIndex([each.namespace_selector for each in self]), listing


_NONE: Final = TermList()


@dataclass(frozen=True, slots=True)
class AffinityTerms:
    """All pod affinity terms of one pod; a list with a term that means nothing is empty."""

    affinity: TermList = _NONE
    anti_affinity: TermList = _NONE
    preferred_affinity: TermList = _NONE
    preferred_anti_affinity: TermList = _NONE
    #: Which lists mean nothing, and why; empty when all is well.
    error: str = ""


NO_TERMS: Final = AffinityTerms()


#: The terms of affinities that are in use, by identity and namespace: hints ask again and again.
_in_use: Final[WeakCache[Affinity, AffinityTerms]] = WeakCache()
_recent: Final[BoundedCache[AffinityTerms]] = BoundedCache(_MOST_BYTES)


def compiled(pod: Pod) -> AffinityTerms:
    """Return the terms of a pod."""
    affinity = pod.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    namespace = pod.metadata.namespace
    return _in_use.of(affinity, namespace, lambda: _shared(namespace, affinity))


def _shared(namespace: str, affinity: Affinity) -> AffinityTerms:
    """Return the terms of an affinity, the same for equal ones that were met recently."""
    spec = _encode((affinity.pod_affinity, affinity.pod_anti_affinity))
    key = namespace.encode(errors="surrogatepass") + b" " + spec
    found = _recent.get(key)
    if found is None:
        found = _compiled(namespace, affinity)
        _recent.put(key, found)
    return found


def _compiled(namespace: str, affinity: Affinity) -> AffinityTerms:
    """Compile the terms of an affinity."""
    near = affinity.pod_affinity or PodAffinity()
    away = affinity.pod_anti_affinity or PodAffinity()
    errors: list[str] = []

    def parsed(name: str, given: Sequence[WeightedPodAffinityTerm]) -> TermList:
        try:
            return TermList(_term(each.pod_affinity_term, each.weight, namespace) for each in given)
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


def about(terms: TermList, pod: Pod) -> bool:
    """Tell whether there are terms and all of them are about a pod, namespace labels left aside.

    Source: kube-scheduler v1.36.3 interpodaffinity.podMatchesAllAffinityTerms.
    """
    namespace, labels = pod.metadata.namespace, pod.metadata.labels
    if len(terms) < MANY:
        return bool(terms) and all(each.matches(namespace, labels, _NO_LABELS) for each in terms)
    return len(terms.about(namespace, labels, _NO_LABELS)) == len(terms)


def spelled(selector: Selector | None) -> bytes:
    """Return bytes that are equal for equal selectors only; none for one that selects nothing."""
    return b"" if selector is None else _encode(selector.requirements)


def _unweighted(terms: Sequence[PodAffinityTerm]) -> list[WeightedPodAffinityTerm]:
    return [WeightedPodAffinityTerm(pod_affinity_term=each) for each in terms]


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
