"""Two plugins for preemptive-scheduler, one in each form.

`Maintenance` rejects nodes that are being repaired and prefers nodes without a planned repair. It
has the simple form: it evaluates one node at a time. `Headroom` keeps a share of a resource free on
every node. It has the vector form: it is compiled once for each class of equal pods, and evaluates
all nodes at once.
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
    """Keeps a share of a resource free on every node; prefers nodes where more of it is free."""

    name: ClassVar[str] = "Headroom"

    def __init__(self, args: Mapping[str, Any]) -> None:
        """Read `resource` and `percent` from the plugin's `args` in the configuration."""
        self._resource = args.get("resource", "cpu")
        self._percent = args.get("percent", 10)
        if not isinstance(self._percent, int) or not 0 <= self._percent <= 99:
            raise ValueError(f"percent is {self._percent!r}, not an integer from 0 to 99")

    def compile_filter(
        self, pod: Pod, cluster: Cluster, verdicts: Verdicts
    ) -> CompiledFilter | None:
        """Compile the filter for the class of this pod; a pod without a request always fits."""
        request = resources.pod_requests(pod).get(self._resource, 0)
        if not request:
            return None
        reason = f"node(s) would keep less than {self._percent}% of {self._resource} free"
        # Evicting pods frees resources, so these nodes are candidates for preemption.
        code = verdicts.code(Verdict(self.name, (reason,), resolvable=True))
        return _KeepsFree(_Share(cluster, self._resource, request), self._percent, code)

    def compile_score(self, pod: Pod, cluster: Cluster) -> CompiledScore | None:
        """Compile the score for the class of this pod."""
        request = resources.pod_requests(pod).get(self._resource, 0)
        return _MostFree(_Share(cluster, self._resource, request))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Retry rejected pods when a pod frees resources, or when a node is added or grows."""
        return (
            ClusterEventWithHint(Resource.POD, Action.DELETE | Action.UPDATE_POD_SCALE_DOWN),
            ClusterEventWithHint(Resource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE),
        )


class _Share:
    """How much of a resource would stay free with the pod on the node, in percent."""

    def __init__(self, cluster: Cluster, resource: str, request: int) -> None:
        # Resource codes change when nodes offer other resources, so they are looked up each time.
        self._request = Coded(cluster.axis, [(resource, request)])

    def free(self, nodes: NodeView) -> Int:
        """Return, (n,), the free share of each node, 0 to 100."""
        ((resource, request),) = self._request.now()
        have = nodes.allocatable(resource)
        left = have - nodes.requested(resource) - request
        return np.clip(left * 100 // np.maximum(have, 1), 0, 100)


class _KeepsFree(CompiledFilter):
    """Rejects nodes where too little would stay free."""

    reads = Reads.PODS

    def __init__(self, share: _Share, percent: int, code: int) -> None:
        self._share = share
        self._percent = percent
        self._code = code

    def codes(self, nodes: NodeView) -> Codes:
        return np.where(self._share.free(nodes) < self._percent, self._code, 0).astype(np.uint16)


class _MostFree(CompiledScore):
    """Prefers nodes where most would stay free."""

    reads = Reads.PODS

    def __init__(self, share: _Share) -> None:
        self._share = share

    def scores(self, nodes: NodeView) -> Scores:
        return self._share.free(nodes)


class Maintenance:
    """Rejects nodes with the label `example.com/maintenance: running`; `planned` scores lower."""

    name: ClassVar[str] = "Maintenance"
    #: `filter_node` returns an index of these. Index 0 means that the pod fits.
    reasons: ClassVar[tuple[str, ...]] = ("", "node(s) were in maintenance")

    LABEL: ClassVar[str] = "example.com/maintenance"

    def __init__(self, args: Mapping[str, Any]) -> None:
        """Reject all settings: the plugin has none."""
        if args:
            raise ValueError(f"there are no settings, found {', '.join(sorted(args))}")

    def filter_node(self, pod: Pod, node: Node, pods: Sequence[Pod]) -> int:
        """Reject nodes that are being repaired."""
        return 1 if node.metadata.labels.get(self.LABEL) == "running" else 0

    def score_node(self, pod: Pod, node: Node, pods: Sequence[Pod]) -> int:
        """Prefer nodes without a planned repair."""
        return 0 if node.metadata.labels.get(self.LABEL) == "planned" else 100

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Retry rejected pods when a node is added, or when its labels change."""
        return (ClusterEventWithHint(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),)
