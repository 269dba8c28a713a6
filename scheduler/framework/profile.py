"""A profile: the plugins for the pods of one scheduler name, in their order."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from scheduler.config.settings import Extender
from scheduler.framework.cluster_events import Action, ClusterEventWithHint, Resource
from scheduler.framework.extender_protocol import EXTENDER
from scheduler.framework.plugin import (
    CapacityFilter,
    CompiledFilter,
    CompiledScore,
    Filter,
    Plugin,
    PostFilter,
    PreEnqueue,
    Score,
)
from scheduler.framework.verdicts import Verdicts
from scheduler.model.api.objects import Pod
from scheduler.model.releases import OLDEST, Reference
from scheduler.state.cluster import Cluster

__all__ = ["CLAIMS", "PREEMPTION", "Profile", "build_queueing_hints"]

#: The PostFilter plugin that the core implements itself.
PREEMPTION = "DefaultPreemption"
#: The plugin whose verdicts depend on the claims that a pod names, which may be its own, and whose
#: hints about a claim concern only the pods that name it.
CLAIMS = "DynamicResources"

#: Any event may lift a rejection by an extender.
#: Source: kube-scheduler v1.36.3 framework/runtime.defaultEnqueueExtension.
_BY_EXTENDERS = (EXTENDER, ClusterEventWithHint(Resource.ANY, Action.ALL))


@dataclass(frozen=True, slots=True)
class Profile:
    """The plugins of one scheduler name, in the order of each extension point."""

    scheduler_name: str
    pre_enqueue: tuple[PreEnqueue, ...] = ()
    filters: tuple[Filter, ...] = ()
    #: Score plugins with their weights.
    scores: tuple[tuple[Score, int], ...] = ()
    #: Plugins that run when a pod fits nowhere; `PREEMPTION` stands for preemption.
    post_filters: tuple[PostFilter | str, ...] = ()
    #: Events that may lift a rejection, by plugin.
    queueing_hints: tuple[tuple[str, ClusterEventWithHint], ...] = ()
    #: Extenders that take part in decisions over HTTP, in the order in which they are called.
    extenders: tuple[Extender, ...] = ()
    #: Whether preemption prefers, among equally good candidates, victims that fit elsewhere.
    prefers_movable: bool = False
    #: Whether preemption frees devices.
    frees_devices: bool = False
    #: The release of kube-scheduler whose decisions are reproduced; the same in all profiles.
    reference: Reference = OLDEST
    #: Filters whose rejections only free resources can lift, by name.
    capacity_filters: Mapping[str, CapacityFilter] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        by_name = {
            plugin.name: plugin for plugin in self.filters if isinstance(plugin, CapacityFilter)
        }
        object.__setattr__(self, "capacity_filters", by_name)

    def compile_filters(
        self, pod: Pod, cluster: Cluster, verdicts: Verdicts
    ) -> Iterator[tuple[str, CompiledFilter]]:
        """Compile the filters for a class of pods, in order, without those that never reject it."""
        for plugin in self.filters:
            compiled_filter = plugin.compile_filter(pod, cluster, verdicts)
            if compiled_filter is not None:
                yield plugin.name, compiled_filter

    def compile_scores(
        self, pod: Pod, cluster: Cluster
    ) -> Iterator[tuple[str, int, CompiledScore]]:
        """Compile the scores for a class of pods, with their weights."""
        for plugin, weight in self.scores:
            compiled_score = plugin.compile_score(pod, cluster)
            if compiled_score is not None:
                yield plugin.name, weight, compiled_score

    def with_extenders(self, extenders: tuple[Extender, ...]) -> "Profile":
        """Return a copy of the profile with extenders."""
        if not extenders:
            return self
        return replace(
            self, extenders=extenders, queueing_hints=(*self.queueing_hints, _BY_EXTENDERS)
        )

    def run_pre_enqueue(self, pod: Pod, cluster: Cluster) -> tuple[str, str] | None:
        """Return the plugin that keeps a pod out of the queue, and its reason, or `None`."""
        for plugin in self.pre_enqueue:
            reason = plugin.pre_enqueue(pod, cluster)
            if reason is not None:
                return plugin.name, reason
        return None


def build_queueing_hints(
    plugins: Sequence[Plugin], reference: Reference = OLDEST
) -> tuple[tuple[str, ClusterEventWithHint], ...]:
    """Return the events that may lift rejections, by plugin.

    In v1.36 a plugin that registers added nodes but no taint updates gets all taint updates, too.

    Source: kube-scheduler v1.36.3 and v1.37.2 scheduler.buildQueueingHintMap.
    """
    hints: list[tuple[str, ClusterEventWithHint]] = []
    for plugin in plugins:
        events = plugin.events_to_register()
        hints += [(plugin.name, event) for event in events]
        actions = [event.action for event in events if event.resource is Resource.NODE]
        adds = any(action & Action.ADD for action in actions)
        if not (reference.taint_changes_wake_all and adds):
            continue
        if not any(action & Action.UPDATE_NODE_TAINT for action in actions):
            hints.append(
                (plugin.name, ClusterEventWithHint(Resource.NODE, Action.UPDATE_NODE_TAINT))
            )
    return tuple(hints)
