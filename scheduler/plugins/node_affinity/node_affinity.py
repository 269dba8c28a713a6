"""NodeAffinity: node selectors and node affinity, required and preferred.

Source: kube-scheduler v1.36.3 plugins/nodeaffinity; component-helpers v0.36.3
scheduling/corev1/nodeaffinity.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from scheduler.framework.cluster_events import Action, ClusterEventWithHint, Resource
from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.plugin import (
    PASS,
    CompiledFilter,
    CompiledScore,
    Prepared,
    Rejected,
    normalise_to_max,
)
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.api import objects, selectors
from scheduler.model.api.objects import (
    Affinity,
    Node,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    Requirement,
    WeightedNodeTerm,
)
from scheduler.model.api.selectors import NAME_FIELD
from scheduler.plugins.node_affinity.node_terms import NodeTermFinder, NodeTerms
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Codes, Scores
from scheduler.state.columns.caches import WeakCache
from scheduler.state.columns.labels import LabelColumns
from scheduler.state.columns.node_columns import NodeColumns
from scheduler.state.columns.row_cursor import RowCursor, max_incremental
from scheduler.state.views.node_view import NodeView

__all__ = ["NodeAffinity"]

REASON: Final = "node(s) didn't match Pod's node affinity/selector"
REASON_ENFORCED: Final = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT: Final = "pod affinity terms conflict"

#: For at least so many terms, hints look up a changed node in an index of the terms.
_MANY: Final = 16
_finders: Final[WeakCache[Affinity, NodeTermFinder]] = WeakCache()


class NodeAffinity:
    """Rejects nodes that do not match required node affinity; scores by preferred affinity."""

    name: ClassVar[str] = "NodeAffinity"

    def __init__(self, added: objects.NodeAffinity | None = None) -> None:
        """Make the rule.

        Args:
            added: Affinity that the profile adds to every pod.
        """
        self._added = added

    def compile_filter(
        self, pod: Pod, cluster: Cluster, verdicts: Verdicts
    ) -> CompiledFilter | None:
        own = _affinity(pod)
        required = own.required if own else None
        enforced = self._added.required if self._added else None
        if required is None and enforced is None and pod.spec.node_selector is None:
            return None
        labels = cluster.columns.labels

        def verdict(reason: str) -> Verdict:
            return Verdict(self.name, (reason,), resolvable=False)

        rules = []
        if enforced is not None:
            rules.append(
                (
                    NodeTerms(enforced.node_selector_terms, labels),
                    verdicts.code(verdict(REASON_ENFORCED)),
                )
            )
        code = verdicts.code(verdict(REASON))
        if pod.spec.node_selector:
            equal = [Requirement(k, "In", [v]) for k, v in pod.spec.node_selector.items()]
            rules.append((NodeTerms([NodeSelectorTerm(match_expressions=equal)], labels), code))
        if required is not None:
            rules.append((NodeTerms(required.node_selector_terms, labels), code))
        return _Required(rules, _node_names(required), verdict(REASON_CONFLICT), cluster.columns)

    def compile_score(self, pod: Pod, cluster: Cluster) -> CompiledScore | None:
        own = _affinity(pod)
        preferred = [
            *(self._added.preferred if self._added else []),
            *(own.preferred if own else []),
        ]
        if not preferred:
            return None
        return _Preferred(preferred, cluster.columns.labels)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            ClusterEventWithHint(
                Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL, self._became_match
            ),
        )

    def _became_match(self, pod: Pod, old: Node | None, new: Node) -> bool:
        return self._matches(pod, new) and (old is None or not self._matches(pod, old))

    def _matches(self, pod: Pod, node: Node) -> bool:
        enforced = self._added.required if self._added else None
        if enforced is not None and not any(
            selectors.matches_term(term, node.metadata.name, node.metadata.labels)
            for term in enforced.node_selector_terms
        ):
            return False
        affinity, labels = pod.spec.affinity, node.metadata.labels
        required = affinity and affinity.node_affinity and affinity.node_affinity.required
        if not affinity or not required or len(required.node_selector_terms) < _MANY:
            return selectors.matches_node_selection(pod.spec, node)
        if any(labels.get(key) != value for key, value in (pod.spec.node_selector or {}).items()):
            return False
        terms = required.node_selector_terms
        finder = _finders.of(affinity, "", lambda: NodeTermFinder(terms))
        return finder.any(node.metadata.name, labels)


class _Required(CompiledFilter):
    """Rejects nodes that do not match a required selector; the first one gives the reason.

    Verdicts are cached by row until the node changes, because preemption evaluates the same node
    again and again while it adds and removes pods.
    """

    spec_only = True

    def __init__(
        self,
        rules: list[tuple[NodeTerms, int]],
        node_names: frozenset[str] | None,
        conflict: Verdict,
        columns: NodeColumns,
    ) -> None:
        self._rules = rules
        self._columns = columns
        self._conflict = conflict
        self.node_names = node_names
        #: (N,) verdict codes at the last refresh.
        self._cached: Codes = np.zeros(0, dtype=np.uint16)
        self._cursor = RowCursor(columns.node_changes)

    def prepare(self, _state: AttemptState, /) -> Prepared:
        return Rejected(self._conflict) if self.node_names == frozenset() else PASS

    def codes(self, nodes: NodeView) -> Codes:
        self._refresh()
        return self._cached.take(nodes.rows)

    def _refresh(self) -> None:
        """Evaluate the rows that changed."""
        columns, known = self._columns, self._cached.shape[0]
        changed = self._cursor.take_changed(max_incremental(columns.size))
        if changed is None or known < columns.size:
            self._cached = self._evaluate(NodeView(columns))
        elif changed.shape[0]:
            self._cached[changed] = self._evaluate(NodeView(columns, changed))

    def _evaluate(self, nodes: NodeView) -> Codes:
        codes = np.zeros(len(nodes), dtype=np.uint16)
        for selector, code in self._rules:
            codes[~selector.any(nodes) & (codes == 0)] = code
        return codes


class _Preferred(CompiledScore):
    """Sums the weights of the preferred terms that a node satisfies."""

    needs_normalising = True

    def __init__(self, preferred: list[WeightedNodeTerm], labels: LabelColumns) -> None:
        weighted = [term for term in preferred if term.weight]
        self._terms = NodeTerms([term.preference for term in weighted], labels)
        self._weights = [term.weight for term in weighted]

    def scores(self, nodes: NodeView) -> Scores:
        return self._terms.sum(nodes, self._weights)

    def normalise(self, raw: Scores) -> Scores:
        return normalise_to_max(raw)


def _affinity(pod: Pod) -> objects.NodeAffinity | None:
    return pod.spec.affinity.node_affinity if pod.spec.affinity else None


def _node_names(required: NodeSelector | None) -> frozenset[str] | None:
    """Return the node names that the terms allow; `None` when one term allows any name."""
    names: set[str] = set()
    terms = required.node_selector_terms if required else []
    for term in terms:
        fields = [field for field in term.match_fields if _names_nodes(field)]
        if not fields:
            return None
        names |= frozenset.intersection(*(frozenset(field.values) for field in fields))
    return frozenset(names) if terms else None


def _names_nodes(field: Requirement) -> bool:
    return field.key == NAME_FIELD and field.operator == "In"
