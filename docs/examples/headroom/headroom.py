"""Two plugins for preemptive-scheduler, one in each form.

`Headroom` keeps some of a resource free on every node. It is compiled once for each class of equal
pods and judges all nodes at once. `Maintenance` keeps pods off nodes that are being repaired, and
away from those that soon will be. It looks at one node at a time.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from scheduler.framework.cluster_events import Action, ClusterEventWithHint, Resource
from scheduler.framework.plugin import CompiledFilter, CompiledScore, Reads
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.api import resources
from scheduler.model.api.objects import Node, Pod
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Codes, Int, Scores
from scheduler.state.columns.resource_axis import Coded
from scheduler.state.views.node_view import NodeView


class Headroom:
    """Keeps a share of a resource free on every node, and likes nodes that have more of it free."""

    name: ClassVar[str] = "Headroom"

    def __init__(self, args: Mapping[str, Any]) -> None:
        """Take the settings of a profile: `resource` and `percent`."""
        self._resource = args.get("resource", "cpu")
        self._percent = args.get("percent", 10)
        if not isinstance(self._percent, int) or not 0 <= self._percent <= 99:
            raise ValueError(f"percent is {self._percent!r}, not an integer from 0 to 99")

    def compile_filter(
        self, pod: Pod, cluster: Cluster, verdicts: Verdicts
    ) -> CompiledFilter | None:
        """Compile the filter for pods like this one; those that ask for nothing always fit."""
        asked = resources.pod_requests(pod).get(self._resource, 0)
        if not asked:
            return None
        reason = f"node(s) would keep less than {self._percent}% of {self._resource} free"
        # Evicting pods makes room, so preemption may look at these nodes.
        code = verdicts.code(Verdict(self.name, (reason,), resolvable=True))
        return _KeepsFree(_Share(cluster, self._resource, asked), self._percent, code)

    def compile_score(self, pod: Pod, cluster: Cluster) -> CompiledScore | None:
        """Compile the score for pods like this one."""
        asked = resources.pod_requests(pod).get(self._resource, 0)
        return _MostFree(_Share(cluster, self._resource, asked))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Say what may lift a rejection: pods that go, and nodes that come or grow."""
        return (
            ClusterEventWithHint(Resource.POD, Action.DELETE | Action.UPDATE_POD_SCALE_DOWN),
            ClusterEventWithHint(Resource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE),
        )


class _Share:
    """How much of a resource would stay free, in percent."""

    def __init__(self, cluster: Cluster, resource: str, asked: int) -> None:
        # The codes of resources follow what nodes offer.
        self._asked = Coded(cluster.axis, [(resource, asked)])

    def free(self, nodes: NodeView) -> Int:
        """Return, (n,), the share on each node, 0 to 100."""
        ((resource, asked),) = self._asked.now()
        have = nodes.allocatable(resource)
        left = have - nodes.requested(resource) - asked
        return np.clip(left * 100 // np.maximum(have, 1), 0, 100)


class _KeepsFree(CompiledFilter):
    """Rejects nodes on which too little would stay free."""

    reads = Reads.PODS

    def __init__(self, share: _Share, percent: int, code: int) -> None:
        self._share = share
        self._percent = percent
        self._code = code

    def codes(self, nodes: NodeView) -> Codes:
        return np.where(self._share.free(nodes) < self._percent, self._code, 0).astype(np.uint16)


class _MostFree(CompiledScore):
    """Likes nodes on which most would stay free."""

    reads = Reads.PODS

    def __init__(self, share: _Share) -> None:
        self._share = share

    def scores(self, nodes: NodeView) -> Scores:
        return self._share.free(nodes)


class Maintenance:
    """Follows the label `example.com/maintenance` of nodes: `planned` or `running`."""

    name: ClassVar[str] = "Maintenance"
    #: What `filter_node` may return an index of; the first stands for a node that fits.
    reasons: ClassVar[tuple[str, ...]] = ("", "node(s) were in maintenance")

    LABEL: ClassVar[str] = "example.com/maintenance"

    def __init__(self, args: Mapping[str, Any]) -> None:
        """Take the settings of a profile: there are none."""
        if args:
            raise ValueError(f"there are no settings, found {', '.join(sorted(args))}")

    def filter_node(self, pod: Pod, node: Node, pods: Sequence[Pod]) -> int:
        """Reject nodes that are being repaired."""
        return 1 if node.metadata.labels.get(self.LABEL) == "running" else 0

    def score_node(self, pod: Pod, node: Node, pods: Sequence[Pod]) -> int:
        """Like nodes that will not be repaired soon."""
        return 0 if node.metadata.labels.get(self.LABEL) == "planned" else 100

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Say what may lift a rejection: nodes that come, or get other labels."""
        return (ClusterEventWithHint(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),)
