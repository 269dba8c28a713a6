"""Which changes can lift a rejection by PodTopologySpread.

Source: kube-scheduler v1.36.3 podtopologyspread/plugin.go isSchedulableAfterPodChange,
isSchedulableAfterNodeChange. Differs: the pods that the default constraints select are not
looked up; any placed pod of the namespace may be one of them.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from scheduler.model.api.objects import Node, Pod, TopologySpreadConstraint
from scheduler.model.api.selectors import SelectorError
from scheduler.plugins.pod_topology_spread.constraints import HARD, Constraint, compile_constraints

__all__ = ["SpreadHints"]

#: Pods with at least so many constraints have them compiled once; so many pods are remembered.
_MANY: Final = 16
_REMEMBERED: Final = 64


class SpreadHints:
    """The hints of one profile."""

    def __init__(self, defaults: Sequence[TopologySpreadConstraint]) -> None:
        """Create the hints.

        Args:
            defaults: Constraints for pods without any.
        """
        self._defaults = tuple(defaults)
        #: Pods with many constraints, with the compiled constraints, because each event is checked
        #: for all waiting pods.
        self._last: OrderedDict[int, tuple[Pod, tuple[Constraint, ...]]] = OrderedDict()

    def after_pod(self, pod: Pod, old: Pod | None, new: Pod | None) -> bool:
        """Return whether an added, deleted or updated pod can make a waiting pod schedulable."""
        if any(state is not None and not _involved(state, pod) for state in (old, new)):
            return False
        try:
            constraints = self._constraints(pod)
        except SelectorError:
            return True
        if old is not None and new is not None:
            return _after_update(pod, old, new, constraints)
        changed = old or new
        return changed is not None and any(
            _counts(constraint, changed, pod) for constraint in constraints
        )

    def after_node(self, pod: Pod, old: Node | None, new: Node | None) -> bool:
        """Return whether an added, deleted or updated node can make a waiting pod schedulable."""
        try:
            keys = [constraint.topology_key for constraint in self._constraints(pod)]
        except SelectorError:
            return True
        before = old is not None and all(key in old.metadata.labels for key in keys)
        now = new is not None and all(key in new.metadata.labels for key in keys)
        if old is None or new is None or before != now:
            return before or now
        moved = any(old.metadata.labels.get(key) != new.metadata.labels.get(key) for key in keys)
        return now and (moved or old.spec.taints != new.spec.taints)

    def _constraints(self, pod: Pod) -> tuple[Constraint, ...]:
        """Return the hard constraints; default constraints have no selector here."""
        given = pod.spec.topology_spread_constraints or self._defaults
        if len(given) < _MANY:
            return compile_constraints(given, HARD, pod)
        remembered = self._last.get(id(pod))
        if remembered is None or remembered[0] is not pod:
            remembered = self._last[id(pod)] = (pod, compile_constraints(given, HARD, pod))
            if len(self._last) > _REMEMBERED:
                self._last.popitem(last=False)
        return remembered[1]


def _after_update(pod: Pod, old: Pod, new: Pod, constraints: Sequence[Constraint]) -> bool:
    tolerates = new.uid == pod.uid and old.spec.tolerations != new.spec.tolerations
    if tolerates and any(constraint.honors_taints for constraint in constraints):
        return True
    if old.metadata.labels == new.metadata.labels:
        return False
    deduced = not pod.spec.topology_spread_constraints
    return any(
        deduced or constraint.selects(old) != constraint.selects(new) for constraint in constraints
    )


def _counts(constraint: Constraint, changed: Pod, pod: Pod) -> bool:
    """Return whether a pod may count for a constraint; True for default constraints."""
    return not pod.spec.topology_spread_constraints or constraint.selects(changed)


def _involved(changed: Pod, pod: Pod) -> bool:
    """Return whether a pod is the waiting pod itself, or may count for its constraints."""
    if changed.uid == pod.uid:
        return True
    placed = changed.spec.node_name or changed.status.nominated_node_name
    return bool(placed) and changed.metadata.namespace == pod.metadata.namespace
