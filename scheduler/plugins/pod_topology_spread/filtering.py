"""The filter of PodTopologySpread.

Source: kube-scheduler v1.36.3 podtopologyspread/filtering.go.

The counts come from `state/views/counters`; `constraints.Inclusion` says which nodes and pods
count.

Axes: n rows of a view, D values of a label and *absent*.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.plugin import PASS, SKIP, CompiledFilter, Prepared, Reads
from scheduler.model.api.objects import Pod
from scheduler.plugins.pod_topology_spread.constraints import (
    Constraint,
    Constraints,
    Inclusion,
    selected_pods,
)
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Codes, Int
from scheduler.state.columns.labels import ABSENT
from scheduler.state.views.counters import OUTSIDE, TopologyCounter
from scheduler.state.views.node_view import NodeView

__all__ = ["Required"]

#: The minimum count when there is no domain: no node is rejected then.
_NO_DOMAIN: Final = 2**31 - 1


class Required(CompiledFilter):
    """Rejects nodes that lack a topology key, and nodes whose domain would exceed the maximum skew.

    One more pod on a node raises the count of its own domain only, so it never lifts a rejection.
    """

    reads = Reads.CLUSTER

    def __init__(
        self, pod: Pod, constraints: Constraints, cluster: Cluster, *, missing: int, skewed: int
    ) -> None:
        self._pod = pod
        self._constraints = constraints
        self._cluster = cluster
        self._codes = (missing, skewed)
        self._compiled: tuple[Constraint, ...] = ()
        self._version = -1
        self._checks: list[_Check] = []

    def prepare(self, _state: AttemptState, /) -> Prepared:
        constraints, version = self._constraints.now(), self._cluster.columns.labels.version
        if constraints is not self._compiled or version != self._version:
            self._compiled, self._version = constraints, version
            inclusion = Inclusion(constraints, self._pod, self._cluster)
            self._checks = [self._check(constraint, inclusion) for constraint in self._deciding()]
        for check in self._checks:
            check.refresh()
        return PASS if self._checks else SKIP

    def codes(self, nodes: NodeView) -> Codes:
        codes = np.zeros(len(nodes), dtype=np.uint16)
        # The first constraint that rejects a node names the reason, so it writes last.
        for check in reversed(self._checks):
            by_check = check.codes(nodes)
            np.copyto(codes, by_check, where=by_check != 0)
        return codes

    def _deciding(self) -> Iterator[Constraint]:
        """Yield the constraints up to the first whose key no node has: it rejects every node."""
        for constraint in self._compiled:
            yield constraint
            if not self._cluster.columns.labels.exists(constraint.topology_key):
                return

    def _check(self, constraint: Constraint, inclusion: Inclusion) -> "_Check":
        counter = inclusion.by_domain(constraint)
        return _Check(constraint, counter, self._pod, self._cluster, self._codes)


class _Check:
    """Checks one constraint against the counts of its domains."""

    def __init__(
        self,
        constraint: Constraint,
        counter: TopologyCounter,
        pod: Pod,
        cluster: Cluster,
        codes: tuple[int, int],
    ) -> None:
        self._constraint = constraint
        self._counter = counter
        self._missing, self._skewed = codes
        self._self_match = int(constraint.selects(pod))
        self._selected = selected_pods(
            cluster.pods.pod_index, pod.metadata.namespace, constraint.selector
        )
        self._version = -1
        #: (D,) the verdict code for nodes of each domain.
        self._by_domain: Codes = np.zeros(0, dtype=np.uint16)
        #: The domain with the lowest count, that count, and the lowest count of the other domains.
        self._lowest_domain = OUTSIDE
        self._lowest = _NO_DOMAIN
        self._second_lowest = _NO_DOMAIN
        #: Whether there are fewer domains than `minDomains`, so that the minimum count is 0.
        self._too_few = False

    def refresh(self) -> None:
        """Bring the verdicts up to date with the counts."""
        counter = self._counter
        counter.refresh()
        if self._version == counter.version:
            return
        self._version = counter.version
        domains = np.flatnonzero(counter.members)
        self._too_few = domains.shape[0] < self._constraint.min_domains
        self._find_lowest(domains, counter.sums[domains])
        lowest = 0 if self._too_few else self._lowest
        skew = counter.sums + (self._self_match - lowest)
        self._by_domain = np.where(skew > self._constraint.max_skew, self._skewed, 0).astype(
            np.uint16
        )
        self._by_domain[ABSENT] = self._missing

    def codes(self, nodes: NodeView) -> Codes:
        """Return, (n,), the verdict code of each node."""
        values = self._counter.domains.values(nodes)
        shift = self._counter.shift(nodes, self._selected)
        if shift is None:
            return self._by_domain.take(values)
        counts = self._counter.at(nodes) + shift
        skew = counts + self._self_match - self._lowest_with(counts, values, nodes)
        codes = np.where(skew > self._constraint.max_skew, self._skewed, 0)
        return np.where(values == ABSENT, self._missing, codes).astype(np.uint16)

    def _lowest_with(self, counts: Int, values: Int, nodes: NodeView) -> Int:
        """Return, (n,), the lowest count of all domains if only the node's own domain changes."""
        if self._too_few:
            return np.zeros_like(counts)
        others = np.where(values == self._lowest_domain, self._second_lowest, self._lowest)
        return np.where(self._counter.counting(nodes), np.minimum(counts, others), self._lowest)

    def _find_lowest(self, domains: Int, counts: Int) -> None:
        """Find the two lowest counts; overwrites `counts`, which is a copy."""
        self._lowest_domain, self._lowest, self._second_lowest = OUTSIDE, _NO_DOMAIN, _NO_DOMAIN
        if domains.shape[0]:
            index = int(counts.argmin())
            self._lowest_domain, self._lowest = int(domains[index]), int(counts[index])
            counts[index] = _NO_DOMAIN
            self._second_lowest = int(counts.min())
