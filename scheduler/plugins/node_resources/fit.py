"""NodeResourcesFit: a node needs enough free resources; by default, emptier nodes score higher.

Source: kube-scheduler v1.36.3 plugins/noderesources.Fit. Differs: the reasons for extended
resources are sorted by name; upstream's order is that of a map.

Differs, too: a pod that names more than `MAX_RESOURCES` resources is rejected on all nodes.

If a device class provides a resource and a node has none of it, DynamicResources checks it on that
node, not this plugin.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import numpy as np

from scheduler.framework.cluster_events import Action, ClusterEventWithHint, Resource
from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.plugin import (
    CompiledFilter,
    CompiledScore,
    PreFilter,
    Prepared,
    Reads,
    Rejected,
)
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.api import resources
from scheduler.model.api.devices import DeviceClass
from scheduler.model.api.objects import Node, Pod
from scheduler.model.api.resources import CPU, MAX_RESOURCES, MEMORY, PODS, device_class_resource
from scheduler.model.releases import OLDEST, Reference
from scheduler.plugins.node_resources.device_totals import DeviceTotals
from scheduler.plugins.node_resources.scoring_strategies import LEAST_ALLOCATED, Strategy
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Bool, Codes, Int, Scores
from scheduler.state.columns.pod_footprints import PodFootprint
from scheduler.state.columns.resource_axis import Coded
from scheduler.state.devices.device_classes import DeviceClasses
from scheduler.state.views.node_view import NodeView

__all__ = ["NodeResourcesFit"]

TOO_MANY_PODS: Final = "Too many pods"

#: Upstream names these first, in this order.
_FIRST: Final = ("cpu", "memory", "ephemeral-storage")

# Why a node is rejected is a pattern of bits: these two, and one for each resource. A pattern is an
# int64, or a Python integer for pods that request more resources than an int64 has bits.

#: Some resource is requested in an amount that the node does not have even when it is empty.
_UNRESOLVABLE: Final = 1
#: The node has as many pods as it allows.
_PODS: Final = 2
#: The bit of the first resource.
_FIRST_RESOURCE: Final = 4
#: The number of resources that fit into an int64.
_RESOURCES_PER_INT64: Final = 60


class NodeResourcesFit:
    """Rejects nodes without enough free resources, scores others by how full they would be."""

    name: ClassVar[str] = "NodeResourcesFit"

    def __init__(
        self,
        strategy: Strategy = LEAST_ALLOCATED,
        scored: Sequence[tuple[str, int]] = ((CPU, 1), (MEMORY, 1)),
        ignored: frozenset[str] = frozenset(),
        ignored_groups: frozenset[str] = frozenset(),
        reference: Reference = OLDEST,
    ) -> None:
        """Make the rule.

        Args:
            strategy: Computes a score from used amount and capacity.
            scored: Names and weights of the resources that are scored.
            ignored: Extended resources that are not checked.
            ignored_groups: Domains of extended resources that are not checked.
            reference: The release of kube-scheduler whose rules hold.
        """
        self._reference = reference
        self._strategy = strategy
        self._scored = tuple(scored)
        self._ignored = ignored
        self._ignored_groups = ignored_groups
        #: Of the cluster of the last attempt.
        self._device_classes: DeviceClasses | None = None

    def compile_filter(
        self, pod: Pod, cluster: Cluster, verdicts: Verdicts
    ) -> CompiledFilter | None:
        self._device_classes = cluster.device_classes
        if resources.too_many(pod):
            return _TooManyResources(_too_many_verdict(pod))
        return _FitFilter(self._checked(pod), cluster, self.name, verdicts)

    def may_fit(self, footprint: PodFootprint, row: int, priority: int, cluster: Cluster) -> bool:
        return cluster.may_have_resources(footprint, row, priority, self._ignores)

    def compile_score(self, pod: Pod, cluster: Cluster) -> CompiledScore | None:
        if resources.too_many(pod):
            return _ZeroScore()
        requests = resources.scored_requests(pod)
        parts = [
            (name, (requests.get(name, 0), weight))
            for name, weight in self._scored
            if requests.get(name, 0) or name in _FIRST
        ]
        if any(resources.may_be_devices(name) for name, _ in parts):
            return _DeviceAwareScore(self._strategy, parts, cluster)
        return _AllocationScore(self._strategy, parts, cluster) if parts else _ZeroScore()

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            ClusterEventWithHint(Resource.POD, Action.DELETE, _was_placed),
            ClusterEventWithHint(Resource.POD, Action.UPDATE_POD_SCALE_DOWN, self._scaled_down),
            ClusterEventWithHint(
                Resource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE, self._node_has_more
            ),
            ClusterEventWithHint(Resource.DEVICE_CLASS, Action.ADD | Action.UPDATE, _provides_more),
        )

    def _scaled_down(self, pod: Pod, old: Pod | None, new: Pod | None) -> bool:
        if old is None or new is None:
            return False
        if new.uid == pod.uid:
            return True
        if not new.spec.node_name or resources.too_many(pod):
            return False
        before, after = (
            resources.pod_requests(state, status_aware=True, reference=self._reference)
            for state in (old, new)
        )
        return any(
            before.get(name, 0) > after.get(name, 0)
            for name, need in resources.pod_requests(pod).items()
            if need
        )

    def _checked(self, pod: Pod) -> list[tuple[str, int]]:
        """Return name and amount of the requests that are checked, in the order of the reasons."""
        requests = resources.pod_requests(pod)
        scalars = sorted(name for name in requests if name not in _FIRST)
        return [
            (name, requests[name])
            for name in (*_FIRST, *scalars)
            if requests.get(name, 0) > 0 and not self._ignores(name)
        ]

    def _ignores(self, name: str) -> bool:
        return resources.is_extended(name) and (
            name in self._ignored or name.partition("/")[0] in self._ignored_groups
        )

    def _node_has_more(self, pod: Pod, old: Node | None, new: Node) -> bool:
        if resources.too_many(pod):
            return False
        have = resources.amounts(new.status.allocatable)
        every = self._checked(pod)
        requests = [each for each in every if not self._comes_from_devices(each[0], have)]
        if have.get(PODS, 0) < 1 or any(have.get(name, 0) < need for name, need in requests):
            return False
        if old is None or len(requests) < len(every):
            return True
        had = resources.amounts(old.status.allocatable)
        names = [PODS, *(name for name, _ in requests)]
        return any(have.get(name, 0) > had.get(name, 0) for name in names)

    def _comes_from_devices(self, name: str, have: Mapping[str, int]) -> bool:
        """Return whether a node takes a resource from devices, by what the node has.

        Source: kube-scheduler v1.36.3 noderesources.shouldDelegateResourceToDRA.
        """
        classes = self._device_classes
        return have.get(name, 0) <= 0 and classes is not None and name in classes.resources


class _TooManyResources(PreFilter):
    """Rejects a pod that names more resources than are supported."""

    spec_only = True

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict

    def prepare(self, _state: AttemptState, /) -> Prepared:
        return Rejected(self._verdict)


class _FitFilter(CompiledFilter):
    """Compares free with requested amounts."""

    reads = Reads.PODS
    spec_only = True

    def __init__(
        self, wanted: list[tuple[str, int]], cluster: Cluster, plugin: str, verdicts: Verdicts
    ) -> None:
        self._wanted = wanted
        #: Name and amount by code, as the codes are now.
        self._coded = Coded(cluster.axis, [(name, (name, amount)) for name, amount in wanted])
        self._columns = cluster.columns
        self._device_classes = cluster.device_classes
        self._plugin = plugin
        self._verdicts = verdicts
        #: The verdict codes that were used so far, by pattern.
        self._by_pattern: dict[int, int] = {}
        #: The bit of each resource in a pattern, by name.
        self._bits = {name: _FIRST_RESOURCE << index for index, (name, _) in enumerate(wanted)}

    def _offered(self) -> list[tuple[int, tuple[str, int]]]:
        """Return the requests for resources that some node has, or that devices provide.

        All other requested resources are insufficient on every node.
        """
        columns, provided = self._columns, self._device_classes.resources
        return [
            (resource, request)
            for resource, request in self._coded.now()
            if request[0] in provided or columns.allocatable(resource).any
        ]

    def fits_row(self, row: int) -> bool:
        columns = self._columns
        return bool(columns.pods()[row] < columns.allowed_pods()[row]) and all(
            columns.allocatable(resource)[row] - columns.requested(resource)[row] >= amount
            or (name in self._device_classes.resources and columns.allocatable(resource)[row] <= 0)
            for resource, (name, amount) in self._coded.now()
        )

    def fits(self, nodes: NodeView) -> Bool:
        fits: Bool = nodes.pods() < nodes.allowed_pods()
        offered = self._offered()
        if len(offered) < len(self._wanted):
            return np.zeros_like(fits)
        for resource, (name, amount) in offered:
            capacity = nodes.allocatable(resource)
            enough = capacity - nodes.requested(resource) >= amount
            if name in self._device_classes.resources:
                enough |= capacity <= 0
            fits &= enough
        return fits

    def codes(self, nodes: NodeView) -> Codes:
        codes = np.zeros(len(nodes), dtype=np.uint16)
        rejected = np.flatnonzero(~self.fits(nodes))
        if rejected.shape[0]:
            patterns = self._patterns(nodes, rejected)
            if rejected.shape[0] == 1:
                codes[rejected] = self._code(int(patterns[0]))
                return codes
            distinct, which = np.unique(patterns, return_inverse=True)
            by_distinct = [self._code(int(pattern)) for pattern in distinct]
            codes[rejected] = np.array(by_distinct, dtype=np.uint16)[which]
        return codes

    def _patterns(self, nodes: NodeView, rejected: Int) -> Int:
        """Return the pattern of each rejected node.

        Args:
            nodes: The view.
            rejected: Positions in the view, (m,).
        """
        offered = self._offered()
        wide = len(self._wanted) > _RESOURCES_PER_INT64
        patterns = np.zeros(rejected.shape[0], dtype=object if wide else np.int64)
        patterns |= (nodes.pods() >= nodes.allowed_pods())[rejected] * _PODS
        if len(offered) < len(self._wanted):
            patterns |= self._offered_nowhere(offered)
        for resource, (name, amount) in offered:
            capacity = nodes.allocatable(resource)[rejected]
            missing = capacity - nodes.requested(resource)[rejected] < amount
            if name in self._device_classes.resources:
                missing &= capacity > 0
            patterns |= missing.astype(patterns.dtype) * self._bits[name]
            # True sets the bit `_UNRESOLVABLE`.
            patterns |= missing & (capacity < amount)
        return patterns

    def _offered_nowhere(self, offered: list[tuple[int, tuple[str, int]]]) -> int:
        """Return the pattern of the resources that no node has."""
        names = {name for _, (name, _) in offered}
        return _UNRESOLVABLE | sum(bit for name, bit in self._bits.items() if name not in names)

    def _code(self, pattern: int) -> int:
        code = self._by_pattern.get(pattern)
        if code is None:
            reasons = [TOO_MANY_PODS] if pattern & _PODS else []
            reasons += [f"Insufficient {name}" for name, bit in self._bits.items() if pattern & bit]
            resolvable = not pattern & _UNRESOLVABLE
            verdict = Verdict(self._plugin, tuple(reasons), resolvable=resolvable)
            code = self._by_pattern[pattern] = self._verdicts.code(verdict)
        return code


class _AllocationScore(CompiledScore):
    """Scores by how full each resource would be."""

    reads = Reads.PODS

    def __init__(
        self, strategy: Strategy, parts: list[tuple[str, tuple[int, int]]], cluster: Cluster
    ) -> None:
        self._strategy = strategy
        #: Amount and weight by code.
        self._parts = Coded(cluster.axis, parts)
        self._columns = cluster.columns

    def score_row(self, row: int) -> int | None:
        if self._strategy.one is None:
            return None
        columns = self._columns
        return self._strategy.one(
            [
                (
                    (columns.non_zero if resource < 2 else columns.requested)(resource)[row]
                    + amount,
                    columns.allocatable(resource)[row],
                    weight,
                )
                for resource, (amount, weight) in self._parts.now()
            ]
        )

    def scores(self, nodes: NodeView) -> Scores:
        return self._strategy.all(
            [
                (_used(nodes, resource) + amount, nodes.allocatable(resource), weight)
                for resource, (amount, weight) in self._parts.now()
            ]
        )


class _DeviceAwareScore(CompiledScore):
    """Scores by how full each resource would be; devices count on nodes without device plugins."""

    reads = Reads.CLUSTER

    def __init__(
        self, strategy: Strategy, parts: list[tuple[str, tuple[int, int]]], cluster: Cluster
    ) -> None:
        self._strategy = strategy
        self._names = [name for name, _ in parts]
        self._parts = Coded(cluster.axis, parts)
        self._totals = DeviceTotals(cluster)

    def scores(self, nodes: NodeView) -> Scores:
        parts = []
        for name, (resource, (amount, weight)) in zip(self._names, self._parts.now(), strict=True):
            used, capacity = self._totals.beside(
                name, nodes, _used(nodes, resource), nodes.allocatable(resource)
            )
            parts.append((used + amount, capacity, weight))
        return self._strategy.all(parts)


class _ZeroScore(CompiledScore):
    """Scores 0 everywhere: the pod requests none of the scored resources."""

    def scores(self, nodes: NodeView) -> Scores:
        return np.zeros(len(nodes), dtype=np.int64)


def _too_many_verdict(pod: Pod) -> Verdict:
    count = resources.number_of_names(pod)
    reason = f"Pod names {count} resources, more than the {MAX_RESOURCES} that are supported"
    return Verdict(NodeResourcesFit.name, (reason,), resolvable=False)


def _used(nodes: NodeView, resource: int) -> Int:
    """Return what counts as used in scores: cpu (0) and memory (1) with defaults."""
    return nodes.non_zero(resource) if resource < 2 else nodes.requested(resource)


def _was_placed(_pod: Pod, old: Pod | None, _new: Pod | None) -> bool:
    return old is not None and bool(old.spec.node_name or old.status.nominated_node_name)


def _provides_more(pod: Pod, old: DeviceClass | None, new: DeviceClass) -> bool:
    if resources.too_many(pod):
        return False
    named = new.spec.extended_resource_name
    if old is not None and old.spec.extended_resource_name == named:
        return False
    # A class keeps its own name as long as it is there.
    names = {named} if old is not None else {named, device_class_resource(new.metadata.name)}
    return any(name in names for name in resources.pod_requests(pod))
