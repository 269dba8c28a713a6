"""The predicate of pods with a selector that means nothing.

The API server admits no such selector, but objects may be older than its rules.
"""

import numpy as np

from scheduler.framework.plugin import CompiledFilter, Prepared, Rejected
from scheduler.framework.verdicts import Verdict
from scheduler.state.columns.arrays import Codes
from scheduler.state.views.node_view import NodeView

__all__ = ["InvalidSelector"]


class InvalidSelector(CompiledFilter):
    """Rejects the pod as a whole; no change in the cluster can help it."""

    def __init__(self, plugin: str, reason: str) -> None:
        """Make the predicate of a plugin that cannot read the pod."""
        self._verdict = Verdict(plugin, (reason,), resolvable=False)

    def prepare(self) -> Prepared:
        return Rejected(self._verdict)

    def codes(self, nodes: NodeView) -> Codes:
        return np.zeros(len(nodes), dtype=np.uint16)
