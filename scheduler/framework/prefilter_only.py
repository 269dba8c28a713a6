"""A filter that is disabled at `filter` but not at `preFilter`.

It can still reject the pod before any node is evaluated, or limit it to nodes by name.

Source: kube-scheduler v1.36.3 framework/runtime.expandMultiPointPlugins, RunPreFilterPlugins.
"""

from collections.abc import Sequence

from scheduler.framework.cluster_events import ClusterEventWithHint
from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.plugin import PASS, CompiledFilter, Filter, Plugin, PreFilter, Prepared
from scheduler.framework.verdicts import Verdicts
from scheduler.model.api.objects import Pod
from scheduler.state.cluster import Cluster

__all__ = ["PreFilterOnly", "with_prefilters"]


class PreFilterOnly:
    """Runs the PreFilter of a plugin without its Filter."""

    def __init__(self, plugin: Filter) -> None:
        """Wrap a filter plugin."""
        self.name = plugin.name
        self._plugin = plugin

    def compile_filter(
        self, pod: Pod, cluster: Cluster, verdicts: Verdicts
    ) -> CompiledFilter | None:
        """Return the PreFilter of the plugin for a pod; `None` if it has none."""
        inner = self._plugin.compile_filter(pod, cluster, verdicts)
        if inner is None or (
            type(inner).prepare is CompiledFilter.prepare and inner.node_names is None
        ):
            return None
        return _PrepareOnly(inner)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return no event: the point `preFilter` alone registers none."""
        return ()


class _PrepareOnly(PreFilter):
    """Runs `prepare` of another compiled filter; accepts every node that is left."""

    def __init__(self, inner: CompiledFilter) -> None:
        self._inner = inner
        self.node_names = inner.node_names

    def prepare(self, state: AttemptState, /) -> Prepared:
        prepared = self._inner.prepare(state)
        return PASS if isinstance(prepared, CompiledFilter) else prepared


def with_prefilters(filters: Sequence[Plugin], prefilters: Sequence[Plugin]) -> list[Plugin]:
    """Return the plugins of `filter`, and, in their order, those that run at `preFilter` only.

    Args:
        filters: In the order of `filter`.
        prefilters: In the order of `preFilter`.
    """
    ordered = list(filters)
    for index, plugin in enumerate(prefilters):
        if plugin not in filters and isinstance(plugin, Filter):
            later = (ordered.index(other) for other in prefilters[index + 1 :] if other in filters)
            ordered.insert(next(later, len(ordered)), PreFilterOnly(plugin))
    return ordered
