"""Many pod affinity terms of an incoming pod at once: which looks each of them is about.

Axes: k looks.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import reduce
from typing import Final

import msgspec

from scheduler.state.columns import bitsets
from scheduler.state.columns.arrays import Int
from scheduler.state.pods.affinity_terms import AffinityTerm, spelled
from scheduler.state.pods.pod_index import LabelSet, PodIndex
from scheduler.state.views import counters, label_index
from scheduler.state.views.counters import PodWeights

__all__ = ["Counted", "weights"]

_NO_LABELS: Final[Mapping[str, str]] = {}

_encode = msgspec.msgpack.Encoder().encode


class Counted(Enum):
    """What a pod counts for that several terms are about."""

    #: The sum of what it counts for by each of them.
    EACH = "each"
    #: 1, for whoever only asks whether there is any such pod.
    ONCE = "once"
    #: 1, if all of the terms are about it.
    JOINTLY = "jointly"


def weights(
    pod_index: PodIndex,
    terms: Sequence[tuple[AffinityTerm, int]],
    namespaces: Mapping[str, Mapping[str, str]],
    counted: Counted,
    version: int,
) -> PodWeights[LabelSet]:
    """Return what pods count for by terms.

    Args:
        pod_index: The index of the pods whose labels count.
        terms: Of an incoming pod, with what each pod counts for that they are about.
        namespaces: The labels of all namespaces, by name.
        counted: What a pod counts for that several terms are about.
        version: Of the labels of the namespaces, if the terms ask for them.
    """
    shared = pod_index.shared("looks", _Looks)

    def weigh(looks: Sequence[LabelSet]) -> Int:
        found = shared.of(looks, namespaces, version).sets([term for term, _ in terms])
        if counted is Counted.EACH:
            weighed = zip(found, (weight for _, weight in terms), strict=True)
            return bitsets.weighted_sum(weighed, len(looks))
        once = reduce(int.__or__ if counted is Counted.ONCE else int.__and__, found)
        return bitsets.weighted_sum([(once, 1)], len(looks))

    spelt = [(_spelled(term), weight) for term, weight in terms]
    return counters.of_all_labels(pod_index, ("many", counted, version, _encode(spelt)), weigh)


class _Looks:
    """The index of the looks that were asked about last: most ask about the same ones."""

    __slots__ = ("__weakref__", "_index")

    def __init__(self) -> None:
        self._index: _Index | None = None

    def of(
        self, looks: Sequence[LabelSet], namespaces: Mapping[str, Mapping[str, str]], version: int
    ) -> "_Index":
        """Return the index of some looks."""
        if self._index is None or not self._index.knows(looks, version):
            self._index = _Index(looks, namespaces, version)
        return self._index


class _Index:
    """Looks by their labels, their namespace and its labels."""

    def __init__(
        self, looks: Sequence[LabelSet], namespaces: Mapping[str, Mapping[str, str]], version: int
    ) -> None:
        self._looks = looks
        self._version = version
        size = len(looks)
        places: dict[str, list[int]] = {}
        for place, each in enumerate(looks):
            places.setdefault(each.namespace, []).append(place)
        self._named = {name: bitsets.of_positions(found, size) for name, found in places.items()}
        self._labels = label_index.of_labels(
            ((each.labels, (place,)) for place, each in enumerate(looks)), size
        )
        self._around = label_index.of_labels(
            ((namespaces.get(name, _NO_LABELS), found) for name, found in places.items()), size
        )

    def knows(self, looks: Sequence[LabelSet], version: int) -> bool:
        """Return whether it is about these looks, and not out of date."""
        return self._version == version and self._looks == looks

    def sets(self, terms: Sequence[AffinityTerm]) -> Iterator[int]:
        """Yield for each term of an incoming pod the set of looks that it is about."""
        for term in terms:
            scope = self._scope(term)
            yield scope & self._labels.matching(term.selector) if scope and term.selector else 0

    def _scope(self, term: AffinityTerm) -> int:
        """Return the looks in namespaces that a term is about; see `AffinityTerm.scope`."""
        selector = term.namespace_selector
        if selector is not None and selector.matches(_NO_LABELS):
            return self._around.all
        scope = 0 if selector is None else self._around.matching(selector)
        for name in term.namespaces:
            scope |= self._named.get(name, 0)
        return scope


def _spelled(term: AffinityTerm) -> tuple[object, ...]:
    selector = term.namespace_selector
    return sorted(term.namespaces), spelled(selector), selector is None, spelled(term.selector)
