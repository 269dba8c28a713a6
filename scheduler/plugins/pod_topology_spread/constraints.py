"""Compiled topology spread constraints: which pods and nodes count, and the maximum skew.

Source: kube-scheduler v1.36.3 podtopologyspread/common.go, plugin.go.

Axes: n rows of a view.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import msgspec
import numpy as np

from scheduler.framework.plugin import CompiledFilter
from scheduler.framework.verdicts import Verdicts
from scheduler.model.api.objects import LabelSelector, Pod, Requirement, TopologySpreadConstraint
from scheduler.model.api.selectors import Selector
from scheduler.plugins.node_affinity.node_affinity import NodeAffinity
from scheduler.plugins.taint_toleration import TaintToleration
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Int
from scheduler.state.columns.labels import ABSENT
from scheduler.state.pods.affinity_terms import spelled
from scheduler.state.pods.pod_index import LabelSet, PodIndex
from scheduler.state.views import counters
from scheduler.state.views.counters import OUTSIDE, Domains, PodWeights, TopologyCounter
from scheduler.state.views.node_view import NodeView

__all__ = [
    "HARD",
    "HOSTNAME",
    "SOFT",
    "SYSTEM_DEFAULTS",
    "Constraint",
    "Constraints",
    "Inclusion",
    "compile_constraints",
    "counted_pods",
    "selected_pods",
]

HARD: Final = "DoNotSchedule"
SOFT: Final = "ScheduleAnyway"
HOSTNAME: Final = "kubernetes.io/hostname"

#: Source: kube-scheduler v1.36.3 podtopologyspread systemDefaultConstraints.
SYSTEM_DEFAULTS: Final = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=SOFT),
    TopologySpreadConstraint(
        max_skew=5, topology_key="topology.kubernetes.io/zone", when_unsatisfiable=SOFT
    ),
)

_HONOR: Final = "Honor"
_IGNORE: Final = "Ignore"

_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint of a pod."""

    topology_key: str
    max_skew: int
    #: Selects the pods that count; `None` selects none.
    selector: Selector | None
    min_domains: int
    #: Whether only nodes count that match the pod's node selector and node affinity.
    honors_affinity: bool
    #: Whether only nodes count whose taints the pod tolerates.
    honors_taints: bool

    def selects(self, pod: Pod) -> bool:
        """Return whether the selector matches the labels of a pod."""
        return self.selector is not None and self.selector.matches(pod.metadata.labels)


def compile_constraints(
    constraints: Sequence[TopologySpreadConstraint], action: str, pod: Pod
) -> tuple[Constraint, ...]:
    """Return the constraints of one kind.

    Args:
        constraints: Of the pod, or the defaults.
        action: `HARD` or `SOFT`.
        pod: `matchLabelKeys` refers to its labels.

    Raises:
        SelectorError: A selector is invalid.
    """
    return tuple(
        Constraint(
            topology_key=constraint.topology_key,
            max_skew=constraint.max_skew,
            selector=_selector(constraint, pod),
            min_domains=1 if constraint.min_domains is None else constraint.min_domains,
            honors_affinity=(constraint.node_affinity_policy or _HONOR) == _HONOR,
            honors_taints=(constraint.node_taints_policy or _IGNORE) == _HONOR,
        )
        for constraint in constraints
        if constraint.when_unsatisfiable == action
    )


class Constraints:
    """The hard or the soft constraints of a class of pods: its own, or the defaults."""

    def __init__(
        self,
        pod: Pod,
        action: str,
        defaults: Sequence[TopologySpreadConstraint],
        cluster: Cluster,
    ) -> None:
        """Compile the constraints.

        Raises:
            SelectorError: A selector of the pod is invalid.
        """
        own = pod.spec.topology_spread_constraints
        self._pod = pod
        self._workloads = cluster.workloads
        self._defaults = () if own else compile_constraints(defaults, action, pod)
        self._version = -1
        self._now = compile_constraints(own, action, pod)

    @property
    def never(self) -> bool:
        """Whether there can be no constraints, regardless of services and controllers."""
        return not self._now and not self._defaults

    def now(self) -> tuple[Constraint, ...]:
        """Return the current constraints; the same object until they change.

        Source: kube-scheduler v1.36.3 podtopologyspread.buildDefaultConstraints.
        """
        if not self._defaults:
            return self._now
        version = self._workloads.version(self._pod.metadata.namespace)
        if version != self._version:
            self._version = version
            selector = self._workloads.default_selector(self._pod)
            deduced = () if selector.empty else self._with(selector)
            if deduced != self._now:
                self._now = deduced
        return self._now

    def _with(self, selector: Selector) -> tuple[Constraint, ...]:
        return tuple(replace(constraint, selector=selector) for constraint in self._defaults)


