"""Pod affinity terms, compiled: which pods a term is about, and by which topology.

A term is read from two sides. As a term of an *incoming* pod it is about the pods of a fixed set
of namespaces, its `scope`. As a term that an *existing* pod carries it asks for the labels of the
incoming pod's namespace.

Source: kube-scheduler v1.36.3 framework/types.go PodInfo.Update; k8s.io/kube-scheduler v0.36.3
framework/types.go AffinityTerm, GetAffinityTerms.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from scheduler.model.objects import (
    LabelSelector,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    WeightedPodAffinityTerm,
)
from scheduler.model.selectors import Selector, SelectorError

__all__ = ["NO_TERMS", "Scope", "Term", "Terms", "about", "compiled", "spelled"]

#: Names of namespaces; `None` stands for all of them.
Scope: TypeAlias = frozenset[str] | None

_NO_LABELS: Final[Mapping[str, str]] = {}
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[PodAffinity | None, PodAffinity | None]).decode


@dataclass(frozen=True, slots=True)
class Term:
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

    def scope(self, namespaces: Mapping[str, Mapping[str, str]]) -> Scope:
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


@dataclass(frozen=True, slots=True)
class Terms:
    """All pod affinity terms of one pod; a list with a term that means nothing is empty."""

    affinity: tuple[Term, ...] = ()
    anti_affinity: tuple[Term, ...] = ()
    preferred_affinity: tuple[Term, ...] = ()
    preferred_anti_affinity: tuple[Term, ...] = ()
    #: Which lists mean nothing, and why; empty when all is well.
    error: str = ""


NO_TERMS: Final = Terms()


def compiled(pod: Pod) -> Terms:
    """Return the terms of a pod."""
    affinity = pod.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    spec = _encode((affinity.pod_affinity, affinity.pod_anti_affinity))
    return _compiled(pod.metadata.namespace, spec)


@lru_cache(maxsize=4096)
def _compiled(namespace: str, spec: bytes) -> Terms:
    """Compile the terms of a spec, which many pods share and which hints ask for again."""
    found = _decode(spec)
    near, away = found[0] or PodAffinity(), found[1] or PodAffinity()
    errors: list[str] = []

    def parsed(name: str, given: Sequence[WeightedPodAffinityTerm]) -> tuple[Term, ...]:
        try:
            return tuple(_term(each.pod_affinity_term, each.weight, namespace) for each in given)
        except SelectorError as error:
            errors.append(f"{name}: {error}")
            return ()

    lists = (
        parsed("requiredAffinityTerms", _unweighted(near.required)),
        parsed("requiredAntiAffinityTerms", _unweighted(away.required)),
        parsed("preferredAffinityTerms", near.preferred),
        parsed("preferredAntiAffinityTerms", away.preferred),
    )
    return Terms(*lists, f"[{', '.join(errors)}]" if len(errors) > 1 else "".join(errors))


def about(terms: Iterable[Term], pod: Pod) -> bool:
    """Tell whether there are terms and all of them are about a pod, namespace labels left aside.

    Source: kube-scheduler v1.36.3 interpodaffinity.podMatchesAllAffinityTerms.
    """
    namespace, labels = pod.metadata.namespace, pod.metadata.labels
    verdicts = [term.matches(namespace, labels, _NO_LABELS) for term in terms]
    return bool(verdicts) and all(verdicts)


def spelled(selector: Selector | None) -> bytes:
    """Return bytes that are equal for equal selectors only; none for one that selects nothing."""
    return b"" if selector is None else _encode(selector.requirements)


def _unweighted(terms: Sequence[PodAffinityTerm]) -> list[WeightedPodAffinityTerm]:
    return [WeightedPodAffinityTerm(pod_affinity_term=each) for each in terms]


def _term(term: PodAffinityTerm, weight: int, namespace: str) -> Term:
    alone = not term.namespaces and term.namespace_selector is None
    return Term(
        topology_key=term.topology_key,
        selector=_selector(term.label_selector),
        namespaces=frozenset((namespace,) if alone else term.namespaces),
        namespace_selector=_selector(term.namespace_selector),
        weight=weight,
    )


def _selector(selector: LabelSelector | None) -> Selector | None:
    return None if selector is None else Selector.of(selector)
