"""A filter that is disabled at `filter` and not at `preFilter`: it speaks about the pod as a whole.

It may still reject the pod before any node is looked at, and say which nodes alone can take it.

Source: kube-scheduler v1.36.3 framework/runtime.expandMultiPointPlugins, RunPreFilterPlugins.
"""

from collections.abc import Sequence

import numpy as np

from scheduler.framework.cluster_events import ClusterEventWithHint
from scheduler.framework.plugin import CompiledFilter, Filter, Plugin, Prepared
from scheduler.framework.verdicts import Verdicts
from scheduler.model.api.objects import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Codes
from scheduler.state.views.node_view import NodeView

__all__ = ["PreFilterOnly", "with_prefilters"]


class PreFilterOnly:
    """Runs the PreFilter of a plugin without its Filter."""

    def __init__(self, plugin: Filter) -> None:
        """Take half of a plugin."""
        self.name = plugin.name
        self._plugin = plugin

    def compile_filter(
        self, pod: Pod, cluster: Cluster, verdicts: Verdicts
    ) -> CompiledFilter | None:
        inner = self._plugin.compile_filter(pod, cluster, verdicts)
        if inner is None or (
            type(inner).prepare is CompiledFilter.prepare and inner.node_names is None
        ):
            return None
        return _Prepares(inner)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return ()


class _Prepares(CompiledFilter):
    """Says what another predicate says about the pod as a whole; every node fits."""

    def __init__(self, inner: CompiledFilter) -> None:
        self._inner = inner
        self.node_names = inner.node_names

    def prepare(self) -> Prepared:
        return self._inner.prepare()

    def codes(self, nodes: NodeView) -> Codes:
        return np.zeros(len(nodes), dtype=np.uint16)


def with_prefilters(filters: Sequence[Plugin], prefilters: Sequence[Plugin]) -> list[Plugin]:
    """Return the plugins of `filter`, with those that run at `preFilter` only in their places.

    Args:
        filters: in the order of `filter`.
        prefilters: in the order of `preFilter`.
    """
    ordered = list(filters)
    for place, plugin in enumerate(prefilters):
        if plugin not in filters and isinstance(plugin, Filter):
            later = (ordered.index(each) for each in prefilters[place + 1 :] if each in filters)
            ordered.insert(next(later, len(ordered)), PreFilterOnly(plugin))
    return ordered
