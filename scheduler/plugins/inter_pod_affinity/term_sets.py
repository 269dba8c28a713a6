"""Many pod affinity terms of an incoming pod at once: which label sets match each of them.

A label set stands for all pods with the same labels in the same namespace.

Axes: k label sets.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import reduce
from operator import or_

import msgspec

from scheduler.state.columns import bitsets
from scheduler.state.columns.arrays import Int
from scheduler.state.pods.affinity_terms import AffinityTerm, spelled
from scheduler.state.pods.pod_index import LabelSet, PodIndex
from scheduler.state.views import counters, label_index
from scheduler.state.views.counters import PodWeights

__all__ = ["Counted", "weights"]


_encode = msgspec.msgpack.Encoder().encode


class Counted(Enum):
    """The weight of a pod that matches several terms."""

    #: The sum of the weights of these terms.
    EACH = "each"
    #: 1, when only the existence of such a pod matters.
    ONCE = "once"
    #: 1, if the pod matches all terms.
    JOINTLY = "jointly"


def weights(
    pod_index: PodIndex,
    terms: Sequence[tuple[AffinityTerm, int]],
    namespaces: Mapping[str, Mapping[str, str]],
    counted: Counted,
    version: int,
) -> PodWeights[LabelSet]:
    """Return the weights of pods by the terms that they match.

    Args:
        pod_index: The index of the pods whose labels count.
        terms: Of an incoming pod, each with the weight of a matching pod.
        namespaces: The labels of all namespaces, by name.
        counted: The weight of a pod that matches several terms.
        version: Of the labels of the namespaces, if terms have namespace selectors.
    """
    shared = pod_index.shared("looks", _IndexCache)

    def weigh(label_sets: Sequence[LabelSet]) -> Int:
        sets = shared.of(label_sets, namespaces, version).sets([term for term, _ in terms])
        if counted is Counted.EACH:
            weighed = zip(sets, (weight for _, weight in terms), strict=True)
            return bitsets.weighted_sum(weighed, len(label_sets))
        once = reduce(int.__or__ if counted is Counted.ONCE else int.__and__, sets)
        return bitsets.weighted_sum([(once, 1)], len(label_sets))

    spelt = [(_spelled(term), weight) for term, weight in terms]
    return counters.of_all_labels(pod_index, ("many", counted, version, _encode(spelt)), weigh)


class _IndexCache:
    """Caches the index of the label sets that were used last: most calls use the same ones."""

    __slots__ = ("__weakref__", "_index")

    def __init__(self) -> None:
        self._index: _Index | None = None

    def of(
        self,
        label_sets: Sequence[LabelSet],
        namespaces: Mapping[str, Mapping[str, str]],
        version: int,
    ) -> "_Index":
        """Return the index of some label sets."""
        if self._index is None or not self._index.knows(label_sets, version):
            self._index = _Index(label_sets, namespaces, version)
        return self._index


class _Index:
    """Label sets by their labels, their namespace and its labels."""

    def __init__(
        self,
        label_sets: Sequence[LabelSet],
        namespaces: Mapping[str, Mapping[str, str]],
        version: int,
    ) -> None:
        self._label_sets = label_sets
        self._version = version
        size = len(label_sets)
        by_namespace: dict[str, list[int]] = {}
        for index, label_set in enumerate(label_sets):
            by_namespace.setdefault(label_set.namespace, []).append(index)
        self._named = {
            name: bitsets.of_positions(indices, size) for name, indices in by_namespace.items()
        }
        self._labels = label_index.of_labels(
            ((label_set.labels, (index,)) for index, label_set in enumerate(label_sets)), size
        )
        known = {name: indices for name, indices in by_namespace.items() if name in namespaces}
        self._namespaces = label_index.of_labels(
            ((namespaces[name], indices) for name, indices in known.items()), size
        )
        #: The label sets of namespaces that are known: a selector selects among these.
        self._known = reduce(or_, (self._named[name] for name in known), 0)

    def knows(self, label_sets: Sequence[LabelSet], version: int) -> bool:
        """Return whether it is an index of these label sets, and up to date."""
        return self._version == version and self._label_sets == label_sets

    def sets(self, terms: Sequence[AffinityTerm]) -> Iterator[int]:
        """Yield, for each term of an incoming pod, the label sets that match, as bits."""
        for term in terms:
            scope = self._scope(term)
            yield scope & self._labels.matching(term.selector) if scope and term.selector else 0

    def _scope(self, term: AffinityTerm) -> int:
        """Return the label sets in the namespaces of a term; see `AffinityTerm.scope`."""
        selector = term.namespace_selector
        if selector is not None and not selector.requirements:
            return self._namespaces.all
        scope = 0 if selector is None else self._namespaces.matching(selector) & self._known
        for name in term.namespaces:
            scope |= self._named.get(name, 0)
        return scope


def _spelled(term: AffinityTerm) -> tuple[object, ...]:
    selector = term.namespace_selector
    return sorted(term.namespaces), spelled(selector), selector is None, spelled(term.selector)
