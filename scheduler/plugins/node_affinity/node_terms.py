"""Node selector terms, evaluated on many nodes at once.

A term is a conjunction, a list of terms a disjunction. The cost of a list grows with its size plus
the number of nodes, not with their product.

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
        self._terms = [term if _can_match(term) else None for term in terms]
        self._labels = labels

    def any(self, nodes: NodeView) -> Bool:
        """Return, (n,), which nodes satisfy a term."""
        satisfied, everything = 0, (1 << len(nodes)) - 1
        for _, matching in self._matching(nodes):
            satisfied |= matching
            if satisfied == everything:
                break
        return bitsets.unpacked(satisfied, len(nodes))

    def sum(self, nodes: NodeView, weights: Sequence[int]) -> Int:
        """Return, (n,), the sum of the weights of the terms that each node satisfies."""
        sets = ((matching, weights[index]) for index, matching in self._matching(nodes))
        return bitsets.weighted_sum(sets, len(nodes))

    def _matching(self, nodes: NodeView) -> Iterator[tuple[int, int]]:
        """Yield the index of each valid term, and the nodes that satisfy it, as bits."""
        index = label_index.of_nodes(nodes, self._labels)
        names = _Names(nodes)
        for position, term in enumerate(self._terms):
            if term is not None:
                yield position, _satisfying(term, index, names)


class NodeTermFinder:
    """Terms of a node selector, evaluated on one node at a time."""

    def __init__(self, terms: Sequence[NodeSelectorTerm]) -> None:
        self._terms = [term for term in terms if _can_match(term)]
        self._index = SelectorIndex([_label_selector(term) for term in self._terms])

    def any(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether a node of that name and those labels satisfies a term."""
        candidates = self._index.matching(labels)
        return any(selectors.matches_term(self._terms[at], name, labels) for at in candidates)


def _label_selector(term: NodeSelectorTerm) -> Selector:
    """Return the label requirements of a term; Gt and Lt only require that the key exists."""
    return Selector(
        tuple(
            Requirement(expression.key, "Exists")
            if expression.operator in ("Gt", "Lt")
            else expression
            for expression in term.match_expressions
        )
    )


class _Names:
    """Finds the positions of nodes in a view by name."""

    def __init__(self, nodes: NodeView) -> None:
        self._nodes = nodes
        self._positions: dict[int, int] | None = None

    def holding(self, field: Requirement) -> int:
        """Return the nodes, as bits, that satisfy a valid expression on the node name."""
        nodes = self._nodes
        row = nodes.columns.row(field.values[0])
        if row is not None and self._positions is None:
            self._positions = {row: position for position, row in enumerate(nodes.rows.tolist())}
        position = None if row is None or self._positions is None else self._positions.get(row)
        named = 0 if position is None else 1 << position
        return named if field.operator == "In" else ((1 << len(nodes)) - 1) ^ named


def _satisfying(term: NodeSelectorTerm, index: LabelIndex, names: _Names) -> int:
    satisfied = index.all
    for expression in term.match_expressions:
        satisfied &= index.holding(expression)
        if not satisfied:
            return 0
    for field in term.match_fields:
        satisfied &= names.holding(field)
    return satisfied


def _can_match(term: NodeSelectorTerm) -> bool:
    """Return whether a term can match: it is not empty, and all of its expressions are valid."""
    if not term.match_expressions and not term.match_fields:
        return False
    return all(map(selectors.valid_node_requirement, term.match_expressions)) and all(
        field.key == NAME_FIELD and len(field.values) == 1 and field.operator in ("In", "NotIn")
        for field in term.match_fields
    )
