"""The predicate of pods with a selector that means nothing.

The API server admits no such selector, but objects may be older than its rules.
"""

import numpy as np

from scheduler.framework.plugin import Predicate, Prepared, Rejected
from scheduler.framework.verdicts import Verdict
from scheduler.state.arrays import Codes
from scheduler.state.nodes import Nodes

__all__ = ["Unparsable"]


class Unparsable(Predicate):
    """Rejects the pod as a whole; no change in the cluster can help it."""

    def __init__(self, plugin: str, reason: str) -> None:
        """Make the predicate of a plugin that cannot read the pod."""
        self._verdict = Verdict(plugin, (reason,), resolvable=False)

    def prepare(self) -> Prepared:
        return Rejected(self._verdict)

    def codes(self, nodes: Nodes) -> Codes:
        return np.zeros(len(nodes), dtype=np.uint16)
