"""A profile: which plugins judge the pods of one scheduler name, in which order."""

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
from scheduler.state.cluster import Cluster

__all__ = ["PREEMPTION", "Profile", "build_queueing_hints"]

#: The post-filter plugin whose work the core does itself.
PREEMPTION = "DefaultPreemption"

#: What may lift a rejection by an extender: nobody knows, so everything.
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
    #: Plugins asked when a pod fits nowhere; `PREEMPTION` stands for preemption.
    post_filters: tuple[PostFilter | str, ...] = ()
    #: What may lift a rejection, by plugin.
    queueing_hints: tuple[tuple[str, ClusterEventWithHint], ...] = ()
    #: Who takes part in decisions over HTTP, in the order in which they are asked.
    extenders: tuple[Extender, ...] = ()
    #: Whether preemption prefers, among equally good candidates, victims that fit elsewhere.
    prefers_movable: bool = False
    #: The filters that are about nothing but room, by name.
    capacity_filters: Mapping[str, CapacityFilter] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        found = {each.name: each for each in self.filters if isinstance(each, CapacityFilter)}
        object.__setattr__(self, "capacity_filters", found)

    def compile_filters(
        self, pod: Pod, cluster: Cluster, verdicts: Verdicts
    ) -> Iterator[tuple[str, CompiledFilter]]:
        """Compile the filters for a class of pods, in order; those with nothing to say left out."""
        for plugin in self.filters:
            predicate = plugin.compile_filter(pod, cluster, verdicts)
            if predicate is not None:
                yield plugin.name, predicate

    def compile_scores(
        self, pod: Pod, cluster: Cluster
    ) -> Iterator[tuple[str, int, CompiledScore]]:
        """Compile the scores for a class of pods, with their weights."""
        for plugin, weight in self.scores:
            priority = plugin.compile_score(pod, cluster)
            if priority is not None:
                yield plugin.name, weight, priority

    def with_extenders(self, extenders: tuple[Extender, ...]) -> "Profile":
        """Return the profile with extenders that take part in its decisions."""
        if not extenders:
            return self
        return replace(
            self, extenders=extenders, queueing_hints=(*self.queueing_hints, _BY_EXTENDERS)
        )

    def run_pre_enqueue(self, pod: Pod) -> tuple[str, str] | None:
        """Return the plugin that keeps a pod out of the queue, and why; `None` if none does."""
        for plugin in self.pre_enqueue:
            reason = plugin.pre_enqueue(pod)
            if reason is not None:
                return plugin.name, reason
        return None


def build_queueing_hints(plugins: Sequence[Plugin]) -> tuple[tuple[str, ClusterEventWithHint], ...]:
    """Return which changes may lift rejections, by plugin.

    A plugin that waits for new nodes but not for taints is woken by every change of taints too: a
    node that was tainted when it was added may have been left out for its taints alone.

    Source: kube-scheduler v1.36.3 scheduler.buildQueueingHintMap.
    """
    found: list[tuple[str, ClusterEventWithHint]] = []
    for plugin in plugins:
        events = plugin.events_to_register()
        found += [(plugin.name, event) for event in events]
        actions = [event.action for event in events if event.resource is Resource.NODE]
        adds = any(action & Action.ADD for action in actions)
        if adds and not any(action & Action.UPDATE_NODE_TAINT for action in actions):
            found.append(
                (plugin.name, ClusterEventWithHint(Resource.NODE, Action.UPDATE_NODE_TAINT))
            )
    return tuple(found)
