"""The catalogue of plugins: their extension points, and which ones are enabled by default.

Source: kube-scheduler v1.36.3 pkg/scheduler/framework/plugins/registry.go NewInTreeRegistry;
pkg/scheduler/apis/config/v1/default_plugins.go getDefaultPlugins, applyFeatureGates (gates at
their defaults); pkg/scheduler/apis/config/validation invalidPluginsByVersion.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from scheduler.model.releases import Reference

__all__ = [
    "IN_TREE",
    "REMOVED",
    "WEIGHTED_POINTS",
    "Point",
    "default_plugins",
    "merged",
]


class Point(StrEnum):
    """An extension point, under its name in the file."""

    PRE_ENQUEUE = "preEnqueue"
    QUEUE_SORT = "queueSort"
    PRE_FILTER = "preFilter"
    FILTER = "filter"
    POST_FILTER = "postFilter"
    PRE_SCORE = "preScore"
    SCORE = "score"
    RESERVE = "reserve"
    PERMIT = "permit"
    PRE_BIND = "preBind"
    BIND = "bind"
    POST_BIND = "postBind"
    PLACEMENT_GENERATE = "placementGenerate"
    PLACEMENT_SCORE = "placementScore"

    @property
    def attribute(self) -> str:
        """Name of the field of `ProfileSettings` that holds the plugins of this point."""
        return self.name.lower()

    @property
    def interface(self) -> str:
        """The name of a plugin of this point in kube-scheduler's messages."""
        return f"{self.value[0].upper()}{self.value[1:]}Plugin"


#: The points at which a plugin has a weight.
WEIGHTED_POINTS: Final = frozenset({Point.SCORE, Point.PLACEMENT_SCORE})

#: Each plugin with the points that it implements.
IN_TREE: Final[Mapping[str, frozenset[Point]]] = {
    "DefaultBinder": frozenset({Point.BIND}),
    "DefaultPreemption": frozenset({Point.PRE_ENQUEUE, Point.POST_FILTER}),
    "DynamicResources": frozenset({
        Point.PRE_ENQUEUE,
        Point.PRE_FILTER,
        Point.FILTER,
        Point.POST_FILTER,
        Point.SCORE,
        Point.RESERVE,
        Point.PRE_BIND,
    }),
    "GangScheduling": frozenset({Point.PRE_ENQUEUE, Point.PERMIT}),
    "ImageLocality": frozenset({Point.SCORE}),
    "InterPodAffinity": frozenset({
        Point.PRE_FILTER, Point.FILTER, Point.PRE_SCORE, Point.SCORE,
    }),
    "NodeAffinity": frozenset({
        Point.PRE_FILTER, Point.FILTER, Point.PRE_SCORE, Point.SCORE,
    }),
    "NodeDeclaredFeatures": frozenset({Point.PRE_FILTER, Point.FILTER}),
    "NodeName": frozenset({Point.FILTER}),
    "NodePorts": frozenset({Point.PRE_FILTER, Point.FILTER}),
    "NodeResourcesBalancedAllocation": frozenset({Point.PRE_SCORE, Point.SCORE}),
    "NodeResourcesFit": frozenset({
        Point.PRE_FILTER,
        Point.FILTER,
        Point.PRE_SCORE,
        Point.SCORE,
        Point.PLACEMENT_SCORE,
    }),
    "NodeUnschedulable": frozenset({Point.FILTER}),
    "NodeVolumeLimits": frozenset({Point.PRE_FILTER, Point.FILTER}),
    "PodGroupPodsCount": frozenset({Point.PLACEMENT_SCORE}),
    "PodTopologySpread": frozenset({
        Point.PRE_FILTER, Point.FILTER, Point.PRE_SCORE, Point.SCORE,
    }),
    "PrioritySort": frozenset({Point.QUEUE_SORT}),
    "SchedulingGates": frozenset({Point.PRE_ENQUEUE}),
    "TaintToleration": frozenset({Point.FILTER, Point.PRE_SCORE, Point.SCORE}),
    "TopologyPlacementGenerator": frozenset({Point.PLACEMENT_GENERATE}),
    "VolumeBinding": frozenset({
        Point.PRE_FILTER,
        Point.FILTER,
        Point.PRE_SCORE,
        Point.SCORE,
        Point.RESERVE,
        Point.PRE_BIND,
    }),
    "VolumeRestrictions": frozenset({Point.PRE_FILTER, Point.FILTER}),
    "VolumeZone": frozenset({Point.PRE_FILTER, Point.FILTER}),
}  # fmt: skip

#: The plugins that have the point preFilter where `Reference.node_plugins_have_prefilters` is set.
PREFILTERS_OF_NODES: Final = ("NodeName", "NodeUnschedulable", "TaintToleration")

#: The first plugins for nodes in each order of `Reference.checks_node_name_first`.
_BY_NODE: Final = {
    False: (("NodeUnschedulable", 0), ("NodeName", 0)),
    True: (("NodeName", 0), ("NodeUnschedulable", 0)),
}

#: The plugins that `multiPoint` enables by default before and after these, in order, with weights;
#: 0 means 1.
_FIRST: Final = (
    ("SchedulingGates", 0),
    ("PrioritySort", 0),
)
_LAST: Final = (
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodePorts", 0),
    ("NodeResourcesFit", 1),
    ("VolumeRestrictions", 0),
    ("NodeVolumeLimits", 0),
    ("VolumeBinding", 0),
    ("VolumeZone", 0),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("DynamicResources", 2),
    ("DefaultPreemption", 0),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
    ("DefaultBinder", 0),
    ("NodeDeclaredFeatures", 0),
)

#: Plugins of former releases that this version of the file format rejects by name.
REMOVED: Final = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})


def default_plugins(reference: Reference) -> tuple[tuple[str, int], ...]:
    """Return the plugins that `multiPoint` enables by default, in the order of a release."""
    return (*_FIRST, *_BY_NODE[reference.checks_node_name_first], *_LAST)


def with_points_of(
    reference: Reference, catalog: Mapping[str, frozenset[Point]]
) -> dict[str, frozenset[Point]]:
    """Return a catalogue with the extension points that the plugins have in a release."""
    added = PREFILTERS_OF_NODES if reference.node_plugins_have_prefilters else ()
    return {**catalog, **{name: catalog[name] | {Point.PRE_FILTER} for name in added}}


def merged(extra: Mapping[str, frozenset[str]]) -> dict[str, frozenset[Point]]:
    """Return the catalogue with further plugins in it.

    Args:
        extra: the names of the extension points of each further plugin.

    Raises:
        ValueError: A name is taken, or a point does not exist.
    """
    if taken := IN_TREE.keys() & extra.keys():
        msg = f"a plugin named {min(taken)} already exists"
        raise ValueError(msg)
    added = {name: frozenset(map(Point, points)) for name, points in extra.items()}
    return {**IN_TREE, **added}
