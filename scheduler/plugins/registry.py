"""Creates the plugins of a profile from their names and settings in the configuration."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from scheduler.config.args import (
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    PreemptiveSchedulerArgs,
    VolumeBindingArgs,
)
from scheduler.config.settings import ProfileSettings, Settings
from scheduler.framework.plugin import (
    Filter,
    Plugin,
    PostFilter,
    PreEnqueue,
    Score,
)
from scheduler.framework.prefilter_only import with_prefilters
from scheduler.framework.profile import PREEMPTION, Profile, build_queueing_hints
from scheduler.model.releases import OLDEST, Reference
from scheduler.plugins.default_binder import DefaultBinder
from scheduler.plugins.default_preemption import DefaultPreemption
from scheduler.plugins.dynamic_resources.dynamic_resources import DynamicResources
from scheduler.plugins.external import entry_points
from scheduler.plugins.image_locality import ImageLocality
from scheduler.plugins.inter_pod_affinity.inter_pod_affinity import InterPodAffinity
from scheduler.plugins.node_affinity.node_affinity import NodeAffinity
from scheduler.plugins.node_declared_features import NodeDeclaredFeatures
from scheduler.plugins.node_name import NodeName
from scheduler.plugins.node_ports import NodePorts
from scheduler.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from scheduler.plugins.node_resources.fit import NodeResourcesFit
from scheduler.plugins.node_resources.scoring_strategies import (
    LEAST_ALLOCATED,
    MAX_ALLOCATED,
    Strategy,
    requested_to_capacity_ratio,
)
from scheduler.plugins.node_unschedulable import NodeUnschedulable
from scheduler.plugins.pod_topology_spread.pod_topology_spread import PodTopologySpread
from scheduler.plugins.priority_sort import PrioritySort
from scheduler.plugins.scheduling_gates import SchedulingGates
from scheduler.plugins.taint_toleration import TaintToleration
from scheduler.plugins.volumes.node_volume_limits import NodeVolumeLimits
from scheduler.plugins.volumes.volume_binding import VolumeBinding
from scheduler.plugins.volumes.volume_restrictions import VolumeRestrictions
from scheduler.plugins.volumes.volume_zone import VolumeZone

__all__ = ["PLUGINS", "profile", "profiles"]

Factory = Callable[[ProfileSettings, Reference], Any]


def _strategy(args: NodeResourcesFitArgs) -> Strategy:
    chosen = args.scoring_strategy
    if chosen.type == "MostAllocated":
        return MAX_ALLOCATED
    if chosen.type == "RequestedToCapacityRatio":
        points = [(point.utilization, point.score) for point in chosen.shape or ()]
        return requested_to_capacity_ratio(points)
    return LEAST_ALLOCATED


def _fit(settings: ProfileSettings, reference: Reference) -> NodeResourcesFit:
    args = settings.arguments(NodeResourcesFitArgs)
    return NodeResourcesFit(
        strategy=_strategy(args),
        scored=[(resource.name, resource.weight) for resource in args.scoring_strategy.resources],
        ignored=frozenset(args.ignored_resources),
        ignored_groups=frozenset(args.ignored_resource_groups),
        reference=reference,
    )


def _balanced(settings: ProfileSettings, _: Reference) -> NodeResourcesBalancedAllocation:
    args = settings.arguments(NodeResourcesBalancedAllocationArgs)
    return NodeResourcesBalancedAllocation([resource.name for resource in args.resources])


def _devices(settings: ProfileSettings, reference: Reference) -> DynamicResources:
    args, ours = (
        settings.arguments(DynamicResourcesArgs),
        settings.arguments(PreemptiveSchedulerArgs),
    )
    return DynamicResources(
        args.filter_timeout_seconds,
        args.binding_timeout_seconds,
        reference,
        may_allocate=ours.allocate_devices,
        preempts=ours.preempt_for_devices,
    )


def _affinity(settings: ProfileSettings, reference: Reference) -> InterPodAffinity:
    args = settings.arguments(InterPodAffinityArgs)
    return InterPodAffinity(
        args.hard_pod_affinity_weight,
        ignore_preferred_of_running=args.ignore_preferred_terms_of_existing_pods,
        reference=reference,
    )


def _spread(settings: ProfileSettings, _: Reference) -> PodTopologySpread:
    args = settings.arguments(PodTopologySpreadArgs)
    return PodTopologySpread(None if args.defaulting_type == "System" else args.default_constraints)


def _volume_binding(settings: ProfileSettings, _: Reference) -> VolumeBinding:
    args = settings.arguments(VolumeBindingArgs)
    may_bind = settings.arguments(PreemptiveSchedulerArgs).bind_volumes
    if not args.shape:
        return VolumeBinding(args.bind_timeout_seconds, may_bind=may_bind)
    shape = [(point.utilization, point.score) for point in args.shape]
    return VolumeBinding(args.bind_timeout_seconds, shape, may_bind=may_bind)


#: Creates each plugin from the settings of its profile, with the rules of a release.
PLUGINS: Final[Mapping[str, Factory]] = {
    "DefaultBinder": lambda *_: DefaultBinder(),
    "DefaultPreemption": lambda *_: DefaultPreemption(),
    "DynamicResources": _devices,
    "ImageLocality": lambda *_: ImageLocality(),
    "InterPodAffinity": _affinity,
    "NodeAffinity": lambda s, _: NodeAffinity(s.arguments(NodeAffinityArgs).added_affinity),
    "NodeDeclaredFeatures": lambda *_: NodeDeclaredFeatures(),
    "NodeName": lambda *_: NodeName(),
    "NodePorts": lambda *_: NodePorts(),
    "NodeResourcesBalancedAllocation": _balanced,
    "NodeResourcesFit": _fit,
    "NodeUnschedulable": lambda *_: NodeUnschedulable(),
    "NodeVolumeLimits": lambda *_: NodeVolumeLimits(),
    "PodTopologySpread": _spread,
    "PrioritySort": lambda *_: PrioritySort(),
    "SchedulingGates": lambda *_: SchedulingGates(),
    "TaintToleration": lambda *_: TaintToleration(),
    "VolumeBinding": _volume_binding,
    "VolumeRestrictions": lambda *_: VolumeRestrictions(),
    "VolumeZone": lambda *_: VolumeZone(),
}


def profiles(settings: Settings) -> dict[str, Profile]:
    """Return the profiles of a configuration by scheduler name.

    Raises:
        PackageError: A plugin of another package cannot be created.
    """
    return {
        profile_settings.scheduler_name: profile(
            profile_settings, settings.reference
        ).with_extenders(settings.extenders)
        for profile_settings in settings.profiles
    }


def profile(settings: ProfileSettings, reference: Reference = OLDEST) -> Profile:
    """Return one profile with its plugins, with the rules of a release.

    Raises:
        PackageError: A plugin of another package cannot be created.
    """
    plugins: dict[str, Plugin] = {
        name: PLUGINS[name](settings, reference)
        for name in sorted(settings.enabled)
        if name in PLUGINS
    }
    plugins |= _out_of_tree(settings)
    filters = with_prefilters(
        _by_name(plugins, settings.filter), _by_name(plugins, settings.pre_filter)
    )
    scores = [(plugins[name], weight) for name, weight in settings.score if name in plugins]
    post_filters = _by_name(plugins, settings.post_filter)
    pre_enqueue = _by_name(plugins, settings.pre_enqueue)
    ours = settings.arguments(PreemptiveSchedulerArgs)
    return Profile(
        scheduler_name=settings.scheduler_name,
        pre_enqueue=tuple(plugin for plugin in pre_enqueue if isinstance(plugin, PreEnqueue)),
        filters=tuple(plugin for plugin in filters if isinstance(plugin, Filter)),
        scores=tuple((plugin, weight) for plugin, weight in scores if isinstance(plugin, Score)),
        post_filters=tuple(
            plugin if isinstance(plugin, PostFilter) else PREEMPTION
            for plugin in post_filters
            if isinstance(plugin, PostFilter | DefaultPreemption)
        ),
        queueing_hints=build_queueing_hints(list(plugins.values()), reference),
        prefers_movable=ours.prefer_victims_that_fit_elsewhere,
        frees_devices=ours.preempt_for_devices,
        reference=reference,
    )


def _out_of_tree(settings: ProfileSettings) -> dict[str, Plugin]:
    """Create the plugins of other packages."""
    names = sorted(entry_points.enabled(settings))
    announced = entry_points.discover() if names else {}
    return {name: announced[name].create(settings) for name in names}


def _by_name(plugins: Mapping[str, Plugin], names: tuple[str, ...]) -> list[Plugin]:
    return [plugins[name] for name in names if name in plugins]
