"""Which nodes can reach a volume or a storage pool, by node labels alone.

`VolumeReach` evaluates one volume on all nodes at once; the functions evaluate one node at a time.

Axes: n rows of a view.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from scheduler.model.api import selectors
from scheduler.model.api.objects import NodeSelector, NodeSelectorTerm, Requirement
from scheduler.model.api.storage import PersistentVolume, TopologyTerm
from scheduler.state.columns.arrays import Bool
from scheduler.state.columns.labels import LabelColumns, LabelTest
from scheduler.state.storage import csi_translation
from scheduler.state.storage.csi_counts import CsiNodes
from scheduler.state.views.node_view import NodeView

__all__ = ["VolumeReach", "allowed", "keys_of", "reaches", "selects"]


def selects(selector: NodeSelector | None, labels: Mapping[str, str]) -> bool:
    """Return whether a node with these labels is selected; `None` selects every node.

    Fields of the node are not known here: they count as empty.

    Source: component-helpers v0.36.3 storage/volume.CheckNodeAffinity.
    """
    if selector is None:
        return True
    return any(selectors.matches_term(term, "", labels) for term in selector.node_selector_terms)


def reaches(
    volume: PersistentVolume, node: str, labels: Mapping[str, str], csi_nodes: CsiNodes
) -> bool:
    """Return whether a node can reach a volume.

    Raises:
        TranslationError: The volume is migrated to CSI on the node, but names no CSI volume.

    Source: kube-scheduler v1.36.3 volumebinding.tryTranslatePVToCSI.
    """
    plugin = csi_translation.plugin(volume) or ""
    if plugin in csi_translation.DRIVERS and csi_nodes.is_migrated(plugin, node):
        return selects(csi_translation.required(volume), labels)
    return selects(volume.required, labels)


def allowed(terms: Sequence[TopologyTerm], labels: Mapping[str, str]) -> bool:
    """Return whether a storage class allows provisioning for a node with these labels.

    Source: kubernetes v1.36.3 pkg/apis/core/v1/helper.MatchTopologySelectorTerms.
    """
    return not terms or any(_allows(term, labels) for term in terms)


def _allows(term: TopologyTerm, labels: Mapping[str, str]) -> bool:
    expressions = term.match_label_expressions
    return bool(expressions) and all(
        selectors.valid_node_requirement(Requirement(expression.key, "In", expression.values))
        and labels.get(expression.key) in expression.values
        for expression in expressions
    )


def keys_of(selector: NodeSelector | None) -> set[str]:
    """Return the labels that decide whether a node is selected."""
    terms = [] if selector is None else selector.node_selector_terms
    return {expression.key for term in terms for expression in term.match_expressions}


class VolumeReach:
    """The nodes that can reach one volume."""

    def __init__(self, volume: PersistentVolume, labels: LabelColumns, csi_nodes: CsiNodes) -> None:
        """Compile the node affinity of a volume.

        Raises:
            TranslationError: The volume is migrated to CSI on some node, but names no CSI volume.
        """
        plugin = csi_translation.plugin(volume) or ""
        migrated = csi_nodes.migrated(plugin) if plugin in csi_translation.DRIVERS else None
        self._migrated: Final = migrated
        self._selector = _Selected(volume.required, labels)
        if migrated is not None and migrated.any():
            self._translated = _Selected(csi_translation.required(volume), labels)
        else:
            self._translated = self._selector

    def holds(self, nodes: NodeView) -> Bool:
        """Return, (n,), which nodes can reach the volume."""
        if self._migrated is None or self._translated is self._selector:
            return self._selector.holds(nodes)
        migrated = self._migrated[nodes.rows] > 0
        holds: Bool = np.where(migrated, self._translated.holds(nodes), self._selector.holds(nodes))
        return holds


class _Selected:
    """The nodes that a node selector selects."""

    def __init__(self, selector: NodeSelector | None, labels: LabelColumns) -> None:
        self._terms = (
            None
            if selector is None
            else [_compile_term(term, labels) for term in selector.node_selector_terms]
        )

    def holds(self, nodes: NodeView) -> Bool:
        """Return, (n,), which nodes are selected."""
        if self._terms is None:
            return np.ones(len(nodes), dtype=np.bool_)
        holds = np.zeros(len(nodes), dtype=np.bool_)
        for tests in self._terms:
            if tests is not None:
                term_holds = np.ones(len(nodes), dtype=np.bool_)
                for test in tests:
                    term_holds &= test.table()[nodes.label_codes(test.column)]
                holds |= term_holds
        return holds


def _compile_term(term: NodeSelectorTerm, labels: LabelColumns) -> list[LabelTest] | None:
    """Return the tests of a term; `None` when no node can satisfy it."""
    if not term.match_expressions and not term.match_fields:
        return None
    fields = NodeSelectorTerm(match_fields=term.match_fields)
    if term.match_fields and not selectors.matches_term(fields, "", {}):
        return None
    if not all(map(selectors.valid_node_requirement, term.match_expressions)):
        return None
    return [
        LabelTest(expression, labels.column(expression.key))
        for expression in term.match_expressions
    ]
