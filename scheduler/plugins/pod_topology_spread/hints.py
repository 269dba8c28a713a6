"""Which changes can lift a rejection by PodTopologySpread.

Source: kube-scheduler v1.36.3 podtopologyspread/plugin.go isSchedulableAfterPodChange,
isSchedulableAfterNodeChange. Differs: which pods the default constraints are about is not asked;
any pod around may be one of them.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from scheduler.model.api.objects import Node, Pod, TopologySpreadConstraint
from scheduler.model.api.selectors import SelectorError
from scheduler.plugins.pod_topology_spread.constraints import HARD, Constraint, compile_constraints

__all__ = ["SpreadHints"]

#: From so many constraints on they are compiled once for many questions, for so many pods.
_MANY: Final = 16
_REMEMBERED: Final = 64


class SpreadHints:
    """The hints of one profile."""

    def __init__(self, defaults: Sequence[TopologySpreadConstraint]) -> None:
        """Make the hints.

        Args:
            defaults: Constraints for pods without any.
        """
        self._defaults = tuple(defaults)
        #: Pods with many constraints, with what they ask for: each change is held against all
        #: waiting pods.
        self._last: OrderedDict[int, tuple[Pod, tuple[Constraint, ...]]] = OrderedDict()

    def after_pod(self, pod: Pod, old: Pod | None, new: Pod | None) -> bool:
        """Return whether a pod that came, went or changed can help a waiting one."""
        if any(each is not None and not _involved(each, pod) for each in (old, new)):
            return False
        try:
            constraints = self._constraints(pod)
        except SelectorError:
            return True
        if old is not None and new is not None:
            return _after_update(pod, old, new, constraints)
        changed = old or new
        return changed is not None and any(_counts(each, changed, pod) for each in constraints)

    def after_node(self, pod: Pod, old: Node | None, new: Node | None) -> bool:
        """Return whether a node that came, went or changed can help a waiting pod."""
        try:
            keys = [each.topology_key for each in self._constraints(pod)]
        except SelectorError:
            return True
        before = old is not None and all(key in old.metadata.labels for key in keys)
        now = new is not None and all(key in new.metadata.labels for key in keys)
        if old is None or new is None or before != now:
            return before or now
        moved = any(old.metadata.labels.get(key) != new.metadata.labels.get(key) for key in keys)
        return now and (moved or old.spec.taints != new.spec.taints)

    def _constraints(self, pod: Pod) -> tuple[Constraint, ...]:
        """Return the constraints that must hold; those of the defaults have no selector."""
        given = pod.spec.topology_spread_constraints or self._defaults
        if len(given) < _MANY:
            return compile_constraints(given, HARD, pod)
        found = self._last.get(id(pod))
        if found is None or found[0] is not pod:
            found = self._last[id(pod)] = (pod, compile_constraints(given, HARD, pod))
            if len(self._last) > _REMEMBERED:
                self._last.popitem(last=False)
        return found[1]


def _after_update(pod: Pod, old: Pod, new: Pod, constraints: Sequence[Constraint]) -> bool:
    tolerates = new.uid == pod.uid and old.spec.tolerations != new.spec.tolerations
    if tolerates and any(each.honors_taints for each in constraints):
        return True
    if old.metadata.labels == new.metadata.labels:
        return False
    deduced = not pod.spec.topology_spread_constraints
    return any(deduced or each.selects(old) != each.selects(new) for each in constraints)


def _counts(constraint: Constraint, changed: Pod, pod: Pod) -> bool:
    """Return whether a pod may count for a constraint; what defaults select is not asked."""
    return not pod.spec.topology_spread_constraints or constraint.selects(changed)


def _involved(changed: Pod, pod: Pod) -> bool:
    """Return whether a pod is the waiting one, or one that may count for it."""
    if changed.uid == pod.uid:
        return True
    placed = changed.spec.node_name or changed.status.nominated_node_name
    return bool(placed) and changed.metadata.namespace == pod.metadata.namespace