def counted_pods(
    pod_index: PodIndex, namespace: str, selector: Selector | None
) -> PodWeights[LabelSet]:
    """Return 1 for the pods that a constraint counts.

    Pods that are being deleted do not count, and a selector without requirements counts none.

    Source: kube-scheduler v1.36.3 podtopologyspread.countPodsMatchSelector.
    """
    if selector is None or selector.empty:
        return counters.of_labels(pod_index, "no pod", lambda _: 0)

    def weight(pods: LabelSet) -> int:
        counts = pods.namespace == namespace and not pods.terminating
        return int(counts and selector.matches(pods.labels))

    return counters.of_labels(pod_index, ("counted", namespace, spelled(selector)), weight)


def selected_pods(
    pod_index: PodIndex, namespace: str, selector: Selector | None
) -> PodWeights[LabelSet]:
    """Return 1 for the pods that change a constraint's count when a view adds or removes them.

    As upstream, this ignores the deletion timestamp, and an empty selector matches.

    Source: kube-scheduler v1.36.3 podtopologyspread.updateWithPod.
    """

    def weight(pods: LabelSet) -> int:
        return int(
            pods.namespace == namespace and selector is not None and selector.matches(pods.labels)
        )

    return counters.of_labels(pod_index, ("selected", namespace, spelled(selector)), weight)


class Inclusion:
    """Which nodes count for the constraints of a pod; shared by all constraints of the pod.

    A node must have all required keys. Without required keys, nodes that lack the key of a
    constraint form a domain of their own. The node must also pass the node affinity and the taints
    that a constraint honours.
    """

    def __init__(self, required: Sequence[Constraint], pod: Pod, cluster: Cluster) -> None:
        """Take the constraints whose topology keys a node must have, and the pod."""
        self.keys = tuple(dict.fromkeys(constraint.topology_key for constraint in required))
        self._pod = pod
        self._cluster = cluster

    def by_domain(self, constraint: Constraint) -> TopologyCounter:
        """Return the counters of a constraint."""
        cluster, pod = self._cluster, self._pod
        key: Hashable = (
            "spread",
            constraint.topology_key,
            self.keys,
            self._affinity_key if constraint.honors_affinity else b"",
            self._tolerations_key if constraint.honors_taints else None,
        )
        weights = counted_pods(cluster.pods.pod_index, pod.metadata.namespace, constraint.selector)
        return counters.by_domain(
            weights, key, lambda: _Eligible(constraint, self, cluster), cluster.columns
        )

    def policies(self, constraint: Constraint) -> list[CompiledFilter]:
        """Return the filters that a node must pass for its pods to count.

        Source: kube-scheduler v1.36.3 podtopologyspread.matchNodeInclusionPolicies.
        """
        filters = [
            self._affinity if constraint.honors_affinity else None,
            self._taints if constraint.honors_taints else None,
        ]
        return [policy for policy in filters if policy is not None]

    @cached_property
    def _affinity_key(self) -> bytes:
        spec = self._pod.spec
        affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        node_affinity = (spec.node_selector, affinity.required if affinity is not None else None)
        return _encode(node_affinity) if any(node_affinity) else b""

    @cached_property
    def _tolerations_key(self) -> bytes:
        return _encode(self._pod.spec.tolerations)

    @cached_property
    def _affinity(self) -> CompiledFilter | None:
        return NodeAffinity().compile_filter(self._pod, self._cluster, Verdicts())

    @cached_property
    def _taints(self) -> CompiledFilter | None:
        return TaintToleration().compile_filter(self._pod, self._cluster, Verdicts())


class _Eligible(Domains):
    """The domain of each node for a constraint; `OUTSIDE` for nodes that do not count."""

    __slots__ = ("_columns", "_keys", "_policies")

    def __init__(self, constraint: Constraint, inclusion: Inclusion, cluster: Cluster) -> None:
        super().__init__(cluster.columns.labels.column(constraint.topology_key))
        self._columns = cluster.columns
        self._keys = inclusion.keys
        self._policies = inclusion.policies(constraint)

    def of(self, codes: Int) -> Int:
        # Without required keys, a missing key counts as an empty value.
        empty = None if self._keys else self.column.code("")
        return codes if empty is None else np.where(codes == empty, ABSENT, codes)

    def counted(self, nodes: NodeView) -> Int:
        labels = self._columns.labels
        if not all(map(labels.exists, self._keys)):
            return np.full(len(nodes), OUTSIDE, dtype=np.int64)
        counts = self._columns.exists()[nodes.rows]
        for key in self._keys:
            counts &= nodes.label_codes(labels.column(key)) != ABSENT
        for policy in self._policies:
            counts &= policy.fits(nodes)
        return np.where(counts, self.values(nodes), OUTSIDE)


def _selector(constraint: TopologySpreadConstraint, pod: Pod) -> Selector | None:
    """Return the selector with the requirements of `matchLabelKeys`; `None` without a selector."""
    given: LabelSelector | None = constraint.label_selector
    if given is None:
        return None
    labels = pod.metadata.labels
    added = tuple(
        Requirement(key, "In", [labels[key]])
        for key in sorted(set(constraint.match_label_keys))
        if key in labels
    )
    return Selector((*added, *Selector.of(given).requirements))
