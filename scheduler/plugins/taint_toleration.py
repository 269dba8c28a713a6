"""TaintToleration: rejects nodes with untolerated taints, or scores them lower.

Taint sets are interned, so the tolerations of a class are compared once with each distinct set.

Source: kube-scheduler v1.36.3 plugins/tainttoleration.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar, Final

import numpy as np

from scheduler.framework.cluster_events import Action, ClusterEventWithHint, Resource
from scheduler.framework.plugin import CompiledFilter, CompiledScore, normalise_to_max
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.api import selectors
from scheduler.model.api.objects import Node, Pod, Taint, Toleration
from scheduler.model.api.selectors import Tolerations
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Codes, Int, Scores, grown
from scheduler.state.columns.refcounted_interner import RefcountedInterner
from scheduler.state.views.node_view import NodeView

__all__ = ["TaintToleration"]

REASON: Final = "node(s) had untolerated taint(s)"
_HARD: Final = frozenset({"NoSchedule", "NoExecute"})
_SOFT: Final = "PreferNoSchedule"

TaintSet = tuple[tuple[str, str, str], ...]


class TaintToleration:
    """Rejects nodes by NoSchedule and NoExecute taints, scores them by PreferNoSchedule taints."""

    name: ClassVar[str] = "TaintToleration"

    def compile_filter(
        self, pod: Pod, cluster: Cluster, verdicts: Verdicts
    ) -> CompiledFilter | None:
        code = verdicts.code(Verdict(self.name, (REASON,), resolvable=False))
        return _Untolerated(pod.spec.tolerations, cluster.columns.taint_sets, code)

    def compile_score(self, pod: Pod, cluster: Cluster) -> CompiledScore | None:
        return _SoftTaints(pod.spec.tolerations, cluster.columns.taint_sets)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            ClusterEventWithHint(
                Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT, _became_tolerable
            ),
            ClusterEventWithHint(Resource.POD, Action.UPDATE_POD_TOLERATION, _own),
        )


class _PerTaintSet:
    """A number for each distinct taint set, computed when the set is first seen."""

    def __init__(
        self, taint_sets: RefcountedInterner[TaintSet], evaluate: Callable[[list[Taint]], int]
    ) -> None:
        self._taint_sets = taint_sets
        self._evaluate = evaluate
        self._table: Int = np.zeros(1, dtype=np.int64)
        self._seen = 0

    def of(self, nodes: NodeView) -> Int:
        """Return, (n,), the number for the taint set of each node."""
        interner = self._taint_sets
        if self._seen != interner.serial:
            fresh = interner.assigned_since(self._seen)
            self._seen = interner.serial
            self._table = grown(self._table, len(interner))
            sets = [interner.values[code] for code in fresh.tolist()]
            self._table[fresh] = [
                self._evaluate([Taint(*taint) for taint in taints]) for taints in sets
            ]
        return self._table[nodes.taints()]


class _Untolerated(CompiledFilter):
    """Rejects nodes with a NoSchedule or NoExecute taint that the pod does not tolerate."""

    spec_only = True

    def __init__(
        self, tolerations: list[Toleration], taint_sets: RefcountedInterner[TaintSet], code: int
    ) -> None:
        tolerated = Tolerations(tolerations)

        def evaluate(taints: list[Taint]) -> int:
            return code if selectors.untolerated(taints, tolerated, _HARD) else 0

        self._codes = _PerTaintSet(taint_sets, evaluate)

    def codes(self, nodes: NodeView) -> Codes:
        return self._codes.of(nodes).astype(np.uint16)


class _SoftTaints(CompiledScore):
    """Counts PreferNoSchedule taints that the pod does not tolerate; fewer is better."""

    needs_normalising = True

    def __init__(
        self, tolerations: list[Toleration], taint_sets: RefcountedInterner[TaintSet]
    ) -> None:
        soft = Tolerations(
            toleration for toleration in tolerations if toleration.effect in ("", _SOFT)
        )

        def evaluate(taints: list[Taint]) -> int:
            return sum(taint.effect == _SOFT and not soft.cover(taint) for taint in taints)

        self._counts = _PerTaintSet(taint_sets, evaluate)

    def scores(self, nodes: NodeView) -> Scores:
        return self._counts.of(nodes)

    def normalise(self, raw: Scores) -> Scores:
        return normalise_to_max(raw, reverse=True)


def _kept_off(pod: Pod, node: Node) -> bool:
    tolerated = Tolerations(pod.spec.tolerations)
    return selectors.untolerated(node.spec.taints, tolerated, _HARD) is not None


def _became_tolerable(pod: Pod, old: Node | None, new: Node) -> bool:
    return not _kept_off(pod, new) and (old is None or _kept_off(pod, old))


def _own(pod: Pod, _old: Pod | None, new: Pod | None) -> bool:
    return new is not None and new.uid == pod.uid
