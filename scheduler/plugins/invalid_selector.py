"""The compiled filter of pods with an invalid selector.

The API server does not admit such a selector, but objects may be older than its rules.
"""

import numpy as np

from scheduler.framework.plugin import CompiledFilter, Prepared, Rejected
from scheduler.framework.verdicts import Verdict
from scheduler.state.columns.arrays import Codes
from scheduler.state.views.node_view import NodeView

__all__ = ["InvalidSelector"]


class InvalidSelector(CompiledFilter):
    """Rejects the pod on all nodes; no change in the cluster can lift the rejection."""

    def __init__(self, plugin: str, reason: str) -> None:
        """Create the filter for a plugin that cannot parse a selector of the pod."""
        self._verdict = Verdict(plugin, (reason,), resolvable=False)

    def prepare(self) -> Prepared:
        return Rejected(self._verdict)

    def codes(self, nodes: NodeView) -> Codes:
        return np.zeros(len(nodes), dtype=np.uint16)
