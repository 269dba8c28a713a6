"""The score of PodTopologySpread: nodes with less full domains score higher.

Source: kube-scheduler v1.36.3 podtopologyspread/scoring.go.

Axes: n rows of a view, D values of a label and *absent*.
"""

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np

from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.plugin import MAX_SCORE, PASS, SKIP, CompiledScore, PrepareStatus, Reads
from scheduler.model.api.objects import Pod
from scheduler.plugins.pod_topology_spread.constraints import (
    HOSTNAME,
    Constraint,
    Constraints,
    Inclusion,
    counted_pods,
)
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Bool, Float, Int, Scores
from scheduler.state.columns.labels import ABSENT, LabelColumn
from scheduler.state.views import counters
from scheduler.state.views.node_view import NodeView

__all__ = ["Preferred"]


class Preferred(CompiledScore):
    """Sums the counts of a node's domains, weighted so that topologies with few domains count, too.

    `normalise` refers to the nodes that were scored last.
    """

    reads = Reads.CLUSTER
    needs_normalising = True

    def __init__(
        self, pod: Pod, constraints: Constraints, cluster: Cluster, *, every_key: bool
    ) -> None:
        """Create the score.

        Args:
            pod: Any pod of the class.
            constraints: The soft constraints.
            cluster: With the pods that count.
            every_key: Whether nodes that lack one of the keys get no score.
        """
        self._pod = pod
        self._constraints = constraints
        self._cluster = cluster
        self._every_key = every_key
        self._compiled: tuple[Constraint, ...] = ()
        self._version = -1
        self._parts: list[_ByDomain | _ByHost] = []
        self._ignored: Bool | None = None

    def prepare(self, _state: AttemptState, /) -> PrepareStatus:
        constraints, version = self._constraints.now(), self._cluster.columns.labels.version
        if constraints is not self._compiled or version != self._version:
            self._compiled, self._version = constraints, version
            self._parts = [] if self._lacking_everywhere() else self._create_parts()
        return PASS if constraints else SKIP

    def scores(self, nodes: NodeView) -> Scores:
        if not self._parts:
            self._ignored = np.ones(len(nodes), dtype=np.bool_)
            return np.zeros(len(nodes), dtype=np.int64)
        values = [nodes.label_codes(part.column) for part in self._parts]
        self._ignored = self._lacking(values) if self._every_key else None
        total: Float = np.zeros(len(nodes), dtype=np.float64)
        for part, codes in zip(self._parts, values, strict=True):
            total += part.scores(nodes, codes, self._ignored)
        raw = _rounded(total)
        if self._ignored is not None:
            raw[self._ignored] = 0
        return raw

    def normalise(self, raw: Scores) -> Scores:
        scored = raw if self._ignored is None else raw[~self._ignored]
        most = int(scored.max(initial=0))
        least = int(scored.min()) if scored.shape[0] else 0
        scores = np.full_like(raw, MAX_SCORE)
        if most:
            scores = MAX_SCORE * (most + least - raw) // most
        if self._ignored is not None:
            scores[self._ignored] = 0
        return scores

    @staticmethod
    def _lacking(values: Sequence[Int]) -> Bool | None:
        """Return, (n,), which nodes lack a key; `None` when none does."""
        if all(codes.all() for codes in values):
            return None
        lacking: Bool = reduce(np.logical_or, (codes == ABSENT for codes in values))
        return lacking

    def _lacking_everywhere(self) -> bool:
        """Return whether every node gets no score, because no node has one of the keys."""
        labels = self._cluster.columns.labels
        return self._every_key and not all(
            labels.exists(constraint.topology_key) for constraint in self._compiled
        )

    def _create_parts(self) -> list["_ByDomain | _ByHost"]:
        required = self._compiled if self._every_key else ()
        inclusion = Inclusion(required, self._pod, self._cluster)
        return [
            _ByHost(constraint, self._pod, self._cluster)
            if constraint.topology_key == HOSTNAME
            else _ByDomain(constraint, inclusion)
            for constraint in self._compiled
        ]


class _ByDomain:
    """Scores by the count of the domain of each node."""

    def __init__(self, constraint: Constraint, inclusion: Inclusion) -> None:
        self._more = float(constraint.max_skew - 1)
        self._counter = inclusion.by_domain(constraint)
        self.column: LabelColumn = self._counter.domains.column

    def scores(self, nodes: NodeView, codes: Int, ignored: Bool | None) -> Float:  # noqa: ARG002 - as its sibling
        """Return, (n,), what the constraint adds to the score of each node.

        Args:
            nodes: The feasible nodes.
            codes: (n,) codes of their values of the topology key.
            ignored: (n,) True for nodes that get no score; `None` when all get one.
        """
        counter = self._counter
        counter.refresh()
        domains = counter.domains.of(codes)
        seen = np.zeros(counter.sums.shape[0], dtype=np.bool_)
        seen[domains if ignored is None else domains[~ignored]] = True
        weight = math.log(int(np.count_nonzero(seen)) + 2)
        by_domain = counter.sums.astype(np.float64)
        by_domain *= weight
        by_domain += self._more
        if domains is codes:
            by_domain[ABSENT] = 0.0
            return by_domain.take(codes)
        return np.where(codes == ABSENT, 0.0, by_domain.take(domains))


class _ByHost:
    """Scores by the count of each node itself; the inclusion policies are ignored."""

    def __init__(self, constraint: Constraint, pod: Pod, cluster: Cluster) -> None:
        self._more = float(constraint.max_skew - 1)
        self.column: LabelColumn = cluster.columns.labels.column(constraint.topology_key)
        self._columns = cluster.columns
        self._counter = counters.by_row(
            counted_pods(cluster.pods.pod_index, pod.metadata.namespace, constraint.selector)
        )

    def scores(self, nodes: NodeView, codes: Int, ignored: Bool | None) -> Float:
        """Return, (n,), what the constraint adds to the score of each node."""
        scored = len(nodes) - (0 if ignored is None else int(np.count_nonzero(ignored)))
        scores = self._counter.rows(self._columns.size).take(nodes.rows).astype(np.float64)
        scores *= math.log(scored + 2)
        scores += self._more
        if not codes.all():
            scores[codes == ABSENT] = 0.0
        return scores


def _rounded(score: Float) -> Scores:
    """Round half away from zero; no score is negative."""
    whole = np.floor(score)
    rounded: Scores = (whole + (score - whole >= 0.5)).astype(np.int64)
    return rounded
