"""PodTopologySpread: spreads pods evenly over hosts, zones, or the values of any node label.

Filters by hard constraints, scores by soft constraints. Pods without constraints get the default
ones, with a selector that is deduced from the services and controllers that select the pod.

Source: kube-scheduler v1.36.3 plugins/podtopologyspread.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

from scheduler.framework.cluster_events import Action, ClusterEventWithHint, Resource
from scheduler.framework.plugin import CompiledFilter, CompiledScore
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.api.objects import Pod, TopologySpreadConstraint
from scheduler.model.api.selectors import SelectorError
from scheduler.plugins.invalid_selector import InvalidSelector
from scheduler.plugins.pod_topology_spread.constraints import (
    HARD,
    SOFT,
    SYSTEM_DEFAULTS,
    Constraints,
)
from scheduler.plugins.pod_topology_spread.filtering import Required
from scheduler.plugins.pod_topology_spread.hints import SpreadHints
from scheduler.plugins.pod_topology_spread.scoring import Preferred
from scheduler.state.cluster import Cluster

__all__ = ["PodTopologySpread"]

REASON: Final = "node(s) didn't match pod topology spread constraints"
REASON_LABEL: Final = f"{REASON} (missing required label)"


class PodTopologySpread:
    """Rejects nodes whose domain would exceed the skew; prefers nodes with less full domains."""

    name: ClassVar[str] = "PodTopologySpread"

    def __init__(self, defaults: Sequence[TopologySpreadConstraint] | None = None) -> None:
        """Make the rule.

        Args:
            defaults: Constraints for pods without any; `None` for the built-in ones.
        """
        self._defaults = SYSTEM_DEFAULTS if defaults is None else tuple(defaults)
        self._built_in = defaults is None
        self._hints = SpreadHints(self._defaults)

    def compile_filter(
        self, pod: Pod, cluster: Cluster, verdicts: Verdicts
    ) -> CompiledFilter | None:
        try:
            constraints = Constraints(pod, HARD, self._defaults, cluster)
        except SelectorError as error:
            reason = f"obtaining pod's hard topology spread constraints: {error}"
            return InvalidSelector(self.name, reason)
        if constraints.never:
            return None
        return Required(
            pod,
            constraints,
            cluster,
            missing=verdicts.code(Verdict(self.name, (REASON_LABEL,), resolvable=False)),
            skewed=verdicts.code(Verdict(self.name, (REASON,), resolvable=True)),
        )

    def compile_score(self, pod: Pod, cluster: Cluster) -> CompiledScore | None:
        try:
            constraints = Constraints(pod, SOFT, self._defaults, cluster)
        except SelectorError:
            return None
        if constraints.never:
            return None
        every_key = bool(pod.spec.topology_spread_constraints) or not self._built_in
        return Preferred(pod, constraints, cluster, every_key=every_key)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        pods = Action.ADD | Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION | Action.DELETE
        nodes = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        return (
            ClusterEventWithHint(Resource.POD, pods, self._hints.after_pod),
            ClusterEventWithHint(Resource.NODE, nodes, self._hints.after_node),
        )
