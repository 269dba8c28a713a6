"""DynamicResources: pods that claim devices.

Claims are not allocated yet: a pod that has any is rejected with a reason that says so, and is
never placed without its devices. For all other pods the plugin does what upstream's does, down to
the fragment that it adds to messages.

Source: kube-scheduler v1.36.3 plugins/dynamicresources. Differs: pods with claims.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from scheduler.framework.cluster_events import Action, Resource, Wake
from scheduler.framework.plugin import PostFilterSaid, Predicate, Prepared, Rejected
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.objects import Pod
from scheduler.state.arrays import Codes
from scheduler.state.cluster import Cluster
from scheduler.state.nodes import Nodes

__all__ = ["DynamicResources"]

REASON: Final = "resource claims are not supported by preemptive-scheduler"
NOTHING_TO_FREE: Final = "no new claims to deallocate"


class DynamicResources:
    """Rejects pods that claim devices."""

    name: ClassVar[str] = "DynamicResources"

    def predicate(self, pod: Pod, _cluster: Cluster, _verdicts: Verdicts) -> Predicate | None:
        if not pod.spec.resource_claims:
            return None
        return _Unsupported(Verdict(self.name, (REASON,), resolvable=False))

    def post_filter(self, _pod: Pod, *, prefilter_rejected_by: str | None) -> PostFilterSaid:
        if prefilter_rejected_by not in (None, self.name):
            # Upstream's PreFilter has not run then, its state is missing, and that is an error.
            return PostFilterSaid("not found", ends=True)
        return PostFilterSaid(NOTHING_TO_FREE)

    def wakes(self) -> Sequence[Wake]:
        action = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
        return (Wake(Resource.NODE, action),)


class _Unsupported(Predicate):
    """Rejects the pod as a whole."""

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict

    def prepare(self) -> Prepared:
        return Rejected(self._verdict)

    def codes(self, nodes: Nodes) -> Codes:
        return np.zeros(len(nodes), dtype=np.uint16)
