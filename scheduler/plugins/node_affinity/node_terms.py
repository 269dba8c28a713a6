"""Node selector terms, judged on many nodes at once.

A term is a conjunction, a list of terms a disjunction. What a list costs grows with what is
written in it plus the number of nodes, not with one times the other.

Axes: n rows of a view.
"""

from collections.abc import Iterator, Mapping, Sequence

from scheduler.model.api import selectors
from scheduler.model.api.objects import NodeSelectorTerm, Requirement
from scheduler.model.api.selectors import NAME_FIELD, Selector
from scheduler.state.columns import bitsets
from scheduler.state.columns.arrays import Bool, Int
from scheduler.state.columns.labels import LabelColumns
from scheduler.state.pods.selector_index import SelectorIndex
from scheduler.state.views import label_index
from scheduler.state.views.label_index import LabelIndex
from scheduler.state.views.node_view import NodeView

__all__ = ["NodeTermFinder", "NodeTerms"]


class NodeTerms:
    """Terms of a node selector, or of preferences."""

    def __init__(self, terms: Sequence[NodeSelectorTerm], labels: LabelColumns) -> None:
        self._terms = [each if _means_something(each) else None for each in terms]
        self._labels = labels

    def any(self, nodes: NodeView) -> Bool:
        """Return, (n,), which nodes satisfy a term."""
        found, everything = 0, (1 << len(nodes)) - 1
        for _, holding in self._holding(nodes):
            found |= holding
            if found == everything:
                break
        return bitsets.unpacked(found, len(nodes))

    def sum(self, nodes: NodeView, weights: Sequence[int]) -> Int:
        """Return, (n,), the sum of the weights of the terms that each node satisfies."""
        sets = ((holding, weights[place]) for place, holding in self._holding(nodes))
        return bitsets.weighted_sum(sets, len(nodes))

    def _holding(self, nodes: NodeView) -> Iterator[tuple[int, int]]:
        """Yield the place of each term that means something, and the nodes that satisfy it."""
        index = label_index.of_nodes(nodes, self._labels)
        names = _Names(nodes)
        for place, term in enumerate(self._terms):
            if term is not None:
                yield place, _satisfying(term, index, names)


class NodeTermFinder:
    """Terms of a node selector, held against one node after the other."""

    def __init__(self, terms: Sequence[NodeSelectorTerm]) -> None:
        self._terms = [each for each in terms if _means_something(each)]
        self._index = SelectorIndex([_about_labels(each) for each in self._terms])

    def any(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether a node of that name and those labels satisfies a term."""
        found = self._index.matching(labels)
        return any(selectors.matches_term(self._terms[place], name, labels) for place in found)


def _about_labels(term: NodeSelectorTerm) -> Selector:
    """Return what a term asks of labels, but for how large a number is."""
    return Selector(
        tuple(
            Requirement(each.key, "Exists") if each.operator in ("Gt", "Lt") else each
            for each in term.match_expressions
        )
    )


class _Names:
    """The places of nodes in a view, by name."""

    def __init__(self, nodes: NodeView) -> None:
        self._nodes = nodes
        self._places: dict[int, int] | None = None

    def holding(self, field: Requirement) -> int:
        """Return where a valid expression about the name holds."""
        nodes = self._nodes
        row = nodes.columns.row(field.values[0])
        if row is not None and self._places is None:
            self._places = {row: place for place, row in enumerate(nodes.rows.tolist())}
        place = None if row is None or self._places is None else self._places.get(row)
        named = 0 if place is None else 1 << place
        return named if field.operator == "In" else ((1 << len(nodes)) - 1) ^ named


def _satisfying(term: NodeSelectorTerm, index: LabelIndex, names: _Names) -> int:
    found = index.all
    for each in term.match_expressions:
        found &= index.holding(each)
        if not found:
            return 0
    for each in term.match_fields:
        found &= names.holding(each)
    return found


def _means_something(term: NodeSelectorTerm) -> bool:
    """Return whether a term can match: an empty one does not, nor one with an odd expression."""
    if not term.match_expressions and not term.match_fields:
        return False
    return all(map(selectors.valid_node_requirement, term.match_expressions)) and all(
        each.key == NAME_FIELD and len(each.values) == 1 and each.operator in ("In", "NotIn")
        for each in term.match_fields
    )
