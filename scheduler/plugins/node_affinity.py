"""NodeAffinity: node selectors and node affinity, required and preferred.

Source: kube-scheduler v1.36.3 plugins/nodeaffinity; component-helpers v0.36.3
scheduling/corev1/nodeaffinity.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from scheduler.framework.cluster_events import Action, Resource, Wake
from scheduler.framework.plugin import (
    PASS,
    Predicate,
    Prepared,
    Priority,
    Rejected,
    normalise_to_max,
)
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model import objects, selectors
from scheduler.model.objects import (
    Node,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    Requirement,
    WeightedNodeTerm,
)
from scheduler.model.selectors import NAME_FIELD
from scheduler.state.arrays import Bool, Codes, Scores
from scheduler.state.cluster import Cluster
from scheduler.state.labels import LabelColumns, LabelTest
from scheduler.state.nodes import Nodes

__all__ = ["NodeAffinity"]

REASON: Final = "node(s) didn't match Pod's node affinity/selector"
REASON_ENFORCED: Final = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT: Final = "pod affinity terms conflict"


class NodeAffinity:
    """Rejects nodes that a pod's selectors leave out; likes those that it prefers."""

    name: ClassVar[str] = "NodeAffinity"

    def __init__(self, added: objects.NodeAffinity | None = None) -> None:
        """Make the rule.

        Args:
            added: Affinity that the profile adds to every pod.
        """
        self._added = added

    def predicate(self, pod: Pod, cluster: Cluster, verdicts: Verdicts) -> Predicate | None:
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
            rules.append((_AnyTerm(enforced, labels), verdicts.code(verdict(REASON_ENFORCED))))
        code = verdicts.code(verdict(REASON))
        if pod.spec.node_selector:
            equal = [Requirement(k, "In", [v]) for k, v in pod.spec.node_selector.items()]
            selector = NodeSelector([NodeSelectorTerm(match_expressions=equal)])
            rules.append((_AnyTerm(selector, labels), code))
        if required is not None:
            rules.append((_AnyTerm(required, labels), code))
        return _Required(rules, _only(required), verdict(REASON_CONFLICT))

    def priority(self, pod: Pod, cluster: Cluster) -> Priority | None:
        own = _affinity(pod)
        preferred = [
            *(self._added.preferred if self._added else []),
            *(own.preferred if own else []),
        ]
        if not preferred:
            return None
        return _Preferred(preferred, cluster.columns.labels)

    def wakes(self) -> Sequence[Wake]:
        return (Wake(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL, self._became_match),)

    def _became_match(self, pod: Pod, old: Node | None, new: Node) -> bool:
        return self._matches(pod, new) and (old is None or not self._matches(pod, old))

    def _matches(self, pod: Pod, node: Node) -> bool:
        enforced = self._added.required if self._added else None
        if enforced is not None and not any(
            selectors.matches_term(term, node.metadata.name, node.metadata.labels)
            for term in enforced.node_selector_terms
        ):
            return False
        return selectors.matches_node_selection(pod.spec, node)


class _Term:
    """One term: all expressions and all fields must hold."""

    def __init__(self, term: NodeSelectorTerm, labels: LabelColumns) -> None:
        self._tests = [
            LabelTest(each, labels.column(each.key))
            for each in term.match_expressions
            if selectors.valid_node_requirement(each)
        ]
        self._fields = term.match_fields
        # An empty term matches nothing; neither does one with an expression that means nothing.
        self._never = len(self._tests) < len(term.match_expressions) or not (
            term.match_expressions or term.match_fields
        )

    def holds(self, nodes: Nodes) -> Bool:
        """Return, (n,), which nodes satisfy the term."""
        holds = np.full(len(nodes), not self._never)
        if self._never:
            return holds
        for test in self._tests:
            holds &= test.table()[nodes.label_codes(test.column)]
        for field in self._fields:
            holds &= _field_holds(field, nodes)
        return holds


def _field_holds(field: Requirement, nodes: Nodes) -> Bool:
    if field.key != NAME_FIELD or len(field.values) != 1 or field.operator not in ("In", "NotIn"):
        return np.zeros(len(nodes), dtype=np.bool_)
    row = nodes.columns.row(field.values[0])
    named: Bool = np.equal(nodes.rows, -1 if row is None else row)
    return named if field.operator == "In" else ~named


class _AnyTerm:
    """A node selector: one term is enough."""

    def __init__(self, selector: NodeSelector, labels: LabelColumns) -> None:
        self._terms = [_Term(term, labels) for term in selector.node_selector_terms]

    def holds(self, nodes: Nodes) -> Bool:
        """Return, (n,), which nodes are selected."""
        holds = np.zeros(len(nodes), dtype=np.bool_)
        for term in self._terms:
            holds |= term.holds(nodes)
        return holds


class _Required(Predicate):
    """Rejects nodes that a required selector leaves out; the first one names the reason."""

    def __init__(
        self,
        rules: list[tuple[_AnyTerm, int]],
        only: frozenset[str] | None,
        conflict: Verdict,
    ) -> None:
        self._rules = rules
        self._conflict = conflict
        self.only = only

    def prepare(self) -> Prepared:
        return Rejected(self._conflict) if self.only == frozenset() else PASS

    def codes(self, nodes: Nodes) -> Codes:
        codes = np.zeros(len(nodes), dtype=np.uint16)
        for selector, code in self._rules:
            codes[~selector.holds(nodes) & (codes == 0)] = code
        return codes


class _Preferred(Priority):
    """Adds up the weights of the preferred terms that a node satisfies."""

    normalised = True

    def __init__(self, preferred: list[WeightedNodeTerm], labels: LabelColumns) -> None:
        self._terms = [
            (_Term(each.preference, labels), each.weight) for each in preferred if each.weight
        ]

    def scores(self, nodes: Nodes) -> Scores:
        total = np.zeros(len(nodes), dtype=np.int64)
        for term, weight in self._terms:
            total += weight * term.holds(nodes)
        return total

    def normalise(self, raw: Scores) -> Scores:
        return normalise_to_max(raw)


def _affinity(pod: Pod) -> objects.NodeAffinity | None:
    return pod.spec.affinity.node_affinity if pod.spec.affinity else None


def _only(required: NodeSelector | None) -> frozenset[str] | None:
    """Return the node names that the terms allow; `None` when one term does not name any."""
    names: set[str] = set()
    terms = required.node_selector_terms if required else []
    for term in terms:
        fields = [each for each in term.match_fields if _names_nodes(each)]
        if not fields:
            return None
        names |= frozenset.intersection(*(frozenset(each.values) for each in fields))
    return frozenset(names) if terms else None


def _names_nodes(field: Requirement) -> bool:
    return field.key == NAME_FIELD and field.operator == "In"
