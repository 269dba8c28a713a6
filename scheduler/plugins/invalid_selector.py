"""The compiled filter of pods with an invalid selector.

The API server does not admit such a selector, but objects may be older than its rules.
"""

from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.plugin import PreFilter, Prepared, Rejected
from scheduler.framework.verdicts import Verdict

__all__ = ["InvalidSelector"]


class InvalidSelector(PreFilter):
    """Rejects the pod on all nodes; no change in the cluster can lift the rejection."""

    def __init__(self, plugin: str, reason: str) -> None:
        """Create the filter for a plugin that cannot parse a selector of the pod."""
        self._verdict = Verdict(plugin, (reason,), resolvable=False)

    def prepare(self, _state: AttemptState, /) -> Prepared:
        return Rejected(self._verdict)
